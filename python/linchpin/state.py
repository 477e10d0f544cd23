"""The numbers of a motion at one time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["State", "numbers"]

Vector = NDArray[np.float64]


@dataclass
class State:
    """The state of a simulation, as copies that a program may change: `Simulation.state` gives it, `set_state` takes it.

    Rows are bodies in the order of `Simulation.body_names`.
    """

    t: float
    """Time [s]."""
    positions: Vector
    """[bodies, 3] Centres of mass in the world [m]."""
    orientations: Vector
    """[bodies, 4] Unit quaternions w, x, y, z from body axes to world axes."""
    velocities: Vector
    """[bodies, 3] Velocities of the centres of mass, world axes [m/s]."""
    angular_velocities: Vector
    """[bodies, 3] Angular velocities, world axes [rad/s]."""
    q: Vector
    """[joints] Positions of the joints [rad or m]. For `set_state` they only tell the whole turns of hinges."""


def numbers(call: str, name: str, value: ArrayLike, shape: tuple[int, ...], *, finite: bool = True) -> Vector:
    """An argument as a contiguous array of a shape. Errors have the call, the name, the shape and the value."""
    wanted = "×".join(map(str, shape)) + " numbers"
    try:
        given = np.asarray(value)
    except ValueError:
        raise ValueError(f"{call}: {name} must have {wanted}, not {value!r}") from None
    if given.size > 0 and given.dtype.kind not in "fiu":
        raise TypeError(f"{call}: {name} must have {wanted}, not {value!r}")
    if given.shape != shape:
        raise ValueError(f"{call}: {name} must have {wanted}, but it has the shape {given.shape}")
    array: Vector = np.ascontiguousarray(given, dtype=np.float64)
    if finite and not np.isfinite(array).all():
        at: Any = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise ValueError(f"{call}: {name}{list(at)} is {array[at]}. It must be a finite number")
    return array
