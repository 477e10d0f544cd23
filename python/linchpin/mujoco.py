"""Exact constraints in MuJoCo: ``exact = linchpin.mujoco.attach(model, data)``."""

from __future__ import annotations

import importlib
import operator
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import laws
from ._core import Law
from .comparison import Comparison, run_twice
from .condition import condition
from .names import finite, law_or_function, nearest, nonempty, real, whole
from .reactions import Reactions, Wrench, largest_gap

__all__ = ["Attachment", "Comparison", "Finding", "MomentumBalance", "Rank", "attach", "laws"]

Vector = NDArray[np.float64]
Body = Any
"""A body by its name, its number, or the object ``model.body(...)``; 0 and "world" are the world."""


def _three(name: str, value: ArrayLike) -> NDArray[Any]:
    vector = np.asarray(value)
    if vector.shape != (3,) or vector.dtype.kind not in "fiu" or not np.isfinite(vector).all():
        raise ValueError(f"{name} must be a vector of 3 finite numbers, not {value!r}")
    return vector


@dataclass(frozen=True)
class Finding:
    """A fault of a constraint."""

    constraint: str
    """Name of the constraint."""
    message: str
    """The fault, and what to do."""


@dataclass(frozen=True)
class Rank:
    """Rank of the rows of all exact constraints, and the constraints that are not independent, by name."""

    rows: int
    """Number of rows."""
    rank: int
    """Number of independent rows."""
    redundant: list[str]
    """Constraints with rows that follow from those of others."""
    undetermined: list[str]
    """Constraints whose reactions are not unique."""
    contradictory: list[str]
    """Constraints with rows that no motion meets together with those of others."""


@dataclass(frozen=True)
class MomentumBalance:
    """Momentum balance of one body over the last step: momentum = applied + native + constraints + (imbalance).

    Each vector [6] is a linear impulse [N s] and an angular one about the centre of mass [N m s], in world axes.
    """

    body: str
    """Name of the body, or ``body#3`` by its number."""
    momentum: Vector
    """Change of the momentum."""
    applied: Vector
    """Gravity and all forces of the program, of actuators, springs and damping."""
    native: Vector
    """Contacts, limits, friction losses and other constraints that MuJoCo solves."""
    constraints: Vector
    """Exact constraints, and the joints of the body."""
    imbalance: float
    """The part that no term explains, relative to the largest term."""


