"""Two runs of one program, by an engine's own solver and by linchpin."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Comparison"]

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
