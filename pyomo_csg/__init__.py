"""Contextual scenario generation for two-stage stochastic programs in Pyomo."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

import pyomo_csg.transform  # noqa: F401, registers the transformations with Pyomo
from pyomo_csg.errors import (
    AnnotationError,
    CsgError,
    DataError,
    ModelError,
    SolveError,
)
from pyomo_csg.stages import MeanCVaR, TwoStageModel, annotate
from pyomo_csg.verbosity import set_verbosity

if TYPE_CHECKING:
    from pyomo_csg import baselines, guarantees, zoo
    from pyomo_csg.decisions.decision import Decision
    from pyomo_csg.evaluation import Case, Evaluation, Simulation, evaluate, simulate
    from pyomo_csg.interop import SmpsProblem, from_mpisppy, read_smps, write_smps
    from pyomo_csg.learn import methods
    from pyomo_csg.learn.config import FitConfig
    from pyomo_csg.learn.networks.task_nets import Linear, LocationScale
    from pyomo_csg.learn.selection.plan import Plan
    from pyomo_csg.learn.torch_layers import DecisionLayer, TaskLoss
    from pyomo_csg.policy.estimator import ScenarioGenerator
    from pyomo_csg.policy.fit import fit, plan
    from pyomo_csg.policy.policy import Policy
    from pyomo_csg.policy.policy_file import load
    from pyomo_csg.reduction import Reduction, reduce
    from pyomo_csg.solve import Oracle, Solution

__version__ = "0.1.0"

__all__ = [
    "AnnotationError",
    "Case",
    "CsgError",
    "DataError",
    "Decision",
    "DecisionLayer",
    "Evaluation",
    "FitConfig",
    "Linear",
    "LocationScale",
    "MeanCVaR",
    "ModelError",
    "Oracle",
    "Plan",
    "Policy",
    "Reduction",
    "ScenarioGenerator",
    "Simulation",
    "SmpsProblem",
    "Solution",
    "SolveError",
    "TaskLoss",
    "TwoStageModel",
    "annotate",
    "baselines",
    "evaluate",
    "fit",
    "from_mpisppy",
    "guarantees",
    "load",
    "methods",
    "plan",
    "read_smps",
    "reduce",
    "set_verbosity",
    "simulate",
    "write_smps",
    "zoo",
]

_MODULES = ("baselines", "guarantees", "methods", "zoo")
# Imported on first use: torch and scikit-learn take seconds, pyomo.environ tenths of one.
_LATER = {
    "Case": "evaluation",
    "Decision": "decisions.decision",
    "DecisionLayer": "learn.torch_layers",
    "Evaluation": "evaluation",
    "FitConfig": "learn.config",
    "Linear": "learn.networks.task_nets",
    "LocationScale": "learn.networks.task_nets",
    "Oracle": "solve",
    "Plan": "learn.selection.plan",
    "Policy": "policy.policy",
    "Reduction": "reduction",
    "ScenarioGenerator": "policy.estimator",
    "Simulation": "evaluation",
    "SmpsProblem": "interop",
    "Solution": "solve",
    "TaskLoss": "learn.torch_layers",
    "baselines": "baselines",
    "evaluate": "evaluation",
    "fit": "policy.fit",
    "from_mpisppy": "interop",
    "guarantees": "guarantees",
    "load": "policy.policy_file",
    "methods": "learn.methods",
    "plan": "policy.fit",
    "read_smps": "interop",
    "reduce": "reduction",
    "simulate": "evaluation",
    "write_smps": "interop",
    "zoo": "zoo",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f"{__name__}.{_LATER[name]}")
    found = module if name in _MODULES else getattr(module, name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """Return the public names, without the modules and helpers that this file uses."""
    return sorted([*__all__, "__version__"])
