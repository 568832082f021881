"""A model whose recourse rows have no matrix entries is fitted and certified like any other."""

import numpy as np
import pyomo.environ as pyo
import pytest

import pyomo_csg as csg
from tests.quick import QUICK


@pytest.mark.parametrize("entry", [0.0, 1e-10])
def test_rows_without_entries_are_fitted_and_certified(entry):
    m = pyo.ConcreteModel("rows without entries")
    m.d = pyo.Param(initialize=5.0, mutable=True)
    m.y, m.z = pyo.Var(bounds=(0, 10)), pyo.Var(bounds=(0, 1))
    m.least = pyo.Constraint(expr=m.y + entry * m.z >= m.d - 8)
    m.cost = pyo.Objective(expr=m.y - 2 * m.z)
    csg.annotate(m, first_stage_variables=m.y, uncertain_params=m.d)
    rng = np.random.default_rng(0)
    contexts = rng.uniform(size=(40, 1))
    history = contexts, 5 + 2 * contexts + 0.9 * rng.uniform(size=(40, 1))
    policy = csg.fit(m, history, scenarios=2, method="auto", config=QUICK)
    # Demand is below 8, so nothing is bought.
    assert policy.decide([0.5]).value == pytest.approx(-2)
    certificate = policy.certify(history)
    assert certificate is not None
    assert csg.Oracle(m).cost([[0.0]], [[8.5]], on_error="record") == pytest.approx(
        [np.nan], nan_ok=True
    )
