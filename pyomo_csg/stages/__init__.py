"""Annotations, and what they say about the stage of everything in a model."""

from pyomo_csg.stages.annotation import annotate
from pyomo_csg.stages.risk import MeanCVaR
from pyomo_csg.stages.two_stage import TwoStageModel

__all__ = ["MeanCVaR", "TwoStageModel", "annotate"]
