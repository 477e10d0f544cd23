"""Parameters of a scene from measurements."""

from __future__ import annotations

import csv
import io
import math
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import cpu_count
from typing import Any, Union

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _core
from .bullet_file import reader
from .names import finite, positive, real, whole
from .scene import Scene, text_of

__all__ = ["Fit", "FittedColumn", "FittedSeries", "fit"]

Vector = NDArray[np.float64]
Recording = Union[str, "os.PathLike[str]", Mapping[str, ArrayLike]]


@dataclass(frozen=True)
class FittedColumn:
    """The result of one measured quantity, in its own unit."""

    name: str
    """Title without the unit."""
    unit: str
    """Unit of the numbers."""
    samples: int
    """Number of samples in all recordings."""
    rms_residual: float
    """Root of the mean squared difference between measured and predicted values."""
    sigma: float
    """Noise level: given, or estimated from the residuals."""
    autocorrelation: float
    """Autocorrelation of successive residuals. That of independent noise is near 0."""


@dataclass(frozen=True)
class FittedSeries:
    """Measured and predicted values of one quantity in one recording."""

    recording: str
    """Name of the recording."""
    column: str
    """Title without the unit."""
    unit: str
    """Unit of the values."""
    t: Vector
    """[samples] Times [s]."""
    measured: Vector
    """[samples] Measured values."""
    predicted: Vector
    """[samples] Values of the scene with the estimated parameters."""

    @property
    def residuals(self) -> Vector:
        """[samples] Measured minus predicted values."""
        return self.measured - self.predicted


@dataclass(frozen=True)
class Fit:
    """Estimated parameters with their errors.

    A parameter that the measurements do not determine has no number: its value is NaN.
    """

    names: tuple[str, ...]
    """Names of the parameters."""
    values: Vector
    """[parameters] Estimates."""
    standard_errors: Vector
    """[parameters] Standard errors. They are NaN at a bound."""
    intervals: Vector
    """[parameters, 2] 95 % intervals."""
    determined: tuple[bool, ...]
    """[parameters] The measurements determine the parameter."""
    at_bound: tuple[str, ...]
    """[parameters] ``"low"`` or ``"high"`` for a parameter that is at this bound, ``""`` otherwise."""
    combinations: dict[str, tuple[float, float]]
    """Value and standard error of combinations that are determined where their parameters are not."""
    not_determined: tuple[str, ...]
    """Sentences about the parameters that are not determined."""
    correlation: Vector
    """[parameters, parameters] Correlations of the estimates."""
    columns: tuple[FittedColumn, ...]
    """Measured quantities."""
    series: tuple[FittedSeries, ...]
    """Samples of each quantity in each recording."""
    converged: bool
    """The search found a minimum."""
    reason: str
    """Why it found none."""
    steps: int
    """Number of steps of the search."""
    aic: float
    """Akaike's information criterion. Of two scenes with the same measurements, the smaller one is better."""
    aicc: float
    """The same, corrected for few samples."""
    remarks: tuple[str, ...]
    """Sentences about the measurements and the residuals."""

    def __getitem__(self, name: str) -> float:
        """The estimate of a parameter. Raises ValueError if the measurements do not determine it."""
        if name not in self.names:
            raise KeyError(f"there is no parameter {name!r}; known: {', '.join(self.names)}")
        i = self.names.index(name)
        if not self.determined[i]:
            raise ValueError(f"the measurements do not determine {name!r}: {'; '.join(self.not_determined)}")
        return float(self.values[i])

    def __repr__(self) -> str:
        parts = [
            f"{name} = {value:.6g} ± {error:.2g}" if known else f"{name} not determined"
            for name, value, error, known in zip(self.names, self.values, self.standard_errors, self.determined)
        ]
        return f"<Fit: {', '.join(parts)}" + ("" if self.converged else ", not converged") + ">"


