"""Exact constraints in PyBullet: ``exact = linchpin.pybullet.attach(client)``."""

from __future__ import annotations

import importlib.metadata
import math
import os
from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import laws
from ._core import Law
from .comparison import Comparison, run_twice
from .condition import condition
from .names import finite, law_or_function, nonempty, whole
from .reactions import Reactions, Wrench, largest_gap

__all__ = ["Attachment", "Comparison", "attach", "laws"]

Vector = NDArray[np.float64]
Link = tuple[int, int]
"""Unique id of a body of PyBullet and index of its link; -1 is the base."""

_known_versions = ("3.2.6", "3.2.7")


class Attachment:
    """linchpin in the world of one PyBullet client; :func:`attach` makes it.

    Loops that the program closes by `createConstraint` are exact, and so are the constraints that this object adds.
    Motors, limits and contacts stay with PyBullet. `resetSimulation` makes a new world: the attachment follows it in the
    next step, and the constraints and laws that this object has added are gone with the old one.
    """

    def __init__(self, core: Any, pybullet: Any, client: int, plugin: int) -> None:
        self._core = core
        self._pybullet = pybullet
        self._plugin = plugin
        self.client = client
        """The id of the client."""

    # -- constraints

    def constrain(
        self,
        name: str,
        equation: Any = None,
        *,
        velocity: Any = None,
        params: Mapping[str, float] | None = None,
        application_points: Mapping[str, ArrayLike] | None = None,
        **bodies: Link,
    ) -> None:
        """Adds a constraint by equation. Names in the equation are those of the keyword arguments.

        >>> exact.constrain("winch", "norm(hook.position - box.position) = 1.5 + 0.1*sin(3*t)",
        ...                 hook=(crane, 2), box=(box, -1))

        :param equation: a condition on positions, as text or as a SymPy expression or equation
        :param velocity: a condition on velocities, in place of `equation`
        :param params: named numbers of the equation
        :param application_points: where the force of the constraint acts, which a law needs: for each body a point from
            its centre of mass, in its axes [m]
        :param bodies: for each name in the equation, a pair of body and link. A position of a link is that of its centre
            of mass, and its axes are the principal axes of its inertia.
        """
        key, text, numbers = condition(name, equation, velocity, params, bodies, "(body, link)")
        links = [(body, _link(f"{name}: {body}", link)) for body, link in bodies.items()]
        points = list((application_points or {}).items())
        self._core.add_equation(nonempty("a name", name), key, text, links, numbers, points)

    def close_loop(
        self,
        name: str,
        a: Link,
        b: Link,
        *,
        kind: Literal[
            "ball", "hinge", "universal", "cylindrical", "planar", "point_on_line", "point_on_plane", "rod"
        ] = "ball",
        at_a: ArrayLike = (0, 0, 0),
        at_b: ArrayLike = (0, 0, 0),
        axis_a: ArrayLike = (0, 0, 1),
        axis_b: ArrayLike = (0, 0, 1),
        length: float | None = None,
    ) -> None:
        """Adds a joint between two links.

        A loop in a plane, such as the leg of the minitaur, needs only two rows: with ``kind="point_on_line"`` a point of
        b stays on a line of a. A ball joint has a third row, across the plane. Where the links are not exactly in one
        plane, no motion satisfies it.

        :param at_a: point of a, from its centre of mass, in the axes of its inertia, as in `createConstraint` [m]
        :param axis_a: axis of the joint in the same axes of a. `axis_b` is the same axis in b.
        :param length: distance of the two points of a rod [m]; without it, their distance at the present positions
        """
        first, second = _link("a", a), _link("b", b)
        if length is None and kind == "rod":
            length = float(np.linalg.norm(self._point(*first, at_a) - self._point(*second, at_b)))
        self._core.add_joint(
            nonempty("a name", name),
            str(kind),
            first,
            at_a,
            axis_a,
            second,
            at_b,
            axis_b,
            finite("length", 1.0 if length is None else length),
        )

    def remove(self, name: str) -> None:
        """Removes a constraint that this object has added. One of `createConstraint` goes back to PyBullet's
        solver."""
        self._core.remove(nonempty("a name", name))

    def law(self, on: str | Link, law: Law | Callable[[Any], Any]) -> None:
        """Adds a force law to a constraint, by its name, or to the joint of a link, by body and joint index.

        :param law: a law of :mod:`linchpin.laws`, or a function of a ConstraintReaction that returns a force [N], or a
            force and a moment [N m], on the first body. The first body of a joint is the parent link.
        """
        law_or_function("law", law)
        if not isinstance(law, Law) and self._has_window():
            raise ValueError(
                "a Python function cannot be a law in a client with a window, whose steps run in a thread of their own. "
                "Use a law of linchpin.laws, or connect with pybullet.DIRECT"
            )
        if isinstance(on, str):
            self._core.add_law(on, law)
        else:
            self._core.add_law_on_joint(_link("on", on), law)

    # -- results

    @property
    def reactions(self) -> Reactions:
        """Reactions of all exact constraints of the last step, by name. Constraints of PyBullet are called
        ``multibody point2point#3`` by their kind and their place in the world."""
        return Reactions(*self._core.reactions())

    def joint_wrench(self, body: int, joint: int) -> Wrench:
        """The reading of a force/torque sensor in a joint in the last step, on the child link, about the joint, in world
        axes [N, N m]. It includes motors, limits and applied torque."""
        return Wrench(*self._core.joint_wrench(_link("joint", (body, joint))))

    def joint_forces(self, body: int, joint: int) -> dict[str, Vector]:
        """The force along the coordinates of a joint by cause, in the last step: gravity, velocity, damping, applied,
        constraint, contact, friction, laws, native (motors and limits), inertia [N m or N]."""
        return self._core.joint_forces(_link("joint", (body, joint)))  # type: ignore[no-any-return]

    @property
    def gap(self) -> float:
        """The largest position error of all exact constraints after the last step [m or rad]."""
        return largest_gap(self.reactions)

    @property
    def energy(self) -> float:
        """Kinetic energy and the potential energy of gravity [J]."""
        return self._core.energy()  # type: ignore[no-any-return]

    def summary(self) -> str:
        """Gaps, energy, rank, redundant and contradictory constraints, and what PyBullet solves, with reasons."""
        text: str = self._core.summary()
        return text.replace("; name_joint() takes it back", "")  # a function of C++ only

    # -- control

    @property
    def enabled(self) -> bool:
        """False: PyBullet solves all constraints of `createConstraint`, and those of this object do not act. It serves
        to compare the two."""
        return self._core.enabled  # type: ignore[no-any-return]

    @enabled.setter
    def enabled(self, on: bool) -> None:
        self._core.check()
        self._core.enabled = bool(on)

    def compare(self, steps: int, before_step: Callable[[int], Any] | None = None) -> Comparison:
        """Takes steps twice from the present state: with the constraints solved by PyBullet, and by linchpin.

        It measures the constraints of `createConstraint` by their two points. Afterwards the client is at the end of
        the run by linchpin. Constraints that this object has added do not act in the run by PyBullet.

        :param before_step: is called with the number of each step, to drive motors and to apply forces.
        """
        count = whole("compare: the number of steps", steps, 0)
        p, before = self._pybullet, self.enabled
        self._core.check()
        time = self.t
        start = p.saveState(physicsClientId=self.client)

        def begin(exact: bool) -> None:
            p.restoreState(start, physicsClientId=self.client)
            self.reset(time)
            self.enabled = exact

        def step() -> float:
            p.stepSimulation(physicsClientId=self.client)
            return self._largest_distance()

        try:
            return run_twice(count, begin, before_step, step)
        finally:
            self.enabled = before
            p.removeState(start, physicsClientId=self.client)

    def _largest_distance(self) -> float:
        """The largest distance of the two points of a constraint of `createConstraint` [m]."""
        p, largest = self._pybullet, 0.0
        for i in range(p.getNumConstraints(physicsClientId=self.client)):
            constraint = p.getConstraintUniqueId(i, physicsClientId=self.client)
            info = p.getConstraintInfo(constraint, physicsClientId=self.client)
            parent, joint, child, link, kind, _, on_parent, on_child = info[:8]
            if kind in (p.JOINT_POINT2POINT, p.JOINT_FIXED):
                distance = self._point(parent, joint, on_parent) - self._point(child, link, on_child)
                largest = max(largest, float(np.linalg.norm(distance)))
        return largest

    def _point(self, body: int, link: int, at: ArrayLike) -> Vector:
        """A point of a link, from its centre of mass, in the world."""
        p = self._pybullet
        if body < 0:
            return np.asarray(at, dtype=np.float64)
        if link < 0:
            position, rotation = p.getBasePositionAndOrientation(body, physicsClientId=self.client)
        else:
            state = p.getLinkState(body, link, computeForwardKinematics=1, physicsClientId=self.client)
            position, rotation = state[:2]
        axes = np.array(p.getMatrixFromQuaternion(rotation)).reshape(3, 3)
        out: Vector = np.asarray(position) + axes @ np.asarray(at, dtype=np.float64)
        return out

    @property
    def t(self) -> float:
        """Time in equations and laws [s]. It begins at 0 and advances with the steps."""
        return self._core.t  # type: ignore[no-any-return]

    def reset(self, t: float | None = None) -> None:
        """Clears the data of earlier steps. Call it after `restoreState` and after bodies were moved by hand.

        :param t: the time of the restored state [s], which equations with the time need. Default: the time stays.
        """
        time = None if t is None else finite("t", t)
        self._core.reset()
        if time is not None:
            self._core.t = time

    def check(self) -> None:
        """Raises the error that has ended the work of the attachment, if there is one.

        An error in a step cannot be raised there: linchpin prints it, and PyBullet solves all constraints from then on.
        All other calls raise it too.
        """
        self._core.check()

    def detach(self) -> None:
        """Ends the attachment. PyBullet then solves all constraints. A second call does nothing."""
        if self._core.closed:
            return
        self._core.require_between_steps()
        if self._pybullet.isConnected(self.client):
            # The plugin stays loaded: PyBullet cannot load one again that it has unloaded.
            self._pybullet.executePluginCommand(self._plugin, "0", physicsClientId=self.client)
        self._core.detach()

    def __enter__(self) -> Attachment:
        return self

    def __exit__(self, *_: object) -> None:
        self.detach()

    def __del__(self) -> None:
        core = getattr(self, "_core", None)
        if core is not None and not core.closed:
            try:
                self.detach()
            except Exception:  # noqa: BLE001  the interpreter may be ending
                pass

    def __repr__(self) -> str:
        state = "detached" if self._core.closed else "enabled" if self._core.enabled else "not enabled"
        return f"<linchpin in PyBullet client {self.client}: {state}>"

    def _has_window(self) -> bool:
        info = self._pybullet.getConnectionInfo(self.client)
        return bool(info["connectionMethod"] != self._pybullet.DIRECT)


