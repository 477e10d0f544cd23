"""linchpin in PyBullet: loops, constraints by equation, sensors, laws, and everything that can happen to a client."""

import gc
import math
import os
import resource
import sys
import threading

import numpy as np
import pytest

p = pytest.importorskip("pybullet")
pybullet_data = pytest.importorskip("pybullet_data")

import linchpin  # noqa: E402
import linchpin.pybullet as lp  # noqa: E402


@pytest.fixture
def client():
    number = p.connect(p.DIRECT)
    p.setAdditionalSearchPath(pybullet_data.getDataPath(), physicsClientId=number)
    p.setGravity(0, 0, -9.81, physicsClientId=number)
    yield number
    if p.isConnected(number):
        p.disconnect(number)


def ball(client, position=(1, 0, 0), mass=1.0):
    shape = p.createCollisionShape(p.GEOM_SPHERE, radius=0.1, physicsClientId=client)
    return p.createMultiBody(mass, shape, basePosition=position, physicsClientId=client)


def link(client, count=1):
    """A chain of rods of 1 kg and 1 m on a fixed base, horizontal at the start."""
    shape = p.createCollisionShape(p.GEOM_BOX, halfExtents=[0.5, 0.05, 0.05], physicsClientId=client)
    body = p.createMultiBody(
        0,
        linkMasses=[1.0] * count,
        linkCollisionShapeIndices=[shape] * count,
        linkVisualShapeIndices=[-1] * count,
        linkPositions=[[0, 0, 0]] + [[1, 0, 0]] * (count - 1),
        linkOrientations=[[0, 0, 0, 1]] * count,
        linkInertialFramePositions=[[0.5, 0, 0]] * count,
        linkInertialFrameOrientations=[[0, 0, 0, 1]] * count,
        linkParentIndices=list(range(count)),
        linkJointTypes=[p.JOINT_REVOLUTE] * count,
        linkJointAxis=[[0, 1, 0]] * count,
        physicsClientId=client,
    )
    for joint in range(count):
        p.setJointMotorControl2(body, joint, p.VELOCITY_CONTROL, force=0, physicsClientId=client)
        p.changeDynamics(body, joint, linearDamping=0, angularDamping=0, jointDamping=0, physicsClientId=client)
    return body


def four_bar(client):
    """A chain of three rods whose end stays where it is. The loop is open at the start."""
    body = link(client, 3)
    p.createConstraint(body, 2, -1, -1, p.JOINT_POINT2POINT, [0, 0, 0], [0.5, 0, 0], [2.0, 0, 1.0], physicsClientId=client)
    p.resetJointState(body, 1, -math.pi / 3, physicsClientId=client)
    return body


def minitaur(client):
    """The minitaur of PyBullet's data on the ground. Its four loops are closed by stock constraints."""
    p.setGravity(0, 0, -10, physicsClientId=client)
    p.loadURDF("plane.urdf", physicsClientId=client)
    robot = p.loadURDF("quadruped/minitaur.urdf", [0, 0, 0.2], physicsClientId=client)
    joints = {
        p.getJointInfo(robot, i, physicsClientId=client)[1].decode(): i
        for i in range(p.getNumJoints(robot, physicsClientId=client))
    }
    legs = []
    for leg in ("front_left", "back_left", "front_right", "back_right"):
        sign = -1 if "left" in leg else 1
        for side in "LR":
            p.resetJointState(robot, joints[f"motor_{leg}{side}_joint"], sign * math.pi / 2, physicsClientId=client)
            p.resetJointState(robot, joints[f"knee_{leg}{side}_link"], sign * -2.1834, physicsClientId=client)
            p.setJointMotorControl2(
                robot, joints[f"knee_{leg}{side}_link"], p.VELOCITY_CONTROL, force=0, physicsClientId=client
            )
        legs.append((joints[f"knee_{leg}R_link"], joints[f"knee_{leg}L_link"], sign))
    return robot, joints, legs


RIGHT, LEFT = [0, 0.005, 0.2], [0, 0.01, 0.2]


