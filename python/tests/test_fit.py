"""Parameters from measurements: exact and noisy data, what is not determined, and what is refused."""

import json
import math
import subprocess

import numpy as np
import pytest

import linchpin

TITLE = "atan2(bead.x, -bead.y) [rad]"
# Turning points of the rough circle, by an independent integration.
TURNS = {
    "t [s]": [0, 1.1011737001724389, 2.1149967125051194, 3.108998575286501],
    TITLE: [-math.pi / 2, 0.7777241756245301, -0.30367428522790474, -0.09404817815808023],
}


def test_turning_points_give_the_coefficient_of_friction(scenes):
    found = linchpin.fit(scenes / "rough-circle.toml", TURNS, "mu", params={"mu": 0.3}, duration=4)
    assert isinstance(found, linchpin.Fit) and found.converged and found.reason == "" and found.steps > 0
    assert found["mu"] == pytest.approx(0.2, abs=1e-9)
    assert found.names == ("mu",) and found.determined == (True,) and found.at_bound == ("",)
    (column,), (series,) = found.columns, found.series
    assert isinstance(column, linchpin.FittedColumn) and isinstance(series, linchpin.FittedSeries)
    assert (column.name, column.unit, column.samples) == ("atan2(bead.x, -bead.y)", "rad", 4)
    assert column.rms_residual < 1e-9 and column.sigma < 1e-9 and column.autocorrelation == 0
    assert series.recording == "data[0]" and series.column == column.name and series.unit == "rad"
    np.testing.assert_array_equal(series.t, TURNS["t [s]"])
    np.testing.assert_array_equal(series.residuals, series.measured - series.predicted)
    assert repr(found).startswith("<Fit: mu = 0.2 ± ")


def angles(scene, body, n, dt, **params):
    """Times, and angles of a body from the downward vertical [rad]."""
    simulation = linchpin.load(scene, params=params)
    i = simulation.body_index(body)
    t, out = [], []
    for _ in range(n):
        x, y, _ = simulation.positions[i]
        t.append(simulation.t)
        out.append(math.atan2(x, -y))
        simulation.run(dt)
    return np.array(t), np.array(out)


def test_intervals_contain_the_true_value(scenes):
    scene = scenes / "rough-circle.toml"
    t, angle = angles(scene, "bead", 40, 0.02)
    inside = 0
    for seed in range(20):
        noisy = angle + 0.0157 * np.random.default_rng(seed).standard_normal(len(t))
        found = linchpin.fit(scene, {"t [s]": t, TITLE: noisy}, {"mu": (0, 1)}, dt=0.02)
        low, high = found.intervals[0]
        assert low < found["mu"] < high and high - low == pytest.approx(2 * 2.02 * found.standard_errors[0], rel=0.02)
        inside += low <= 0.2 <= high
    assert inside >= 16


def oscillator():
    scene = linchpin.Scene(dt=0.01, duration=3, gravity=[0, 0, 0], method="rk4")
    scene.params(k=40.0, m=2.0, c=1.0)
    scene.particle("block", mass="m", position=[1, 0, 0])
    scene.constraint("rail", ["block.y = 0", "block.z = 0"])
    scene.force("spring", body="block", force="-k*[block.x, 0, 0] - c*block.velocity")
    return scene


def oscillation():
    t = np.linspace(0, 3, 61)
    w = math.sqrt(20 - 1 / 16)
    return t, np.exp(-t / 4) * (np.cos(w * t) + np.sin(w * t) / (4 * w))


def test_combinations_that_are_determined_have_names():
    t, x = oscillation()
    found = linchpin.fit(oscillator(), {"t [s]": t, "block.x [m]": x}, ["k", "m", "c"], params={"k": 45})
    assert found.determined == (False,) * 3 and np.isnan(found.values).all() and np.isnan(found.correlation).all()
    assert list(found.combinations) == ["k/m", "c/m"]
    assert found.combinations["k/m"][0] == pytest.approx(20, abs=1e-5)
    assert found.not_determined == ("the data determine only k/m and c/m, not k, m and c each",)
    with pytest.raises(ValueError, match="do not determine 'k': the data determine only k/m"):
        found["k"]
    assert "k not determined" in repr(found)


def test_units_missing_samples_and_known_levels():
    t, x = oscillation()
    x[5] = math.nan
    found = linchpin.fit(
        oscillator(), {"t [ms]": 1000 * t, "block.x [mm]": 1000 * x}, {"k": (1, 100), "c": None}, sigma={"block.x": "1 cm"}
    )
    assert found["k"] == pytest.approx(40, abs=1e-4) and found["c"] == pytest.approx(1, abs=1e-4)
    assert found.columns[0].sigma == 10 and found.columns[0].unit == "mm" and found.columns[0].samples == 60
    assert abs(found.correlation[0, 1]) < 1 and found.remarks == ()


