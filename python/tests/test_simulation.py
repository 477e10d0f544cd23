"""Simulations: stepping, arrays, joints, reactions, controllers, errors."""

import gc
import math
import sys
import threading
import time

import numpy as np
import pytest

import linchpin

HOSTS = ["bare", "bullet-float64", "bullet"]

ARM = """
schema = 2
[world]
gravity = [0, 0, -9.81]
dt = 0.001
duration = 0.5
[params]
m = 2.0
[[body]]
name = "upper"
mass = "m"
shape = { box = [1, 0.1, 0.1] }
position = [0.5, 0, 0]
[[body]]
name = "lower"
mass = 1
shape = { box = [1, 0.1, 0.1] }
position = [1.5, 0, 0]
[[joint]]
name = "shoulder"
type = "hinge"
b = "upper"
at = [0, 0, 0]
axis = [0, 1, 0]
[[joint]]
name = "elbow"
type = "hinge"
a = "upper"
b = "lower"
at = [1, 0, 0]
axis = [0, 1, 0]
[[log]]
channel = "reaction(elbow)"
name = "elbow force"
unit = "N"
"""


def arm(**keys):
    return linchpin.loads(ARM, **keys)


def test_the_tension_of_a_pendulum_is_that_of_the_closed_form(pendulum):
    sim = pendulum().simulate()
    sim.run(0.5)
    depth = -sim.positions[0, 1]
    assert np.linalg.norm(sim.reactions["rod"].force) == pytest.approx(3 * 2 * 9.81 * depth, abs=1e-9)
    assert abs(sim.energy) < 1e-9 and sim.t == pytest.approx(0.5)


@pytest.mark.parametrize("host", HOSTS)
def test_every_host_steps_a_scene(host):
    sim = arm(host=host)
    assert sim.host == host and sim.body_names == ["upper", "lower"] and sim.constraint_names == ["shoulder", "elbow"]
    sim.joints["elbow"].velocity = 1.0
    sim.step(3)
    assert sim.t == pytest.approx(0.003)
    assert sim.q == pytest.approx([j.position for j in sim.joints.values()], abs=1e-15)
    assert sim.v == pytest.approx([j.velocity for j in sim.joints.values()], abs=1e-15)
    weight = sum(sim.reactions["shoulder"].force)
    assert abs(weight) > 1
    assert sim.joints["shoulder"].acceleration != 0
    assert sim.wrench("elbow").force.shape == (3,)


def test_forces_of_bullet_are_there_after_a_step_only():
    sim = arm(host="bullet-float64")
    with pytest.raises(linchpin.OrderError):
        sim.reactions
    assert np.isnan(sim.channels()["elbow force"]).all()
    sim.step()
    assert "double precision" in sim.summary()
    assert not np.isnan(sim.channels()["elbow force"]).any()
    assert arm().summary() == ""


def test_both_precisions_of_bullet_are_in_one_process():
    results = {}
    for host in ("bullet", "bullet-float64", "bullet"):
        sim = arm(host=host)
        sim.run()
        results[host] = np.array(sim.positions)
    difference = np.abs(results["bullet"] - results["bullet-float64"]).max()
    assert 1e-9 < difference < 1e-4


def test_arrays_are_views_that_follow_the_state():
    sim = arm()
    q, v, positions = sim.q, sim.v, sim.positions
    before = positions.copy()
    sim.step(10)
    assert np.shares_memory(q, sim.q) and np.shares_memory(positions, sim.positions)
    assert not np.array_equal(before, positions) and q[0] == sim.joints["shoulder"].position
    for array in (q, v, positions, sim.orientations, sim.velocities, sim.angular_velocities):
        assert not array.flags.writeable and not array.flags.owndata
        with pytest.raises(ValueError):
            array[0] = 1
    assert sim.orientations.shape == (2, 4) and np.allclose(np.linalg.norm(sim.orientations, axis=1), 1)
    kept = sim.q
    value = kept.copy()
    del sim, q, v, positions
    gc.collect()
    assert np.array_equal(kept, value)