def point(client, body, link, at):
    """A point of a link in the world, and the axes of the link. p.multiplyTransforms has single precision only."""
    state = p.getLinkState(body, link, computeForwardKinematics=1, physicsClientId=client)
    axes = np.array(p.getMatrixFromQuaternion(state[1])).reshape(3, 3)
    return np.array(state[0]) + axes @ np.array(at), axes


def gaps(client, robot, legs):
    """The largest distances of the two points of a loop: in the plane of the leg, and across it."""
    largest = np.zeros(2)
    for right, left, _ in legs:
        (a, axes), (b, _) = point(client, robot, right, RIGHT), point(client, robot, left, LEFT)
        x, y, z = axes.T @ (a - b)
        largest = np.maximum(largest, [math.hypot(x, z), abs(y)])
    return largest


def drive(client, robot, joints, t):
    for name, index in joints.items():
        if name.startswith("motor_"):
            sign = -1 if "left" in name else 1
            p.setJointMotorControl2(
                robot,
                index,
                p.POSITION_CONTROL,
                targetPosition=sign * math.pi / 2 + 0.3 * math.sin(4 * t + ("L_" in name)),
                positionGain=1,
                velocityGain=1,
                force=3.5,
                physicsClientId=client,
            )


def walk(client, seconds, exact=None):
    """Drives the minitaur. @return its largest gaps, from the time when the loops are closed: the file's pose is open"""
    robot, joints, legs = minitaur(client)
    for i, (right, left, _) in enumerate(legs):
        if exact:
            exact.close_loop(f"leg {i}", (robot, right), (robot, left), kind="point_on_line", at_a=RIGHT, at_b=LEFT,
                             axis_a=[0, 1, 0])
        else:
            p.createConstraint(robot, right, robot, left, p.JOINT_POINT2POINT, [0, 0, 0], RIGHT, LEFT,
                               physicsClientId=client)
    largest = np.zeros(2)
    for step in range(round(seconds * 240)):
        drive(client, robot, joints, step / 240)
        p.stepSimulation(physicsClientId=client)
        if step > 60:
            largest = np.maximum(largest, gaps(client, robot, legs))
    height = p.getBasePositionAndOrientation(robot, physicsClientId=client)[0][2]
    assert 0.02 < height < 0.3
    return largest


def test_loops_of_the_minitaur_are_closed(client):
    native = p.connect(p.DIRECT)
    p.setAdditionalSearchPath(pybullet_data.getDataPath(), physicsClientId=native)
    in_plane, _ = walk(native, 4)
    p.disconnect(native)
    exact = lp.attach(client)
    exact_in_plane, across = walk(client, 20, exact)
    print(f"gap of the loops in their planes: PyBullet {in_plane:.1e} m, linchpin {exact_in_plane:.1e} m")
    # The file has the two points of a leg 7e-6 to 2e-5 m apart across its plane. No motion closes that.
    assert in_plane > 1e-5 and exact_in_plane < 1e-12 and across < 3e-5
    assert exact.gap < 1e-12 and "4 exact constraints" in exact.summary()


def test_stock_loops_of_the_minitaur_are_closed_as_far_as_its_file_allows(client):
    exact = lp.attach(client)
    in_plane, across = walk(client, 4)
    print(f"stock constraints: {in_plane:.1e} m in the plane, {across:.1e} m across")
    assert in_plane < 3e-5 and across < 3e-5 and "contradictory" in exact.summary()


def test_stock_constraints_are_exact_without_a_call(client):
    body = four_bar(client)
    exact = lp.attach(client)
    for _ in range(480):
        p.stepSimulation(physicsClientId=client)
    end, _ = point(client, body, 2, [0.5, 0, 0])
    assert np.linalg.norm((end - [2, 0, 1])[[0, 2]]) < 1e-9
    assert list(exact.reactions) and exact.gap < 1e-9


def test_a_rod_has_the_present_length_by_default(client):
    post, bob = ball(client, (0, 0, 0), mass=0), ball(client, (0.3, 0.4, 0))
    exact = lp.attach(client)
    exact.close_loop("rod", (post, -1), (bob, -1), kind="rod")
    for _ in range(100):
        p.stepSimulation(physicsClientId=client)
    position = np.array(p.getBasePositionAndOrientation(bob, physicsClientId=client)[0])
    assert np.linalg.norm(position) == pytest.approx(0.5, abs=1e-12)


