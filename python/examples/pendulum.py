"""A pendulum in five minutes: its motion, and the force in its rod beside the closed form."""

import numpy as np

import linchpin

scene = linchpin.Scene(dt=0.001, method="rk4")
scene.particle("bob", mass=2, position=[1, 0, 0])
scene.constraint("rod", "norm(bob.position) = 1")
sim = scene.simulate()
for _ in range(5):
    sim.run(0.1)
    depth = -sim.positions[0, 1]
    tension = np.linalg.norm(sim.reactions["rod"].force)
    print(f"t = {sim.t:.1f} s: tension {tension:.9f} N, closed form 3 m g h = {3 * 2 * 9.81 * depth:.9f} N")
