"""Derivatives at a state: closed forms, differences, the transposed product, and what is refused."""

import math

import numpy as np
import pytest

import linchpin

MASS, LENGTH, ANGLE, RATE, GRAVITY = 2, 1.5, 0.7, 1.3, 9.81
RADIAL = np.array([math.sin(ANGLE), -math.cos(ANGLE), 0])
TANGENT = np.array([math.cos(ANGLE), math.sin(ANGLE), 0])


def pendulum():
    scene = linchpin.Scene(gravity=[0, "-g", 0])
    scene.params(l=LENGTH, g=GRAVITY, m=MASS)
    scene.particle(
        "bob",
        mass="m",
        position=list(LENGTH * RADIAL),
        velocity=list(LENGTH * RATE * TANGENT),
    )
    scene.constraint("rod", "norm(bob.position) = l")
    return scene


def test_the_tension_of_a_pendulum():
    d = linchpin.derivatives(pendulum(), ["l", "g"])
    assert isinstance(d, linchpin.Derivatives) and d.parameters == ("l", "g")
    np.testing.assert_array_equal(d.values, [LENGTH, GRAVITY])
    assert d.columns == {"bob": slice(0, 3)} and d.rows == {"rod": slice(0, 1)}
    np.testing.assert_allclose(-d.solution.multipliers, MASS * (LENGTH * RATE**2 + GRAVITY * math.cos(ANGLE)))

    def tension(**direction):
        return -d.forward(**direction).multipliers[0]

    by_length = tension(displacement=RADIAL, velocity=RATE * TANGENT, parameters={"l": 1})
    assert by_length == pytest.approx(3.38, abs=1e-10)
    assert tension(parameters=[0, 1]) == pytest.approx(1.529684374568977, abs=1e-10)
    turned = {"displacement": LENGTH * TANGENT, "velocity": -LENGTH * RATE * RADIAL}
    assert tension(**turned) == pytest.approx(-12.639551023603499, abs=1e-10)
    assert tension(velocity=LENGTH * TANGENT) == pytest.approx(7.8, abs=1e-10)

    assert isinstance(d.solution, linchpin.OutputChange)
    gradient = d.reverse(multipliers=[-1])
    assert isinstance(gradient, linchpin.InputGradient)
    assert gradient.parameters[1] == pytest.approx(1.529684374568977, abs=1e-10)
    assert gradient.velocity @ (LENGTH * TANGENT) == pytest.approx(7.8, abs=1e-10)
    assert gradient.force @ RADIAL == pytest.approx(1, abs=1e-12)
    assert repr(d) == "<Derivatives of 3 accelerations, parameters l, g>"


def test_forward_and_reverse_are_transposed(scenes):
    d = linchpin.derivatives(scenes / "bicycle.toml", ["v"])
    n, m = len(d.solution.vdot), len(d.solution.multipliers)
    random = np.random.default_rng(1)
    inputs = {"velocity": random.normal(size=n), "force": random.normal(size=n), "time": 0.3}
    weights = {"vdot": random.normal(size=n), "ideal": random.normal(size=n), "velocity_residual": random.normal(size=m)}
    gradient, change = d.reverse(**weights), d.forward(**inputs)
    forward = sum(weights[name] @ getattr(change, name) for name in weights)
    reverse = sum(np.dot(inputs[name], getattr(gradient, name)) for name in inputs)
    assert forward == pytest.approx(reverse, rel=1e-11)


def test_states_of_a_simulation():
    scene = pendulum()
    sim = scene.simulate()
    sim.run(0.3)
    d = linchpin.derivatives(scene, params={"m": 3})
    before = d.solution.multipliers
    after = d.evaluate(sim.state()).multipliers
    assert abs(after[0] - before[0]) > 0.1
    # The tension is proportional to the mass, and the accelerations do not depend on it.
    by_mass = linchpin.derivatives(scene, ["m"])
    change = by_mass.forward(parameters=[1])
    np.testing.assert_allclose(change.multipliers, by_mass.solution.multipliers / MASS, atol=1e-10)
    np.testing.assert_allclose(change.vdot, 0, atol=1e-11)


def test_errors_name_the_cause(scenes):
    with pytest.raises(TypeError, match=r"write \['l'\]"):
        linchpin.derivatives(pendulum(), "l")
    with pytest.raises((ValueError, linchpin.SceneError), match="length"):
        linchpin.derivatives(pendulum(), ["length"])
    d = linchpin.derivatives(pendulum(), ["l"])
    with pytest.raises(ValueError, match="'g' is not among the parameters l"):
        d.forward(parameters={"g": 1})
    with pytest.raises(ValueError, match="forward: displacement must have 3 numbers"):
        d.forward(displacement=[1])
    with pytest.raises(TypeError, match="state must be a linchpin.State"):
        d.evaluate(3)
    resting = linchpin.Scene(gravity=[0, -10, 0])
    resting.particle("block", mass=1, position=[0, 0, 0])
    resting.constraint("floor", "block.y = 0", law={"type": "coulomb", "mu": 0.5})
    resting.force("pull", body="block", force=[6, 0, 0])
    with pytest.raises(ValueError, match='"floor" starts to slide'):
        linchpin.derivatives(resting)
