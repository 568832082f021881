"""Rivals: policies as others have proposed them, under the same protocol."""

from pyomo_csg.baselines.base import Baseline
from pyomo_csg.baselines.expected_value import ExpectedValue
from pyomo_csg.baselines.forest import ForestWeighted
from pyomo_csg.baselines.landscape import LandscapeSurrogate
from pyomo_csg.baselines.neighbours import NeighbourWeighted
from pyomo_csg.baselines.neur2sp import Neur2SP
from pyomo_csg.baselines.one_scenario import OneScenario
from pyomo_csg.baselines.quantile_regression import QuantileRegression
from pyomo_csg.baselines.residuals import Residuals
from pyomo_csg.baselines.sample_average import SampleAverage
from pyomo_csg.baselines.support import SupportProbabilities

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
