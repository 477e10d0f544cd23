"""The examples run, and print what they promise. Their notebooks have the same cells."""

import re
import subprocess
import sys

import pytest
from conftest import SOURCE, notebook_tool

EXAMPLES = sorted((SOURCE / "python" / "examples").glob("*.py"))


def printed(name):
    path = SOURCE / "python" / "examples" / f"{name}.py"
    run = subprocess.run([sys.executable, str(path)], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return run.stdout


def pairs(text, pattern):
    found = [tuple(map(float, match)) for match in re.findall(pattern, text)]
    assert found, text
    return found


def test_pendulum():
    for tension, expected in pairs(printed("pendulum"), r"tension (\S+) N, closed form 3 m g h = (\S+) N"):
        assert tension == pytest.approx(expected, abs=1e-8)


def test_friction():
    for speed, expected in pairs(printed("friction"), r"v² = (\S+) m²/s², closed form (\S+) m²/s²"):
        assert speed == pytest.approx(expected, abs=1e-5)


def test_compare_solvers():
    lines = pairs(printed("compare_solvers"), r"gap (\S+) m, difference of positions (\S+) m")
    assert len(lines) == 3 and max(gap for gap, _ in lines) < 1e-6 and lines[1][0] < 1e-12


def test_own_law():
    assert "best: mu = 0.30" in printed("own_law")


def test_pybullet_minitaur():
    pytest.importorskip("pybullet")
    ((native, exact),) = pairs(printed("pybullet_minitaur"), r"PyBullet (\S+) m, linchpin (\S+) m")
    assert native > 1e-5 and exact < 1e-12


def test_mujoco_leg():
    pytest.importorskip("mujoco")
    pytest.importorskip("linchpin._mujoco_version", reason="linchpin was built without MuJoCo")
    text = printed("mujoco_leg")
    for native, exact in pairs(text, r"MuJoCo (\S+) m, linchpin (\S+) m"):
        assert native > 1e-5 and exact < 1e-12
    ((force, along),) = pairs(text, r"achilles: (\S+) N, of which (\S+) N")
    assert along == pytest.approx(force, rel=0.01)
    assert "rows=6, rank=4" in text and len(pairs(text, r"load +(\S+) N, moment of friction +(\S+) N m")) == 5


def test_every_example_has_a_test():
    tested = {name.removeprefix("test_") for name in globals() if name.startswith("test_")}
    assert {path.stem for path in EXAMPLES} <= tested


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda path: path.stem)
def test_a_notebook_has_the_cells_of_its_script(script):
    nbformat = pytest.importorskip("nbformat")
    notebook = nbformat.read(script.with_suffix(".ipynb"), as_version=4)
    cells = notebook_tool().cells_of(script.read_text())
    assert [(cell.cell_type, cell.source) for cell in notebook.cells] == cells, "run scripts/notebooks"
    assert any(cell.get("outputs") for cell in notebook.cells), "run scripts/notebooks"
