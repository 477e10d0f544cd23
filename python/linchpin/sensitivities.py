"""Derivatives of a motion with respect to parameters of its scene."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from . import _core
from .bullet_file import reader
from .names import nearest, nonempty, positive, whole
from .scene import Scene, text_of

__all__ = ["SensitivityEvent", "Sensitivities", "sensitivities"]

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class SensitivityEvent:
    """A change between stick and slip, or a contact that closes or opens."""

    t: float
    """Time of the event [s]."""
    constraint: str
    """Name of the constraint."""
    what: str
    """``"sticks"``, ``"turns"``, ``"slides"``, ``"releases"`` or ``"engages"``."""
    derivatives: Vector
    """[parameters] Derivatives of the time."""


@dataclass(frozen=True)
class Sensitivities:
    """Quantities of a motion, with their derivatives with respect to parameters."""

    parameters: tuple[str, ...]
    """Names of the parameters."""
    parameter_values: Vector
    """[parameters] Their values."""
    columns: tuple[str, ...]
    """Titles of the quantities, with units."""
    t: Vector
    """[samples] Times [s]."""
    values: Vector
    """[samples, columns] Values of the quantities."""
    derivatives: Vector
    """[samples, columns, parameters] Their derivatives."""
    events: tuple[SensitivityEvent, ...]
    """Events in order of time."""
    end_time_derivatives: Vector | None
    """[parameters] With `until`: derivatives of the time at the end. The last sample is then that of the crossing,
    whose time changes with the parameters."""
    method: str
    """Integration method."""

    def __getitem__(self, column: str) -> tuple[Vector, Vector]:
        """Values [samples] and derivatives [samples, parameters] of a quantity, by its title with or without the unit."""
        for i, title in enumerate(self.columns):
            if column in (title, title.rsplit(" [", 1)[0]):
                return self.values[:, i], self.derivatives[:, i, :]
        known = [title.rsplit(" [", 1)[0] for title in self.columns]
        raise KeyError(f"there is no column {column!r}{nearest(column, known)}")

    def __repr__(self) -> str:
        return (
            f"<Sensitivities of {len(self.columns)} quantities to {', '.join(self.parameters)}, "
            f"{len(self.t)} samples, {len(self.events)} events>"
        )


def sensitivities(
    scene: str | os.PathLike[str] | Scene,
    parameters: Iterable[str],
    *,
    columns: Iterable[str] = (),
    until: str | None = None,
    dt: float | None = None,
    duration: float | None = None,
    every: int = 1,
) -> Sensitivities:
    """Differentiates the motion of a scene with respect to its parameters, without an engine.

    The derivatives pass through changes between stick and slip, and through contacts that close or open. The method is
    that of the scene if it locates events (rk4, adaptive, adaptive8), and otherwise rk4.

    :param scene: a scene file, or a :class:`Scene` without laws that are Python functions.
    :param parameters: names of numbers in [params].
    :param columns: quantities beside those of [[log]]: ``"norm(bob.velocity)"``.
    :param until: a quantity such as ``"bob.x"``. The run ends where it crosses zero. The derivatives of the last sample
        are those at the crossing.
    :param dt: length of a step [s]. Default: that of the scene.
    :param duration: duration of the run [s]. Default: that of the scene.
    :param every: number of steps between two samples.
    :raises SceneError: for a fault of the scene.
    :raises ValueError: if the run stops, or the motion has no derivative.
    """
    for name, value in (("parameters", parameters), ("columns", columns)):
        if isinstance(value, str):
            raise TypeError(f"sensitivities: {name} must be a list of texts; write {name}=[{value!r}]")
    names = [nonempty("sensitivities: a name in parameters", name) for name in parameters]
    if not names:
        raise ValueError("sensitivities: parameters is empty. Write parameters=['mu']")
    text, path = text_of("sensitivities", scene)
    made = _core.sensitivities(
        text,
        path,
        names,
        list(columns),
        until or "",
        None if dt is None else positive("sensitivities: dt", dt),
        None if duration is None else positive("sensitivities: duration", duration),
        whole("sensitivities: every", every, 1),
        reader(),
    )
    for remark in made["warnings"]:
        warnings.warn(remark, stacklevel=2)
    events = zip(made["event_t"], made["event_constraints"], made["event_kinds"], made["event_derivatives"])
    return Sensitivities(
        parameters=tuple(names),
        parameter_values=made["values"],
        columns=tuple(made["columns"]),
        t=made["t"],
        values=made["data"],
        derivatives=made["derivatives"],
        events=tuple(SensitivityEvent(float(t), name, what, slopes) for t, name, what, slopes in events),
        end_time_derivatives=made["end_derivatives"],
        method=made["method"],
    )
