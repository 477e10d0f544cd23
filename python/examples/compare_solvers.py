"""One mechanism on three hosts: the positions agree as far as the methods do, and linchpin holds the joints on all."""

import numpy as np

import linchpin

scene = linchpin.Scene(gravity=[0, 0, -9.81], dt=0.001)
for i in range(3):
    scene.body(f"rod{i}", mass=1, shape={"box": [1, 0.1, 0.1]}, position=[i + 0.5, 0, 0])
    scene.joint(f"hinge{i}", "hinge", a=f"rod{i - 1}" if i else "world", b=f"rod{i}", at=[i, 0, 0], axis=[0, 1, 0])
# %% The largest gap of a hinge, and the difference of the positions from those of the first host:
reference = None
for host in ("bare", "bullet-float64", "bullet"):
    sim = scene.simulate(host=host)
    sim.run(1)
    reference = sim.positions.copy() if reference is None else reference
    difference = np.abs(sim.positions - reference).max()
    print(f"{host:15} largest gap {sim.reactions.array['gap'].max():.1e} m, difference of positions {difference:.1e} m")
