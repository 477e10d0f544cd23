"""A force law as a Python function, and its parameter fitted to a measured motion."""

import numpy as np

import linchpin


def swing(mu: float) -> np.ndarray:
    """The angle of a pendulum whose pin of 1 cm has friction in proportion to the load, every 0.1 s."""

    def pin_friction(n: linchpin.ConstraintReaction):
        speed = np.linalg.norm(n.spin_velocity)
        return np.zeros(3), -mu * 0.01 * n.magnitude * n.spin_velocity / np.hypot(speed, 1e-3)

    scene = linchpin.Scene(gravity=[0, 0, -9.81], dt=0.005)
    scene.body("rod", mass=1, shape={"box": [1, 0.1, 0.1]}, position=[0.5, 0, 0])
    scene.joint("pin", "hinge", b="rod", at=[0, 0, 0], axis=[0, 1, 0], law=pin_friction)
    return scene.simulate().record(2, every=20)["q.pin"]


# %% The measured motion, and the largest error of the angle for each candidate:
measured = swing(0.31)
candidates = np.linspace(0.1, 0.5, 9)
errors = [np.abs(swing(mu) - measured).max() for mu in candidates]
for mu, error in zip(candidates, errors):
    print(f"mu = {mu:.2f}: largest error {error:.4f} rad  {'#' * round(2000 * error)}")
# %% The error as a curve. A fit by eye needs no more than its lowest point:
if "get_ipython" in globals():
    import matplotlib.pyplot as plt

    plt.plot(candidates, errors, "o-")
    plt.xlabel("coefficient of friction mu")
    plt.ylabel("largest error [rad]")
    plt.show()
print(f"best: mu = {candidates[int(np.argmin(errors))]:.2f}")