def test_joints_are_set_and_read_by_name():
    sim = arm()
    shoulder = sim.joints["shoulder"]
    shoulder.position, shoulder.velocity = 0.3, -0.2
    assert sim.q[0] == pytest.approx(0.3) and sim.v[0] == pytest.approx(-0.2)
    assert not shoulder.slides and shoulder.limits is None and shoulder.max_force is None and shoulder.max_rate is None
    shoulder.force = 40
    assert shoulder.force == pytest.approx(40) and shoulder.name == "shoulder"
    assert list(sim.joints) == ["shoulder", "elbow"] and len(sim.joints) == 2
    with pytest.raises(KeyError, match="did you mean 'elbow'"):
        sim.joints["elbwo"]
    for bad in (float("nan"), float("inf")):
        with pytest.raises(ValueError):
            shoulder.position = bad
        with pytest.raises(ValueError):
            shoulder.force = bad
    with pytest.raises(TypeError):
        shoulder.position = "up"
    del sim
    gc.collect()
    assert shoulder.position == pytest.approx(0.3)  # It keeps its simulation.


def test_reactions_are_a_mapping_and_an_array():
    sim = arm()
    sim.step()
    reactions = sim.reactions
    elbow = reactions["elbow"]
    assert list(reactions) == ["shoulder", "elbow"] and "elbow" in reactions and "knee" not in reactions
    assert reactions.array["force"].shape == (2, 3) and np.array_equal(reactions.array["force"][1], elbow.force)
    assert np.shares_memory(reactions.array, elbow.force)
    assert len(elbow.multipliers) == 5 and elbow.determined is True and elbow.native is False
    np.testing.assert_allclose(elbow.force + elbow.force_b, 0, atol=1e-12)
    np.testing.assert_allclose(elbow.ideal_force + elbow.nonideal_force, elbow.force, atol=1e-12)
    about = elbow.wrench.about(elbow.point + [1, 0, 0])
    np.testing.assert_allclose(about.moment, elbow.moment - np.cross([1, 0, 0], elbow.force))
    force = elbow.force.copy()
    sim.run(0.1)
    assert np.array_equal(elbow.force, force)  # It is a copy of its time.
    with pytest.raises(KeyError, match="known: shoulder, elbow|did you mean"):
        reactions["hip"]
    with pytest.raises(AttributeError, match="did you mean 'force'"):
        elbow.forec
    assert "elbow" in repr(elbow) and "force" in dir(elbow)


def test_tables_for_pandas():
    pandas = pytest.importorskip("pandas")
    sim = arm()
    trace = sim.record(0.1, every=10)
    frame = trace.to_dataframe()
    assert isinstance(frame, pandas.DataFrame) and len(frame) == 11 and frame.index[-1] == pytest.approx(0.1)
    assert sim.reactions.to_dataframe().loc["elbow", "force.z"] == sim.reactions["elbow"].force[2]


def test_a_trace_has_joints_and_channels(tmp_path):
    sim = arm(logs=["energy()"])
    trace = sim.record(0.105, every=10)
    assert trace.columns[:5] == ["t", "q.shoulder", "q.elbow", "v.shoulder", "v.elbow"]
    assert trace.columns[5:] == ["elbow force.x", "elbow force.y", "elbow force.z", "energy()"]
    assert len(trace) == 12 and trace.t[-1] == pytest.approx(0.105)
    assert trace["elbow force"].shape == (12, 3) and np.ptp(trace["energy()"]) < 0.05
    trace.save(tmp_path / "run.csv")
    lines = (tmp_path / "run.csv").read_text().splitlines()
    assert lines[0].startswith("t [s],q.shoulder [rad],") and len(lines) == 13
    page = trace._repr_html_()
    assert page.startswith("<iframe srcdoc=") and "elbow force" in page
    for name in ("run.html", "run.glb", "run.mcap", "run.rec"):
        trace.save(tmp_path / name)
        assert (tmp_path / name).stat().st_size > 1000
    with pytest.raises(ValueError, match="run.png"):
        trace.save(tmp_path / "run.png")
    with pytest.raises(KeyError, match="did you mean 'q.elbow'"):
        trace["q.elbwo"]
    with pytest.raises(ValueError, match="every is 0"):
        sim.record(1, every=0)