def fit(
    scene: str | os.PathLike[str] | Scene,
    data: Recording | Sequence[Recording],
    free: str | Iterable[str] | Mapping[str, tuple[float, float] | None],
    *,
    free_each: str | Iterable[str] | Mapping[str, tuple[float, float] | None] = (),
    known: Mapping[str, float] | Sequence[Mapping[str, float]] | None = None,
    params: Mapping[str, float] | None = None,
    columns: Iterable[str] = (),
    sigma: Mapping[str, float | str] | None = None,
    dt: float | None = None,
    duration: float | None = None,
    workers: int | None = None,
) -> Fit:
    """Estimates parameters of a scene from measurements, as the command ``linchpin fit`` does.

    :param scene: a scene file, or a :class:`Scene` without laws that are Python functions.
    :param data: a recording or a list of them. A recording is a file (CSV or MCAP), or arrays by title with units:
        ``{"t [s]": t, "joint_position(pin) [deg]": angle}``. NaN in an array is no sample.
    :param free: names in [params] that are estimated. A mapping gives bounds, or None: ``{"mu": (0, 1)}``.
    :param free_each: the same for parameters with another value in each recording.
    :param known: values of parameters in each recording: one mapping for each recording.
    :param params: values in place of those of the scene. For a free parameter, the start of the search.
    :param columns: titles of the columns that are used. Default: all.
    :param sigma: noise levels by column, in its unit, or a text with a unit. Default: estimated from the residuals.
    :param dt: length of a step [s]. Default: that of the scene.
    :param duration: end of the run [s]. Default: that of the scene.
    :param workers: number of threads. Default: the number of processors.
    :raises SceneError: for a fault of the scene or of a recording, with line and column.
    :raises ValueError: if the scene does not run with the start values.
    """
    text, path = text_of("fit", scene)
    if isinstance(columns, str):
        raise TypeError(f"fit: columns must be a list of titles; write columns=[{columns!r}]")
    dt = None if dt is None else positive("fit: dt", dt)
    duration = None if duration is None else positive("fit: duration", duration)
    threads = cpu_count() or 1 if workers is None else whole("fit: workers", workers, 1)
    made, remarks = _core.fit(
        text,
        path,
        _recordings(data, known),
        [*_free("free", free, False), *_free("free_each", free_each, True)],
        {name: finite(f"fit: params[{name!r}]", value) for name, value in (params or {}).items()},
        list(columns),
        {name: _level(name, level) for name, level in (sigma or {}).items()},
        dt,
        duration,
        threads,
        reader(),
    )
    for remark in remarks:
        warnings.warn(remark, stacklevel=2)
    for name in ("names", "determined", "at_bound", "not_determined", "remarks"):
        made[name] = tuple(made[name])
    made["combinations"] = {text: (value, error) for text, value, error in made["combinations"]}
    made["columns"] = tuple(FittedColumn(*each) for each in made["columns"])
    made["series"] = tuple(FittedSeries(*each) for each in made["series"])
    return Fit(**made)


def _free(what: str, names: Any, each: bool) -> list[tuple[str, float, float, bool]]:
    """Names with their bounds."""
    if isinstance(names, str):
        names = [names]
    bounds = names if isinstance(names, Mapping) else {name: None for name in names}
    out = []
    for name, pair in bounds.items():
        if not isinstance(name, str):
            raise TypeError(f"fit: {what} must be names of parameters, not {name!r}")
        try:
            low, high = (-math.inf, math.inf) if pair is None else pair
        except (TypeError, ValueError):
            raise TypeError(f"fit: {what}[{name!r}] must be two bounds, not {pair!r}") from None
        out.append((name, real(f"fit: {what}[{name!r}]", low), real(f"fit: {what}[{name!r}]", high), each))
    return out


def _recordings(data: Any, known: Any) -> list[tuple[str, bytes, dict[str, float]]]:
    """Name, bytes and known parameters of each recording."""
    all_data = [data] if isinstance(data, (str, os.PathLike, Mapping)) else list(data)
    all_known = [known] if isinstance(known, Mapping) else list(known or [{}] * len(all_data))
    if len(all_known) != len(all_data):
        raise ValueError(f"fit: known has {len(all_known)} mappings for {len(all_data)} recordings")
    out = []
    for i, (each, values) in enumerate(zip(all_data, all_known)):
        if isinstance(each, Mapping):
            name, content = f"data[{i}]", _table(f"fit: data[{i}]", each)
        else:
            name = os.fspath(each)
            with open(name, "rb") as file:
                content = file.read()
        out.append((name, content, {key: finite(f"fit: known[{i}][{key!r}]", x) for key, x in values.items()}))
    return out


def _table(what: str, arrays: Mapping[str, ArrayLike]) -> bytes:
    """Arrays by title as a table. NaN is an empty field."""
    columns: list[Vector] = []
    for title, values in arrays.items():
        array = np.asarray(values)
        if array.ndim != 1 or array.dtype.kind not in "fiu":
            raise TypeError(f"{what}[{title!r}] must be a list of numbers")
        columns.append(array.astype(np.float64))
    if len({len(column) for column in columns}) > 1:
        raise ValueError(f"{what} has columns of different lengths")
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(arrays)
    for row in zip(*columns):
        writer.writerow("" if math.isnan(x) else repr(float(x)) for x in row)
    return out.getvalue().encode()


def _level(name: str, level: Any) -> str:
    return level if isinstance(level, str) else repr(finite(f"fit: sigma[{name!r}]", level))