def test_a_constraint_by_equation_holds_and_has_a_reaction(client):
    bob = ball(client)
    exact = lp.attach(client)
    exact.constrain("rod", "norm(bob.position) = L", bob=(bob, -1), params={"L": 1.0})
    for _ in range(240):
        p.stepSimulation(physicsClientId=client)
    position = np.array(p.getBasePositionAndOrientation(bob, physicsClientId=client)[0])
    assert abs(np.linalg.norm(position) - 1) < 1e-12
    assert exact.reactions["rod"].force[2] > 0 and exact.reactions["rod"].residual < 1e-12
    exact.remove("rod")
    p.stepSimulation(physicsClientId=client)
    assert "rod" not in exact.reactions
    exact.constrain("slow", velocity="bob.velocity.x = 0.1", bob=(bob, -1))
    p.stepSimulation(physicsClientId=client)
    assert p.getBaseVelocity(bob, physicsClientId=client)[0][0] == pytest.approx(0.1, abs=1e-12)
    sympy = pytest.importorskip("sympy")
    exact.remove("slow")
    here = p.getBasePositionAndOrientation(bob, physicsClientId=client)[0][1]
    exact.constrain("plane", sympy.Eq(linchpin.scene.Body("bob").y, here), bob=(bob, -1))
    p.stepSimulation(physicsClientId=client)


def test_the_sensor_of_a_pendulum_is_the_closed_form(client):
    """A rod from rest: at the angle a below the horizontal, F along it is 5/2 m g sin a, and across m g cos a / 4."""
    body = link(client)
    exact = lp.attach(client)
    p.setTimeStep(1e-4, physicsClientId=client)
    for _ in range(2000):
        p.stepSimulation(physicsClientId=client)
    state = p.getJointState(body, 0, physicsClientId=client)
    before = p.saveState(physicsClientId=client)
    angle, rate = state[0], state[1]
    p.stepSimulation(physicsClientId=client)
    del before
    wrench = exact.joint_wrench(body, 0)
    along, across = np.array([math.cos(angle), 0, -math.sin(angle)]), np.array([math.sin(angle), 0, math.cos(angle)])
    # The rate is that of the step, not that of the angle: the time integration has an error.
    assert wrench.force @ along == pytest.approx(-(9.81 * math.sin(angle) + 0.5 * rate**2), abs=1e-9)
    inertia = p.getDynamicsInfo(body, 0, physicsClientId=client)[2][1] + 0.25
    assert wrench.force @ across == pytest.approx(9.81 * math.cos(angle) * (1 - 0.25 / inertia), abs=1e-9)
    np.testing.assert_allclose(wrench.moment[1], 0, atol=1e-9)
    forces = exact.joint_forces(body, 0)
    assert forces["native"][0] == pytest.approx(0, abs=1e-12) and forces["gravity"][0] != 0
    assert rate != 0


def test_laws_act_on_joints_and_constraints(client):
    body = link(client)
    exact = lp.attach(client)
    exact.law((body, 0), lp.laws.viscous_torque(0.5))
    for _ in range(480):
        p.stepSimulation(physicsClientId=client)
    damped = exact.energy
    p.resetJointState(body, 0, 0, physicsClientId=client)
    exact.reset()
    bob = ball(client, (3, 0, 0))
    exact.constrain("floor", "bob.z = 0", bob=(bob, -1), application_points={"bob": [0, 0, 0]})
    p.resetBaseVelocity(bob, [1, 0, 0], physicsClientId=client)
    exact.law("floor", lambda n: -0.2 * n.magnitude * n.slip_direction(1e-3))
    for _ in range(24):
        p.stepSimulation(physicsClientId=client)
    assert p.getBaseVelocity(bob, physicsClientId=client)[0][0] == pytest.approx(1 - 0.2 * 9.81 * 0.1, abs=0.02)
    assert damped < -1
    for bad in (3, None, "friction"):
        with pytest.raises(TypeError, match="law must be"):
            exact.law((body, 0), bad)
    with pytest.raises(ValueError, match="floor"):
        exact.law("flor", lp.laws.viscous(1))


