"""Friction in proportion to the normal force: a bead that slides down a rough circle, beside the closed form."""

import math

import linchpin

mu, radius, g = 0.2, 1.0, 9.81
scene = linchpin.Scene(gravity=[0, -g, 0], dt=1e-4, method="rk4")
scene.particle("bead", mass=1, position=[radius, 0, 0])
scene.constraint("circle", "norm(bead.position) = 1", law=linchpin.laws.coulomb(mu))
scene.constraint("plane", "bead.z = 0")
sim = scene.simulate()


def speed_squared(angle: float) -> float:
    """v² at an angle below the horizontal, from rest: the solution of d(v²)/da = 2 g r cos a - 2 mu (v² + g r sin a)."""
    k = 2 * g * radius / (1 + 4 * mu**2)
    particular = k * ((1 - 2 * mu**2) * math.sin(angle) + 3 * mu * math.cos(angle))
    return particular - k * 3 * mu * math.exp(-2 * mu * angle)


# %% The speed beside the closed form:
angles, squares = [], []
for _ in range(4):
    sim.run(0.15)
    x, y, _z = sim.positions[0]
    v = float((sim.velocities[0] ** 2).sum())
    angles.append(math.atan2(-y, x))
    squares.append(v)
    print(f"t = {sim.t:.2f} s: v² = {v:.6f} m²/s², closed form {speed_squared(angles[-1]):.6f} m²/s²")

# %% The same as a plot: points are the simulation, the line is the closed form.
if "get_ipython" in globals():
    import matplotlib.pyplot as plt

    curve = [angles[-1] * i / 100 for i in range(101)]
    plt.plot(curve, [speed_squared(angle) for angle in curve], label="closed form")
    plt.plot(angles, squares, "o", label="simulation")
    plt.xlabel("angle below the horizontal [rad]")
    plt.ylabel("v² [m²/s²]")
    plt.legend()
    plt.show()
