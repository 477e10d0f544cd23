"""Small motions: frequencies in closed form, matrices against differences, and what is refused."""

import numpy as np
import pytest
from test_simulation import HOSTS, arm

import linchpin


def test_a_pendulum_at_rest(pendulum):
    about = linchpin.linearize(pendulum().simulate(), equilibrium=True)
    assert isinstance(about, linchpin.Linearization)
    assert about.displacements == about.velocities == 2 and about.A.shape == (4, 4)
    np.testing.assert_allclose(about.frequencies, np.sqrt(9.81), atol=1e-10)
    np.testing.assert_allclose(about.damping_ratios, 0, atol=1e-10)
    assert about.is_steady and about.unsteadiness < 1e-6 and about.stability == "marginal"
    assert np.all(about.errors < 1e-9) and about.error < 1e-10 and about.t == 0
    assert about.shapes.shape == about.velocity_shapes.shape == (4, 1, 6)
    np.testing.assert_allclose(about.velocity_shapes, about.eigenvalues[:, None, None] * about.shapes, atol=1e-9)
    np.testing.assert_array_equal(about.frame_angular_velocity, 0)
    assert repr(about) == "<Linearization of 4 coordinates, marginal>"


def test_the_published_eigenvalues_of_a_bicycle(scenes):
    about = linchpin.linearize(linchpin.load(scenes / "bicycle.toml"))
    found = np.sort_complex(about.eigenvalues[about.eigenvalues != 0])
    weave = -0.77534188219585 + 4.46486771378823j
    np.testing.assert_allclose(found, [-14.07838969279822, np.conj(weave), weave, -0.32286642900409], atol=1e-10)


@pytest.mark.parametrize("host", HOSTS)
def test_the_matrices_belong_to_the_joints(host):
    sim = arm(host=host)
    sim.run(0.1)
    about = linchpin.linearize(sim)
    assert set(about.coordinates) == set(sim.joints) and set(about.coordinate_units) <= {"rad", "m"}
    assert about.B.shape == (len(about.A), len(about.coordinates)) and about.C.shape == about.B.T.shape
    # A torque u accelerates the joints by C A B u, because positions follow velocities.
    response = about.C @ about.A @ about.B
    assert np.linalg.norm(response - response.T) < 1e-9 * np.linalg.norm(response)


def test_errors_name_the_cause(pendulum):
    with pytest.raises(TypeError, match="simulation must be a linchpin.Simulation"):
        linchpin.linearize(3)
    with pytest.raises((TypeError, ValueError), match="starts"):
        linchpin.linearize(pendulum().simulate(), equilibrium=True, starts=0)
    with pytest.raises(ValueError, match="starts is 1000000000. It must be at most 10000"):
        linchpin.linearize(pendulum().simulate(), equilibrium=True, starts=10**9)


def test_a_state_that_is_not_steady_says_so(pendulum):
    about = linchpin.linearize(pendulum().simulate())
    assert not about.is_steady and repr(about).endswith(", not about a steady motion>")
