"""Checks of arguments, with the name of the argument in the message."""

from __future__ import annotations

import difflib
import math
import operator
from collections.abc import Callable, Iterable
from typing import Any

from ._core import Law

__all__ = ["finite", "law_or_function", "nearest", "nonempty", "positive", "real", "whole"]


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


def finite(name: str, value: Any) -> float:
    """A number as float. Raises TypeError with the name for what is no number, and ValueError unless it is finite."""
    number = real(name, value)
    if not math.isfinite(number):
        raise ValueError(f"{name} is {number}. It must be a finite number")
    return number


def law_or_function(name: str, value: object) -> Law | Callable[[Any], Any]:
    """A force law. Raises TypeError with the name for anything else."""
    if not isinstance(value, Law) and not callable(value):
        raise TypeError(f"{name} must be a law of linchpin.laws or a function, not {value!r}")
    return value


def nonempty(name: str, value: Any) -> str:
    """A text that is not empty. Raises TypeError with the name for anything else."""
    if not isinstance(value, str) or not value:
        raise TypeError(f"{name} must be a text that is not empty, not {value!r}")
    return value


def positive(name: str, value: Any) -> float:
    """A duration as float. Raises ValueError with the name unless it is finite and above 0."""
    number = real(name, value)
    if not 0 < number < math.inf:
        raise ValueError(f"{name} is {value}. It must be a finite number above 0 [s]")
    return number


def whole(name: str, value: Any, least: int) -> int:
    """A whole number. Raises TypeError with the name for anything else, and ValueError if it is below `least`."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be a whole number, not {value!r}") from None
    if number < least:
        raise ValueError(f"{name} is {value}. It must be at least {least}")
    return number
