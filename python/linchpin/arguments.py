"""Messages that name a wrong argument of a function of the compiled part."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from typing import Any, TypeVar

from .names import real

Function = TypeVar("Function", bound=Callable[..., Any])
Class = TypeVar("Class", bound=type)

__all__ = ["named", "with_named_arguments"]

_texts = {"float": "a number", "float | None": "a number or None", "str": "a text"}


def named(function: Function) -> Function:
    """Returns the function with errors that have the name and the value of a wrong argument."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            if "incompatible function arguments" not in str(error):
                raise
        raise TypeError(_fault(function, args, kwargs))

    return call  # type: ignore[return-value]


def with_named_arguments(cls: Class) -> Class:
    """A class decorator: the methods that the class has from the compiled part get :func:`named` errors."""
    for base in cls.__mro__[1:]:
        for name, method in vars(base).items():
            if not name.startswith("_") and hasattr(method, "__nb_signature__"):
                setattr(cls, name, named(method))
    return cls


def _fault(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    text, _, defaults = function.__nb_signature__[0]
    signature = inspect.Signature(
        [
            inspect.Parameter(
                name,
                inspect.Parameter.POSITIONAL_OR_KEYWORD,
                annotation=annotation,
                default=defaults[int(default)] if default else inspect.Parameter.empty,
            )
            for name, annotation, default in _parameters(text)
        ]
    )
    name = function.__name__
    try:
        given = signature.bind(*args, **kwargs).arguments
    except TypeError as error:
        return f"{name}(): {error}"
    for parameter in signature.parameters.values():
        if parameter.name in given and not _fits(parameter.annotation, given[parameter.name]):
            return f"{name}(): {parameter.name} must be {_texts[parameter.annotation]}, not {given[parameter.name]!r}"
    return f"{name}(): wrong arguments: " + ", ".join(f"{key}={value!r}" for key, value in given.items() if key != "self")


def _parameters(text: str) -> list[tuple[str, str, str]]:
    """Name, annotation and index of the default of each parameter in a signature of nanobind."""
    inside = text[text.index("(") + 1 : text.rindex(") ->")]
    found = re.findall(r"(\w+)(?:: ((?:[^,\[=]|\[[^\]]*\])+?))?(?: = \\(\d+))?(?:, |$)", inside)
    return [(name, annotation, default) for name, annotation, default in found]


def _fits(annotation: str, value: Any) -> bool:
    if annotation == "str":
        return isinstance(value, str)
    if annotation == "float | None" and value is None:
        return True
    if annotation in _texts:
        try:
            real("", value)
        except TypeError:
            return False
    return True
