"""``csg.methods``: the training methods as objects, and what a method of yours needs."""

from pyomo_csg.learn.methods.perturbed import Perturbed
from pyomo_csg.learn.methods.specifications import (
    MMD,
    Auto,
    Direct,
    Dynamic,
    Method,
    Static,
)
from pyomo_csg.learn.methods.training_task import TrainingTask

__all__ = [
    "MMD",
    "Auto",
    "Direct",
    "Dynamic",
    "Method",
    "Perturbed",
    "Static",
    "TrainingTask",
]
