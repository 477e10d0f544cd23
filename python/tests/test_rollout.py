"""States, and many motions of one model."""

import numpy as np
import pytest
from test_simulation import HOSTS, arm

import linchpin


@pytest.mark.parametrize("host", HOSTS)
def test_a_state_is_restored_and_the_motion_repeats(host):
    sim = arm(host=host)
    sim.joints["shoulder"].velocity = 3
    sim.run(0.2)
    there = sim.state()
    assert isinstance(there, linchpin.State) and there.t == pytest.approx(0.2)
    sim.run(0.1)
    end = sim.positions.copy()
    sim.set_state(there)
    assert sim.t == there.t
    np.testing.assert_allclose(sim.q, there.q, atol=1e-12 if host != "bullet" else 1e-6)
    sim.run(0.1)
    np.testing.assert_allclose(sim.positions, end, atol=1e-9 if host != "bullet" else 1e-4)


def test_a_state_is_a_copy_that_can_be_changed(pendulum):
    sim = pendulum().simulate()
    state = sim.state()
    state.velocities[0] = [0, -2, 0]
    assert sim.velocities[0, 1] == 0
    sim.set_state(state)
    np.testing.assert_allclose(sim.velocities[0], [0, -2, 0], atol=1e-12)


def test_whole_turns_are_restored():
    scene = linchpin.Scene(gravity=[0, 0, 0], dt=0.01)
    scene.body("wheel", mass=1, shape={"sphere": 1}, position=[0, 0, 0], omega=[0, 0, 5])
    scene.joint("axle", "hinge", b="wheel", at=[0, 0, 0], axis=[0, 0, 1])
    sim = scene.simulate()
    sim.run(4)
    there = sim.state()
    assert there.q[0] == pytest.approx(20)
    other = scene.simulate()
    other.set_state(there)
    assert other.q[0] == pytest.approx(20)


def test_wrong_states_are_refused(pendulum):
    sim = pendulum().simulate()
    with pytest.raises(TypeError, match="state must be a linchpin.State"):
        sim.set_state(1)
    state = sim.state()
    state.positions = np.zeros((2, 3))
    with pytest.raises(ValueError, match=r"positions must have 1×3 numbers, but it has the shape \(2, 3\)"):
        sim.set_state(state)
    state = sim.state()
    state.velocities[0, 1] = np.nan
    with pytest.raises(ValueError, match=r"velocities\[0, 1\] is nan"):
        sim.set_state(state)
    state = sim.state()
    state.orientations[0] = 0
    with pytest.raises(ValueError, match='body "bob".*unit quaternion'):
        sim.set_state(state)


@pytest.mark.parametrize("host", HOSTS)
def test_a_rollout_is_what_single_runs_are(host):
    sim = arm(host=host)
    q = np.linspace(-0.4, 0.4, 6)[:, None] * [1, 2]
    out = linchpin.rollout(sim, 50, q=q, v=np.full((6, 2), 0.5), every=10)
    assert isinstance(out, linchpin.Rollout) and len(out) == 6 and out.q.shape == (6, 6, 2)
    assert out.positions.shape == (6, 6, 2, 3) and out.orientations.shape == (6, 6, 2, 4)
    assert out.failures == [""] * 6
    for i in range(6):
        one = sim.again()
        for k, name in enumerate(one.joints):
            one.joints[name].position = q[i, k]
            one.joints[name].velocity = 0.5
        one.step(50)
        np.testing.assert_array_equal(out.q[i, -1], one.q)
        np.testing.assert_array_equal(out.velocities[i, -1], one.velocities)
        assert out.t[i, -1] == one.t
    assert sim.t == 0


def test_a_rollout_does_not_depend_on_the_number_of_threads():
    sim = linchpin.loads(
        "schema = 2\n[world]\ndt = 0.001\n[[body]]\nname = 'a'\nmass = 1\nkind = 'particle'\nposition = [1, 0, 0]\n"
        "[[constraint]]\nname = 'rod'\nequation = 'norm(a.position) = 1'\nlaw = { type = 'coulomb', mu = '0.1 + 0.01*a.x' }\n"
        "[[force]]\nname = 'wind'\nbody = 'a'\nforce = '[sin(t), a.x, 0]'\n"
    )
    states = []
    for i in range(16):
        state = sim.state()
        state.velocities[0] = [0, 0.1 * i, 0]
        states.append(state)
    one = linchpin.rollout(sim, 300, states=states, workers=1)
    for _ in range(3):
        many = linchpin.rollout(sim, 300, states=states, workers=4)
        np.testing.assert_array_equal(one.positions, many.positions)
        np.testing.assert_array_equal(one.angular_velocities, many.angular_velocities)


def test_forces_of_a_rollout_act_step_by_step():
    sim = arm()
    forces = np.zeros((3, 20, 2))
    forces[1] = [4, 1]
    forces[2, :10] = [4, 1]
    out = linchpin.rollout(sim, 20, q=np.zeros((3, 2)), forces=forces)
    assert out.v[1, -1, 0] != out.v[0, -1, 0]
    np.testing.assert_array_equal(out.v[1, :11], out.v[2, :11])
    assert (out.v[1, 11:] != out.v[2, 11:]).any()
    same = linchpin.rollout(sim, 20, q=np.zeros((3, 2)), forces=forces[1])
    np.testing.assert_array_equal(same.v[0], out.v[1])


def test_a_start_without_a_result_has_a_reason():
    sim = linchpin.loads(
        "schema = 2\n[world]\ndt = 0.01\n[[body]]\nname = 'a'\nmass = 1\nkind = 'particle'\nposition = [1, 0, 0]\n"
        "[[force]]\nname = 'odd'\nbody = 'a'\nforce = '[sqrt(a.x), 0, 0]'\n"
    )
    states = [sim.state(), sim.state()]
    states[1].velocities[0] = [-50, 0, 0]
    out = linchpin.rollout(sim, 20, states=states)
    assert out.failures[0] == "" and "odd" in out.failures[1]
    assert np.isfinite(out.positions[0]).all() and np.isnan(out.positions[1, -1]).all()
    assert "1 failed" in repr(out)


def test_wrong_rollouts_are_refused():
    sim = arm()
    with pytest.raises(ValueError, match="there are no starts"):
        linchpin.rollout(sim, 10)
    with pytest.raises(ValueError, match=r"q must have 3×2 numbers, but it has the shape \(3, 1\)"):
        linchpin.rollout(sim, 10, q=np.zeros((3, 1)))
    with pytest.raises(ValueError, match=r"forces\[0, 0, 1\] is inf|forces\[0, 1\] is inf"):
        linchpin.rollout(sim, 1, q=np.zeros((1, 2)), forces=[[0, np.inf]])
    with pytest.raises(ValueError, match="not by both"):
        linchpin.rollout(sim, 10, q=np.zeros((1, 2)), states=[sim.state()])
    with pytest.raises(ValueError, match="workers is 0"):
        linchpin.rollout(sim, 10, q=np.zeros((1, 2)), workers=0)
    with pytest.raises(TypeError, match="simulation must be"):
        linchpin.rollout("arm.toml", 10)
    assert linchpin.rollout(sim, 10, q=np.zeros((0, 2))).q.shape == (0, 1, 2)