def test_enabled_turns_it_off_and_on(client):
    body = four_bar(client)

    def gap():
        end, _ = point(client, body, 2, [0.5, 0, 0])
        return np.linalg.norm(end - [2, 0, 1])

    exact = lp.attach(client)
    exact.enabled = False
    assert not exact.enabled
    for _ in range(480):
        p.stepSimulation(physicsClientId=client)
    assert gap() > 1e-7  # PyBullet's own
    exact.enabled = True
    for _ in range(24):
        p.stepSimulation(physicsClientId=client)
    assert gap() < 1e-9 and exact.gap < 1e-9


def test_a_reset_of_the_simulation_is_followed(client):
    exact = lp.attach(client)
    for _ in range(3):
        p.resetSimulation(physicsClientId=client)
        p.setGravity(0, 0, -9.81, physicsClientId=client)
        bob = ball(client)
        exact.constrain("rod", "norm(bob.position) = 1", bob=(bob, -1))
        for _ in range(10):
            p.stepSimulation(physicsClientId=client)
        assert exact.reactions["rod"].residual < 1e-12


def memory():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def test_a_thousand_resets_leak_nothing(client):
    exact = lp.attach(client)
    peaks = []
    for i in range(1000):
        p.resetSimulation(physicsClientId=client)
        bob = ball(client)
        exact.constrain("rod", "norm(bob.position) = 1", bob=(bob, -1))
        p.stepSimulation(physicsClientId=client)
        if i in (200, 999):
            peaks.append(memory())
    assert peaks[1] - peaks[0] < 4, peaks


def test_two_hundred_attachments_leak_nothing(client):
    ball(client)
    peaks = []
    for i in range(200):
        exact = lp.attach(client)
        p.stepSimulation(physicsClientId=client)
        exact.detach()
        exact.detach()
        p.stepSimulation(physicsClientId=client)
        if i in (50, 199):
            peaks.append(memory())
    assert peaks[1] - peaks[0] < 4, peaks
    assert "detached" in repr(exact)
    with pytest.raises(linchpin.OrderError):
        exact.gap


def test_states_are_saved_and_restored(client):
    bob = ball(client)
    exact = lp.attach(client)
    exact.constrain("rod", "norm(bob.position) = 1", bob=(bob, -1))
    state = p.saveState(physicsClientId=client)
    results = []
    for _ in range(2):
        p.restoreState(state, physicsClientId=client)
        exact.reset()
        for _ in range(100):
            p.stepSimulation(physicsClientId=client)
        results.append(p.getBasePositionAndOrientation(bob, physicsClientId=client))
    assert results[0] == results[1]


def test_two_clients_are_independent():
    clients = [p.connect(p.DIRECT) for _ in range(2)]
    attachments = []
    for number, length in zip(clients, (1, 2)):
        p.setGravity(0, 0, -9.81, physicsClientId=number)
        bob = ball(number, (length, 0, 0))
        exact = lp.attach(number)
        exact.constrain("rod", f"norm(bob.position) = {length}", bob=(bob, -1))
        attachments.append((exact, bob, length))
    for _ in range(50):
        for number in clients:
            p.stepSimulation(physicsClientId=number)
    for number, (exact, bob, length) in zip(clients, attachments):
        position = p.getBasePositionAndOrientation(bob, physicsClientId=number)[0]
        assert abs(np.linalg.norm(position) - length) < 1e-12
    p.disconnect(clients[0])
    attachments[1][0].check()
    with pytest.raises(linchpin.OrderError, match="disconnected"):
        attachments[0][0].gap
    del attachments
    gc.collect()
    p.disconnect(clients[1])


@pytest.mark.parametrize("order", ["attachment first", "client first", "reset first"])
def test_the_end_comes_in_any_order(order):
    number = p.connect(p.DIRECT)
    bob = ball(number)
    exact = lp.attach(number)
    exact.constrain("rod", "norm(bob.position) = 1", bob=(bob, -1))
    p.stepSimulation(physicsClientId=number)
    if order == "attachment first":
        del exact
    elif order == "reset first":
        p.resetSimulation(physicsClientId=number)
        exact.detach()
    gc.collect()
    p.disconnect(number)