class Attachment:
    """linchpin on one model and its data; :func:`attach` makes it.

    Equalities of the model are exact in :meth:`step`, and so are the constraints that this object adds. Contacts,
    limits, actuators and the integrator stay with MuJoCo. Model and data are those of the program, and nothing is
    copied. They live at least as long as this object.

    Use an attachment, its model and its data from one thread at a time.
    """

    def __init__(self, core: Any, mujoco: Any, model: Any, data: Any) -> None:
        self._core = core
        self._mujoco = mujoco
        self.model = model
        """The `mujoco.MjModel`."""
        self.data = data
        """The `mujoco.MjData`."""

    # -- steps

    def step(self, nstep: int = 1) -> None:
        """Takes steps, in place of `mujoco.mj_step(model, data, nstep)`.

        Afterwards the positions and velocities of the data are on the constraints. Other threads of Python run in the
        meantime. `mujoco.mj_step` may be called between two steps: MuJoCo solves the constraints in it.

        :raises RuntimeError: after a step in which a law has failed. No law that is joined to it has acted in this step.
        :raises mujoco.FatalError: as `mujoco.mj_step`
        """
        self._core.step(whole("step: nstep", nstep, 0))

    # -- constraints

    def constrain(
        self,
        name: str,
        equation: Any = None,
        *,
        velocity: Any = None,
        params: Mapping[str, float] | None = None,
        application_points: Mapping[str, ArrayLike] | None = None,
        **bodies: Body,
    ) -> None:
        """Adds a constraint by equation. Names in the equation are those of the keyword arguments.

        >>> exact.constrain("winch", "norm(hook.position - box.position) = 1.5 + 0.1*sin(3*t)",
        ...                 hook=model.site("hook"), box="box")

        :param equation: a condition on positions, as text or as a SymPy expression or equation
        :param velocity: a condition on velocities, in place of `equation`
        :param params: named numbers of the equation
        :param application_points: where the force of the constraint acts, which a law needs: for each body a point in
            MuJoCo's frame of the body or site [m]
        :param bodies: for each name in the equation, a body by its name, its number or ``model.body(...)``, or a site as
            ``model.site(...)``. Quantities are those of MuJoCo's frame: ``box.position`` is ``data.body("box").xpos``,
            and ``box.point(x, y, z)`` and ``box.axis(x, y, z)`` are in its axes.
        """
        key, text, numbers = condition(name, equation, velocity, params, bodies, '"box"')
        frames = [(keyword, *self._frame(f"{name}: {keyword}", value)) for keyword, value in bodies.items()]
        points = dict(application_points or {})
        for point in points:
            if point not in bodies:
                raise ValueError(f"constraint {name!r}: application_points has {point!r}, which is no body of the "
                                 f"constraint{nearest(point, bodies)}")
        self._core.add_equation(nonempty("a name", name), key, text, frames, numbers, points)

    def close_loop(
        self,
        name: str,
        a: Body,
        b: Body,
        *,
        kind: Literal[
            "ball", "hinge", "universal", "cylindrical", "planar", "point_on_line", "point_on_plane", "rod"
        ] = "ball",
        at: ArrayLike | None = None,
        axis: ArrayLike | None = None,
        at_a: ArrayLike = (0, 0, 0),
        at_b: ArrayLike = (0, 0, 0),
        axis_a: ArrayLike = (0, 0, 1),
        axis_b: ArrayLike = (0, 0, 1),
        length: float | None = None,
    ) -> None:
        """Adds a joint between two bodies.

        A loop in a plane needs only two rows: with ``kind="point_on_line"`` a point of b stays on a line of a. A ball
        joint has a third row, across the plane. Where the bodies are not exactly in one plane, no motion satisfies it.

        :param at: place of the joint in the world at the present positions, in place of `at_a` and `at_b` [m]
        :param axis: axis of the joint in the world at the present positions, in place of `axis_a` and `axis_b`
        :param at_a: point of a in MuJoCo's frame of this body, as the anchor of a `connect` [m]
        :param axis_a: axis of the joint in the same frame. `axis_b` is the same axis in b.
        :param length: distance of the two points of a rod [m]; without it, their distance at the present positions
        """
        first, second = self._body("a", a), self._body("b", b)
        if first == second:
            raise ValueError(f"close_loop {name!r}: a and b are the same body, {self._body_name(first)!r}")
        if at is not None:
            at_a, at_b = self._in_body(first, "at", at, True), self._in_body(second, "at", at, True)
        if axis is not None:
            axis_a, axis_b = self._in_body(first, "axis", axis, False), self._in_body(second, "axis", axis, False)
        if length is None and kind == "rod":
            apart = self._in_world(first, "at_a", at_a) - self._in_world(second, "at_b", at_b)
            length = float(np.linalg.norm(apart))
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
        """Removes a constraint that this object has added. An equality of the model goes back to MuJoCo's solver."""
        self._core.remove(nonempty("a name", name))

    def law(self, on: Any, law: Law | Callable[[Any], Any]) -> None:
        """Adds a force law to a constraint or to a joint of the model.

        :param on: the name of a constraint or of a joint. ``model.joint("knee")`` means the joint in any case.
        :param law: a law of :mod:`linchpin.laws`, or a function of a ConstraintReaction that returns a force [N], or a
            force and a moment [N m], on the first body. The first body of a joint is the parent.
        """
        law_or_function("law", law)
        if not isinstance(on, str):
            self._core.add_law_on_joint(self._joint("on", on), law)
            return
        constraints = self._core.constraint_names()
        if on in constraints:
            self._core.add_law(on, law)
        elif self._mujoco.mj_name2id(self.model, self._mujoco.mjtObj.mjOBJ_JOINT, on) >= 0:
            self._core.add_law_on_joint(on, law)
        else:
            joints = self._names(self._mujoco.mjtObj.mjOBJ_JOINT, self.model.njnt)
            raise ValueError(f"there is no constraint and no joint {on!r}{nearest(on, [*constraints, *joints])}")

    # -- results

    @property
    def reactions(self) -> Reactions:
        """Reactions of all exact constraints of the last step, by name, at the state where the step began. Equalities
        without a name are called ``equality#2`` by their number."""
        return Reactions(*self._core.reactions())

    def joint_wrench(self, joint: Any) -> Wrench:
        """The wrench on the body of a joint by its parent in the last step, about the anchor of the joint, in world axes
        [N, N m]. It includes actuators, springs, damping and limits. Tendons, actuators on sites, contacts and
        ``gravcomp`` act on it where they act on bodies. Drag of the fluid, adhesion and slider-cranks count along the
        joints only.

        :param joint: the name of a hinge, slide or ball joint, or ``model.joint(...)``
        """
        return Wrench(*self._core.joint_wrench(self._joint("joint", joint)))

    def joint_forces(self, joint: Any) -> dict[str, Vector]:
        """The force along the coordinates of a joint by cause, in the last step: gravity, velocity, damping, applied
        (actuators and springs too), constraint, contact, friction, laws, native (limits and friction losses), inertia
        [N m or N].

        :param joint: as for `joint_wrench`
        """
        return self._core.joint_forces(self._joint("joint", joint))  # type: ignore[no-any-return]

    @property
    def gap(self) -> float:
        """The largest position error of all exact constraints after the last step [m or rad]."""
        return largest_gap(self.reactions)

    @property
    def energy(self) -> float:
        """Kinetic energy and the potential energy of gravity [J]."""
        return self._core.energy()  # type: ignore[no-any-return]

    @property
    def momentum_balances(self) -> list[MomentumBalance]:
        """The momentum balances of all bodies in the last step."""
        return [MomentumBalance(self._body_name(body), *of) for body, *of in self._core.momentum_balances()]

    @property
    def counts(self) -> dict[str, float]:
        """Counts since the start or the last `reset`: steps, substeps, fallbacks to MuJoCo's solver, failures of laws,
        gap corrections, the largest imbalance of momentum, and others. They have the names of `host::Counts` in C++."""
        return self._core.counts()  # type: ignore[no-any-return]

    def rank(self) -> Rank:
        """Computes the rank of all exact constraints at the last step. It names those that are not independent."""
        rows, rank, *lists = self._core.rank()
        names = self._core.constraint_names()
        return Rank(rows, rank, *([names[i] for i in indices] for indices in lists))

    def native(self) -> dict[str, str]:
        """The equalities that stay with MuJoCo, with the reason."""
        return dict(self._core.native())

    def check(self) -> list[Finding]:
        """Checks derivatives and residuals of all constraints at the present state. Empty if there is no fault. :meth:`rank`
        names the constraints that are not independent."""
        return [Finding(*found) for found in self._core.check()]

    def summary(self) -> str:
        """Gaps, energy, rank, redundant and contradictory constraints, and what MuJoCo solves, with reasons."""
        return self._core.summary()  # type: ignore[no-any-return]

    # -- control

    @property
    def enabled(self) -> bool:
        """False: `step` is `mujoco.mj_step`. MuJoCo solves all equalities, and the constraints of this object do not act.
        It serves to compare the two."""
        return self._core.enabled  # type: ignore[no-any-return]

    @enabled.setter
    def enabled(self, on: bool) -> None:
        self._core.enabled = bool(on)

    def compare(self, steps: int, before_step: Callable[[int], Any] | None = None) -> Comparison:
        """Takes steps twice from the present state: with the equalities solved by MuJoCo, and by linchpin.

        It measures the equalities of the model by MuJoCo's `efc_pos`, in metres and radians. Afterwards the data are at
        the end of the run by linchpin. Constraints that this object has added do not act in the run by MuJoCo.

        :param before_step: is called with the number of each step, to set controls and to apply forces.
        """
        count = whole("compare: the number of steps", steps, 0)
        mujoco, before = self._mujoco, self.enabled
        self._core.require_between_steps()
        kind = mujoco.mjtState.mjSTATE_INTEGRATION
        start = np.zeros(mujoco.mj_stateSize(self.model, kind))
        mujoco.mj_getState(self.model, self.data, start, kind)
        measured = mujoco.MjData(self.model)

        def begin(exact: bool) -> None:
            mujoco.mj_setState(self.model, self.data, start, kind)
            self.reset()
            self.enabled = exact

        def step() -> float:
            self.step()
            return self._largest_error(measured)

        try:
            return run_twice(count, begin, before_step, step)
        finally:
            self.enabled = before

    @property
    def t(self) -> float:
        """Time in equations and laws: ``data.time`` at the end of the last step [s]."""
        return self._core.t  # type: ignore[no-any-return]

    def reset(self) -> None:
        """Clears the data of earlier steps, counts and work. Call it after `mujoco.mj_resetData` and other jumps of the
        state."""
        self._core.reset()

    def detach(self) -> None:
        """Ends the attachment. A second call does nothing. Step with `mujoco.mj_step` from then on."""
        self._core.detach()

    def __enter__(self) -> Attachment:
        return self

    def __exit__(self, *_: object) -> None:
        self.detach()

    def __repr__(self) -> str:
        state = "detached" if self._core.detached else "enabled" if self._core.enabled else "not enabled"
        return f"<linchpin in MuJoCo, model of {self.model.nbody - 1} bodies: {state}>"

    # -- names

    def _names(self, kind: Any, count: int) -> list[str]:
        found = (self._mujoco.mj_id2name(self.model, kind, i) for i in range(count))
        return [name for name in found if name]

    def _body_name(self, body: int) -> str:
        name = self._mujoco.mj_id2name(self.model, self._mujoco.mjtObj.mjOBJ_BODY, body) if body >= 0 else None
        return name or f"body#{body}"

    def _body(self, what: str, body: Body) -> int:
        """The number of a body. Raises TypeError and ValueError with `what`."""
        if isinstance(body, str):
            found: int = self._mujoco.mj_name2id(self.model, self._mujoco.mjtObj.mjOBJ_BODY, body)
            if found < 0:
                names = self._names(self._mujoco.mjtObj.mjOBJ_BODY, self.model.nbody)
                raise ValueError(f"{what}: the model has no body {body!r}{nearest(body, names)}")
            return found
        number = body.id if _is_view(body, "Body") else body
        try:
            if isinstance(number, (bool, np.bool_)):
                raise TypeError
            number = operator.index(number)
        except TypeError:
            raise TypeError(
                f"{what} must be a body: its name, its number or model.body(...), not {body!r}"
            ) from None
        if not 0 <= number < self.model.nbody:
            raise ValueError(f"{what}: the model has no body {number}; its bodies are 0 (the world) to {self.model.nbody - 1}")
        return int(number)

    def _frame(self, what: str, value: Any) -> tuple[int, Any, Any]:
        """The body of a frame, and its pose in MuJoCo's frame of that body."""
        if _is_view(value, "Site"):
            if not 0 <= value.id < self.model.nsite:
                raise ValueError(f"{what}: the model has no site {value.id}")
            return int(self.model.site_bodyid[value.id]), self.model.site_pos[value.id], self.model.site_quat[value.id]
        return self._body(what, value), np.zeros(3), np.array([1.0, 0, 0, 0])

    def _joint(self, what: str, joint: Any) -> str:
        """The name of a joint."""
        if isinstance(joint, str):
            return joint
        if not _is_view(joint, "Joint"):
            raise TypeError(f"{what} must be the name of a joint or model.joint(...), not {joint!r}")
        if not joint.name:
            raise ValueError(f"{what}: joint {joint.id} has no name. Give it one in the model")
        return str(joint.name)

    def _in_world(self, body: int, what: str, at: ArrayLike) -> Vector:
        """A point of a body in the world, at the present positions."""
        position, rotation = self._core.body_pose(body)
        out: Vector = position + rotation @ _three(what, at)
        return out

    def _in_body(self, body: int, what: str, value: ArrayLike, is_point: bool) -> Vector:
        """A point or a direction of the world in the frame of a body, at the present positions."""
        vector = _three(what, value)
        position, rotation = self._core.body_pose(body)
        out: Vector = rotation.T @ (vector - position if is_point else vector)
        return out

    def _largest_error(self, measured: Any) -> float:
        """The largest |efc_pos| of an equality at the present positions. `measured` are data for the computation."""
        mujoco, data = self._mujoco, self.data
        for field in ("qpos", "mocap_pos", "mocap_quat", "eq_active"):
            if hasattr(data, field):  # MuJoCo 2 has eq_active in the model
                getattr(measured, field)[:] = getattr(data, field)
        mujoco.mj_fwdPosition(self.model, measured)
        of_equality = np.asarray(measured.efc_type) == int(mujoco.mjtConstraint.mjCNSTR_EQUALITY)
        return float(np.abs(np.asarray(measured.efc_pos)[of_equality]).max(initial=0))


