"""Many motions of one model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from os import cpu_count
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _core
from .names import whole
from .simulation import Simulation
from .state import State, numbers

__all__ = ["Rollout", "rollout"]

Vector = NDArray[np.float64]
Result = TypeVar("Result")


@dataclass(frozen=True)
class Rollout:
    """Motions of one model from many starts. The first row of a motion is its start.

    After a step without a result, all rows of a start are NaN, and its failure has the reason.
    """

    t: Vector
    """[starts, rows] Times [s]."""
    q: Vector
    """[starts, rows, joints] Positions of the joints [rad or m]."""
    v: Vector
    """[starts, rows, joints] Rates of the joints [rad/s or m/s]."""
    positions: Vector
    """[starts, rows, bodies, 3] Centres of mass in the world [m]."""
    orientations: Vector
    """[starts, rows, bodies, 4] Unit quaternions w, x, y, z from body axes to world axes."""
    velocities: Vector
    """[starts, rows, bodies, 3] Velocities of the centres of mass, world axes [m/s]."""
    angular_velocities: Vector
    """[starts, rows, bodies, 3] Angular velocities, world axes [rad/s]."""
    failures: list[str]
    """For each start, the reason of a step without a result. It is empty if all steps have a result."""

    def __len__(self) -> int:
        return len(self.t)

    def __repr__(self) -> str:
        failed = sum(map(bool, self.failures))
        return f"<Rollout of {len(self)} starts with {self.t.shape[1]} rows" + (f", {failed} failed>" if failed else ">")


def rollout(
    simulation: Simulation,
    steps: int,
    *,
    q: ArrayLike | None = None,
    v: ArrayLike | None = None,
    states: Sequence[State] | None = None,
    forces: ArrayLike | None = None,
    every: int = 1,
    workers: int | None = None,
) -> Rollout:
    """Takes steps of one model from many starts, on several threads.

    Each start has a simulation of its own, which begins with the start of the model. The results therefore depend neither
    on the number of threads nor on the state of `simulation`, which stays. A controller of `simulation` is not called.

    :param simulation: gives the model and the host.
    :param steps: number of steps of each start.
    :param q: [starts, joints] Start positions [rad or m]. NaN: as in the model, which is for joints of loops and for
        joints that mimic another.
    :param v: [starts, joints] Start rates [rad/s or m/s]. NaN: as in the model.
    :param states: starts, in place of `q` and `v`.
    :param forces: [steps, joints] or [starts, steps, joints] Forces of the motors in each step [N m or N].
    :param every: keeps the state after each `every`-th step.
    :param workers: number of threads. Default: the number of processors.
    """
    if not isinstance(simulation, Simulation):
        raise TypeError(f"rollout: simulation must be a linchpin.Simulation, not {simulation!r}")
    count = whole("rollout: the number of steps", steps, 0)
    every = whole("rollout: every", every, 1)
    joints = len(simulation.joints)
    if states is not None and (q is not None or v is not None):
        raise ValueError("rollout: give the starts by q and v or by states, not by both")
    if states is not None:
        starts = len(states)
    elif q is not None or v is not None:
        starts = int((np.shape(q if q is not None else v) or (0,))[0])  # type: ignore[arg-type]
    else:
        raise ValueError("rollout: there are no starts. Give q, v or states")
    unset = np.full((starts, joints), np.nan)
    q = unset if q is None else numbers("rollout", "q", q, (starts, joints), finite=False)
    v = unset if v is None else numbers("rollout", "v", v, (starts, joints), finite=False)
    drive: Vector | None = None
    if forces is not None:
        one = np.ndim(forces) == 2
        drive = numbers("rollout", "forces", forces, (count, joints) if one else (starts, count, joints))
        drive = np.broadcast_to(drive, (starts, count, joints))

    def run(i: int) -> tuple[Vector, Vector, Vector, Vector, Vector, Vector, Vector, str]:
        one = simulation.again()
        if states is not None:
            one.set_state(states[i])
        for name, position, rate in zip(one.joints, q[i], v[i]):
            if not np.isnan(position):
                one.joints[name].position = float(position)
            if not np.isnan(rate):
                one.joints[name].velocity = float(rate)
        return _core.roll(one._core, count, every, None if drive is None else np.ascontiguousarray(drive[i]))

    motions = in_threads(run, starts, workers)
    # Without a start, the arrays have the shapes of one motion.
    columns = list(zip(*(motions or [_core.roll(simulation.again()._core, 0, 1, None)])))
    stacked: list[Vector] = [np.stack(each)[:starts] for each in columns[:7]]
    t, positions_of_joints, rates, positions, orientations, velocities, angular_velocities = stacked
    failures = [str(each) for each in columns[7]][:starts]
    return Rollout(
        t, positions_of_joints, rates, positions, orientations, velocities, angular_velocities, failures
    )


def in_threads(run: Callable[[int], Result], count: int, workers: int | None) -> list[Result]:
    """The results of run(0), run(1), … in this order, computed on several threads."""
    threads = min(count, cpu_count() or 1) if workers is None else whole("workers", workers, 1)
    if threads <= 1:
        return [run(i) for i in range(count)]
    with ThreadPoolExecutor(threads) as pool:
        try:
            return list(pool.map(run, range(count)))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
