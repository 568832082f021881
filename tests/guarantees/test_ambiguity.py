"""Costs of the best and the worst optimal decision."""

import numpy as np
import pytest

import pyomo_csg as csg
from models import mnv, newsvendor
from pyomo_csg.baselines.standard_baselines import SampledForestSAA
from pyomo_csg.guarantees import ambiguity
from pyomo_csg.learn.tables.history import History
from tests.quick import fit


def test_a_newsvendor_with_tied_orders_has_the_closed_form(history, held_out):
    model = newsvendor.build(price=1.9)
    policy = fit(history, model, method="mmd")
    found = ambiguity(policy, held_out)
    low, high = np.sort(policy.scenarios(held_out[0])[..., 0], axis=1).T
    demand = held_out[1][:, 0]
    ends = np.stack([_cost(low, demand), _cost(high, demand)])
    best = _cost(np.clip(demand, low, high), demand)
    assert np.allclose(found.pessimistic, ends.max(axis=0))
    assert np.allclose(found.optimistic, best)
    assert found.share > 0.9 and "the worst" in str(found)


def test_unique_decisions_have_no_ambiguity(policy, held_out):
    found = ambiguity(policy, held_out)
    assert found.share == 0.0 and np.allclose(found.spread, 0)
    assert "cost the same" in str(found)


def test_integer_models_are_refused():
    policy = fit(mnv.sample(12, seed=1), mnv.build(), scenarios=1, method="mmd")
    with pytest.raises(csg.ModelError, match="integer variables"):
        ambiguity(policy, mnv.sample(4, seed=2))


def test_different_numbers_of_scenarios_are_refused(policy, history, held_out):
    baseline = SampledForestSAA(policy, History(*history))
    with pytest.raises(csg.DataError, match="number of scenarios differs"):
        ambiguity(baseline, held_out)


def _cost(order, demand):
    sold = np.minimum(order, demand)
    return order - 1.9 * sold - 0.1 * (order - sold)
