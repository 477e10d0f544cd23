"""Scenes made in Python. Each call writes one table of a scene file, so its keys are those of the scene format."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping
from typing import Any, Literal

from . import _core
from .simulation import Host, Law, Robots, Simulation, loads

__all__ = ["Body", "Scene"]


class Body:
    """The name of a body of a :class:`Scene`, for joints and for SymPy."""

    def __init__(self, name: str) -> None:
        self.name = name
        """Name of the body."""

    @property
    def x(self) -> Any:
        """The first coordinate of the centre of mass as a SymPy symbol [m]. It needs SymPy."""
        return self._symbol("x")

    @property
    def y(self) -> Any:
        """The second coordinate of the centre of mass as a SymPy symbol [m]. It needs SymPy."""
        return self._symbol("y")

    @property
    def z(self) -> Any:
        """The third coordinate of the centre of mass as a SymPy symbol [m]. It needs SymPy."""
        return self._symbol("z")

    def _symbol(self, axis: str) -> Any:
        import sympy

        return sympy.Symbol(f"{self.name}.{axis}", real=True)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<Body {self.name!r}>"


class Scene:
    """A scene that a program builds: bodies, joints, equations, laws.

    Numbers may be expressions of parameters as text, as in a scene file. `to_toml` shows the file that the scene is.

    >>> scene = Scene(dt=0.001, method="rk4")
    >>> bob = scene.particle("bob", mass=2, position=[1, 0, 0])
    >>> scene.constraint("rod", "norm(bob.position) = 1")
    >>> simulation = scene.simulate()
    """

    def __init__(
        self,
        *,
        gravity: Any = (0, -9.81, 0),
        dt: float | str = 1 / 240,
        duration: float | str = 2,
        method: Literal["semi-implicit", "rk4", "adaptive", "adaptive8", "rattle", "rattle4"] | None = None,
        contacts: bool = False,
        title: str | None = None,
        folder: str | os.PathLike[str] = ".",
    ) -> None:
        """
        :param gravity: acceleration of gravity [m/s²]
        :param dt: length of a step [s]
        :param duration: duration of `Simulation.run` without an argument [s]
        :param method: how time is integrated; default: semi-implicit
        :param contacts: bodies of a Bullet host collide
        :param title: title of reports
        :param folder: files of robots and meshes are relative to it
        """
        self._folder = os.fspath(folder)
        self._single: dict[str, dict[str, Any]] = {
            "world": {"gravity": gravity, "dt": dt, "duration": duration, "contacts": contacts}
        }
        self._top: dict[str, Any] = {"schema": 2}
        if title is not None:
            self._top["title"] = title
        if method is not None:
            self.solver(method=method)
        self._tables: list[tuple[str, dict[str, Any]]] = []
        self._laws: dict[str, Law] = {}

    # -- one table of a kind

    def params(self, **numbers: float | str) -> None:
        """Adds named numbers, [params], for expressions."""
        self._single.setdefault("params", {}).update(numbers)

    def definitions(self, **expressions: Any) -> None:
        """Adds named expressions, [definitions]."""
        self._single.setdefault("definitions", {}).update(expressions)

    def solver(self, **keys: Any) -> None:
        """Sets keys of [solver]: method, tolerances."""
        self._single.setdefault("solver", {}).update(keys)

    def robot(self, *, urdf: str | None = None, sdf: str | None = None, **keys: Any) -> None:
        """Adds the robot of a file, [model]: start positions `joints`, `rates`, `fixed`, `loops`, …"""
        if (urdf is None) == (sdf is None):
            raise ValueError("robot: give either urdf or sdf, the path of the file")
        self._single.setdefault("model", {}).update({"urdf": urdf} if urdf is not None else {"sdf": sdf}, **keys)

    # -- tables of which there may be several

    def body(self, name: str, *, mass: float | str | None = None, **keys: Any) -> Body:
        """Adds a body, [[body]]: mass [kg] or density, shape, inertia, position, rotation, velocity, omega, motion.

        A shape is ``{"box": [x, y, z]}``, ``{"sphere": r}``, ``{"capsule": [r, l]}`` or ``{"cylinder": [r, l]}`` [m].
        """
        self.table("body", name=name, mass=mass, **keys)
        return Body(name)

    def particle(self, name: str, *, mass: float | str, **keys: Any) -> Body:
        """Adds a point mass, a [[body]] of kind particle."""
        return self.body(name, mass=mass, kind="particle", **keys)

    def frame(self, name: str, **keys: Any) -> None:
        """Adds a named frame, [[frame]]: body or frame, position, rotation."""
        self.table("frame", name=name, **keys)

    def joint(self, name: str, type: str, **keys: Any) -> None:  # noqa: A002
        """Adds a joint, [[joint]]: type, a (default: the world), b, at, axis, law, …

        `law` is a table such as ``{"type": "coulomb", "mu": 0.3}``, a list of them, a law of :mod:`linchpin.laws`, or a
        function of a ConstraintReaction that returns a force [N], or a force and a moment [N m], on the first body.
        """
        self.table("joint", name=name, type=type, **self._with_law(name, keys))

    def constraint(self, name: str, equation: Any = None, *, velocity: Any = None, **keys: Any) -> None:
        """Adds an equation, [[constraint]]: as text, as a SymPy expression that is zero, as a SymPy equation, or a list.

        :param equation: a condition on positions, such as ``"norm(bob.position) = 1"``
        :param velocity: a condition on velocities, in place of `equation`
        """
        if (equation is None) == (velocity is None):
            raise ValueError(f"constraint {name!r}: give either an equation or a velocity")
        condition = {"equation": _condition(equation)} if velocity is None else {"velocity": _condition(velocity)}
        self.table("constraint", name=name, **condition, **self._with_law(name, keys))

    def force(self, name: str, **keys: Any) -> None:
        """Adds a force, [[force]]."""
        self.table("force", name=name, **keys)

    def actuator(self, joint: str, **keys: Any) -> None:
        """Adds an actuator of a joint, [[actuator]]: torque, PD, velocity or prescribed motion."""
        self.table("actuator", joint=joint, **keys)

    def log(self, channel: str, name: str | None = None) -> None:
        """Adds a channel, [[log]]: a quantity such as ``"reaction(rod)"`` or ``"energy()"``."""
        self.table("log", channel=channel, name=name)

    def table(self, kind: str, /, **keys: Any) -> None:
        """Adds any table ``[[kind]]`` of the scene format. Keys that are None are left out."""
        self._tables.append((kind, {key: value for key, value in keys.items() if value is not None}))

    def _require_no_functions(self) -> None:
        if self._laws:
            raise ValueError(
                f"the laws of {', '.join(map(repr, self._laws))} are objects of Python, which the text of a scene cannot "
                "hold. Give them as tables, such as law={'type': 'coulomb', 'mu': 0.3}"
            )

    def _with_law(self, name: str, keys: dict[str, Any]) -> dict[str, Any]:
        law = keys.get("law")
        if not isinstance(law, _core.Law) and not callable(law):
            return keys
        self._laws[name] = law
        return {key: value for key, value in keys.items() if key != "law"}

    # -- results

    def to_toml(self) -> str:
        """The scene as the text of a scene file. Laws that are Python functions are not in it."""
        lines = [f"{key} = {_value(value, key)}" for key, value in self._top.items()]
        for kind, keys in self._single.items():
            lines += ["", f"[{kind}]", *_entries(keys, kind)]
        for kind, keys in self._tables:
            lines += ["", f"[[{kind}]]", *_entries(keys, f"{kind} {keys.get('name', '')}".strip())]
        return "\n".join(lines) + "\n"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the scene file. Laws that are Python functions cannot be written.

        :raises ValueError: if the scene has such a law.
        """
        self._require_no_functions()
        with open(os.fspath(path), "w", encoding="utf-8") as file:
            file.write(self.to_toml())

    def simulate(
        self,
        *,
        host: Host | None = None,
        params: Mapping[str, float] | None = None,
        robots: Robots | None = None,
    ) -> Simulation:
        """Makes a simulation. The arguments are those of :func:`linchpin.load`."""
        name = os.path.join(self._folder, "scene.toml")
        return loads(self.to_toml(), name=name, host=host, params=params, robots=robots, laws=self._laws)

    def _text_and_path(self) -> tuple[str, str]:
        """The text of the scene file, and a path for messages, to which files of robots are relative.

        :raises ValueError: if a law is a Python function.
        """
        self._require_no_functions()
        return self.to_toml(), os.path.join(self._folder, "scene.toml")

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(self.to_toml())


