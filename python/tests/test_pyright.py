"""The types of the package, checked by pyright. It takes half a minute."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest


def test_pyright_finds_no_error():
    pytest.importorskip("pyright")
    run = [sys.executable, "-m", "pyright"]
    if subprocess.run([*run, "--version"], capture_output=True).returncode != 0:
        pytest.skip("pyright cannot get its program, which is not a Python package")
    package = Path(importlib.import_module("linchpin").__file__).parent
    result = subprocess.run([*run, "--pythonpath", sys.executable, str(package)], capture_output=True, text=True)
    optional = [f'Import "{name}" could not be resolved' for name in ("mujoco", "pandas", "pybullet", "rerun", "sympy", "scipy.sparse")]
    errors = [line for line in result.stdout.splitlines() if " error: " in line]
    assert " warnings, " in result.stdout, result.stdout + result.stderr  # it ran to its end
    assert [line for line in errors if not any(text in line for text in optional)] == []