def attach(client: Any = 0) -> Attachment:
    """Makes the constraints of a PyBullet client exact.

    Keep the result: the attachment ends with it.

    :param client: the id of a client, or a `pybullet_utils.bullet_client.BulletClient`
    :raises ImportError: without PyBullet.
    :raises RuntimeError: for a build of PyBullet that this function does not know, and for a world that linchpin does
        not support, such as one with soft bodies.
    """
    import pybullet

    number = getattr(client, "_client", client)
    if isinstance(number, bool) or not isinstance(number, int):
        raise TypeError(f"client must be the id of a PyBullet client, not {client!r}")
    if not 0 <= number < 2**31:
        raise ValueError(f"client is {number}. It must be the id that pybullet.connect() returned")
    version = _version()
    if version not in _known_versions or pybullet.getAPIVersion() != 202010061:
        raise RuntimeError(
            f"linchpin does not know PyBullet {version or 'of this build'}. Known are the wheels of "
            f"{', '.join(_known_versions)}: pip install pybullet==3.2.7"
        )
    if not pybullet.isConnected(number):
        raise RuntimeError(f"PyBullet client {number} is not connected. Call pybullet.connect(pybullet.DIRECT) first")
    method = pybullet.getConnectionInfo(number)["connectionMethod"]
    if method not in (pybullet.DIRECT, pybullet.GUI):
        raise RuntimeError("linchpin works in the process of the simulation: connect with pybullet.DIRECT or pybullet.GUI")
    from . import _pybullet

    path = os.path.join(os.path.dirname(__file__), "liblinchpin_pybullet_plugin.so")
    plugin = pybullet.loadPlugin(path, "_linchpin", physicsClientId=number)
    if plugin < 0:
        raise RuntimeError(f"PyBullet cannot load the plugin {path}")
    core = _pybullet.Attachment()
    if pybullet.executePluginCommand(plugin, core.address, physicsClientId=number) != 0:
        raise RuntimeError(f"PyBullet client {number} is attached already. Use that attachment, or detach() it first")
    out = Attachment(core, pybullet, number, plugin)
    try:
        core.check()
        _self_test(core, pybullet, number)
    except Exception:
        out.detach()
        raise
    return out


