"""Random arguments to every public name. Nothing may end the interpreter, and errors are exceptions.

LINCHPIN_FUZZ_CALLS is the number of calls, and LINCHPIN_FUZZ_SEED the seed. CONTRIBUTING.md says how to run it under the address sanitizer.
"""

import contextlib
import gc
import io
import os
import random
import warnings

import numpy as np
import pytest
from test_simulation import ARM, HOSTS

import linchpin

CALLS = int(os.environ.get("LINCHPIN_FUZZ_CALLS", "3000"))
SEED = int(os.environ.get("LINCHPIN_FUZZ_SEED", "1"))

# These return to the caller when they end: a random number of steps or threads may be too large for a test.
LONG = {"step", "run", "record", "rollout", "sweep", "fit", "roll"}


class Unfriendly:
    """An object whose conversions raise."""

    def __float__(self):
        raise ValueError("no float")

    def __len__(self):
        return -1

    def __iter__(self):
        raise RuntimeError("no iteration")

    def __repr__(self):
        raise RuntimeError("no text")


def scene_of(choose):
    scene = linchpin.Scene(dt=0.01)
    scene.params(m=1)
    scene.particle("bob", mass="m", position=[1, 0, 0])
    scene.constraint("rod", "norm(bob.position) = 1", law=choose.choice([None, linchpin.laws.coulomb(0.2), {"type": "viscous", "coefficient": 1}]))
    return scene


def array_of(choose):
    shape = choose.choice([(), (0,), (1,), (2,), (3,), (4,), (7,), (2, 2), (3, 3), (2, 3), (1, 2), (2, 4), (2, 2, 2), (50, 50)])
    kind = choose.choice(["f8", "f4", "i8", "i4", "u1", "?", "c16", "O", "U3", ">f8", "f2"])
    values = np.array([choose.choice([0.0, 1.0, -1.0, 0.5, 2.0]) for _ in range(int(np.prod(shape)))]).reshape(shape)
    with contextlib.suppress(Exception):
        values = values.astype(kind)
    if values.ndim == 2 and choose.random() < 0.3:
        values = values.T if choose.random() < 0.5 else values[::-1, ::-1]
    if values.size and values.dtype.kind == "f" and choose.random() < 0.2:
        values = values.copy()
        values.flat[choose.randrange(values.size)] = choose.choice([np.nan, np.inf, 1e308])
    return values


def value_of(choose, objects, depth=0):
    kind = choose.randrange(16 if depth < 2 else 9)
    if kind == 0:
        return choose.choice([0, 1, 2, 3, -1, 10, 2**31, -(2**31), 2**63, 2**64, 10**30, True, False])
    if kind == 1:
        return choose.choice([0.0, 0.1, 1.0, -1.0, 1e-300, 1e300, float("nan"), float("inf"), -0.0])
    if kind == 2:
        return choose.choice(["", "bob", "rod", "shoulder", "elbow", "upper", "q.elbow", "bare", "bullet", "\0", "ü", "a" * 5000, "\ud800",
                              "norm(bob.position) = 1", "bob.x", "reaction(rod)", "zero", "hold", "multibody", "run.html", "x.csv"])
    if kind == 3:
        return choose.choice([None, b"bytes", 1j, object(), Unfriendly(), type, ...])
    if kind in (4, 5):
        return array_of(choose)
    if kind == 6:
        return choose.choice(objects)
    if kind == 7:
        return choose.choice([lambda *a: None, lambda *a: [0, 0, 0], lambda *a: 1 / 0, lambda *a: "text", lambda *a: np.full(2, np.nan)])
    if kind == 8:
        return [choose.choice([0, 1.5, -2, float("nan"), "a", None]) for _ in range(choose.randrange(6))]
    if kind in (9, 10):
        return [value_of(choose, objects, depth + 1) for _ in range(choose.randrange(4))]
    if kind in (11, 12):
        return {key: value_of(choose, objects, depth + 1) for key in choose.sample(["bob", "rod", "m", "mass", "elbow", "", "type"], 2)}
    if kind == 13:
        return tuple(value_of(choose, objects, depth + 1) for _ in range(2))
    return value_of(choose, objects, depth + 1)


def start_objects(choose):
    out = [linchpin, linchpin.laws, linchpin.laws.coulomb(0.3), scene_of(choose)]
    for host in HOSTS:
        sim = linchpin.loads(ARM, host=host, params={"m": 1.5}, laws={"elbow": lambda n: [0, 0, 0]})
        sim.step(2)
        out += [sim, sim.joints, sim.joints["elbow"], sim.reactions, sim.reactions["elbow"], sim.wrench("elbow"), sim.state(), sim.model]
        out += [linchpin.Dynamics(sim.model), sim.record(0.01)]
    return out


def public_names(thing):
    return [name for name in dir(thing) if not name.startswith("_")]


def one_call(choose, objects):
    thing = choose.choice(objects)
    names = public_names(thing)
    if not names:
        return
    name = choose.choice(names)
    if choose.random() < 0.1:
        setattr(thing, name, value_of(choose, objects)) if not isinstance(thing, type(linchpin)) else None
        return
    member = getattr(thing, name)
    result = member
    if callable(member):
        arguments = [value_of(choose, objects) for _ in range(choose.choice([0, 1, 1, 2, 2, 3, 4, 6]))]
        if name in LONG:
            arguments = [min(a, 3) if isinstance(a, (int, float)) and not a != a else a for a in arguments]
        result = member(*arguments)
    if not type(result).__module__.startswith("linchpin"):
        return  # the methods of arrays and tables belong to NumPy and pandas
    if len(objects) < 120:
        objects.append(result)
    else:
        objects[choose.randrange(4, len(objects))] = result  # the last reference to an object may go


def test_random_calls_raise_exceptions_and_nothing_else(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    choose = random.Random(SEED)
    objects = start_objects(choose)
    exceptions = 0
    with warnings.catch_warnings(), np.errstate(all="ignore"), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        for i in range(CALLS):
            if i % 1000 == 999:
                objects = start_objects(choose)
                gc.collect()
            try:
                one_call(choose, objects)
            except SystemError as error:  # a fault of an extension module
                pytest.fail(f"call {i}: {error!r}")
            except Exception:  # noqa: BLE001
                exceptions += 1
    assert exceptions > CALLS // 10
