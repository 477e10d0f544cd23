"""Sweeps of parameters, beside the command."""

import subprocess

import numpy as np
import pytest

import linchpin

HOOP = """
schema = 2
[world]
dt = 0.01
duration = 0.5
[params]
w = 3.0
m = 1.0
[[body]]
name = "bead"
kind = "particle"
mass = "m"
position = [0.6, -0.8, 0]
[[constraint]]
name = "hoop"
equation = "norm(bead.position) = 1"
law = { type = "coulomb", mu = "0.05*w" }
[[log]]
channel = "norm(bead.velocity)"
name = "speed"
"""


@pytest.fixture
def hoop(tmp_path):
    path = tmp_path / "hoop.toml"
    path.write_text(HOOP)
    return path


@pytest.mark.parametrize("more", [{}, {"until": "bead.x"}, {"equilibrium": True}], ids=["motion", "until", "equilibrium"])
def test_a_sweep_has_the_bytes_of_the_command(hoop, command, tmp_path, more):
    table = tmp_path / "table.csv"
    options = ["--column", "reaction(hoop)"]
    options += ["--until", "bead.x"] if "until" in more else ["--equilibrium"] if more else []
    subprocess.run([command, "sweep", hoop, "--set", "w=1:5:5", "--set", "m=0.5,2", "--out", table, *options], check=False)
    sweep = linchpin.sweep(hoop, {"w": np.linspace(1, 5, 5), "m": [0.5, 2]}, columns=["reaction(hoop)"], **more)
    sweep.save(tmp_path / "own.csv")
    # The last column of the command is a mark of its options.
    theirs = [line.rsplit(",", 1)[0] for line in table.read_text().splitlines()]
    assert (tmp_path / "own.csv").read_text().splitlines() == theirs


def test_results_by_name(hoop):
    sweep = linchpin.sweep(hoop, {"w": [1, 2, 3], "m": 2}, columns=["bead.x"])
    assert isinstance(sweep, linchpin.Sweep) and len(sweep) == 3 and sweep.ok.all() and set(sweep.status) == {"ok"}
    np.testing.assert_array_equal(sweep["w"], [1, 2, 3])
    np.testing.assert_array_equal(sweep.params["m"], [2, 2, 2])
    assert sweep["speed"].shape == (3,) and (np.diff(sweep["speed"]) < 0).all()
    assert sweep.columns[0].startswith("speed") and sweep.data.shape == (3, 2)
    np.testing.assert_allclose(sweep.t, 0.5)
    assert sweep.stability == ["", "", ""]
    with pytest.raises(KeyError, match="did you mean 'speed'"):
        sweep["sped"]
    pandas = pytest.importorskip("pandas")
    assert isinstance(sweep.to_dataframe(), pandas.DataFrame) and list(sweep.to_dataframe()["w"]) == [1, 2, 3]


def test_cases_one_by_one_and_threads(hoop):
    product = linchpin.sweep(hoop, {"w": np.linspace(1, 3, 12)}, workers=1)
    listed = linchpin.sweep(hoop, [{"w": w} for w in np.linspace(1, 3, 12)], workers=4)
    np.testing.assert_array_equal(product.data, listed.data)


def test_a_scene_made_in_python(pendulum):
    scene = pendulum()
    scene.params(L=1.0)
    scene.constraint("line", "bob.z = 0*L")
    sweep = linchpin.sweep(scene, {"L": [1, 2]}, columns=["bob.y"], dt=0.002, duration=0.1)
    assert sweep.ok.all() and sweep.t[0] == pytest.approx(0.1)


def test_failed_cases_have_a_reason_and_no_numbers(hoop):
    sweep = linchpin.sweep(hoop, {"m": [1, -1]})
    assert list(sweep.ok) == [True, False]
    assert "mass" in sweep.status[1] and np.isnan(sweep.data[1]).all()
    assert "1 failed" in repr(sweep)


def test_wrong_sweeps_are_refused(hoop, tmp_path):
    with pytest.raises(ValueError, match="params has no values"):
        linchpin.sweep(hoop, {})
    with pytest.raises(ValueError, match="no value"):
        linchpin.sweep(hoop, {"w": []})
    with pytest.raises(ValueError, match="has the value nan"):
        linchpin.sweep(hoop, {"w": [np.nan]})
    with pytest.raises(TypeError, match=r"params\['w'\] must be numbers"):
        linchpin.sweep(hoop, {"w": "fast"})
    with pytest.raises(ValueError, match="speed"):
        linchpin.sweep(hoop, {"speed": [1]})
    with pytest.raises((ValueError, linchpin.SceneError), match="bed"):
        linchpin.sweep(hoop, {"w": [1]}, columns=["bed.x"])
    with pytest.raises(TypeError, match="columns must be a list"):
        linchpin.sweep(hoop, {"w": [1]}, columns="bead.x")
    with pytest.raises(ValueError, match="exclude each other"):
        linchpin.sweep(hoop, {"w": [1]}, until="bead.x", equilibrium=True)
    with pytest.raises(ValueError, match="dt is 0"):
        linchpin.sweep(hoop, {"w": [1]}, dt=0)
    with pytest.raises(ValueError, match="each case must have a value"):
        linchpin.sweep(hoop, [{"w": 1}, {"m": 1}])
    with pytest.raises(FileNotFoundError):
        linchpin.sweep(tmp_path / "none.toml", {"w": [1]})


def test_laws_that_are_python_functions_are_refused():
    scene = linchpin.Scene()
    scene.params(m=1)
    scene.particle("bob", mass="m", position=[1, 0, 0])
    scene.constraint("rod", "norm(bob.position) = 1", law=lambda n: [0, 0, 0])
    with pytest.raises(ValueError, match="rod.*objects of Python"):
        linchpin.sweep(scene, {"m": [1, 2]}, columns=["bob.x"])
