"""Derivatives of motions: closed forms, differences of sweeps, events, and what is refused."""

import numpy as np
import pytest

import linchpin


def test_the_speed_at_the_bottom_of_a_rough_circle(scenes):
    found = linchpin.sensitivities(
        scenes / "rough-circle.toml", ["mu"], columns=["norm(bead.velocity)"], until="bead.x", every=1000
    )
    speed, slope = found["norm(bead.velocity)"]
    np.testing.assert_allclose(speed[-1], 3.185389354168705, atol=1e-9)
    np.testing.assert_allclose(slope[-1], [-5.900044573944802], atol=1e-9)
    assert found.parameters == ("mu",) and found.parameter_values == [0.2] and found.method == "rk4"
    assert found.end_time_derivatives.shape == (1,) and found.end_time_derivatives[0] > 0
    assert repr(found) == "<Sensitivities of 1 quantities to mu, 2 samples, 0 events>"


def test_agrees_with_differences_of_a_sweep(scenes):
    path, column = scenes / "rough-circle.toml", "reaction(circle).x"
    found = linchpin.sensitivities(path, ["mu", "g"], columns=[column], duration=0.9, every=300)
    assert found.t.shape == (4,) and found.values.shape == (4, 1) and found.derivatives.shape == (4, 1, 2)
    h = 1e-4
    runs = linchpin.sweep(path, {"mu": [0.2 - h, 0.2 + h]}, columns=[column], duration=0.9)[column]
    np.testing.assert_allclose(found[column][1][-1, 0], (runs[1] - runs[0]) / (2 * h), rtol=1e-6)


def test_events_have_derivatives_of_their_times(scenes):
    found = linchpin.sensitivities(scenes / "rough-circle.toml", ["mu"], columns=["bead.x"], duration=1.2)
    stop = found.events[0]
    assert isinstance(stop, linchpin.SensitivityEvent) and isinstance(found, linchpin.Sensitivities)
    assert stop.constraint == "circle" and stop.what in ("turns", "sticks") and stop.derivatives.shape == (1,)
    assert 1 < stop.t < 1.2
    later = linchpin.sensitivities(scenes / "rough-circle.toml", ["mu"], columns=["bead.x"], duration=stop.t + 0.01)
    assert later.events[0].t == pytest.approx(stop.t)


def test_a_scene_made_in_python():
    scene = linchpin.Scene(gravity=(0, -9.81, 0))
    scene.params(m=2.0, k=50.0)
    body = scene.particle("body", mass="m", position=(0.1, 0, 0))
    scene.constraint("rail", [f"{body}.y = 0", f"{body}.z = 0"])
    scene.force("spring", potential="0.5*k*body.x^2")
    found = linchpin.sensitivities(scene, ["k", "m"], columns=["body.x"], duration=0.7, dt=1e-3, every=100)
    t, w = found.t, np.sqrt(25.0)
    slope = -0.1 * t * np.sin(w * t) / (2 * w)  # d/dk of 0.1 cos(t sqrt(k/m)), times m
    np.testing.assert_allclose(found["body.x"][1][:, 0], slope / 2, atol=1e-9)
    np.testing.assert_allclose(found["body.x"][1][:, 1], -slope * 25 / 2, atol=1e-8)


def test_errors_name_the_cause(scenes):
    path = scenes / "rough-circle.toml"
    with pytest.raises(TypeError, match="parameters must be a list"):
        linchpin.sensitivities(path, "mu")
    with pytest.raises((ValueError, linchpin.SceneError), match="nu"):
        linchpin.sensitivities(path, ["nu"], columns=["bead.x"])
    with pytest.raises(ValueError, match="no quantity to differentiate"):
        linchpin.sensitivities(path, ["mu"])
    with pytest.raises(ValueError, match="did not cross zero within"):
        linchpin.sensitivities(path, ["mu"], until="bead.x - 10")
    with pytest.raises(KeyError, match="there is no column"):
        linchpin.sensitivities(path, ["mu"], columns=["bead.x"], duration=0.01)["bead.q"]
