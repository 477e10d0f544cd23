"""Fixtures of the tests of the Python package. pytest runs with PYTHONPATH=build/<preset>/python."""

import os
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2]


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
