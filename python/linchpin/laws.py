"""The catalogue of force laws. Coefficients are finite and at least 0; a wrong value raises ValueError."""

from ._core import (
    Law,
    ball_friction,
    constant_force,
    coulomb,
    cylinder_friction,
    drag,
    hinge_friction,
    lorentz,
    lugre,
    regularized_coulomb,
    regularized_stribeck,
    rolling_resistance,
    slider_friction,
    stribeck,
    viscous,
    viscous_torque,
)

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
