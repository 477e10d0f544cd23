"""linchpin in MuJoCo: loops, constraints by equation, laws, sensors, and everything that can happen to a model."""

import copy
import gc
import importlib
import math
import resource
import subprocess
import sys
import threading
import time
import weakref

import numpy as np
import pytest

mujoco = pytest.importorskip("mujoco")
pytest.importorskip("linchpin._mujoco_version", reason="linchpin was built without MuJoCo")

import linchpin  # noqa: E402
import linchpin.mujoco as lm  # noqa: E402

BAR = 'type="box" size="0.5 0.03 0.03" pos="0.5 0 0" mass="1"'
FOUR_BAR = f"""
<mujoco>
  <option timestep="0.002"/>
  <worldbody>
    <site name="wall" pos="2 0 1"/>
    <body name="crank">
      <joint name="crank" axis="0 1 0"/>
      <geom {BAR} contype="0" conaffinity="0"/>
      <body name="coupler" pos="1 0 0">
        <joint name="elbow" axis="0 1 0"/>
        <geom {BAR} contype="0" conaffinity="0"/>
        <body name="rocker" pos="1 0 0">
          <joint name="knee" axis="0 1 0"/>
          <geom {BAR} contype="0" conaffinity="0"/>
          <site name="tip" pos="1 0 0"/>
        </body>
      </body>
    </body>
  </worldbody>
  <equality>
    <connect name="loop" body1="rocker" anchor="1 0 0"/>
  </equality>
  <keyframe><key name="closed" qpos="-0.5 1.2 0.8"/></keyframe>
</mujoco>
"""
FREE_BOX = """
<mujoco>
  <option timestep="0.001"/>
  <worldbody>
    <site name="hook" pos="0 0 2"/>
    <body name="box" pos="0 0 1">
      <freejoint name="free"/>
      <geom type="box" size="0.1 0.2 0.3" pos="0 0 -0.3" mass="2"/>
      <site name="eye" pos="0 0 1"/>
    </body>
  </worldbody>
</mujoco>
"""


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    """MuJoCo writes its warnings to the file MUJOCO_LOG.TXT."""
    monkeypatch.chdir(tmp_path)


def load(xml=FOUR_BAR):
    model = mujoco.MjModel.from_xml_string(xml)
    return model, mujoco.MjData(model)


def four_bar():
    """A four-bar linkage. MuJoCo takes the anchor of the loop from qpos0, so it is where the tip is there."""
    model, data = load()
    model.eq_data[0, 3:6] = [2, 0, -0.5]  # of the world
    data.qpos[:] = closed(model)
    return model, data


def closed(model):
    """A pose in which the tip is on the anchor."""
    data = mujoco.MjData(model)
    data.qpos[:] = [0.9, -1.1, 0.6]
    for _ in range(50):
        mujoco.mj_forward(model, data)
        jacobian = np.zeros((3, 3))
        mujoco.mj_jacSite(model, data, jacobian, None, model.site("tip").id)
        data.qpos += np.linalg.lstsq(jacobian, [2, 0, -0.5] - data.site("tip").xpos, rcond=None)[0]
    mujoco.mj_forward(model, data)
    assert np.linalg.norm(data.site("tip").xpos - [2, 0, -0.5]) < 1e-14
    return data.qpos


def gap(model, data):
    mujoco.mj_kinematics(model, data)
    return float(np.linalg.norm(data.site("tip").xpos - [2, 0, -0.5]))


def box():
    model, data = load(FREE_BOX)
    return model, data, lm.attach(model, data)


def test_a_loop_is_closed():
    model, data = four_bar()
    native = 0.0
    for _ in range(1000):
        mujoco.mj_step(model, data)
        native = max(native, gap(model, data))
    model, data = four_bar()
    exact, largest = lm.attach(model, data), 0.0
    for _ in range(1000):
        exact.step()
        largest = max(largest, gap(model, data))
    print(f"gap of the loop: MuJoCo {native:.1e} m, linchpin {largest:.1e} m")
    assert native > 1e-4 and largest < 1e-12
    assert exact.gap < 1e-12 and data.time == pytest.approx(2) and exact.t == pytest.approx(2)
    assert "1 exact constraint" in exact.summary() and not exact.native() and not exact.check()


