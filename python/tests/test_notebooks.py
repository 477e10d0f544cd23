"""The notebooks of the examples are those of their scripts, and run."""

import importlib.machinery
import importlib.util

import pytest
from conftest import SOURCE

nbformat = pytest.importorskip("nbformat")
pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

SCRIPTS = sorted((SOURCE / "python" / "examples").glob("*.py"))


@pytest.fixture(scope="module")
def tool():
    loader = importlib.machinery.SourceFileLoader("notebooks", str(SOURCE / "scripts" / "notebooks"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("notebooks", loader))
    loader.exec_module(module)
    return module


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_notebook_has_the_cells_of_its_script_and_runs(tool, script):
    text = script.read_text()
    for package in ("matplotlib", "mujoco", "pybullet"):
        if f"import {package}" in text:
            pytest.importorskip(package)
    if "linchpin.mujoco" in text:
        pytest.importorskip("linchpin._mujoco_version", reason="linchpin was built without MuJoCo")
    notebook = nbformat.read(script.with_suffix(".ipynb"), as_version=4)
    assert [(cell.cell_type, cell.source) for cell in notebook.cells] == tool.cells_of(text), "run scripts/notebooks"
    assert any(cell.get("outputs") for cell in notebook.cells), "run scripts/notebooks"
    tool.execute(tool.notebook_of(script))