def _self_test(core: Any, pybullet: Any, client: int) -> None:
    """Compares what linchpin reads in the world with what PyBullet says."""
    gravity = core.gravity()
    parameters = pybullet.getPhysicsEngineParameters(physicsClientId=client)
    expected = [parameters[f"gravityAcceleration{axis}"] for axis in "XYZ"]
    if not np.allclose(gravity, expected, rtol=0, atol=1e-12):
        raise RuntimeError(f"linchpin cannot use this build of PyBullet: gravity is {expected}, but reads as {gravity}")
    for body, mass in core.bodies():
        if not (0 <= body and math.isfinite(mass)):
            raise RuntimeError("linchpin cannot use this build of PyBullet: its bodies are not where they were expected")
        told = pybullet.getDynamicsInfo(body, -1, physicsClientId=client)[0]
        if abs(told - mass) > 1e-12 * max(1.0, told):
            raise RuntimeError(
                f"linchpin cannot use this build of PyBullet: the mass of body {body} is {told}, but reads as {mass}"
            )


def _version() -> str:
    try:
        return importlib.metadata.version("pybullet")
    except importlib.metadata.PackageNotFoundError:
        return ""


def _link(what: str, link: Any) -> Link:
    try:
        body, index = link
        pair = (int(body), int(index))
        if pair != (body, index) or max(map(abs, pair)) >= 2**31:
            raise ValueError
    except (TypeError, ValueError):
        raise TypeError(f"{what} must be a pair of body and link, such as (robot, 3), not {link!r}") from None
    return pair
