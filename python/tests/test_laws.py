"""The catalogue of laws."""

import pytest

import linchpin
from linchpin import laws

MADE = {
    "coulomb": lambda: laws.coulomb(0.3, mu_kinetic=0.2),
    "regularized_coulomb": lambda: laws.regularized_coulomb(0.3, 0.01),
    "viscous": lambda: laws.viscous(2),
    "viscous_torque": lambda: laws.viscous_torque(2),
    "stribeck": lambda: laws.stribeck(0.3, 0.2, 0.1),
    "regularized_stribeck": lambda: laws.regularized_stribeck(0.3, 0.2, 0.1, 0.01),
    "lugre": lambda: laws.lugre(1e4, 0.3, 0.1, mu_kinetic=0.2),
    "drag": lambda: laws.drag(0.5),
    "constant_force": lambda: laws.constant_force([0, 0, 1], axes="first"),
    "lorentz": lambda: laws.lorentz(1, [0, 0, 1], [0, 1, 0]),
    "rolling_resistance": lambda: laws.rolling_resistance(0.01),
    "hinge_friction": lambda: laws.hinge_friction(0.1, pin_radius=0.01, bending_arm=0.1),
    "ball_friction": lambda: laws.ball_friction(0.1, pin_radius=0.01),
    "slider_friction": lambda: laws.slider_friction(0.1, preload=1),
    "cylinder_friction": lambda: laws.cylinder_friction(0.1, pin_radius=0.01),
}


def test_every_law_is_made():
    assert set(MADE) == set(laws.__all__) - {"Law"}
    for make in MADE.values():
        law = make()
        assert isinstance(law, linchpin.Law) and law.name and isinstance(law + laws.viscous(1), linchpin.Law)


@pytest.mark.parametrize(
    "make",
    [
        lambda: laws.coulomb(-0.1),
        lambda: laws.coulomb(float("nan")),
        lambda: laws.coulomb(0.1, 0.2),
        lambda: laws.hinge_friction(0.1),
        lambda: laws.constant_force([1, 2]),
        lambda: laws.constant_force([0, 0, 1], axes="third"),
        lambda: laws.regularized_coulomb(0.1, 0),
    ],
)
def test_refuses_bad_values(make):
    with pytest.raises(ValueError):
        make()


def test_refuses_other_types():
    with pytest.raises(TypeError):
        laws.coulomb("0.3")
    with pytest.raises(TypeError):
        laws.coulomb(0.3) + 1


def test_a_wrong_argument_is_named():
    with pytest.raises(TypeError, match=r"coulomb\(\): mu must be a number, not 'a'"):
        laws.coulomb("a")
    with pytest.raises(TypeError, match=r"coulomb\(\): mu_kinetic must be a number or None, not \[1\]"):
        laws.coulomb(0.3, mu_kinetic=[1])
    with pytest.raises(TypeError, match=r"stribeck\(\): missing a required argument: 'mu_kinetic'"):
        laws.stribeck(0.3)
    with pytest.raises(TypeError, match=r"viscous\(\): got an unexpected keyword argument 'speed'"):
        laws.viscous(1, speed=2)
    assert laws.coulomb(mu=0.3).name == "coulomb"
