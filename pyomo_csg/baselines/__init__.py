"""Baselines: published alternatives to ``csg.fit``, each used like a policy."""

from pyomo_csg.baselines.base import Baseline
from pyomo_csg.baselines.forecast_based import ExpectedValue, Residuals
from pyomo_csg.baselines.quantile_regression import QuantileRegression
from pyomo_csg.baselines.trained.landscape import LandscapeSurrogate
from pyomo_csg.baselines.trained.neur2sp import Neur2SP
from pyomo_csg.baselines.trained.one_scenario import OneScenario
from pyomo_csg.baselines.trained.support_probabilities import SupportProbabilities
from pyomo_csg.baselines.weighted_saa import (
    ForestWeighted,
    NeighbourWeighted,
    SampleAverage,
)

__all__ = [
    "Baseline",
    "ExpectedValue",
    "ForestWeighted",
    "LandscapeSurrogate",
    "NeighbourWeighted",
    "Neur2SP",
    "OneScenario",
    "QuantileRegression",
    "Residuals",
    "SampleAverage",
    "SupportProbabilities",
]
