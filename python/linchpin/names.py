"""Names and numbers in messages."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

__all__ = ["nearest", "real"]


def nearest(name: object, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: the nearest known one, or all of them if they are few."""
    names = list(known)
    if isinstance(name, str):
        close = difflib.get_close_matches(name, names, 1)
        if close:
            return f"; did you mean {close[0]!r}?"
    if not names:
        return "; there are none"
    return f"; known: {', '.join(names[:10])}" + (f" and {len(names) - 10} more" if len(names) > 10 else "")


def real(name: str, value: Any) -> float:
    """A number as float. Raises TypeError with the name for what is no number, a text included."""
    if isinstance(value, (str, bytes)):
        raise TypeError(f"{name} must be a number, not {value!r}")
    try:
        return float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a number, not {value!r}") from None
