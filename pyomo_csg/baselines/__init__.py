"""Rivals: policies as others have proposed them, under the same protocol."""

from pyomo_csg.baselines.base import Baseline
from pyomo_csg.baselines.expected_value import ExpectedValue
from pyomo_csg.baselines.forest import ForestWeighted
from pyomo_csg.baselines.neighbours import NeighbourWeighted
from pyomo_csg.baselines.quantile_regression import QuantileRegression
from pyomo_csg.baselines.residuals import Residuals
from pyomo_csg.baselines.sample_average import SampleAverage

__all__ = [
    "Baseline",
    "ExpectedValue",
    "ForestWeighted",
    "NeighbourWeighted",
    "QuantileRegression",
    "Residuals",
    "SampleAverage",
]
