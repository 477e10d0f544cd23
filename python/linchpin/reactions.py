"""Reactions of constraints, by name and as one structured array."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .names import nearest

__all__ = ["Reaction", "Reactions", "Wrench", "reaction_dtype"]

Vector = NDArray[np.float64]

_vectors = (
    "force moment point force_b moment_b point_b ideal_force ideal_moment nonideal_force nonideal_moment "
    "stabilisation_force stabilisation_moment"
).split()
_numbers = "power work gap gap_angle residual velocity_residual".split()
_flags = "determined redundant native".split()

reaction_dtype = np.dtype(
    [("t", "f8"), *((name, "f8", (3,)) for name in _vectors), *((name, "f8") for name in _numbers)]
    + [(name, "?") for name in _flags]
    + [("_unused", "u1", (5,))]
)
"""Fields of a row of :attr:`Reactions.array`; they have the names of the attributes of :class:`Reaction`."""


@dataclass(frozen=True)
class Wrench:
    """A force and a moment on a body, in world axes."""

    force: Vector
    """Force [N]."""
    moment: Vector
    """Moment about `point` [N·m]."""
    point: Vector
    """Reference point [m]."""

    def about(self, point: Any) -> Wrench:
        """The same wrench with its moment about another point [m]."""
        to = np.asarray(point, dtype=np.float64)
        return Wrench(self.force, self.moment + np.cross(self.point - to, self.force), to)


class Reaction:
    """Reaction of one constraint at one time, on the first body of the constraint, in world axes.

    It belongs to the present state without an engine, and to the state before the last step in an engine. It refers to the
    arrays of the :class:`Reactions` that it comes from, and stays valid.
    """

    name: str
    """Name of the constraint."""
    t: float
    """Time of the state to which the forces belong [s]."""
    force: Vector
    """Force of the constraint on its first body, with its laws [N]."""
    moment: Vector
    """Moment on the first body about `point` [N·m]."""
    point: Vector
    """Point of the first body [m]."""
    force_b: Vector
    """Force on the second body [N]."""
    moment_b: Vector
    """Moment on the second body about `point_b` [N·m]."""
    point_b: Vector
    """Point of the second body [m]."""
    ideal_force: Vector
    """The part of `force` that does no virtual work [N]."""
    ideal_moment: Vector
    """The part of `moment` that does no virtual work [N·m]."""
    nonideal_force: Vector
    """The part of `force` that the laws prescribe, such as friction [N]."""
    nonideal_moment: Vector
    """The part of `moment` that the laws prescribe [N·m]."""
    stabilisation_force: Vector
    """Mean force of the last step that was applied beyond the reaction, to end the step on the constraint [N]."""
    stabilisation_moment: Vector
    """Mean moment of the last step beyond the reaction [N·m]."""
    power: float
    """Power on the moving bodies [W]."""
    work: float
    """Work since the start [J]."""
    gap: float
    """Largest position error of rows in metres [m]."""
    gap_angle: float
    """Largest position error of rows in radians [rad]."""
    residual: float
    """Largest position error of rows in a unit of their own."""
    velocity_residual: float
    """Largest velocity error of the rows."""
    determined: bool
    """False where redundant constraints leave this reaction undetermined. It then has the multipliers of least norm."""
    redundant: bool
    """True where some rows follow from those of other constraints."""
    native: bool
    """True where the engine solved the constraint in the last step, so that there is no exact reaction."""
    multipliers: Vector
    """Multiplier of each row, of least norm."""

    __slots__ = ("name", "multipliers", "_row")

    def __init__(self, name: str, row: np.void, multipliers: Vector) -> None:
        self.name = name
        self.multipliers = multipliers
        self._row = row

    def __getattr__(self, field: str) -> Any:
        if field.startswith("_") or field not in reaction_dtype.names:  # type: ignore[operator]
            raise AttributeError(f"a reaction has no {field!r}{nearest(field, _public_fields)}")
        value = self._row[field]
        return value if value.ndim else value.item()

    @property
    def wrench(self) -> Wrench:
        """Force and moment on the first body."""
        return Wrench(self.force, self.moment, self.point)

    @property
    def wrench_b(self) -> Wrench:
        """Force and moment on the second body."""
        return Wrench(self.force_b, self.moment_b, self.point_b)

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *_public_fields})

    def __repr__(self) -> str:
        return f"<Reaction {self.name!r}: force {self.force} N, moment {self.moment} N m at t = {self.t:.9g} s>"


_public_fields = ["t", *_vectors, *_numbers, *_flags]


class Reactions(Mapping[str, Reaction]):
    """All reactions at one time: a mapping from the name of a constraint to its :class:`Reaction`.

    It is a copy, which later steps do not change.
    """

    def __init__(self, names: list[str], rows: NDArray[np.uint8], multipliers: list[Vector]) -> None:
        self.names = names
        """Names of the constraints, in the order of the model."""
        self.array = rows.view(reaction_dtype)[:, 0] if len(names) else np.empty(0, reaction_dtype)
        """One row for each constraint, with the fields of :class:`Reaction`: ``reactions.array["force"]`` is
        [constraints, 3]."""
        self._multipliers = multipliers
        self._index = {name: i for i, name in enumerate(names)}

    def __getitem__(self, name: str) -> Reaction:
        try:
            i = self._index[name]
        except (KeyError, TypeError):
            raise KeyError(f"there is no constraint {name!r}{nearest(name, self.names)}") from None
        return Reaction(name, self.array[i], self._multipliers[i])

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        return f"<Reactions of {', '.join(self.names) or 'no constraint'}>"

    def to_dataframe(self) -> Any:
        """A pandas DataFrame with a row for each constraint. It needs pandas."""
        import pandas

        columns: dict[str, Any] = {"t": self.array["t"]}
        for field in _vectors:
            for k, axis in enumerate("xyz"):
                columns[f"{field}.{axis}"] = self.array[field][:, k]
        for field in (*_numbers, *_flags):
            columns[field] = self.array[field]
        return pandas.DataFrame(columns, index=pandas.Index(self.names, name="constraint"))


def largest_gap(reactions: Reactions) -> float:
    """The largest position error of all constraints [m or rad]."""
    return max(float(reactions.array[of].max(initial=0)) for of in ("gap", "gap_angle"))