def test_a_bound_holds_a_parameter():
    t, x = oscillation()
    found = linchpin.fit(oscillator(), {"t [s]": t, "block.x [m]": x}, {"k": (42, 100)}, params={"k": 50}, workers=1)
    assert found.at_bound == ("low",) and found["k"] == 42 and np.isnan(found.standard_errors[0])


def test_several_recordings_and_laws(scenes):
    data = []
    for load in (2, 8):
        t, angle = angles(scenes / "swinging-bar.toml", "weight", 60, 0.05, load=load)
        noise = 0.5 * np.random.default_rng(load).standard_normal(len(t))
        data.append({"t [s]": t, "angle [deg]": np.degrees(angle) + noise})
    known = [{"load": 2}, {"load": 8}]
    pin = linchpin.fit(scenes / "swinging-bar.toml", data, "mu", known=known, duration=3)
    constant = linchpin.fit(scenes / "swinging-bar-constant.toml", data, "torque", known=known, duration=3)
    assert pin.intervals[0, 0] < 0.3 < pin.intervals[0, 1]
    assert constant.aicc - pin.aicc > 6 and constant.aic > pin.aic
    each = linchpin.fit(scenes / "swinging-bar.toml", data, "mu", free_each={"start": (0, 2)}, known=known, duration=3)
    assert each.names == ("mu", "start of data[0]", "start of data[1]")
    np.testing.assert_allclose(each.values[1:], 1, atol=0.01)


def test_the_command_gives_the_same_numbers(command, scenes, tmp_path):
    run = tmp_path / "run.csv"
    subprocess.run([command, "run", scenes / "rough-circle.toml", "--csv", run], check=True, capture_output=True)
    words = [command, "fit", scenes / "rough-circle.toml", run, "--column", "bead.x", "--free", "mu", "--set", "mu=0.25", "--json"]
    printed = json.loads(subprocess.run(words, check=True, capture_output=True).stdout)
    found = linchpin.fit(scenes / "rough-circle.toml", run, ["mu"], params={"mu": 0.25}, columns=["bead.x"])
    assert printed["parameters"][0]["value"] == found["mu"] and printed["aic"] == found.aic


def test_bad_data_has_its_place(scenes, tmp_path):
    scene = scenes / "rough-circle.toml"
    table = tmp_path / "bad.csv"
    table.write_text("t [s],bead.x [m]\n0,-1\n0.1,nan\n")
    with pytest.raises(linchpin.SceneError, match=r'bad.csv:3:5: error: "nan" is not finite'):
        linchpin.fit(scene, table, "mu")
    with pytest.raises(linchpin.SceneError, match="data\\[0\\]:1:7: error: .*expected \\[m\\]"):
        linchpin.fit(scene, {"t [s]": [0, 1], "bead.x [kg]": [0, 1]}, "mu")
    with pytest.raises(linchpin.SceneError, match="longer duration"):
        linchpin.fit(scene, {"t [s]": [5, 6], "bead.x [m]": [0, 1]}, "mu")


@pytest.mark.parametrize(
    "change, error, message",
    [
        ({"free": "mmu"}, ValueError, 'no number "mmu"'),
        ({"free": []}, ValueError, "free names no parameter"),
        ({"free": [3]}, TypeError, "free must be names"),
        ({"free": {"mu": 3}}, TypeError, r"free\['mu'\] must be two bounds"),
        ({"free": {"mu": (0.3, 1)}}, ValueError, "outside of its bounds from 0.3 to 1. params can give another start"),
        ({"params": {"mmu": 1}}, ValueError, 'no number "mmu"'),
        ({"columns": "bead.x"}, TypeError, "columns must be a list"),
        ({"sigma": {"bead.y": 1}}, ValueError, 'sigma: there is no column "bead.y"'),
        ({"known": [{}, {}]}, ValueError, "known has 2 mappings for 1 recordings"),
        ({"data": {"t [s]": [0, 1], "bead.x [m]": [0]}}, ValueError, "columns of different lengths"),
        ({"data": {"t [s]": [0, 1], "bead.x [m]": ["a", "b"]}}, TypeError, "must be a list of numbers"),
        ({"workers": 0}, ValueError, "workers"),
    ],
)
def test_errors_name_the_argument(scenes, change, error, message):
    arguments = {"scene": scenes / "rough-circle.toml", "data": {"t [s]": [0, 0.5], "bead.x [m]": [-1, -0.1]}, "free": "mu"}
    with pytest.raises(error, match=message):
        linchpin.fit(**{**arguments, **change})