def attach(
    model: Any,
    data: Any,
    *,
    equalities: bool = True,
    rank_tolerance: float | None = None,
    newton_tolerance: float | None = None,
    gap_tolerance: float | None = None,
    max_newton: int | None = None,
    max_tension_frequency: float | None = None,
    max_substeps: int | None = None,
    drift_correction: bool = True,
    max_energy_gain: float | None = None,
    max_velocity_residual: float | None = None,
) -> Attachment:
    """Makes the equalities connect, weld, joint and tendon of a model exact. Call `step` of the result then.

    The other options are those of `linchpin::mujoco::Options` in C++, with the same defaults. None is the default.

    :param model: a `mujoco.MjModel`
    :param data: a `mujoco.MjData` of this model
    :param equalities: False: the equalities of the model stay with MuJoCo.
    :param rank_tolerance: singular values below this fraction of the largest one count as zero.
    :param newton_tolerance: position error at the end of a step at which the Newton iteration ends [m or rad].
    :param gap_tolerance: position error at the start of a step above which positions are corrected [m or rad].
    :param max_newton: largest number of solves of this iteration.
    :param max_tension_frequency: product of a frequency by tension and the step above which a step is divided.
    :param max_substeps: largest number of substeps of a step.
    :param drift_correction: False: a step does not end on the constraints, and errors grow.
    :param max_energy_gain: energy without a source, relative to the kinetic energy, above which it is reported.
    :param max_velocity_residual: relative velocity error above which it is reported.
    :raises ImportError: without the package `mujoco`, and where linchpin was built without MuJoCo.
    :raises RuntimeError: where linchpin was built for another version of MuJoCo.
    :raises ValueError: for data of another model, an integrator other than Euler, implicit and implicitfast, a model
        with sleeping bodies, and options that have no meaning.
    """
    mujoco, extension = _modules()
    if not isinstance(model, mujoco.MjModel):
        raise TypeError(f"model must be a mujoco.MjModel, not {model!r}")
    if not isinstance(data, mujoco.MjData):
        raise TypeError(f"data must be a mujoco.MjData, not {data!r}")
    signatures = [getattr(each, "signature", None) for each in (model, data)]
    sizes = [(model.nq, model.nv, model.nbody, model.nu), (len(data.qpos), len(data.qvel), len(data.xpos), len(data.ctrl))]
    if signatures[0] != signatures[1] or sizes[0] != sizes[1]:
        raise ValueError("data belong to another model. Make them with mujoco.MjData(model)")
    numbers = {
        "rank_tolerance": rank_tolerance,
        "newton_tolerance": newton_tolerance,
        "gap_tolerance": gap_tolerance,
        "max_tension_frequency": max_tension_frequency,
        "max_energy_gain": max_energy_gain,
        "max_velocity_residual": max_velocity_residual,
    }
    counts = {"max_newton": max_newton, "max_substeps": max_substeps}
    options = {
        "equalities": bool(equalities),
        "drift_correction": bool(drift_correction),
        **{name: real(name, value) for name, value in numbers.items() if value is not None},
        **{name: whole(name, count, 1) for name, count in counts.items() if count is not None},
    }
    core = extension.Attachment(model, data, model._address, data._address, options)
    # The layout of MjModel and MjData must be that of the header that the extension was built with.
    if core.sizes() != (model.nq, model.nv, model.nbody, data.xpos.ctypes.data):
        raise RuntimeError("linchpin cannot use this build of MuJoCo: its MjModel or MjData differs from that of the header")
    return Attachment(core, mujoco, model, data)


