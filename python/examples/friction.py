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


for _ in range(4):
    sim.run(0.15)
    x, y, _z = sim.positions[0]
    v = float((sim.velocities[0] ** 2).sum())
    print(f"t = {sim.t:.2f} s: v² = {v:.6f} m²/s², closed form {speed_squared(math.atan2(-y, x)):.6f} m²/s²")
