"""One scene with many values of its parameters."""

from __future__ import annotations

import csv
import itertools
import math
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _core
from .bullet_file import reader
from .names import nearest, positive, whole
from .rollout import in_threads
from .scene import Scene, text_of

__all__ = ["Sweep", "sweep"]

Vector = NDArray[np.float64]


class Sweep:
    """The results of a sweep, with a row for each case."""

    def __init__(
        self,
        params: dict[str, Vector],
        status: list[str],
        t: Vector,
        stability: list[str],
        columns: list[str],
        data: Vector,
    ) -> None:
        self.params = params
        """Values of the parameters by name, [cases] each."""
        self.status = status
        """``"ok"``, ``"ok, but …"``, or the reason of a failure."""
        self.t = t
        """[cases] Time at the end of each case [s]."""
        self.stability = stability
        """With ``equilibrium=True``: ``"stable"``, ``"unstable"`` or ``"indifferent"``, with remarks."""
        self.columns = columns
        """Titles of the columns, with units."""
        self.data = data
        """[cases, columns] Values of [[expect]], [[log]] and `columns`. They are NaN in cases that failed."""

    @property
    def ok(self) -> NDArray[np.bool_]:
        """[cases] True for cases that did not fail."""
        return np.array([text.startswith("ok") for text in self.status], dtype=np.bool_)

    def __getitem__(self, name: str) -> Vector:
        """A parameter, or a column by its title with or without the unit."""
        if name in self.params:
            return self.params[name]
        for i, title in enumerate(self.columns):
            if name in (title, title.rsplit(" [", 1)[0]):
                column: Vector = self.data[:, i]
                return column
        known = [*self.params, *(title.rsplit(" [", 1)[0] for title in self.columns)]
        raise KeyError(f"there is no parameter and no column {name!r}{nearest(name, known)}")

    def __len__(self) -> int:
        return len(self.status)

    def to_dataframe(self) -> Any:
        """A pandas DataFrame with a row for each case. It needs pandas."""
        import pandas

        return pandas.DataFrame(self._columns())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the table as CSV, with the columns of the command `linchpin sweep`."""
        columns = self._columns()
        with open(os.fspath(path), "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["case", *columns])
            for i in range(len(self)):
                writer.writerow([i, *(_field(column[i]) for column in columns.values())])

    def _columns(self) -> dict[str, Any]:
        first = {"stability": self.stability} if any(self.stability) else {"t [s]": self.t}
        return {**self.params, "status": self.status, **first, **dict(zip(self.columns, self.data.T))}

    def __repr__(self) -> str:
        failed = int((~self.ok).sum())
        return f"<Sweep of {len(self)} cases over {', '.join(self.params)}" + (f", {failed} failed>" if failed else ">")


def sweep(
    scene: str | os.PathLike[str] | Scene,
    params: Mapping[str, ArrayLike] | Sequence[Mapping[str, float]],
    *,
    columns: Iterable[str] = (),
    until: str | None = None,
    equilibrium: bool = False,
    starts: int = 24,
    dt: float | None = None,
    duration: float | None = None,
    workers: int | None = None,
) -> Sweep:
    """Runs a scene for many values of its parameters, without an engine, on several threads.

    The values are those of the command ``linchpin sweep``, bit for bit. They do not depend on the number of threads.

    :param scene: a scene file, or a :class:`Scene` without laws that are Python functions.
    :param params: values by the name of a parameter in [params]: all combinations are run, and the last name varies
        fastest. Or a list with the parameters of each case.
    :param columns: quantities at the end of each case, after those of [[expect]] and [[log]]: ``"norm(bob.velocity)"``.
    :param until: a quantity such as ``"bob.x"``. A case ends where it crosses zero, and fails without a crossing.
    :param equilibrium: find where the scene can rest, in place of a motion.
    :param starts: number of start poses in the search for an equilibrium.
    :param dt: length of a step [s]. Default: that of the scene.
    :param duration: duration of a case [s]. Default: that of the scene.
    :param workers: number of threads. Default: the number of processors.
    :raises SceneError: for a fault of the scene.
    """
    text, path = text_of("sweep", scene)
    if isinstance(columns, str):
        raise TypeError(f"sweep: columns must be a list of quantities; write columns=[{columns!r}]")
    if equilibrium and until:
        raise ValueError("sweep: until and equilibrium exclude each other")
    starts = whole("sweep: starts", starts, 1)
    dt = None if dt is None else positive("sweep: dt", dt)
    duration = None if duration is None else positive("sweep: duration", duration)
    names, cases = _cases(params)
    experiment, remarks = _core.experiment(
        text, path, names, cases, list(columns), until or "", bool(equilibrium), starts, dt, duration,
        reader(),
    )
    for remark in remarks:
        warnings.warn(remark, stacklevel=2)
    rows = in_threads(lambda i: experiment.run(cases[i]), len(cases), workers)
    status, t, stability, values = (list(each) for each in zip(*rows))
    table = np.array(cases, dtype=np.float64).reshape(len(cases), len(names))
    return Sweep(
        {name: table[:, i] for i, name in enumerate(names)},
        status,
        np.array(t),
        stability,
        experiment.columns,
        np.array(values).reshape(len(cases), len(experiment.columns)),
    )


def _cases(params: Mapping[str, ArrayLike] | Sequence[Mapping[str, float]]) -> tuple[list[str], list[list[float]]]:
    """Names of the parameters, and their values for each case."""
    if isinstance(params, Mapping):
        axes = {_name(name): _values(name, value) for name, value in params.items()}
        names, cases = list(axes), [list(case) for case in itertools.product(*axes.values())]
    else:
        names = list(params[0]) if params and isinstance(params[0], Mapping) else []
        for case in params:
            if not isinstance(case, Mapping) or set(case) != set(names):
                raise ValueError(f"sweep: each case must have a value for each of {', '.join(map(repr, names))}, not {case!r}")
        cases = [[_values(name, case[name])[0] for name in names] for case in params]
    if not names or not cases:
        raise ValueError("sweep: params has no values. Write params={'mass': [1, 2, 3]}")
    return names, cases


def _name(name: Any) -> str:
    if not isinstance(name, str):
        raise TypeError(f"sweep: the name of a parameter must be a text, not {name!r}")
    return name


def _values(name: str, value: ArrayLike) -> list[float]:
    array = np.asarray(value)
    if array.size > 0 and array.dtype.kind not in "fiu":
        raise TypeError(f"sweep: params[{name!r}] must be numbers, not {value!r}")
    if array.ndim > 1:
        raise ValueError(f"sweep: params[{name!r}] must be a number or a list of numbers, but it has the shape {array.shape}")
    out: list[float] = array.astype(np.float64).reshape(-1).tolist()
    for x in out:
        if not math.isfinite(x):
            raise ValueError(f"sweep: params[{name!r}] has the value {x}. It must be a finite number")
    return out


def _field(value: Any) -> str:
    if isinstance(value, str):
        return value
    return f"{value:.17g}" if math.isfinite(value) else ""
