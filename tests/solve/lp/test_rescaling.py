"""Linear programs solved again in other units because their certificate failed."""

import pyomo.environ as pyo
import pytest

import pyomo_csg as csg
from models import cvar_portfolio


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
