"""Mass matrix, bias forces, Jacobians and operational space of a robot."""

from __future__ import annotations

from collections.abc import Sequence

from . import _core
from .arguments import with_named_arguments

__all__ = ["Dynamics"]


@with_named_arguments
class Dynamics(_core.Dynamics):
    """Equation of motion of a robot in joint space, with loops: M v̇ + h = τ + g + Aᵀλ."""

    def __init__(self, model: _core.Model, body: str = "", without: Sequence[str] = ()) -> None:
        """Begins at the start of the model.

        :param model: the model of a simulation: ``sim.model``
        :param body: Name of a body. Only the bodies that constraints connect with it count. Default: all bodies.
        :param without: Names of constraints that do not count.
        """
        if not isinstance(model, _core.Model):
            raise TypeError(f"model must be the model of a simulation, such as sim.model, not {model!r}")
        if not isinstance(body, str):
            raise TypeError(f"body must be the name of a body, not {body!r}")
        if isinstance(without, str) or not all(isinstance(name, str) for name in without):
            raise TypeError(f"without must be a list of names of constraints, not {without!r}")
        super().__init__(model, body, list(without))
