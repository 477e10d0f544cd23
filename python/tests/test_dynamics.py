"""Mass matrix, Jacobians and operational space against finite differences and closed forms."""

import numpy as np
import pytest

import linchpin

from test_simulation import arm


def dynamics():
    sim = arm()
    return sim, linchpin.Dynamics(sim.model)


def test_the_equation_of_motion_is_that_of_the_simulation():
    sim, d = dynamics()
    rng = np.random.default_rng(3)
    for _ in range(5):
        q, v = rng.uniform(-1, 1, 2), rng.normal(size=2)
        for name, position, rate in zip(sim.joints, q, v):
            sim.joints[name].position, sim.joints[name].velocity = position, rate
        for name, position, rate in zip(sim.joints, q, v):
            sim.joints[name].velocity = rate
        d.set_state(sim.q, sim.v)
        a = np.array([joint.acceleration for joint in sim.joints.values()])
        M, h, g = d.mass_matrix(), d.bias_force(), d.gravity_force()
        np.testing.assert_allclose(M @ a + h - g, 0, atol=1e-9)
        np.testing.assert_allclose(d.inverse_dynamics(a), 0, atol=1e-9)
        np.testing.assert_allclose(d.forward_dynamics(np.zeros(2))["acceleration"], a, atol=1e-9)
        np.testing.assert_allclose(d.inverse_mass_matrix() @ M, np.eye(2), atol=1e-9)
        assert d.momentum()["kinetic_energy"] == pytest.approx(0.5 * sim.v @ M @ sim.v)


def test_jacobians_are_derivatives_of_poses():
    _, d = dynamics()
    q, v, step = np.array([0.3, -0.7]), np.array([1.0, 2.0]), 1e-6
    d.set_state(q, v)
    J, rate = d.jacobian("lower"), d.jacobian_rate_times_v("lower")
    np.testing.assert_allclose(J @ v, d.velocity("lower"), atol=1e-12)
    ahead, behind = linchpin.Dynamics(arm().model), linchpin.Dynamics(arm().model)
    ahead.set_state(q + step * v, v)
    behind.set_state(q - step * v, v)
    np.testing.assert_allclose((ahead.pose("lower")[0] - behind.pose("lower")[0]) / (2 * step), (J @ v)[:3], atol=1e-8)
    np.testing.assert_allclose((ahead.velocity("lower") - behind.velocity("lower")) / (2 * step), rate, atol=1e-7)
    assert d.pose("elbow")[1].shape == (3, 3)
    space = d.operational_space("lower")
    assert space["rank"] == 2 and space["inertia"].shape == (6, 6) and space["jacobian_inverse"].shape == (2, 6)
    assert d.positions == d.velocities == 2 and [j["name"] for j in d.joints] == ["shoulder", "elbow"]
    assert d.joints[1]["kind"] == "hinge" and q[d.joints[1]["positions"]] == q[1]
    assert d.t == 0 and np.array_equal(d.q, q) and np.array_equal(d.v, v) and d.constraint_names() == []


def test_refuses_bad_arguments():
    _, d = dynamics()
    with pytest.raises(ValueError, match="q must be a vector of 2 numbers"):
        d.set_state([0.0], [0.0, 0.0])
    with pytest.raises(ValueError, match="must be finite"):
        d.set_state([0.0, np.nan], [0.0, 0.0])
    with pytest.raises(ValueError):
        d.jacobian("hand")
    with pytest.raises(TypeError):
        d.set_state("ab", [0, 0])
    with pytest.raises(ValueError):
        linchpin.Dynamics(arm().model, body="hand")
    with pytest.raises(TypeError, match="model must be the model of a simulation, such as sim.model, not 3"):
        linchpin.Dynamics(3)
    with pytest.raises(TypeError, match="without must be a list of names of constraints, not 'loop'"):
        linchpin.Dynamics(arm().model, without="loop")
    with pytest.raises(TypeError, match=r"pose\(\): frame must be a text, not None"):
        d.pose(None)
    with pytest.raises(TypeError, match=r"jacobian\(\): missing a required argument: 'frame'"):
        d.jacobian()
    with pytest.raises(TypeError, match=r"set_state\(\): t must be a number, not 'now'"):
        d.set_state([0, 0], [0, 0], "now")
