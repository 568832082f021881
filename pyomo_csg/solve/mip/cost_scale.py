"""Costs of integer models in units of the model's own cost.

Tolerances of branch-and-bound are absolute: HiGHS's, and ours for ties. They suit a program
whose cost terms add up to about one.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from pyomo_csg.solve.compile.assembly import Layout, evaluate
from pyomo_csg.solve.compile.compiler import CompiledModel, Cost
from pyomo_csg.solve.engine import SolveContext, SolverTrouble
from pyomo_csg.solve.lp.highs_program import DUAL_SIMPLEX
from pyomo_csg.solve.mip.mip_program import Relaxation

_FAST = {"simplex_strategy": DUAL_SIMPLEX}


def scale_costs(compiled: CompiledModel) -> CompiledModel:
    """Return an integer model whose cost terms at the Params' current values are near one.

    The factor is a power of two, so no cost is rounded. Other models stay as they are.
    """
    if not compiled.integer:
        return compiled
    size = _cost_size(compiled)
    if not 0 < size < math.inf:
        return compiled
    factor = math.ldexp(1.0, -math.frexp(size)[1])
    return replace(
        compiled,
        first_cost=_scaled(compiled.first_cost, factor),
        recourse_cost=_scaled(compiled.recourse_cost, factor),
        cost_scale=factor,
    )


def _scaled(cost: Cost, factor: float) -> Cost:
    return replace(
        cost, linear=cost.linear.scaled(factor), constant=cost.constant.scaled(factor)
    )


def _cost_size(compiled: CompiledModel) -> float:
    """Return the sum of the absolute cost terms at the relaxation's optimum.

    Where that is not known, return the largest cost of a column.
    """
    layout = Layout(compiled, 1)
    nominal = compiled.nominal
    blocks = evaluate(compiled, nominal[None, :])
    if blocks.unusable().any():
        certain = (compiled.first_cost.linear, compiled.recourse_cost.linear)
        costs = np.concatenate([numbers.constant for numbers in certain])
        return float(np.abs(costs[np.isfinite(costs)]).max(initial=0.0))
    arrays = layout.arrays(blocks, np.ones(1))
    largest = float(np.abs(arrays.cost).max(initial=0.0))
    relaxation = Relaxation(layout, SolveContext().with_defaults(_FAST))
    try:
        relaxation.solve(arrays)
        x, _ = relaxation.certified_optimum()
    except SolverTrouble:
        return largest
    return float(np.abs(arrays.cost * x).sum()) or largest
