"""Rivals: policies as others have proposed them, under the same protocol."""

from pyomo_csg.baselines.base import Baseline

__all__ = ["Baseline"]
