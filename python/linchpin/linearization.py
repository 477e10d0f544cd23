"""Small motions about rest or a steady motion."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _core
from .names import whole
from .simulation import Simulation

__all__ = ["Linearization", "linearize"]

Vector = NDArray[np.float64]
Complex = NDArray[np.complex128]


@dataclass(frozen=True)
class Linearization:
    """Linearised equations of motion ẋ = A x + B u, y = C x, with their modes.

    The vector x has the displacements and velocities that the constraints allow.
    """

    t: float
    """Time of the state [s]."""
    A: Vector
    """[k, k] Matrix of the motion [1/s]."""
    B: Vector
    """[k, coordinates] Effect of a unit force or torque along each coordinate."""
    C: Vector
    """[coordinates, k] Positions of the coordinates [rad or m]."""
    coordinates: tuple[str, ...]
    """Names of hinges, sliders and generalized coordinates: inputs and outputs."""
    coordinate_units: tuple[str, ...]
    """Units of their positions."""
    eigenvalues: Complex
    """[k] Eigenvalues of A by rising frequency [1/s]."""
    errors: Vector
    """[k] Estimated errors of the eigenvalues [1/s]."""
    shapes: Complex
    """[k, bodies, 6] Displacements of the bodies in each mode: three of the centre of mass, three of the rotation."""
    velocity_shapes: Complex
    """[k, bodies, 6] Velocity changes of the bodies in each mode."""
    displacements: int
    """Number of displacements in x."""
    velocities: int
    """Number of velocities in x."""
    is_steady: bool
    """A is constant along the motion. Otherwise A belongs to the frozen state only."""
    unsteadiness: float
    """Relative change of the accelerations and of A along the motion."""
    frame_angular_velocity: Vector
    """[3] Rate of the frame in which the motion is steady, world axes [rad/s]."""
    error: float
    """Estimated error of A, relative to its norm."""
    stability: str
    """``"unstable"`` if a mode grows, ``"stable"`` if all modes decay, ``"marginal"`` otherwise."""

    @property
    def frequencies(self) -> Vector:
        """[k] Absolute values of the imaginary parts [rad/s]."""
        return np.abs(self.eigenvalues.imag)

    @property
    def damping_ratios(self) -> Vector:
        """[k] −Re λ/|λ| of each eigenvalue λ. 0 for λ = 0."""
        size = np.abs(self.eigenvalues)
        return np.where(size > 0, -self.eigenvalues.real / np.where(size > 0, size, 1), 0.0)

    def __repr__(self) -> str:
        unsteady = "" if self.is_steady else ", not about a steady motion"
        return f"<Linearization of {len(self.A)} coordinates, {self.stability}{unsteady}>"


def linearize(simulation: Simulation, *, equilibrium: bool = False, starts: int = 24) -> Linearization:
    """Linearises the equations of motion about the present state of a simulation.

    :param equilibrium: linearise about the stable equilibrium of the lowest potential, or the lowest if none is stable.
    :param starts: number of start poses in the search for an equilibrium, from 1 to 10000.
    :raises ValueError: if there is no equilibrium, or the equations have no derivative at the state: dry friction
        sticks, or a law has an internal state.
    """
    if not isinstance(simulation, Simulation):
        raise TypeError(f"linearize: simulation must be a linchpin.Simulation, not {simulation!r}")
    starts = whole("linearize: starts", starts, 1)
    if starts > 10000:
        raise ValueError(f"linearize: starts is {starts}. It must be at most 10000")
    made: dict[str, Any] = _core.linearize(simulation._core, bool(equilibrium), starts)
    for name in ("eigenvalues", "shapes", "velocity_shapes"):
        real, imaginary = made[name]
        made[name] = real + 1j * imaginary
    for name in ("coordinates", "coordinate_units"):
        made[name] = tuple(made[name])
    return Linearization(**made)
