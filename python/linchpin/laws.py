"""The catalogue of force laws. Coefficients are finite and at least 0; a wrong value raises ValueError."""

from . import _core
from ._core import Law
from .arguments import named

__all__ = [
    "Law",
    "ball_friction",
    "constant_force",
    "coulomb",
    "cylinder_friction",
    "drag",
    "hinge_friction",
    "lorentz",
    "lugre",
    "regularized_coulomb",
    "regularized_stribeck",
    "rolling_resistance",
    "slider_friction",
    "stribeck",
    "viscous",
    "viscous_torque",
]

ball_friction = named(_core.ball_friction)
constant_force = named(_core.constant_force)
coulomb = named(_core.coulomb)
cylinder_friction = named(_core.cylinder_friction)
drag = named(_core.drag)
hinge_friction = named(_core.hinge_friction)
lorentz = named(_core.lorentz)
lugre = named(_core.lugre)
regularized_coulomb = named(_core.regularized_coulomb)
regularized_stribeck = named(_core.regularized_stribeck)
rolling_resistance = named(_core.rolling_resistance)
slider_friction = named(_core.slider_friction)
stribeck = named(_core.stribeck)
viscous = named(_core.viscous)
viscous_torque = named(_core.viscous_torque)