def test_a_body_that_is_removed_takes_its_constraints_along(client):
    bob, other = ball(client), ball(client, (0, 2, 0))
    exact = lp.attach(client)
    exact.constrain("rod", "norm(bob.position) = 1", bob=(bob, -1))
    exact.constrain("bar", "norm(other.position) = 2", other=(other, -1))
    p.stepSimulation(physicsClientId=client)
    p.removeBody(bob, physicsClientId=client)
    for _ in range(10):
        p.stepSimulation(physicsClientId=client)
    assert list(exact.reactions) == ["bar"]


def test_another_solver_of_pybullet_is_reported(client, capfd):
    exact = lp.attach(client)
    ball(client)
    p.setPhysicsEngineParameter(constraintSolverType=p.CONSTRAINT_SOLVER_LCP_DANTZIG, physicsClientId=client)
    p.stepSimulation(physicsClientId=client)
    with pytest.raises(RuntimeError, match="constraintSolverType"):
        exact.gap
    assert "PyBullet solves all constraints from here on" in capfd.readouterr().err
    p.stepSimulation(physicsClientId=client)


def test_soft_bodies_are_refused():
    number = p.connect(p.DIRECT)
    p.resetSimulation(p.RESET_USE_DEFORMABLE_WORLD, physicsClientId=number)
    with pytest.raises(RuntimeError, match="not supported"):
        lp.attach(number)
    p.disconnect(number)


def test_the_ten_most_used_calls_do_what_they_did(client):
    plain = p.connect(p.DIRECT)
    p.setAdditionalSearchPath(pybullet_data.getDataPath(), physicsClientId=plain)
    p.setGravity(0, 0, -9.81, physicsClientId=plain)
    exact = lp.attach(client)
    results = []
    for number in (plain, client):
        plane = p.loadURDF("plane.urdf", physicsClientId=number)
        robot = p.loadURDF("r2d2.urdf", [0, 0, 0.6], physicsClientId=number)
        p.setTimeStep(1 / 480, physicsClientId=number)
        p.resetJointState(robot, 2, 0.1, physicsClientId=number)
        p.resetBasePositionAndOrientation(robot, [0, 0, 0.7], [0, 0, 0, 1], physicsClientId=number)
        for step in range(200):
            p.setJointMotorControl2(robot, 3, p.VELOCITY_CONTROL, targetVelocity=2, force=10, physicsClientId=number)
            p.applyExternalForce(robot, -1, [1, 0, 0], [0, 0, 0], p.LINK_FRAME, physicsClientId=number)
            p.stepSimulation(physicsClientId=number)
        results.append(
            (
                p.getBasePositionAndOrientation(robot, physicsClientId=number),
                p.getBaseVelocity(robot, physicsClientId=number),
                p.getJointState(robot, 3, physicsClientId=number)[:2],
                p.getLinkState(robot, 5, physicsClientId=number)[:2],
                len(p.getContactPoints(robot, plane, physicsClientId=number)),
                p.rayTest([0, 0, 5], [0, 0, -5], physicsClientId=number)[0][0],
            )
        )
    assert results[0] == results[1]
    assert exact.enabled
    p.disconnect(plain)


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda e, b: e.constrain("r", "norm(bob.position) = 1", bob=(77, -1)), ValueError, "no body 77"),
        (lambda e, b: e.constrain("r", "norm(bob.position) = 1", bob=(b, 5)), ValueError, "no link 5"),
        (lambda e, b: e.constrain("r", "norm(bbo.position) = 1", bob=(b, -1)), ValueError, "did you mean"),
        (lambda e, b: e.constrain("r", "norm(bob.position) = 1", bob=b), TypeError, "pair of body and link"),
        (lambda e, b: e.constrain("r", "norm(bob.position) = 1", bob=(b, 0.5)), TypeError, "pair of body and link"),
        (lambda e, b: e.constrain("r", "norm(bob.position) = 1", bob="ab"), TypeError, "pair of body and link"),
        (lambda e, b: e.constrain("r", "norm(bob.position) = 1"), ValueError, "names no body"),
        (lambda e, b: e.constrain("r", bob=(b, -1)), ValueError, "either an equation or a velocity"),
        (lambda e, b: e.constrain("", "bob.x = 1", bob=(b, -1)), TypeError, "name must be"),
        (lambda e, b: e.constrain("r", 3, bob=(b, -1)), TypeError, "must be one text"),
        (lambda e, b: e.constrain("r", "bob.x = L", bob=(b, -1), params={"L": math.nan}), ValueError, "L"),
        (lambda e, b: e.constrain("r", "bob.x = L", bob=(b, -1), params={"L": "one"}), TypeError, "L"),
        (lambda e, b: e.close_loop("c", (b, -1), (b, -1), kind="glue"), ValueError, "no joint \"glue\""),
        (lambda e, b: e.close_loop("c", (b, -1), (b, -1), at_a=[0, 0]), ValueError, "at_a must be a vector of 3"),
        (lambda e, b: e.close_loop("c", (b, -1), (b, -1), at_a=[0, 0, math.inf]), ValueError, "at_a"),
        (lambda e, b: e.joint_wrench(b, 0), ValueError, "has no joint 0"),
        (lambda e, b: e.joint_wrench("x", 0), TypeError, "pair of body and link"),
        (lambda e, b: e.joint_forces(99, 0), ValueError, "no multibody 99"),
        (lambda e, b: e.remove("rod"), ValueError, "rod"),
    ],
)
def test_refuses_bad_arguments(client, call, error, text):
    bob = ball(client)
    exact = lp.attach(client)
    p.stepSimulation(physicsClientId=client)
    with pytest.raises(error, match=text):
        call(exact, bob)
    exact.check()
    p.stepSimulation(physicsClientId=client)


