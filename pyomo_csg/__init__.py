"""Contextual scenario generation for two-stage stochastic programs in Pyomo."""

import pyomo_csg.transform  # noqa: F401, registers the transformations with Pyomo
from pyomo_csg import baselines, guarantees
from pyomo_csg.decision import Decision
from pyomo_csg.errors import (
    AnnotationError,
    CsgError,
    DataError,
    ModelError,
    SolveError,
)
from pyomo_csg.estimator import ScenarioGenerator
from pyomo_csg.evaluation import Case, Evaluation, evaluate
from pyomo_csg.fitting import fit
from pyomo_csg.learn.config import FitConfig
from pyomo_csg.learn.linear import Linear
from pyomo_csg.learn.networks import LocationScale
from pyomo_csg.policy import Policy
from pyomo_csg.saving import load
from pyomo_csg.solve import Oracle, Solution
from pyomo_csg.stages import TwoStageModel, annotate, from_mpisppy

__version__ = "0.1.0"

__all__ = [
    "AnnotationError",
    "Case",
    "CsgError",
    "DataError",
    "Decision",
    "Evaluation",
    "FitConfig",
    "Linear",
    "LocationScale",
    "ModelError",
    "Oracle",
    "Policy",
    "ScenarioGenerator",
    "Solution",
    "SolveError",
    "TwoStageModel",
    "annotate",
    "baselines",
    "evaluate",
    "fit",
    "from_mpisppy",
    "guarantees",
    "load",
]