def text_of(call: str, scene: str | os.PathLike[str] | Scene) -> tuple[str, str]:
    """The text of a scene, and its path for messages and includes."""
    if isinstance(scene, Scene):
        return scene._text_and_path()
    path = os.fspath(scene)
    try:
        with open(path, encoding="utf-8") as file:
            return file.read(), path
    except UnicodeDecodeError:
        raise ValueError(f"{call}: {path} is no text in UTF-8") from None


_plain_key = re.compile(r"[A-Za-z0-9_-]+")


def _entries(keys: Mapping[str, Any], place: str) -> list[str]:
    return [f"{_key(key)} = {_value(value, f'{place}: {key}')}" for key, value in keys.items()]


def _key(key: Any) -> str:
    if not isinstance(key, str):
        raise TypeError(f"a key of a scene must be a text, not {key!r}")
    return key if _plain_key.fullmatch(key) else _text(key)


def _text(text: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError(f"{text!r} is no text that a file can hold") from None
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")


def _value(value: Any, place: str) -> str:
    """A value in TOML."""
    if isinstance(value, Body):
        return _text(value.name)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, os.PathLike):
        return _text(os.fspath(value))
    if hasattr(value, "tolist"):  # NumPy
        value = value.tolist()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        if abs(value) >= 2**63:
            raise ValueError(f"{place} is {value}, which is too large")
        return str(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{place} is {value}. It must be a finite number")
        return repr(value)
    if isinstance(value, Mapping):
        return "{ " + ", ".join(_entries(value, place)) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_value(each, place) for each in value) + "]"
    if _is_sympy(value):
        return _text(_expression(value))
    raise TypeError(f"{place} is {value!r}. It must be a number, a text, a list or a dict")


