"""A run as a table."""

from __future__ import annotations

import csv
import html
import os
import tempfile
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from . import _core
from .names import nearest, whole

if TYPE_CHECKING:
    from .simulation import Simulation

__all__ = ["Trace", "record"]


class Trace:
    """Numbers of a run, with a row for each recorded state.

    Columns are the time, the positions and rates of joints (``q.NAME``, ``v.NAME``), and the channels. A vector has three
    columns, ``NAME.x``, ``NAME.y`` and ``NAME.z``.
    """

    def __init__(
        self, columns: list[str], units: list[str], data: NDArray[np.float64], recorder: _core.Recorder
    ) -> None:
        self.columns = columns
        """Names of the columns."""
        self.units = units
        """Units of the columns; may be empty."""
        self.data = data
        """[states, columns] The numbers."""
        self._recorder = recorder

    @property
    def t(self) -> NDArray[np.float64]:
        """Times [s]."""
        return self.data[:, 0]

    def __getitem__(self, column: str) -> NDArray[np.float64]:
        """A column, or the three columns of a vector as [states, 3]."""
        if column in self.columns:
            return self.data[:, self.columns.index(column)]
        if f"{column}.x" in self.columns:
            first = self.columns.index(f"{column}.x")
            return self.data[:, first : first + 3]
        raise KeyError(f"there is no column {column!r}{nearest(column, self.columns)}")

    def __len__(self) -> int:
        return len(self.data)

    def to_dataframe(self) -> Any:
        """A pandas DataFrame, with the time as its index. It needs pandas."""
        import pandas

        return pandas.DataFrame(self.data[:, 1:], columns=self.columns[1:], index=pandas.Index(self.t, name="t"))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a file, by the end of its name.

        ``.csv`` is the table with a row of titles. ``.html`` is a page that shows the motion, the forces and the gaps in
        a browser. ``.glb`` and ``.gltf`` are animations, ``.mcap`` is a log for Foxglove and Rerun, and ``.rec`` is a
        recording for the command.
        """
        name = os.fspath(path)
        if not name.endswith(".csv"):
            self._recorder.write(name)
            return
        titles = [f"{name} [{unit}]" if unit else name for name, unit in zip(self.columns, self.units)]
        with open(os.fspath(path), "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(titles)
            writer.writerows([[repr(x) for x in row] for row in self.data.tolist()])

    def _repr_html_(self) -> str:
        """The page of the run, for Jupyter."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "run.html")
            self._recorder.write(path)
            with open(path, encoding="utf-8") as file:
                page = file.read()
        return f'<iframe srcdoc="{html.escape(page)}" width="100%" height="700" style="border:0"></iframe>'

    def __repr__(self) -> str:
        return f"<Trace of {len(self)} states: {', '.join(self.columns)}>"


def record(simulation: Simulation, steps: int, every: int) -> Trace:
    """Takes steps of a simulation and keeps the numbers."""
    every = whole("record: every", every, 1)
    core = simulation._core
    columns, units = ["t"], ["s"]
    joints = simulation.joints
    for symbol, hinge, slider in (("q", "rad", "m"), ("v", "rad/s", "m/s")):
        for name in joints:
            columns.append(f"{symbol}.{name}")
            units.append(slider if joints[name].slides else hinge)
    for title, unit, size in core.channels():
        columns += [title] if size == 1 else [f"{title}.{axis}" for axis in "xyz"]
        units += [unit] * size
    recorder = _core.Recorder(core)
    rows = [_row(simulation)]
    for first in range(0, steps, every):
        recorder.step(min(every, steps - first))
        rows.append(_row(simulation))
    return Trace(columns, units, np.array(rows), recorder)


def _row(simulation: Simulation) -> NDArray[np.float64]:
    return np.concatenate(([simulation.t], simulation.q, simulation.v, simulation._core.channel_values()))
