"""Linear programs solved again in other units, where the first answer fails its check."""

import pyomo.environ as pyo
import pytest

import pyomo_csg as csg
from models import cvar_portfolio


def test_units_are_typical_where_a_point_tells_none():
    # Assets that a branch excludes are 0 in all rows but those of the scenarios: by the
    # units of such a row their duals are nothing, and no answer passed its check.
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