def _is_sympy(value: Any) -> bool:
    return type(value).__module__.split(".")[0] == "sympy"


def _condition(value: Any) -> Any:
    """An equation, or a list of them, as text."""
    if isinstance(value, (list, tuple)):
        return [_condition(each) for each in value]
    if not _is_sympy(value):
        return value
    import sympy

    if isinstance(value, sympy.Equality):
        return f"{_expression(value.lhs)} = {_expression(value.rhs)}"
    if isinstance(value, sympy.Expr):
        return f"{_expression(value)} = 0"
    raise TypeError(f"{value} is no SymPy expression or equation")


def _expression(value: Any) -> str:
    """A SymPy expression in the equation language."""
    from sympy.printing.str import StrPrinter

    class Printer(StrPrinter):  # type: ignore[misc]
        def _print_Pow(self, expr: Any, rational: bool = False) -> str:
            if expr.exp.is_Rational and expr.exp.q == 2 and expr.exp.p == 1:
                return f"sqrt({self._print(expr.base)})"
            return f"({self._print(expr.base)})^({self._print(expr.exp)})"

        def _print_Function(self, expr: Any) -> str:
            names = {"Abs": "abs", "Max": "max", "Min": "min", "ln": "log"}
            name = names.get(expr.func.__name__, expr.func.__name__)
            return f"{name}({', '.join(self._print(each) for each in expr.args)})"

        _print_Abs = _print_Max = _print_Min = _print_Function

        def _print_Rational(self, expr: Any) -> str:
            return f"({expr.p}/{expr.q})"

        def _print_Float(self, expr: Any) -> str:
            return repr(float(expr))

        def _print_Exp1(self, expr: Any) -> Any:
            return "exp(1)"

    return str(Printer().doprint(value))