def test_parameters_step_and_laws_of_load():
    assert arm(params={"m": 4.0}).reactions["shoulder"].force[2] != arm().reactions["shoulder"].force[2]
    assert arm(dt=0.01).dt == 0.01
    free, damped = arm(), arm(laws={"shoulder": linchpin.laws.viscous_torque(5)})
    for sim in (free, damped):
        sim.run(0.3)
    assert damped.energy < free.energy - 1
    for bad in ({"params": {"mm": 1}}, {"dt": 0}, {"robots": "rigid"}, {"host": "ode"}, {"laws": {"knee": print}}):
        with pytest.raises(ValueError):
            arm(**bad)
    for bad in ({"logs": "energy()"}, {"laws": {"elbow": 3}}, {"params": {"m": "two"}}):
        with pytest.raises((TypeError, ValueError)):
            arm(**bad)


def test_a_python_function_is_a_law():
    def law(n):
        assert n.magnitude >= 0 and n.axis.shape == (3,)
        assert not n.slip_velocity.any() and n.relative_velocity.shape == n.normal.shape == n.point.shape == (3,)
        return np.zeros(3), -5 * n.spin_velocity

    sims = arm(laws={"shoulder": law}), arm(laws={"shoulder": linchpin.laws.viscous_torque(5)})
    for sim in sims:
        sim.run(0.1)
    np.testing.assert_allclose(sims[0].q, sims[1].q, atol=1e-5)


@pytest.mark.parametrize(
    "law, text",
    [
        (lambda n: 1 / 0, "ZeroDivisionError"),
        (lambda n: "north", "must be a vector of 3 numbers"),
        (lambda n: [1, 2], "must be a vector of 3 numbers, not \\[1, 2\\]"),
        (lambda n: [float("nan")] * 3, "not finite|NaN|nan"),
    ],
)
def test_a_bad_law_ends_the_step_with_its_name(law, text):
    with pytest.raises((RuntimeError, ValueError), match=text) as error:
        arm(laws={"elbow": law}).step()
    assert "elbow" in str(error.value)


@pytest.mark.parametrize("host", ["bare", "bullet-float64"])
def test_a_controller_holds_the_arm(host):
    sim = arm(host=host)
    gravity = linchpin.Dynamics(sim.model)

    def controller(t, q, v):
        gravity.set_state(q, v)
        return -gravity.gravity_force() - 100 * q - 10 * v

    sim.set_controller(controller, period=0.002)
    sim.run(0.3)
    assert sim.failure_count == 0 and np.abs(sim.q).max() < 1e-2


@pytest.mark.parametrize(
    "controller, kind",
    [
        (lambda t, q, v: 1 / 0, "exception"),
        (lambda t, q, v: [np.nan, 0], "not finite"),
        (lambda t, q, v: [1.0], "wrong size"),
        (lambda t, q, v: time.sleep(0.02), "late"),
        (lambda t, q, v: np.zeros((2, 1)), "exception"),
    ],
)
def test_a_faulty_controller_is_reported(controller, kind):
    sim = arm()
    sim.set_controller(controller, deadline=0.01, on_failure="hold")
    sim.step(2)
    assert sim.failure_count == 2 and sim.failures[0].kind == kind and sim.failures[0].message
    sim.set_controller(None)
    sim.step()
    for bad in ({"period": 0.0015}, {"deadline": -1}, {"on_failure": "stop"}):
        with pytest.raises(ValueError):
            sim.set_controller(controller, **bad)
    with pytest.raises(TypeError):
        sim.set_controller(3)


def test_a_controller_may_read_but_not_step():
    sim = arm()
    seen = []

    def controller(t, q, v):
        seen.append(sim.joints["elbow"].position)
        sim.step()

    sim.set_controller(controller)
    sim.step()
    assert len(seen) == 1 and sim.failures[0].kind == "exception" and "controller" in sim.failures[0].message


