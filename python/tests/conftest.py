"""Fixtures of the tests of the Python package. pytest runs with PYTHONPATH=build/<preset>/python."""

import importlib.machinery
import importlib.util
import os
from pathlib import Path
from types import ModuleType

import pytest

SOURCE = Path(__file__).resolve().parents[2]


def notebook_tool() -> ModuleType:
    """scripts/notebooks as a module."""
    loader = importlib.machinery.SourceFileLoader("notebooks", str(SOURCE / "scripts" / "notebooks"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("notebooks", loader))
    loader.exec_module(module)
    return module


@pytest.fixture
def scenes() -> Path:
    """The gallery of scenes."""
    return SOURCE / "demos" / "scenes"


@pytest.fixture
def command() -> Path:
    """The command, where it was built beside the package."""
    path = os.environ.get("LINCHPIN_COMMAND")
    if not path:
        pytest.skip("LINCHPIN_COMMAND does not name the command")
    return Path(path)


@pytest.fixture
def pendulum():
    """Makes a scene: a particle of 2 kg on a rod of 1 m, at rest in a horizontal position."""
    import linchpin

    def make(**keys):
        scene = linchpin.Scene(dt=0.001, method="rk4", **keys)
        scene.particle("bob", mass=2, position=[1, 0, 0])
        scene.constraint("rod", "norm(bob.position) = 1")
        return scene

    return make
