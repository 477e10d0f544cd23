"""Every public name has a docstring and is used by a test or an example."""

import importlib
import inspect
import re
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
MODULES = [f"linchpin.{name}" for name in ("fit", "laws", "linearization", "reactions", "rollout", "scene", "simulation", "state", "sweep", "trace")]
MODULES += ["linchpin", "linchpin.rerun"]
try:
    import mujoco  # noqa: F401
    import linchpin._mujoco_version  # noqa: F401

    MODULES.append("linchpin.mujoco")
except ImportError:
    pass
try:
    import pybullet  # noqa: F401

    MODULES.append("linchpin.pybullet")
except ImportError:
    pass


def public_names():
    for name in MODULES:
        module = importlib.import_module(name)
        for public in module.__all__:
            thing = getattr(module, public)
            yield f"{name}.{public}", public, thing
            if inspect.isclass(thing):
                for member, value in vars(thing).items():
                    if not member.startswith("_"):
                        yield f"{name}.{public}.{member}", member, value


def test_every_public_name_is_used_by_a_test():
    text = "".join(path.read_text() for path in HERE.glob("*.py") if path.name != Path(__file__).name)
    examples = HERE.parent / "examples"
    text += "".join(path.read_text() for path in examples.glob("*.py"))
    missing = sorted({full for full, name, _ in public_names() if not re.search(rf"\b{re.escape(name)}\b", text)})
    assert not missing, "no test or example uses: " + ", ".join(missing)


def test_every_public_function_and_class_has_a_docstring():
    missing = sorted(
        full
        for full, _, thing in public_names()
        if (inspect.isroutine(thing) or inspect.isclass(thing) or isinstance(thing, property))
        and not inspect.getdoc(thing)
    )
    assert not missing, "no docstring: " + ", ".join(missing)


def test_the_stubs_are_those_of_the_module():
    package = Path(importlib.import_module("linchpin").__file__).parent
    stub = package / "_core.pyi"
    if not stub.exists():
        pytest.skip("the stubs of the compiled part are made by the build")
    text = stub.read_text()
    for name in ("class Simulation", "class Dynamics", "class Joint", "def load", "def solve_arrays"):
        assert name in text


def test_types_are_right():
    api = pytest.importorskip("mypy.api")
    package = Path(importlib.import_module("linchpin").__file__).parent
    out, err, code = api.run(["--strict", "--allow-any-generics", "--no-error-summary", "--cache-dir=/dev/null", "--ignore-missing-imports",
                              str(package)])
    assert code == 0, out + err
