"""Simulations in the viewer Rerun. It needs the package rerun-sdk."""

from __future__ import annotations

from typing import Any

from ._core import OrderError
from .simulation import Simulation

__all__ = ["log"]


def log(simulation: Simulation, path: str = "linchpin", *, force_scale: float = 0.01, recording: Any = None) -> None:
    """Sends the present state to Rerun: poses of bodies, positions of joints, and forces of constraints as arrows.

    Call it after each step that should be seen. Call ``rerun.init(...)`` before, with ``spawn=True`` for the viewer.

    :param path: path of the entities.
    :param force_scale: length of the arrow of a force [m/N].
    :param recording: a recording stream of Rerun. Default: the global one.
    """
    import rerun as rr

    rr.set_time("simulation", duration=simulation.t, recording=recording)
    for name, position, (w, x, y, z) in zip(simulation.body_names, simulation.positions, simulation.orientations):
        pose = rr.Transform3D(translation=position, rotation=rr.Quaternion(xyzw=[x, y, z, w]))
        rr.log(f"{path}/bodies/{name}", pose, recording=recording)
    rr.log(f"{path}/centres", rr.Points3D(simulation.positions, labels=simulation.body_names), recording=recording)
    for name, position in zip(simulation.joints, simulation.q):
        rr.log(f"{path}/joints/{name}", rr.Scalars([position]), recording=recording)
    try:
        reactions = simulation.reactions
    except OrderError:  # Bullet has no forces before the first step.
        return
    origins, vectors = reactions.array["point"], force_scale * reactions.array["force"]
    rr.log(f"{path}/forces", rr.Arrows3D(origins=origins, vectors=vectors, labels=reactions.names), recording=recording)