def _modules() -> tuple[Any, Any]:
    """The packages mujoco and linchpin._mujoco, which use one library in one version. Raises as attach()."""
    try:
        mujoco: Any = importlib.import_module("mujoco")
    except ImportError as error:
        raise ImportError(f"linchpin.mujoco needs the package mujoco: pip install mujoco ({error})") from error
    try:
        built = importlib.import_module("linchpin._mujoco_version").version
    except ImportError:
        raise ImportError(
            "linchpin was built without MuJoCo. Build it where MuJoCo is found, such as by the folder of the package: "
            f"pip install . -C cmake.define.LINCHPIN_MUJOCO_ROOT={os.path.dirname(mujoco.__file__)}"
        ) from None
    if mujoco.mj_version() != built:
        raise RuntimeError(
            f"linchpin was built for MuJoCo {_version_text(built)}, but the package mujoco is version "
            f"{_version_text(mujoco.mj_version())}. Install that version (pip install mujoco=={_version_text(built)}), or build "
            "linchpin for the other one"
        )
    extension: Any = importlib.import_module("linchpin._mujoco")
    ours, folder = extension.library_path(), os.path.dirname(mujoco.__file__)
    theirs = os.path.join(folder, os.path.basename(ours))
    if os.path.exists(theirs) and not os.path.samefile(ours, theirs):
        raise RuntimeError(
            f"linchpin uses the library {ours}, but the package mujoco uses {theirs}. Import mujoco before linchpin._mujoco"
        )
    return mujoco, extension


def _version_text(number: int) -> str:
    """The version with a number of mj_version(): 4000000 is 4.0.0, and 337 is 3.3.7."""
    base = 1000 if number >= 1000000 else 10
    return f"{number // base**2}.{number // base % base}.{number % base}"


def _is_view(value: Any, kind: str) -> bool:
    """Whether a value is ``model.body(...)`` or ``data.body(...)``, or the same of another kind."""
    return type(value).__name__ in (f"_MjModel{kind}Views", f"_MjData{kind}Views")
