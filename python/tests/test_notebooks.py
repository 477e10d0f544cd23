"""The notebooks of the examples run. A slow test: test_examples.py runs their scripts."""

import pytest
from conftest import SOURCE, notebook_tool

pytest.importorskip("nbformat")
pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

SCRIPTS = sorted((SOURCE / "python" / "examples").glob("*.py"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_notebook_runs(script):
    text = script.read_text()
    for package in ("matplotlib", "mujoco", "pybullet"):
        if f"import {package}" in text:
            pytest.importorskip(package)
    if "linchpin.mujoco" in text:
        pytest.importorskip("linchpin._mujoco_version", reason="linchpin was built without MuJoCo")
    tool = notebook_tool()
    tool.execute(tool.notebook_of(script))
