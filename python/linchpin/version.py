"""The version of the package."""

from . import _core

__all__ = ["__version__"]

__version__: str = _core.version
