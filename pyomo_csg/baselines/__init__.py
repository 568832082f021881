"""Baselines: published alternatives to ``csg.fit``, each used like a policy."""

from pyomo_csg.baselines.base import Baseline
from pyomo_csg.baselines.forecast_based import (
    ExpectedValue,
    QuantileRegression,
    Residuals,
)
from pyomo_csg.baselines.trained.neur2sp import Neur2SP
from pyomo_csg.baselines.trained.one_scenario import LandscapeSurrogate, OneScenario
from pyomo_csg.baselines.trained.optimization_forest import (
    StochasticOptimizationForest,
)
from pyomo_csg.baselines.trained.support_probabilities import SupportProbabilities
from pyomo_csg.baselines.weighted_saa import (
    ForestWeighted,
    NeighborWeighted,
    SampleAverage,
)

__all__ = [
    "Baseline",
    "ExpectedValue",
    "ForestWeighted",
    "LandscapeSurrogate",
    "NeighborWeighted",
    "Neur2SP",
    "OneScenario",
    "QuantileRegression",
    "Residuals",
    "SampleAverage",
    "StochasticOptimizationForest",
    "SupportProbabilities",
]