def test_attach_refuses_what_is_no_client(client, monkeypatch):
    for bad in ("0", None, 1.0, True):
        with pytest.raises(TypeError, match="id of a PyBullet client"):
            lp.attach(bad)
    with pytest.raises(RuntimeError, match="not connected"):
        lp.attach(client + 5)
    exact = lp.attach(client)
    with pytest.raises(RuntimeError, match="attached already|already has a linchpin"):
        lp.attach(client)
    exact.check()
    exact.detach()
    monkeypatch.setattr(lp, "_version", lambda: "2.0.0")
    with pytest.raises(RuntimeError, match="does not know PyBullet 2.0.0"):
        lp.attach(client)


def test_attach_takes_a_bullet_client():
    bullet_client = pytest.importorskip("pybullet_utils.bullet_client")
    connection = bullet_client.BulletClient(p.DIRECT)
    with lp.attach(connection) as exact:
        assert isinstance(exact, lp.Attachment) and exact.client == connection._client


def test_a_single_precision_host_works_beside_it(client):
    scene = linchpin.Scene()
    scene.particle("bob", mass=1, position=[1, 0, 0])
    scene.constraint("rod", "norm(bob.position) = 1")
    single = scene.simulate(host="bullet")
    bob = ball(client)
    exact = lp.attach(client)
    exact.constrain("rod", "norm(bob.position) = 1", bob=(bob, -1))
    double = scene.simulate(host="bullet-float64")
    for _ in range(50):
        single.step()
        double.step()
        p.stepSimulation(physicsClientId=client)
    assert np.abs(single.positions - double.positions).max() < 1e-4 and exact.reactions["rod"].residual < 1e-12
    assert sys.getrefcount(exact) == 2


def test_both_solvers_are_compared_from_one_state(client):
    body = four_bar(client)
    exact = lp.attach(client)
    for _ in range(10):  # close the loop
        p.stepSimulation(physicsClientId=client)
    calls = []
    comparison = exact.compare(120, calls.append)
    assert isinstance(comparison, lp.Comparison) and calls == [*range(120)] * 2
    assert comparison.native_gap.max() > 1e-5 and comparison.exact_gap.max() < 1e-9
    assert "120 steps" in repr(comparison) and exact.enabled
    again = exact.compare(0)
    assert len(again.exact_gap) == 0
    with pytest.raises(ValueError, match="number of steps is -1"):
        exact.compare(-1)


