"""Linear programs solved again in other units because their certificate failed."""

import numpy as np
import pyomo.environ as pyo
import pytest

import pyomo_csg as csg
from models import cvar_portfolio, resource_allocation


def test_typical_units_if_rows_vanish_at_the_point():
    # Assets that a branch excludes are 0 in all rows but the scenarios'. In units taken from the
    # point, the duals of such rows were mistaken for zero, and no answer could be certified.
    contexts, _ = cvar_portfolio.history(0)
    outcomes, weights = cvar_portfolio.conditional(contexts[-70], generator=0)
    model = cvar_portfolio.build()
    found = csg.Oracle(model).solve(outcomes, weights)
    assert found.status == "optimal"
    whole = pyo.TransformationFactory("csg.extensive_form").create_using(
        model, scenarios=outcomes, weights=weights
    )
    pyo.SolverFactory("highs").solve(whole)
    objective = next(whole.component_data_objects(pyo.Objective, active=True))
    assert found.value == pytest.approx(pyo.value(objective), rel=1e-4)


def test_point_that_misses_a_row_by_the_tolerance_is_corrected():
    """A resource that is not ordered leaves a row whose side is 0."""
    oracle = csg.Oracle(resource_allocation.build())
    _, outcomes = resource_allocation.sample(90, seed=0)
    decisions = oracle.solve(outcomes[:30].reshape(10, 3, -1)).decision
    pairs = np.repeat(decisions, 60, axis=0), np.tile(outcomes[30:], (10, 1))
    before = oracle.stats.solves
    costs = oracle.cost(*pairs)
    assert oracle.stats.solves - before < 0.9 * len(costs)  # 0.95 without
    exact = csg.Oracle(resource_allocation.build(), solver="contrib_highs")
    assert exact.cost(pairs[0][::50], pairs[1][::50]) == pytest.approx(
        costs[::50], rel=1e-8
    )
