"""Derivatives of accelerations and constraint forces at a state."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _core
from .bullet_file import reader
from .names import real
from .scene import Scene, text_of
from .state import State, numbers

__all__ = ["Derivatives", "InputGradient", "OutputChange", "derivatives"]

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class OutputChange:
    """Changes of the solution along a direction, or the solution itself."""

    vdot: Vector
    """[n] Accelerations [m/s², rad/s²]."""
    multipliers: Vector
    """[m] Multipliers of the ideal constraint force, of least norm."""
    ideal: Vector
    """[n] Ideal constraint force [N, N m]."""
    nonideal: Vector
    """[n] Nonideal force of the laws, with what it calls up [N, N m]."""
    velocity_residual: Vector
    """[m] Residual velocities of the constraints."""


@dataclass(frozen=True)
class InputGradient:
    """Gradient of a weighted sum of the solution."""

    displacement: Vector
    """[n] By displacements [m, rad]."""
    velocity: Vector
    """[n] By velocities [m/s, rad/s]."""
    force: Vector
    """[n] By applied forces [N, N m]."""
    time: float
    """By time [s]."""
    parameters: Vector
    """[p] By the parameters."""


class Derivatives:
    """Exact derivatives of the equation of a scene at a state. :func:`derivatives` makes one.

    The numbers of a vector [n] belong to bodies: three of a displacement of the centre of mass and three of a rotation,
    in world axes. A particle has the first three, a generalized coordinate has one. `columns` has their places. The
    numbers of a vector [m] belong to constraints, and `rows` has their places.

    Dry friction keeps its mode beside the state. With redundant constraints, displacements have to keep the constraints.
    """

    def __init__(self, core: _core.Derivatives, parameters: tuple[str, ...]) -> None:
        self._core = core
        self.parameters = parameters
        """Names of the parameters."""
        self.evaluate()

    @property
    def values(self) -> Vector:
        """[p] Values of the parameters."""
        return np.array(self._core.values, dtype=np.float64)

    @property
    def columns(self) -> dict[str, slice]:
        """Places of bodies and coordinates in vectors [n], by name."""
        return {name: slice(first, end) for name, first, end in self._core.columns()}

    @property
    def rows(self) -> dict[str, slice]:
        """Places of constraints in vectors [m], by name."""
        return {name: slice(first, end) for name, first, end in self._core.rows()}

    def evaluate(self, state: State | None = None) -> OutputChange:
        """Solves the equation at a state, at which derivatives are taken from now on. Default: the start of the scene.

        :param state: as `Simulation.state` gives it for the same scene
        :raises ValueError: if there are no derivatives: the rank of the constraints drops, their equations contradict
            each other, or dry friction starts to slide.
        """
        if state is None:
            self._core.evaluate_start()
        else:
            if not isinstance(state, State):
                raise TypeError(f"evaluate: state must be a linchpin.State, not {state!r}")
            bodies = self._core.body_count
            arrays = [
                numbers("evaluate", name, getattr(state, name), (bodies, width))
                for name, width in (
                    ("positions", 3), ("orientations", 4), ("velocities", 3), ("angular_velocities", 3)
                )
            ]
            self._core.evaluate(real("evaluate: state.t", state.t), *arrays)
        return self.solution

    @property
    def solution(self) -> OutputChange:
        """The solution at the state."""
        return OutputChange(**self._core.solution())

    def forward(
        self,
        *,
        displacement: ArrayLike | None = None,
        velocity: ArrayLike | None = None,
        force: ArrayLike | None = None,
        time: float = 0,
        parameters: ArrayLike | Mapping[str, float] | None = None,
    ) -> OutputChange:
        """Computes the changes of the solution along a direction. What is left out does not change.

        :param displacement: [n] displacements [m, rad]
        :param velocity: [n] changes of velocities [m/s, rad/s]
        :param force: [n] changes of applied forces [N, N m]
        :param time: change of time [s]
        :param parameters: [p] changes of the parameters, or by name
        """
        n = self._width
        return OutputChange(
            **self._core.forward(
                _vector("forward", "displacement", displacement, n),
                _vector("forward", "velocity", velocity, n),
                _vector("forward", "force", force, n),
                real("forward: time", time),
                _vector("forward", "parameters", self._by_name(parameters), len(self.parameters)),
            )
        )

    def reverse(
        self,
        *,
        vdot: ArrayLike | None = None,
        multipliers: ArrayLike | None = None,
        ideal: ArrayLike | None = None,
        nonideal: ArrayLike | None = None,
        velocity_residual: ArrayLike | None = None,
    ) -> InputGradient:
        """Computes the gradient of a weighted sum of the solution. The arguments are the weights."""
        n, m = self._width, len(self._core.solution()["multipliers"])
        return InputGradient(
            **self._core.reverse(
                _vector("reverse", "vdot", vdot, n),
                _vector("reverse", "multipliers", multipliers, m),
                _vector("reverse", "ideal", ideal, n),
                _vector("reverse", "nonideal", nonideal, n),
                _vector("reverse", "velocity_residual", velocity_residual, m),
            )
        )

    @property
    def _width(self) -> int:
        return max((end for _, _, end in self._core.columns()), default=0)

    def _by_name(self, parameters: ArrayLike | Mapping[str, float] | None) -> ArrayLike | None:
        if not isinstance(parameters, Mapping):
            return parameters
        for name in parameters:
            if name not in self.parameters:
                raise ValueError(f"forward: {name!r} is not among the parameters {', '.join(self.parameters)}")
        return [real(f"forward: parameters[{name!r}]", parameters.get(name, 0)) for name in self.parameters]

    def __repr__(self) -> str:
        of = f", parameters {', '.join(self.parameters)}" if self.parameters else ""
        return f"<Derivatives of {self._width} accelerations{of}>"


def derivatives(
    scene: str | os.PathLike[str] | Scene,
    parameters: Iterable[str] = (),
    *,
    params: Mapping[str, float] | None = None,
) -> Derivatives:
    """Makes the derivatives of accelerations and constraint forces of a scene, at its start.

    >>> d = linchpin.derivatives("pendulum.toml", ["length"])
    >>> d.forward(parameters={"length": 1}).multipliers

    :param scene: a scene file, or a :class:`Scene` without laws that are Python functions.
    :param parameters: names in [params] of the scene, with respect to which there are derivatives.
    :param params: numbers that replace those in [params] of the scene.
    :raises SceneError: for a fault of the scene.
    :raises ValueError: if there are no derivatives at the start, see :meth:`Derivatives.evaluate`.
    """
    if isinstance(parameters, str):
        raise TypeError(f"derivatives: parameters must be a list of names; write [{parameters!r}]")
    names = tuple(parameters)
    replaced = {name: real(f"derivatives: params[{name!r}]", value) for name, value in (params or {}).items()}
    text, path = text_of("derivatives", scene)
    return Derivatives(_core.derivatives(text, path, list(names), replaced, reader()), names)


def _vector(call: str, name: str, value: ArrayLike | None, size: int) -> Vector | None:
    return None if value is None else numbers(call, name, value, (size,))