def test_model_and_data_are_those_of_the_program():
    model, data = four_bar()
    qpos, qvel, acceleration = data.qpos, data.qvel, data.qacc
    start = qpos.copy()
    exact = lm.attach(model, data)
    exact.step(10)
    assert exact.model is model and exact.data is data
    assert qpos is not start and np.abs(qpos - start).max() > 1e-4 and np.abs(qvel).max() > 1e-3
    assert acceleration.ctypes.data == data.qacc.ctypes.data and np.abs(acceleration).max() > 0.1
    data.qvel[:] = 0  # a change of the program acts in the next step
    exact.step()
    assert np.abs(data.qvel).max() < 0.1


def test_one_library_of_mujoco_is_loaded():
    code = """
import mujoco, linchpin.mujoco as lm
model = mujoco.MjModel.from_xml_string("<mujoco/>")
lm.attach(model, mujoco.MjData(model))
print(len({line.split()[-1] for line in open("/proc/self/maps") if "libmujoco" in line}))
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == "1"


def test_the_rest_of_linchpin_does_not_load_mujoco():
    code = "import sys, linchpin, linchpin.mujoco; assert 'mujoco' not in sys.modules and 'linchpin._mujoco' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_steps_are_the_same_one_by_one_and_together():
    results = []
    for step in (lambda exact: exact.step(200), lambda exact: [exact.step() for _ in range(200)]):
        model, data = four_bar()
        step(lm.attach(model, data))
        results.append(data.qpos.copy())
    np.testing.assert_array_equal(*results)


def test_without_equalities_a_step_is_that_of_mujoco():
    model, data = load(FREE_BOX)
    other = copy.copy(data)
    exact = lm.attach(model, data)
    exact.step(50)
    mujoco.mj_step(model, other, 50)
    np.testing.assert_array_equal(data.qpos, other.qpos)
    model, data = four_bar()
    assert lm.attach(model, data, equalities=False).native() == {}


def test_the_reaction_of_a_hanging_weight_is_its_weight():
    model, data = load(FREE_BOX.replace("</worldbody>", "</worldbody><equality><connect name='hang' site1='eye' site2='hook'/></equality>"))
    exact = lm.attach(model, data)
    exact.step(10)
    reaction = exact.reactions["hang"]
    np.testing.assert_allclose(reaction.force, [0, 0, 2 * 9.81], atol=1e-10)
    np.testing.assert_allclose(reaction.force_b, [0, 0, -2 * 9.81], atol=1e-10)
    np.testing.assert_allclose(reaction.moment, 0, atol=1e-10)
    np.testing.assert_allclose(reaction.point, [0, 0, 2], atol=1e-12)
    np.testing.assert_allclose(data.efc_force[:3], reaction.force, atol=1e-9)
    assert reaction.gap < 1e-14 and reaction.determined and not reaction.native
    assert exact.reactions.array["force"].shape == (1, 3)


def test_a_constraint_by_equation_is_in_frames_of_mujoco():
    """A pendulum: the eye of the box, 1 m above its frame, keeps its distance from the hook."""
    model, data, exact = box()
    data.qpos[:3] = [1.5, 0, 1]
    exact.constrain("rope", "norm(eye.position - hook.position) = L", params={"L": 1.5}, eye=model.site("eye"), hook=model.site("hook"))
    exact.step(500)
    mujoco.mj_kinematics(model, data)
    assert np.linalg.norm(data.site("eye").xpos - data.site("hook").xpos) == pytest.approx(1.5, abs=1e-12)
    exact.remove("rope")
    exact.constrain("rope", "norm(box.point(0, 0, 1) - [0, 0, 2]) = 1.5", box="box")  # the same in other words
    exact.step(500)
    mujoco.mj_kinematics(model, data)
    assert np.linalg.norm(data.site("eye").xpos - [0, 0, 2]) == pytest.approx(1.5, abs=1e-12)
    exact.remove("rope")
    exact.constrain("slow", velocity="box.velocity.x = 0.1", box=1)
    exact.step()
    velocity = np.zeros(6)
    mujoco.mj_forward(model, data)
    mujoco.mj_objectVelocity(model, data, mujoco.mjtObj.mjOBJ_XBODY, 1, velocity, 0)
    assert velocity[3] == pytest.approx(0.1, abs=1e-12)
    sympy = pytest.importorskip("sympy")
    exact.remove("slow")
    height = float(data.body("box").xpos[1])
    exact.constrain("plane", sympy.Eq(linchpin.scene.Body("box").y, height), box=model.body("box"))
    exact.step(100)
    mujoco.mj_kinematics(model, data)
    assert data.body("box").xpos[1] == pytest.approx(height, abs=1e-12) and "plane" in exact.reactions


def test_a_frame_that_is_turned_and_beside_the_centre_of_mass():
    model, data = load("""<mujoco><worldbody><body name="b" pos="0.3 0.2 1" quat="0.7 0.1 0.5 -0.4"><freejoint/>
      <geom type="box" size="0.1 0.2 0.3" pos="0.2 0.1 -0.3" quat="0.4 0.2 0.1 0.9" mass="2"/>
      <geom type="sphere" size="0.1" pos="-0.2 0.3 0.1" mass="1"/>
      <site name="s" pos="0.4 0.1 0.2" quat="0.1 0.7 0.3 0.2"/></body></worldbody></mujoco>""")
    mujoco.mj_forward(model, data)
    exact = lm.attach(model, data)
    place = data.body("b").xpos + data.body("b").xmat.reshape(3, 3) @ [0.1, 0.2, 0.3]
    height = data.site("s").xmat.reshape(3, 3)[2, 2]
    exact.constrain("point", "b.point(0.1, 0.2, 0.3) = [x, y, z]", b="b", params=dict(zip("xyz", place)))
    exact.constrain("angle", "s.axis(0, 0, 1).z = height", s=model.site("s"), params={"height": height})
    exact.step(1)
    assert exact.counts["largest_correction"] < 1e-12  # the equations hold at the start: all frames are right
    exact.step(300)
    mujoco.mj_kinematics(model, data)
    np.testing.assert_allclose(data.body("b").xpos + data.body("b").xmat.reshape(3, 3) @ [0.1, 0.2, 0.3], place, atol=1e-12)
    assert data.site("s").xmat.reshape(3, 3)[2, 2] == pytest.approx(height, abs=1e-12)


def test_a_loop_is_closed_by_a_joint_of_the_program():
    for keys in ({"at": [2, 0, -0.5]}, {"at_a": [1, 0, 0], "at_b": [2, 0, -0.5]}):
        model, data = four_bar()
        exact = lm.attach(model, data, equalities=False)
        exact.close_loop("pin", "rocker", "world", **keys)
        data.eq_active[0] = 0
        exact.step(500)
        assert gap(model, data) < 1e-12
    model, data = four_bar()
    exact = lm.attach(model, data, equalities=False)
    data.eq_active[0] = 0
    exact.close_loop("pin", "rocker", 0, kind="hinge", at=[2, 0, -0.5], axis=[0, 1, 0])
    exact.step(500)
    assert gap(model, data) < 1e-12 and exact.rank().rank == 2 and exact.rank().rows == 5
    exact.remove("pin")
    exact.step(100)
    assert gap(model, data) > 1e-3


@pytest.mark.parametrize("kind", ["ball", "hinge", "universal", "cylindrical", "planar", "point_on_line", "point_on_plane", "rod"])
def test_every_kind_of_joint_holds(kind):
    model, data, exact = box()
    slope = [0.6, 0, 0.8]
    axis_b = [0, 1, 0] if kind == "universal" else slope
    exact.close_loop("joint", 0, "box", kind=kind, at_a=[0, 0, 2], at_b=[0, 0, 1], axis_a=slope, axis_b=axis_b, length=1)
    data.qvel[:] = [0.1, 0.2, 0, 0.3, -0.2, 0.4]
    if kind == "rod":
        data.qpos[0] = 1
    exact.step(200)
    assert exact.gap < 1e-12 and np.linalg.norm(exact.reactions["joint"].force) > 0.1


def test_a_rod_has_the_present_length_by_default():
    model, data, exact = box()
    data.qpos[:3] = [0.3, 0.2, 1.5]
    exact.close_loop("rod", 0, "box", kind="rod", at_a=[0, 0, 2], at_b=[0.1, 0, 0])
    exact.step(200)
    assert exact.counts["gap_corrections"] == 0 and exact.gap < 1e-12
    end = data.xpos[1] + data.xmat[1].reshape(3, 3) @ [0.1, 0, 0]
    assert np.linalg.norm(end - [0, 0, 2]) == pytest.approx(np.linalg.norm([0.4, 0.2, -0.5]), abs=1e-4)
    with pytest.raises(ValueError, match="at_a must be a vector of 3"):
        exact.close_loop("other", 0, "box", kind="rod", at_a=[0, 0])


def test_the_sensor_of_a_pendulum_is_the_closed_form():
    """A rod from rest: at the angle a below the horizontal, F along it is 5/2 m g sin a, and across m g cos a / 4."""
    model, data = load("""<mujoco><option timestep="1e-4"/><worldbody><body name="rod"><joint name="pin" axis="0 1 0"/>
      <geom type="capsule" fromto="0 0 0 1 0 0" size="0.05" mass="1"/></body></worldbody></mujoco>""")
    exact = lm.attach(model, data)
    exact.step(2000)
    angle, rate = data.qpos[0], data.qvel[0]
    exact.law("pin", lm.laws.viscous_torque(0.0))
    exact.step()
    wrench = exact.joint_wrench("pin")
    along, across = np.array([math.cos(angle), 0, -math.sin(angle)]), np.array([math.sin(angle), 0, math.cos(angle)])
    assert wrench.force @ along == pytest.approx(-(9.81 * math.sin(angle) + 0.5 * rate**2), abs=1e-9)
    inertia = model.body_inertia[1][1] if model.body_iquat[1][0] == 1 else np.sort(model.body_inertia[1])[1]
    assert wrench.force @ across == pytest.approx(9.81 * math.cos(angle) * (1 - 0.25 / (inertia + 0.25)), abs=1e-9)
    np.testing.assert_allclose(wrench.moment[1], 0, atol=1e-9)
    forces = exact.joint_forces(model.joint("pin"))
    assert forces["gravity"][0] == pytest.approx(9.81 * 0.5 * math.cos(angle), abs=1e-9)
    assert forces["native"][0] == pytest.approx(0, abs=1e-12)


def test_laws_act_on_joints_and_constraints():
    model, data = four_bar()
    exact = lm.attach(model, data)
    start = exact.energy
    exact.law("knee", lm.laws.viscous_torque(0.5))
    exact.law(model.joint("elbow"), lambda n: (np.zeros(3), -0.5 * n.spin_velocity))
    exact.step(1000)
    assert exact.energy < start - 1 and exact.gap < 1e-12
    assert exact.joint_forces("knee")["laws"][0] * data.qvel[2] <= 0
    model, data, exact = box()
    data.qpos[2] = 0
    exact.constrain("floor", "box.z = 0", box="box", application_points={"box": [0, 0, -0.3]})
    data.qvel[0] = 1
    exact.law("floor", lambda n: -0.2 * n.magnitude * n.slip_direction(1e-3))
    exact.step(100)
    assert data.qvel[0] == pytest.approx(1 - 0.2 * 9.81 * 0.1, abs=1e-3)
    for bad in (3, None, "friction"):
        with pytest.raises(TypeError, match="law must be"):
            exact.law("floor", bad)
    with pytest.raises(ValueError, match="no constraint and no joint 'flor'; did you mean 'floor'"):
        exact.law("flor", lm.laws.viscous(1))


def test_friction_of_a_pin_depends_on_its_load():
    """A hanging weight of 2 kg turns about a pin: the moment of friction is mu r m g."""
    model, data = load("""<mujoco><option timestep="0.001"/><worldbody><body name="wheel"><joint name="pin" axis="0 1 0"/>
      <geom type="sphere" size="0.2" mass="2"/></body></worldbody></mujoco>""")
    exact = lm.attach(model, data)
    data.qvel[0] = 10
    exact.law("pin", lm.laws.hinge_friction(0.1, pin_radius=0.05))
    exact.step()
    assert exact.joint_forces("pin")["laws"][0] == pytest.approx(-0.1 * 0.05 * 2 * 9.81, abs=1e-9)
    data.xfrc_applied[1, 2] = -20
    exact.step()
    assert exact.joint_forces("pin")["laws"][0] == pytest.approx(-0.1 * 0.05 * (2 * 9.81 + 20), abs=1e-9)


@pytest.mark.parametrize("integrator", ["Euler", "implicitfast", "implicit"])
@pytest.mark.parametrize("armature, damping, kv", [(0, 0, 0), (0.3, 0, 0), (0, 3, 0), (0.1, 0.5, 2)])
def test_the_load_of_friction_is_that_of_the_step(integrator, armature, damping, kv):
    """Armature and damping that the integrator takes implicitly change the load of the first pin."""
    if kv and integrator == "Euler":
        pytest.skip("Euler takes the damping of an actuator explicitly, which is not stable here")
    bar = '<geom type="capsule" fromto="0 0 0 1 0 0" size="0.05" mass="1"/>'
    model, data = load(f"""<mujoco><option timestep="0.01" integrator="{integrator}"/><worldbody>
      <body name="upper"><joint name="pin" axis="0 1 0" armature="{armature}"/>{bar}
        <body pos="1 0 0"><joint name="second" axis="0 1 0" armature="{armature}" damping="{damping}"/>{bar}</body></body>
      </worldbody><actuator><position joint="second" kp="20" kv="{kv}"/></actuator></mujoco>""")
    exact = lm.attach(model, data)
    exact.law("pin", lm.laws.hinge_friction(0.2, pin_radius=0.01))
    data.qvel[:] = [1, 5]
    for _ in range(20):
        before = copy.copy(data)
        exact.step()
        mujoco.mj_fwdPosition(model, before)
        mujoco.mj_fwdVelocity(model, before)
        before.qacc[:] = data.qacc
        mujoco.mj_rnePostConstraint(model, before)  # MuJoCo's force through the joint, by the acceleration of the step
        force = before.body("upper").cfrc_int[3:]
        np.testing.assert_allclose(exact.joint_wrench("pin").force, force, atol=1e-9)
        np.testing.assert_allclose(exact.reactions["pin"].force_b, force, atol=1e-9)
        if abs(data.qvel[0]) > 1e-6:
            assert abs(exact.joint_forces("pin")["laws"][0]) == pytest.approx(0.002 * np.linalg.norm(force), abs=1e-9)


def test_a_pin_with_armature_sticks_and_slides():
    model, data = load("""<mujoco><option timestep="0.002"/><worldbody><body name="arm"><joint name="pin" axis="0 1 0" armature="1"/>
      <geom type="sphere" pos="0.1 0 0" size="0.1" mass="1"/></body></worldbody></mujoco>""")
    exact = lm.attach(model, data)
    exact.law("pin", lm.laws.hinge_friction(1, pin_radius=0.2))
    data.qvel[0] = 0.01
    exact.step()
    # I a = 0.1 m g − 0.2 m (g − 0.1 a), where I has the armature
    assert (data.qvel[0] - 0.01) / 0.002 == pytest.approx(-0.981 / (1 + 0.014 - 0.02), rel=1e-5)
    exact.step(100)  # the bound at rest is twice the moment of the weight
    angle = data.qpos[0]
    exact.step(100)
    assert abs(data.qvel[0]) < 1e-12 and data.qpos[0] == pytest.approx(angle, abs=1e-12)
    assert exact.joint_forces("pin")["laws"][0] == pytest.approx(-0.981 * math.cos(angle), abs=1e-9)


def test_momentum_is_balanced():
    model, data = four_bar()
    exact = lm.attach(model, data)
    exact.step(20)
    balances = exact.momentum_balances
    assert [each.body for each in balances] == ["crank", "coupler", "rocker"]
    for each in balances:
        assert isinstance(each, lm.MomentumBalance) and each.imbalance < 1e-9
        np.testing.assert_allclose(each.momentum, each.applied + each.native + each.constraints, atol=1e-12)
        assert each.applied[2] == pytest.approx(-9.81 * 0.002)


def test_redundant_constraints_are_named():
    """The joint about y leaves the loop in its plane, so that a ball joint has one row too many."""
    model, data = four_bar()
    exact = lm.attach(model, data)
    exact.step()
    rank = exact.rank()
    assert isinstance(rank, lm.Rank) and (rank.rows, rank.rank) == (3, 2)
    assert rank.redundant == ["loop"] and rank.contradictory == []
    exact.close_loop("again", "rocker", "world", at=[2, 0, -0.5])
    exact.step()
    rank = exact.rank()
    assert rank.rank == 2 and rank.rows == 6 and rank.undetermined == ["loop", "again"]
    assert not exact.reactions["again"].determined
    assert exact.counts["steps"] == 2


def test_a_fault_of_a_constraint_is_found():
    model, data = four_bar()
    exact = lm.attach(model, data)
    data.qpos[0] += 0.1
    (finding,) = exact.check()
    assert isinstance(finding, lm.Finding) and finding.constraint == "loop" and "residual" in finding.message


def test_an_equality_that_is_removed_goes_back_to_mujoco():
    model, data = four_bar()
    exact = lm.attach(model, data)
    exact.step(10)
    exact.remove("loop")
    exact.step(500)
    assert 1e-6 < gap(model, data) < 0.1 and "remove" in exact.native()["loop"]


def test_steps_of_mujoco_may_be_between():
    model, data = four_bar()
    exact = lm.attach(model, data)
    for _ in range(20):
        exact.step(10)
        mujoco.mj_step(model, data, 10)
    assert gap(model, data) > 1e-9
    exact.step()
    assert gap(model, data) < 1e-12 and data.time == pytest.approx(401 * 0.002)


def test_enabled_turns_it_off_and_on():
    model, data = four_bar()
    exact = lm.attach(model, data)
    exact.enabled = False
    assert not exact.enabled and "not enabled" in repr(exact)
    other = copy.copy(data)
    exact.step(500)
    mujoco.mj_step(model, other, 500)
    np.testing.assert_array_equal(data.qpos, other.qpos)
    assert gap(model, data) > 1e-6
    exact.enabled = True
    exact.step()
    assert gap(model, data) < 1e-9


def test_both_solvers_are_compared_from_one_state():
    model, data = four_bar()
    exact = lm.attach(model, data)
    calls = []
    comparison = exact.compare(300, calls.append)
    assert isinstance(comparison, lm.Comparison) and calls == [*range(300)] * 2
    assert comparison.native_gap.max() > 1e-5 and comparison.exact_gap.max() < 1e-12
    assert "300 steps" in repr(comparison) and exact.enabled and data.time == pytest.approx(0.6)
    assert len(exact.compare(0).exact_gap) == 0
    with pytest.raises(ValueError, match="number of steps is -1"):
        exact.compare(-1)


def test_a_reset_of_the_data_is_followed():
    model, data = four_bar()
    exact = lm.attach(model, data)
    start, results = data.qpos.copy(), []
    for _ in range(2):
        mujoco.mj_resetData(model, data)
        data.qpos[:] = start
        exact.reset()
        exact.step(100)
        results.append(data.qpos.copy())
        assert exact.counts["steps"] == 100
    np.testing.assert_array_equal(*results)


def test_the_attachment_keeps_model_and_data():
    model, data = four_bar()
    watched = weakref.ref(data) if hasattr(type(data), "__weakref__") else None
    exact = lm.attach(model, data)
    del model, data
    gc.collect()
    exact.step(100)
    assert exact.gap < 1e-12 and exact.data.time == pytest.approx(0.2)
    core = exact._core
    del exact
    gc.collect()
    core.step(10)
    assert core.energy() > -100
    del core
    gc.collect()
    assert watched is None or watched() is None


def memory():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def test_many_attachments_leak_nothing():
    peaks = []
    for i in range(400):
        model, data = four_bar()
        exact = lm.attach(model, data)
        exact.law("knee", lambda n: np.zeros(3))
        exact.constrain("speed", velocity="dot(b.omega, [0, 1, 0]) = 1", b="crank")
        exact.step(2)
        if i % 2:
            exact.detach()
        del exact, model, data
        if i in (150, 399):
            gc.collect()
            peaks.append(memory())
    assert peaks[1] - peaks[0] < 6, peaks


def test_it_ends_with_detach():
    model, data = four_bar()
    with lm.attach(model, data) as exact:
        exact.step()
    exact.detach()
    assert "detached" in repr(exact)
    for call in (exact.step, exact.reset, exact.summary, lambda: exact.reactions):
        with pytest.raises(linchpin.OrderError, match="detached"):
            call()
    mujoco.mj_step(model, data)
    lm.attach(model, data).step()


@pytest.mark.parametrize("law, why", [(lambda n: 1 / 0, "ZeroDivisionError: division by zero"), (lambda n: "abc", "returned force"),
                                      (lambda n: [np.nan, 0, 0], "law")])
def test_a_law_that_fails_is_an_error_of_its_step(law, why):
    model, data = four_bar()
    exact = lm.attach(model, data)
    exact.law("knee", law)
    with pytest.raises(RuntimeError, match=why):
        exact.step(5)
    assert data.time == pytest.approx(0.002) and np.isfinite(data.qpos).all()  # the step is complete, the next one is not begun
    with pytest.raises(RuntimeError, match=why):
        exact.step()
    assert exact.counts["law_failures"] == 2


def test_a_law_cannot_use_the_attachment():
    model, data = four_bar()
    exact = lm.attach(model, data)
    errors = []

    def law(n):
        for call in (exact.step, exact.detach, exact.reset, exact.summary, lambda: exact.reactions, lambda: exact.compare(1)):
            try:
                call()
            except linchpin.OrderError as error:
                errors.append(str(error))
        return np.zeros(3)

    exact.law("knee", law)
    exact.step()
    assert len(errors) >= 6 and all("step is running" in error for error in errors)
    exact.detach()


def test_callbacks_of_mujoco_act_as_before():
    model, data = four_bar()
    exact = lm.attach(model, data)
    seen = []

    def control(m, d):
        seen.append((m is model, d is data))
        d.qfrc_applied[0] = 3

    options = model.opt.jacobian, model.opt.disableflags
    mujoco.set_mjcb_control(control)
    try:
        exact.step(3)
    finally:
        mujoco.set_mjcb_control(None)
    assert seen == [(True, True)] * 3 and data.qfrc_applied[0] == 3 and exact.gap < 1e-12
    assert (model.opt.jacobian, model.opt.disableflags) == options


def test_a_callback_that_raises_ends_the_step():
    model, data = four_bar()
    exact = lm.attach(model, data)
    options = model.opt.jacobian, model.opt.disableflags

    def control(m, d):
        raise KeyError("no gain")

    mujoco.set_mjcb_control(control)
    try:
        for _ in range(3):
            with pytest.raises(KeyError, match="no gain"):
                exact.step(5)
    finally:
        mujoco.set_mjcb_control(None)
    assert (model.opt.jacobian, model.opt.disableflags) == options and data.time == 0
    exact.step(100)
    other, other_data = four_bar()
    lm.attach(other, other_data).step(100)
    np.testing.assert_array_equal(data.qpos, other_data.qpos)


def test_an_error_of_mujoco_is_raised():
    """Data that are too small for a step: MuJoCo would end the process."""
    body = '<body name="b{}" pos="0.1 0 0"><joint axis="0 1 0"/><geom size="0.1"/>'
    bodies = "".join(body.format(i) for i in range(30)) + "</body>" * 30
    model, data = load(f'<mujoco><size memory="8K"/><worldbody>{bodies}</worldbody></mujoco>')
    with pytest.raises(mujoco.FatalError, match="out of memory"):
        mujoco.mj_step(model, data)
    data = mujoco.MjData(model)
    exact = lm.attach(model, data)
    exact.constrain("height", "b.z = 0", b="b1")
    for _ in range(3):
        with pytest.raises(mujoco.FatalError, match="out of memory"):
            exact.step()


def test_two_threads_have_data_of_their_own():
    model, data = four_bar()
    attachments = [lm.attach(model, data), lm.attach(model, copy.copy(data))]
    threads = [threading.Thread(target=exact.step, args=(2000,)) for exact in attachments]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    np.testing.assert_array_equal(attachments[0].data.qpos, attachments[1].data.qpos)
    assert attachments[0].gap < 1e-12


def test_another_thread_is_refused_during_a_step():
    model, data = four_bar()
    exact = lm.attach(model, data)
    thread, refused = threading.Thread(target=exact.step, args=(20000,)), 0
    thread.start()
    while thread.is_alive() and data.time == 0:  # it has not begun
        time.sleep(1e-4)
    while thread.is_alive():
        try:
            exact.gap
        except RuntimeError as error:
            refused += "another thread" in str(error)
    thread.join()
    assert refused > 0 and exact.gap < 1e-12


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda e: e.step(-1), ValueError, "nstep is -1"),
        (lambda e: e.step(0.5), TypeError, "nstep must be a whole number"),
        (lambda e: e.constrain("r", "norm(b.position) = 1", b="crnk"), ValueError, "no body 'crnk'; did you mean 'crank'"),
        (lambda e: e.constrain("r", "norm(b.position) = 1", b=77), ValueError, "no body 77"),
        (lambda e: e.constrain("r", "norm(b.position) = 1", b=-1), ValueError, "no body -1"),
        (lambda e: e.constrain("r", "norm(b.position) = 1", b=0.5), TypeError, "must be a body"),
        (lambda e: e.constrain("r", "norm(b.position) = 1", b=True), TypeError, "must be a body"),
        (lambda e: e.constrain("r", "norm(a.position) = 1", b="crank"), ValueError, "unknown name|did you mean|'a'"),
        (lambda e: e.constrain("r", "norm(b.position) = 1"), ValueError, "names no body"),
        (lambda e: e.constrain("r", "norm(b.position - [1, 0, 0]) = 1", b="world"), ValueError, "none of its bodies can move"),
        (lambda e: e.constrain("r", b="crank"), ValueError, "either an equation or a velocity"),
        (lambda e: e.constrain("", "b.x = 1", b="crank"), TypeError, "name must be"),
        (lambda e: e.constrain("loop", "b.x = 1", b="crank"), ValueError, "name 'loop'"),
        (lambda e: e.constrain("r", 3, b="crank"), TypeError, "must be one text"),
        (lambda e: e.constrain("r", "b.x = L", b="crank", params={"L": math.nan}), ValueError, "L"),
        (lambda e: e.constrain("r", "b.x = L", b="crank", params={"L": "one"}), TypeError, "L"),
        (lambda e: e.constrain("r", "b.x = 1", b="crank", application_points={"c": [0, 0, 0]}), ValueError, "'c'"),
        (lambda e: e.constrain("r", "b.x = 1", b="crank", application_points={"b": [0, 0]}), ValueError, "vector of 3"),
        (lambda e: e.close_loop("c", "crank", "rocker", kind="glue"), ValueError, 'no joint "glue"'),
        (lambda e: e.close_loop("c", "crank", "rocker", at_a=[0, 0]), ValueError, "at_a must be a vector of 3"),
        (lambda e: e.close_loop("c", "crank", "rocker", at=[0, 0, math.inf]), ValueError, "at must be a vector of 3"),
        (lambda e: e.close_loop("c", "crank", "rocker", kind="hinge", axis="x"), ValueError, "axis must be a vector"),
        (lambda e: e.close_loop("c", "world", 0), ValueError, "same body"),
        (lambda e: e.joint_wrench("kne"), ValueError, "no joint 'kne'"),
        (lambda e: e.joint_wrench(3), TypeError, "name of a joint"),
        (lambda e: e.joint_forces("x"), ValueError, "no joint 'x'"),
        (lambda e: e.remove("rod"), ValueError, "rod"),
    ],
)
def test_refuses_bad_arguments(call, error, text):
    model, data = four_bar()
    exact = lm.attach(model, data)
    exact.step()
    with pytest.raises(error, match=text):
        call(exact)
    exact.step()
    assert exact.gap < 1e-12


def test_attach_refuses_what_is_no_model():
    model, data = four_bar()
    for bad in (None, "model.xml", data):
        with pytest.raises(TypeError, match="model must be a mujoco.MjModel"):
            lm.attach(bad, data)
    with pytest.raises(TypeError, match="data must be a mujoco.MjData"):
        lm.attach(model, model)
    with pytest.raises(ValueError, match="data belong to another model"):
        lm.attach(load(FREE_BOX)[0], data)
    with pytest.raises(ValueError, match="rank_tolerance|tolerance"):
        lm.attach(model, data, rank_tolerance=-1)
    with pytest.raises(TypeError, match="max_newton must be a whole number"):
        lm.attach(model, data, max_newton="many")
    with pytest.raises(TypeError, match="gap_tolerance must be a number"):
        lm.attach(model, data, gap_tolerance="small")
    model.opt.integrator = mujoco.mjtIntegrator.mjINT_RK4
    with pytest.raises(ValueError, match="RK4"):
        lm.attach(model, data)
    model.opt.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    exact = lm.attach(model, data, max_newton=20, drift_correction=True, max_energy_gain=math.inf)
    exact.step(10)
    model.opt.integrator = mujoco.mjtIntegrator.mjINT_RK4
    with pytest.raises(linchpin.OrderError, match="RK4"):
        exact.step()


def test_a_copy_of_the_model_has_the_same_data():
    model, data = four_bar()
    lm.attach(copy.copy(model), data).step(10)
    assert gap(model, data) < 1e-12


def test_another_version_of_mujoco_is_refused(monkeypatch):
    model, data = four_bar()
    monkeypatch.setattr(importlib.import_module("linchpin._mujoco_version"), "version", 338)
    with pytest.raises(RuntimeError, match=rf"built for MuJoCo 3\.3\.8, but the package mujoco is version {mujoco.__version__}"):
        lm.attach(model, data)


def test_a_build_without_mujoco_says_so(monkeypatch):
    model, data = four_bar()
    monkeypatch.setitem(sys.modules, "linchpin._mujoco_version", None)
    with pytest.raises(ImportError, match="linchpin was built without MuJoCo.*LINCHPIN_MUJOCO_ROOT"):
        lm.attach(model, data)
    monkeypatch.setitem(sys.modules, "mujoco", None)
    with pytest.raises(ImportError, match="needs the package mujoco: pip install mujoco"):
        lm.attach(model, data)


def test_a_robot_with_contacts_and_actuators_keeps_its_loop():
    """The linkage falls on a floor, driven by a motor. The contacts stay with MuJoCo."""
    xml = FOUR_BAR.replace(' contype="0" conaffinity="0"', "")
    xml = xml.replace("<worldbody>", '<worldbody><geom type="plane" size="5 5 1" pos="0 0 -0.8"/>', 1)
    xml = xml.replace("</mujoco>", '<actuator><motor joint="crank" ctrlrange="-9 9"/></actuator></mujoco>')
    model, data = load(xml)
    model.eq_data[0, 3:6] = [2, 0, -0.5]
    data.qpos[:] = closed(model)
    exact, contacts = lm.attach(model, data), 0
    for i in range(1000):
        data.ctrl[0] = 5 * math.sin(0.01 * i)
        exact.step()
        contacts += data.ncon > 0
        assert gap(model, data) < 1e-12
    assert contacts > 10 and np.isfinite(data.qvel).all()
    assert max(each.imbalance for each in exact.momentum_balances) < 1e-6
