"""Contextual scenario generation for two-stage stochastic programs in Pyomo."""

import pyomo_csg.transform  # noqa: F401, registers the transformations with Pyomo
from pyomo_csg.errors import (
    AnnotationError,
    CsgError,
    DataError,
    ModelError,
    SolveError,
)
from pyomo_csg.solve import Oracle, Solution
from pyomo_csg.stages import TwoStageModel, annotate

__version__ = "0.1.0"

__all__ = [
    "AnnotationError",
    "CsgError",
    "DataError",
    "ModelError",
    "Oracle",
    "Solution",
    "SolveError",
    "TwoStageModel",
    "annotate",
]
