"""Exact constraint forces for mechanisms and robots.

``solve`` is the equation of Udwadia and Kalaba as a function of arrays. ``load`` makes a simulation from a scene or a
robot. ``Scene`` makes one from Python. ``Dynamics`` has what controllers need.
"""

from . import laws
from ._core import ConstraintReaction, FileError, Joint, Law, OrderError, SceneError
from .derivatives import Derivatives, InputGradient, OutputChange, derivatives
from .dynamics import Dynamics
from .equation import Solution, solve
from .fit import Fit, FittedColumn, FittedSeries, fit
from .linearization import Linearization, linearize
from .reactions import Reaction, Reactions, Wrench
from .rollout import Rollout, rollout
from .scene import Scene
from .sensitivities import Sensitivities, SensitivityEvent, sensitivities
from .simulation import ControllerFailure, Simulation, load, loads
from .state import State
from .sweep import Sweep, sweep
from .trace import Trace
from .version import __version__

__all__ = [
    "ConstraintReaction",
    "ControllerFailure",
    "Derivatives",
    "Dynamics",
    "FileError",
    "Fit",
    "FittedColumn",
    "FittedSeries",
    "InputGradient",
    "Joint",
    "Law",
    "Linearization",
    "OrderError",
    "OutputChange",
    "Reaction",
    "Reactions",
    "Rollout",
    "Scene",
    "SceneError",
    "Sensitivities",
    "SensitivityEvent",
    "Simulation",
    "Solution",
    "State",
    "Sweep",
    "Trace",
    "Wrench",
    "__version__",
    "derivatives",
    "fit",
    "laws",
    "linearize",
    "load",
    "loads",
    "rollout",
    "sensitivities",
    "solve",
    "sweep",
]
