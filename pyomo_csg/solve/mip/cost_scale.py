"""The size of a program's cost, to which the tolerances of branch-and-bound are relative.

It is measured at a point of the program itself: the cost of other scenarios, or of the Params'
current values, may be millions of times larger.
"""

from __future__ import annotations

import math

import numpy as np

from pyomo_csg.solve.compile.assembly import Arrays, Shape, Stack
from pyomo_csg.solve.lp.natural_units import NaturalUnits

# The slack of the cut "stay optimal on the scenarios". HiGHS's feasibility tolerance is 1e-9: with
# less slack the optimum itself could be cut off, with more the loss would be visibly too low.
COST_SLACK = 1e-9
_NOTHING = 1e-12  # of a typical cost: points below cost nothing


def cost_terms(program: Arrays | Stack, x: np.ndarray) -> np.ndarray:
    """Return the sums of the absolute cost terms of points (..., columns)."""
    return np.asarray(np.abs(program.cost * x).sum(axis=-1))


def cost_size(layout: Shape, arrays: Arrays, x: np.ndarray) -> float:
    """Return the sum of a point's absolute cost terms; a typical cost if it costs nothing."""
    terms = float(cost_terms(arrays, x))
    costs = np.abs(arrays.cost)
    if terms > _NOTHING * costs.max(initial=0.0) * np.abs(x).max(initial=1.0):
        return terms
    typical = typical_cost(layout, arrays)
    return terms if terms > _NOTHING * typical else typical


def typical_cost(layout: Shape, arrays: Arrays) -> float:
    """Return the median cost of a column's natural unit; 1 if nothing costs anything."""
    costs = np.abs(arrays.cost * NaturalUnits(layout, arrays).columns)
    costs = costs[(costs > 0) & np.isfinite(costs)]
    return float(np.median(costs)) if len(costs) else 1.0


def power_of_two_below(size: float) -> float:
    """Return a factor that brings a size to between a half and one; 1 if there is none."""
    if not 0 < size < math.inf:
        return 1.0
    return math.ldexp(1.0, min(1000, -math.frexp(size)[1]))