def test_steps_run_without_the_interpreter_lock_and_refuse_a_second_thread():
    sim = arm()
    other = arm()
    errors = []
    running = threading.Event()

    def work():
        running.set()
        while sim_is_in_use():
            pass

    def sim_is_in_use():
        try:
            sim.step(20000)
        except RuntimeError:  # The other thread was first.
            return True
        return False

    thread = threading.Thread(target=work)
    thread.start()
    running.wait()
    count = 0
    while thread.is_alive():
        other.step()  # Another simulation is not concerned.
        try:
            sim.step()
        except RuntimeError as error:
            errors.append(str(error))
        count += 1
    thread.join()
    assert count > 10 and errors and "another thread" in errors[0]


def test_bad_arguments_raise():
    sim = arm()
    for bad in (-1, 1.5, "2", None):
        with pytest.raises((TypeError, ValueError)):
            sim.step(bad)
    for bad in (-1.0, math.inf, math.nan, "1"):
        with pytest.raises((TypeError, ValueError)):
            sim.run(bad)
    with pytest.raises(KeyError, match="did you mean 'upper'"):
        sim.body_index("uper")
    for name in ("position", "velocity", "force"):
        with pytest.raises(TypeError, match=f"{name} must be a number, not 'fast'"):
            setattr(sim.joints["elbow"], name, "fast")
        with pytest.raises(ValueError, match="nan"):
            setattr(sim.joints["elbow"], name, math.nan)
        setattr(sim.joints["elbow"], name, 0)
    assert sim.body_index("lower") == 1
    with pytest.raises(linchpin.SceneError, match=r"scene.toml:1:\d+: error"):
        linchpin.loads("schema = 7")
    with pytest.raises(linchpin.SceneError, match="nowhere.toml"):
        linchpin.load("nowhere.toml")
    with pytest.raises(TypeError):
        linchpin.loads(b"schema = 2")
    with pytest.raises(TypeError):
        linchpin.load(3)
    with pytest.raises(TypeError):
        linchpin.Simulation("arm")
    assert "bodies 2" in repr(sim)


def test_the_gallery_loads(scenes):
    for path in sorted(scenes.glob("*.toml")):
        sim = linchpin.load(path, host="bare")
        assert sim.file == str(path)
        sim.step()
        assert all(np.isfinite(np.atleast_1d(sim.positions)).ravel())


def test_types_of_results_are_public():
    sim = arm()
    sim.set_controller(lambda t, q, v: 1 / 0)
    sim.step()
    assert isinstance(sim.failures[0], linchpin.ControllerFailure) and isinstance(sim.joints["elbow"], linchpin.Joint)
    assert isinstance(sim.reactions, linchpin.Reactions) and isinstance(sim.reactions["elbow"], linchpin.Reaction)
    assert isinstance(sim.reactions["elbow"].wrench_b, linchpin.Wrench)
    assert isinstance(sim.record(0), linchpin.Trace) and sim.notes == sim.warnings == []
    assert sim.reactions.array.dtype == linchpin.reactions.reaction_dtype
    assert isinstance(linchpin.solve([1], [1], [[1]], [0]), linchpin.Solution)
    assert linchpin.__version__.count(".") == 2 and issubclass(linchpin.FileError, OSError)
    assert linchpin.ConstraintReaction.__doc__


def test_a_simulation_leaves_no_reference():
    sim = arm()
    sim.set_controller(lambda t, q, v: None)
    sim.step()
    assert sys.getrefcount(sim) == 2


BRIDGE = "bridge.bullet"


@pytest.mark.parametrize("host", HOSTS)
def test_a_bullet_file_is_a_model(scenes, host):
    sim = linchpin.load(scenes / BRIDGE, host=host)
    assert len(sim.body_names) > 2 and len(sim.constraint_names) > 2
    assert any("do not collide" in note for note in sim.notes)
    sim.step(20)
    assert sim.reactions.array["gap"].max() < (1e-6 if host != "bullet" else 1e-3)


def test_damaged_bullet_files_are_refused(scenes, tmp_path):
    data = (scenes / BRIDGE).read_bytes()
    path = tmp_path / "bad.bullet"
    for bad in (b"", data[:40], data[:-100], b"BULLETf" + bytes(200)):
        path.write_bytes(bad)
        with pytest.raises(linchpin.SceneError, match="bad.bullet"):
            linchpin.load(path)
    with pytest.raises(linchpin.SceneError, match="does not exist"):
        linchpin.load(tmp_path / "none.bullet")
