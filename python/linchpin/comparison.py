"""Two runs of one program, by an engine's own solver and by linchpin."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Comparison", "run_twice"]

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Comparison:
    """Two runs of one program from one state: the constraints solved by the engine and by linchpin."""

    native_gap: Vector
    """[steps] The largest position error of a constraint after each step by the engine's solver [m]."""
    exact_gap: Vector
    """[steps] The same by linchpin [m]."""

    def __repr__(self) -> str:
        native, exact = (float(gap.max(initial=0)) for gap in (self.native_gap, self.exact_gap))
        return f"<Comparison of {len(self.native_gap)} steps: largest gap {native:.2g} m native, {exact:.2g} m exact>"


def run_twice(
    steps: int, begin: Callable[[bool], None], before_step: Callable[[int], Any] | None, step: Callable[[], float]
) -> Comparison:
    """Runs a program by the engine's solver, then by linchpin.

    :param begin: goes to the start, and makes linchpin solve the constraints where its argument is True
    :param before_step: is called with the number of each step
    :param step: takes a step and returns the largest position error of a constraint [m]
    """
    gaps = []
    for exact in (False, True):
        begin(exact)
        run = np.zeros(steps)
        for i in range(steps):
            if before_step is not None:
                before_step(i)
            run[i] = step()
        gaps.append(run)
    return Comparison(*gaps)
