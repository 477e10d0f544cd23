"""Simulations of scenes and robots."""

from __future__ import annotations

import importlib
import math
import os
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _core
from .bullet_file import reader
from .names import law_or_function, nearest, positive, real, whole
from .reactions import Reactions, Wrench
from .state import State, numbers
from .trace import Trace, record

__all__ = ["ControllerFailure", "Simulation", "load", "loads"]

Vector = NDArray[np.float64]
Host = Literal["bare", "bullet", "bullet-float64"]
Robots = Literal["bodies", "multibody"]
Law = _core.Law | Callable[[Any], Any]
"""A law of linchpin.laws, or a function of a ConstraintReaction that returns a force, or a force and a moment."""
Controller = Callable[[float, Vector, Vector], ArrayLike | None]
"""A function of the time, the positions and the rates of all joints, which returns the forces of all joints."""

_hosts = {"bare": "_core", "bullet": "_bullet", "bullet-float64": "_bullet_float64"}


@dataclass(frozen=True)
class ControllerFailure:
    """A failed call of a controller."""

    t: float
    """Time of the call [s]."""
    kind: Literal["exception", "not finite", "wrong size", "late"]
    """The kind of the failure."""
    message: str
    """A sentence with the name, the value and the command that the motors have instead."""


class Joints(Mapping[str, _core.Joint]):
    """The hinges and sliders of a simulation by name, in the order of `Simulation.q`."""

    def __init__(self, core: _core.Simulation) -> None:
        self._core = core
        self.names: list[str] = core.joint_names
        self._joints = {name: core.joint(i) for i, name in enumerate(self.names)}

    def __getitem__(self, name: str) -> _core.Joint:
        try:
            return self._joints[name]
        except (KeyError, TypeError):
            raise KeyError(f"there is no hinge or slider {name!r}{nearest(name, self.names)}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        return f"<Joints {', '.join(self.names) or '(none)'}>"


class Simulation:
    """Steps a scene or a robot. :func:`load`, :func:`loads` and `Scene.simulate` make one.

    The arrays `q`, `v`, `positions`, `orientations`, `velocities` and `angular_velocities` are views of memory that the
    simulation owns. They cannot be written. Each call that changes the state renews them, and they live as long as
    somebody refers to them. Copy them to keep the numbers of one time.

    One thread at a time may use a simulation. Different simulations are independent, and steps run without the global
    interpreter lock.
    """

    def __init__(self, core: _core.Simulation, model: _core.Model) -> None:
        if not isinstance(core, _core.Simulation):
            raise TypeError("use linchpin.load(), linchpin.loads() or Scene.simulate() to make a simulation")
        self._core = core
        self._model = model
        self._controller: Controller | None = None
        self.joints = Joints(core)
        """Hinges and sliders by name: position, velocity, force, acceleration, limits."""
        self.body_names: list[str] = model.bodies
        """Names of the bodies, in the order of `positions`."""
        self.constraint_names: list[str] = model.constraints
        """Names of joints and constraints."""

    @property
    def t(self) -> float:
        """Time [s]."""
        return self._core.t

    @property
    def dt(self) -> float:
        """Length of a step [s]."""
        return self._model.dt

    @property
    def duration(self) -> float:
        """Duration that the scene names [s]."""
        return self._model.duration

    @property
    def host(self) -> Host:
        """What steps the bodies."""
        return self._core.host  # type: ignore[return-value]

    @property
    def file(self) -> str:
        """The file of the scene or the robot."""
        return self._model.file

    @property
    def notes(self) -> list[str]:
        """Parts of a robot's file that are left out, or understood otherwise than they may be meant."""
        return self._model.notes

    @property
    def warnings(self) -> list[str]:
        """Values of the file that were accepted but are probably mistakes."""
        return self._model.warnings

    @property
    def model(self) -> _core.Model:
        """The model that was read, for :class:`linchpin.Dynamics`."""
        return self._model

    # -- stepping

    def step(self, n: int = 1) -> None:
        """Takes n steps of `dt`.

        :raises RuntimeError: if a step has no result; the text has the reason.
        """
        self._core.step(whole("step: the number of steps", n, 0))

    def run(self, duration: float | None = None) -> None:
        """Takes steps until the time has grown by `duration` [s]. Default: the duration of the scene."""
        self._core.step(self._steps("run", duration))

    def _steps(self, call: str, duration: float | None) -> int:
        """Number of steps in a duration [s]. Default: the duration of the scene."""
        length = self.duration if duration is None else real("duration", duration)
        if not (length >= 0 and math.isfinite(length)):
            raise ValueError(f"{call}: the duration is {length} s. It must be a finite number, at least 0")
        return math.ceil(length / self.dt - 1e-6)

    def record(self, duration: float | None = None, *, every: int = 1) -> Trace:
        """Runs as :meth:`run` and keeps q, v and the channels at every `every`-th step, the first and last state too.

        :returns: a table. In Jupyter it shows the motion. It can be saved as a page, as CSV or for other viewers.
        """
        return record(self, self._steps("record", duration), every)

    # -- state

    @property
    def q(self) -> Vector:
        """[joints] Positions of the joints [rad or m]; a view, read-only."""
        return self._core.q

    @property
    def v(self) -> Vector:
        """[joints] Rates of the joints [rad/s or m/s]; a view, read-only."""
        return self._core.v

    @property
    def positions(self) -> Vector:
        """[bodies, 3] Centres of mass in the world [m]; a view, read-only."""
        return self._core.positions

    @property
    def orientations(self) -> Vector:
        """[bodies, 4] Unit quaternions w, x, y, z from body axes to world axes; a view, read-only."""
        return self._core.orientations

    @property
    def velocities(self) -> Vector:
        """[bodies, 3] Velocities of the centres of mass, world axes [m/s]; a view, read-only."""
        return self._core.velocities

    @property
    def angular_velocities(self) -> Vector:
        """[bodies, 3] Angular velocities, world axes [rad/s]; a view, read-only."""
        return self._core.angular_velocities

    def state(self) -> State:
        """The present state as copies, to change it or to return to it."""
        arrays = (self.positions, self.orientations, self.velocities, self.angular_velocities, self.q)
        return State(self.t, *(each.copy() for each in arrays))

    def set_state(self, state: State) -> None:
        """Places all bodies, with their velocities, and sets the time. Forces of motors and the controller stay.

        Without an engine, bodies that violate a constraint are moved until they satisfy it.

        :raises ValueError: for another number of bodies, for numbers that are not finite, and for a state that the
            constraints do not allow.
        """
        if not isinstance(state, State):
            raise TypeError(f"set_state: state must be a linchpin.State, not {state!r}")
        bodies = len(self.body_names)
        _core.set_state(
            self._core,
            real("t", state.t),
            numbers("set_state", "positions", state.positions, (bodies, 3)),
            numbers("set_state", "orientations", state.orientations, (bodies, 4)),
            numbers("set_state", "velocities", state.velocities, (bodies, 3)),
            numbers("set_state", "angular_velocities", state.angular_velocities, (bodies, 3)),
            numbers("set_state", "q", state.q, (len(self.joints),)),
        )

    def again(self) -> Simulation:
        """A new simulation of the same model on the same host, at the start of the model. It has no controller."""
        return simulate(self.model, self.host)

    def body_index(self, name: str) -> int:
        """The row of a body in `positions` and the other arrays of bodies."""
        try:
            return self.body_names.index(name)
        except ValueError:
            raise KeyError(f"there is no body {name!r}{nearest(name, self.body_names)}") from None

    # -- forces

    @property
    def reactions(self) -> Reactions:
        """Reactions of all constraints: of the present state without an engine, of the last step in Bullet.

        :raises OrderError: in Bullet, before the first step.
        """
        return Reactions(*self._core.reactions())

    def wrench(self, joint: str) -> Wrench:
        """The wrench on the child of a joint by its parent, about the point of the joint, world axes [N, N m]."""
        return Wrench(*self.joints[joint]._wrench())

    @property
    def energy(self) -> float:
        """Kinetic energy and the potential energy of gravity and of forces with a potential [J]."""
        return self._core.energy()

    def channels(self) -> dict[str, Any]:
        """The present values of the channels: those of [[log]] and those of the argument `logs`.

        A vector is an array of 3 numbers. A channel that reads forces is NaN in Bullet before the first step.
        """
        values = self._core.channel_values()
        out: dict[str, Any] = {}
        first = 0
        for title, _, size in self._core.channels():
            out[title] = float(values[first]) if size == 1 else values[first : first + size]
            first += size
        return out

    def summary(self) -> str:
        """Counts and remarks of the Bullet host as text. Empty without an engine."""
        return self._core.summary()

    # -- control

    def set_controller(
        self,
        controller: Controller | None,
        *,
        period: float = 0.0,
        on_failure: Literal["zero", "hold"] = "zero",
        deadline: float = 0.0,
    ) -> None:
        """Calls ``controller(t, q, v)`` before a step, at a fixed rate. It returns the forces of all joints.

        A failed call (an exception, NaN, a wrong size, lateness) does not end the motion: `failures` has the reason, and
        the motors get the command of `on_failure`.

        :param controller: None removes the controller.
        :param period: time between two calls [s], a multiple of `dt`. 0: each step.
        :param on_failure: ``zero`` is no force, ``hold`` the forces of the last period.
        :param deadline: largest duration of a call by the clock of the computer [s]. 0: no limit.
        """
        if controller is not None and not callable(controller):
            raise TypeError(f"controller must be a function of t, q and v, or None, not {controller!r}")
        if on_failure not in ("zero", "hold"):
            raise ValueError(f"on_failure must be 'zero' or 'hold', not {on_failure!r}")
        # The compiled part holds no reference to the controller, which may refer to this object.
        self._controller = controller
        this = weakref.ref(self)
        call = None if controller is None else lambda t, q, v: this()._controller(t, q, v)  # type: ignore[union-attr,misc]
        self._core.set_controller(call, real("period", period), on_failure, real("deadline", deadline))

    @property
    def failures(self) -> list[ControllerFailure]:
        """Failed calls of the controller, the first 100 of them."""
        return [ControllerFailure(*failure) for failure in self._core.failures()]

    @property
    def failure_count(self) -> int:
        """Number of failed calls of the controller."""
        return self._core.failure_count()

    def __repr__(self) -> str:
        return (
            f"<Simulation of {self.file!r} on the host {self.host}: bodies {len(self.body_names)}, "
            f"joints and constraints {len(self.constraint_names)}, t = {self.t:.9g} s>"
        )


def load(
    path: str | os.PathLike[str],
    *,
    host: Host | None = None,
    params: Mapping[str, float] | None = None,
    logs: Iterable[str] = (),
    robots: Robots | None = None,
    laws: Mapping[str, Law] | None = None,
    dt: float | None = None,
) -> Simulation:
    """Reads a scene (.toml), a robot (.urdf, .sdf) or a world of Bullet (.bullet) and makes a simulation.

    Bodies of a .bullet file have no shapes, and its limits and motors are left out: `Simulation.notes` lists them.

    :param host: ``bare`` steps without an engine, ``bullet-float64`` and ``bullet`` in Bullet of double and single
        precision. Default: the host that the scene names, else ``bare``.
    :param params: numbers that replace those in [params] of the scene.
    :param logs: channels after those of [[log]], such as ``"reaction(rod)"`` or ``"energy()"``.
    :param robots: robots as rigid bodies with joints, or as multibodies of Bullet. Default: as the scene says.
    :param laws: force laws by the name of the constraint on which they act.
    :param dt: length of a step [s]. Default: that of the scene.
    :raises SceneError: for a fault of the file; the text has the place and the remedy.
    """
    model = _core.load(os.fspath(path), *_arguments(params, logs, robots, laws, dt), reader())
    return simulate(model, host)


def loads(
    text: str,
    *,
    name: str = "scene.toml",
    host: Host | None = None,
    params: Mapping[str, float] | None = None,
    logs: Iterable[str] = (),
    robots: Robots | None = None,
    laws: Mapping[str, Law] | None = None,
    dt: float | None = None,
) -> Simulation:
    """Makes a simulation from the text of a scene. `name` is the name of the text in messages. Files that the text
    includes are relative to it. The other arguments are those of :func:`load`."""
    if not isinstance(text, str):
        raise TypeError(f"text must be a string, not {type(text).__name__}")
    model = _core.load_text(text, name, *_arguments(params, logs, robots, laws, dt), reader())
    return simulate(model, host)


def _arguments(
    params: Mapping[str, float] | None,
    logs: Iterable[str],
    robots: Robots | None,
    laws: Mapping[str, Law] | None,
    dt: float | None,
) -> tuple[dict[str, float], list[str], str, dict[str, Law], float | None]:
    if robots not in (None, "bodies", "multibody"):
        raise ValueError(f"robots must be 'bodies', 'multibody' or None, not {robots!r}")
    if isinstance(logs, str):
        raise TypeError(f"logs must be a list of channels; write logs=[{logs!r}]")
    for name, law in (laws or {}).items():
        law_or_function(f"laws[{name!r}]", law)
    step = None if dt is None else positive("dt", dt)
    numbers = {name: real(f"params[{name!r}]", value) for name, value in (params or {}).items()}
    return numbers, list(logs), robots or "", dict(laws or {}), step


def simulate(model: _core.Model, host: str | None) -> Simulation:
    """Makes a simulation of a model. Default of the host: the one that the scene names."""
    name = model.host if host is None else host
    if name not in _hosts:
        raise ValueError(f"host must be one of {', '.join(map(repr, _hosts))}, not {host!r}")
    try:
        module = importlib.import_module(f".{_hosts[name]}", __package__)
    except ImportError as error:
        raise ImportError(f"the host {name!r} cannot be used: {error}") from None
    return Simulation(module.simulate(model), model)
