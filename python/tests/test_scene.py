"""Scenes made in Python."""

import numpy as np
import pytest

import linchpin


def test_every_table_is_that_of_a_scene_file(tmp_path):
    scene = linchpin.Scene(gravity=[0, 0, -9.81], dt=0.002, duration="2*T", method="rk4", title="a \"test\"")
    scene.params(T=0.25, L=1.0)
    scene.definitions(height="cart.z")
    scene.solver(projection=2)
    cart = scene.body("cart", mass=2, shape={"box": np.array([1, 1, 1])}, velocity=(1, 0, 0))
    bob = scene.particle("bob", mass=np.float64(1), position=[0, 0, "-L"])
    scene.frame("hook", body=cart, position=[0, 0, 0])
    scene.joint("rail", "slider", b=cart, at=[0, 0, 0], axis=[1, 0, 0], law={"type": "viscous", "coefficient": 1})
    scene.constraint("rod", "norm(bob.position - cart.position) = L")
    scene.force("wind", body=bob, force=[0.1, 0, 0])
    scene.log("height", name="h")
    scene.table("log", channel="reaction(rod)")
    sim = scene.simulate()
    sim.run()
    assert sim.t == pytest.approx(0.5) and sim.channels()["h"] == pytest.approx(0, abs=1e-9)
    scene.save(tmp_path / "cart.toml")
    again = linchpin.load(tmp_path / "cart.toml")
    again.run()
    np.testing.assert_array_equal(again.positions, sim.positions)
    assert str(cart) == "cart" and "cart" in repr(cart)


def test_an_equation_of_sympy_is_an_equation():
    sympy = pytest.importorskip("sympy")
    t = sympy.Symbol("t")

    def motion(equation):
        scene = linchpin.Scene(dt=0.001)
        bob = scene.particle("bob", mass=1, position=[1, 0, 0])
        scene.constraint("c", equation(bob))
        sim = scene.simulate()
        sim.run(0.2)
        return np.array(sim.positions[0])

    expected = motion(lambda _: "bob.x^2/2 + sqrt(1 + bob.y^2) + abs(sin(bob.z + 1)) + 0.1*t = 1.5 + sin(1)")
    for equation in (
        lambda b: b.x**2 / 2 + sympy.sqrt(1 + b.y**2) + sympy.Abs(sympy.sin(b.z + 1)) + t / 10 - sympy.Rational(3, 2) - sympy.sin(1),
        lambda b: sympy.Eq(b.x**2 / 2 + sympy.sqrt(1 + b.y**2) + sympy.Abs(sympy.sin(b.z + 1)) + 0.1 * t, 1.5 + sympy.sin(1)),
    ):
        np.testing.assert_allclose(motion(equation), expected, atol=1e-12)


def test_laws_of_a_scene_are_tables_objects_or_functions(tmp_path):
    def slides(law):
        scene = linchpin.Scene(dt=0.001, gravity=[0, -10, 0])
        scene.particle("block", mass=1, velocity=[1, 0, 0])
        scene.constraint("floor", "block.y = 0", law=law)
        sim = scene.simulate()
        sim.run(0.1)
        return scene, sim.positions[0, 0]

    expected = 0.1 - 0.5 * 0.3 * 10 * 0.01
    for law in (
        {"type": "coulomb", "mu": 0.3},
        linchpin.laws.coulomb(0.3),
        lambda n: -0.3 * n.magnitude * n.slip_direction(),
    ):
        scene, x = slides(law)
        assert x == pytest.approx(expected, abs=2e-4)
    with pytest.raises(ValueError, match="'floor'.*objects of Python"):
        scene.save(tmp_path / "never.toml")


def test_a_robot_is_added_by_its_file(tmp_path):
    (tmp_path / "arm.urdf").write_text(
        """<robot name="arm"><link name="base"/>
        <joint name="hip" type="revolute"><parent link="base"/><child link="leg"/><axis xyz="0 1 0"/>
          <limit lower="-2" upper="2" effort="10" velocity="3"/></joint>
        <link name="leg"><inertial><origin xyz="0 0 -0.5"/><mass value="1"/>
          <inertia ixx="0.1" iyy="0.1" izz="0.01" ixy="0" ixz="0" iyz="0"/></inertial></link></robot>"""
    )
    scene = linchpin.Scene(gravity=[0, 0, -9.81], folder=tmp_path)
    scene.robot(urdf="arm.urdf", joints={"hip": 0.5})
    scene.actuator("hip", torque="2")
    sim = scene.simulate()
    hip = sim.joints["hip"]
    assert hip.position == pytest.approx(0.5) and hip.limits == (-2, 2) and hip.max_force == 10 and hip.max_rate == 3
    assert hip.force == pytest.approx(2)
    with pytest.raises(ValueError, match="either urdf or sdf"):
        scene.robot()


@pytest.mark.parametrize(
    "keys, error",
    [
        ({"mass": float("nan")}, ValueError),
        ({"mass": 2**70}, ValueError),
        ({"mass": object()}, TypeError),
        ({"mass": 1, "shape": {1: 2}}, TypeError),
        ({"mass": "\ud800"}, ValueError),
    ],
)
def test_refuses_values_that_no_file_holds(keys, error):
    scene = linchpin.Scene()
    scene.body("b", **keys)
    with pytest.raises(error):
        scene.to_toml()


def test_a_fault_has_the_place_in_the_text():
    scene = linchpin.Scene()
    scene.particle("bob", mass=1)
    scene.constraint("rod", "norm(bbo.position) = 1")
    with pytest.raises(linchpin.SceneError, match='did you mean "bob"'):
        scene.simulate()
    for bad in ({}, {"equation": "bob.x = 0", "velocity": "bob.vx = 0"}):
        with pytest.raises(ValueError, match="either an equation or a velocity"):
            scene.constraint("c", **bad)


@pytest.mark.parametrize("method", ["semi-implicit", "rk4", "adaptive", "adaptive8", "rattle", "rattle4"])
def test_every_method_of_the_signature_exists(method):
    scene = linchpin.Scene(method=method)
    scene.particle("bob", mass=1, position=[1, 0, 0])
    scene.constraint("rod", "norm(bob.position) = 1")
    sim = scene.simulate()
    sim.step(3)
    assert abs(np.linalg.norm(sim.positions[0]) - 1) < 1e-9
