"""The arguments of a constraint that a program adds in an engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .names import finite
from .scene import _condition

__all__ = ["condition"]


def condition(
    name: str, equation: Any, velocity: Any, params: Mapping[str, float] | None, bodies: Mapping[str, Any], example: str
) -> tuple[str, str, dict[str, float]]:
    """Checks the arguments of `constrain`. Returns the key of the equation in a scene, its text, and the parameters.

    :param example: a value of `bodies`, for the message
    """
    if (equation is None) == (velocity is None):
        raise ValueError(f"constraint {name!r}: give either an equation or a velocity")
    if not bodies:
        raise ValueError(f"constraint {name!r} names no body. Give each body of the equation: hook={example}")
    key, given = ("equation", equation) if velocity is None else ("velocity", velocity)
    text = _condition(given)
    if not isinstance(text, str):
        raise TypeError(f"constraint {name!r}: the equation must be one text or SymPy expression, not {text!r}")
    return key, text, {param: finite(f"params[{param!r}]", value) for param, value in (params or {}).items()}