@pytest.mark.skipif("DISPLAY" not in os.environ, reason="a window needs a display: xvfb-run -a pytest")
def test_a_client_with_a_window_draws_as_before():
    number = p.connect(p.GUI)
    try:
        p.setGravity(0, 0, -9.81, physicsClientId=number)
        body = four_bar(number)
        exact = lp.attach(number)
        for _ in range(60):
            p.stepSimulation(physicsClientId=number)
        assert exact.gap < 1e-9
        picture = p.getCameraImage(160, 120, renderer=p.ER_BULLET_HARDWARE_OPENGL, physicsClientId=number)[2]
        assert np.asarray(picture).std() > 5
        with pytest.raises(ValueError, match="client with a window"):
            exact.law((body, 0), lambda n: [0, 0, 0])
        p.resetSimulation(physicsClientId=number)
        p.stepSimulation(physicsClientId=number)
        exact.detach()
        p.stepSimulation(physicsClientId=number)
    finally:
        p.disconnect(number)


def swinging(client):
    body = link(client)
    return body, lp.attach(client)


def test_a_law_cannot_use_the_attachment(client):
    body, exact = swinging(client)
    errors = []

    def law(n):
        for call in (exact.detach, exact.reset, exact.summary, lambda: exact.reactions, lambda: exact.compare(1)):
            try:
                call()
            except linchpin.OrderError as error:
                errors.append(str(error))
        return np.zeros(3)

    exact.law((body, 0), law)
    p.stepSimulation(physicsClientId=client)
    assert len(errors) >= 5 and all("step is running" in error for error in errors)
    exact.detach()


@pytest.mark.parametrize("law, why", [(lambda n: 1 / 0, "ZeroDivisionError"), (lambda n: "abc", "returned force"),
                                      (lambda n: [np.nan, 0, 0], "law")])
def test_a_law_that_fails_is_an_error(client, law, why):
    body, exact = swinging(client)
    exact.law((body, 0), law)
    p.stepSimulation(physicsClientId=client)
    with pytest.raises(RuntimeError, match=why):
        exact.check()
    with pytest.raises(RuntimeError, match=why):
        exact.summary()
    p.stepSimulation(physicsClientId=client)


def test_two_threads_do_not_wait_for_each_other(client):
    body, exact = swinging(client)
    exact.law((body, 0), lambda n: np.zeros(3))

    def work():
        for _ in range(300):
            p.stepSimulation(physicsClientId=client)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    reads = 0
    while thread.is_alive():
        exact.reactions, exact.summary()
        reads += 1
    thread.join(60)
    assert not thread.is_alive() and reads > 0


def test_a_comparison_and_a_restored_state_keep_the_time(client):
    bob = ball(client)
    exact = lp.attach(client)
    exact.constrain("rod", "norm(bob.position) = 1 + 0.1*sin(3*t)", bob=(bob, -1))
    for _ in range(60):
        p.stepSimulation(physicsClientId=client)
    assert exact.t == pytest.approx(0.25)
    state = p.saveState(physicsClientId=client)
    exact.compare(30)
    length = np.linalg.norm(p.getBasePositionAndOrientation(bob, physicsClientId=client)[0])
    assert exact.t == pytest.approx(0.375) and length == pytest.approx(1 + 0.1 * math.sin(3 * 0.375), abs=1e-9)
    p.restoreState(state, physicsClientId=client)
    exact.reset(0.25)
    p.stepSimulation(physicsClientId=client)
    length = np.linalg.norm(p.getBasePositionAndOrientation(bob, physicsClientId=client)[0])
    assert length == pytest.approx(1 + 0.1 * math.sin(3 * exact.t), abs=1e-9)


def test_an_attachment_without_a_client_is_refused():
    from linchpin import _pybullet

    with pytest.raises(linchpin.OrderError, match="no PyBullet client"):
        _pybullet.Attachment().summary()
