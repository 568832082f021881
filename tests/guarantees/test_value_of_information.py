"""VSS and EVPI: the book's farmer, the newsvendor in closed form, data alone."""

import numpy as np
import pytest

import pyomo_csg as csg
from models import farmer, newsvendor
from pyomo_csg.decisions.decider import Decider
from pyomo_csg.guarantees import conditional_values, values
from tests.quick import fit, maximized


class Knowing(Decider):
    """Decides on the farmer's three years, or on some of them."""

    context_shape = (1,)

    def __init__(self, years=(0, 1, 2)):
        super().__init__(farmer.build())
        self._years = farmer.scenarios()[list(years)]

    def _generate_scenarios(self, contexts):
        shape = (len(contexts), *self._years.shape)
        weights = np.full(shape[:2], 1 / len(self._years))
        return np.broadcast_to(self._years, shape).copy(), weights


def test_the_farmer_agrees_with_birge_and_louveaux():
    found = conditional_values(Knowing(), [([0.0], farmer.scenarios())])
    assert found.vss == pytest.approx(1150)
    assert found.evpi == pytest.approx(7015.56, abs=0.01)
    assert found.captured == pytest.approx(1.0) and found.known
    assert found.table["stochastic"].tolist() == pytest.approx([-108390])


def test_the_expected_value_decision_captures_nothing():
    found = conditional_values(Knowing([1]), [([0.0], farmer.scenarios())])
    assert found.captured == pytest.approx(0.0, abs=1e-9)


def test_without_a_vss_nothing_is_captured():
    """With one outcome the mean is all that may happen."""
    found = conditional_values(Knowing([0]), [([0.0], farmer.scenarios()[[0]])])
    assert found.vss == pytest.approx(0.0, abs=1e-6)
    found.table["vss"] = -1.0
    assert np.isnan(found.captured)
    assert "there is nothing for a policy to capture" in str(found)


def test_weights_count():
    doubled = farmer.scenarios()[[0, 1, 1, 2]]
    one = conditional_values(Knowing(), [([0.0], doubled)])
    other = conditional_values(
        Knowing(), [([0.0], farmer.scenarios(), [0.25, 0.5, 0.25])]
    )
    assert one.vss == pytest.approx(other.vss)


def test_the_newsvendor_agrees_with_the_closed_form(policy, by_hand):
    contexts = newsvendor.sample(4, seed=7)[0]
    laws = [newsvendor.conditional(x) for x in contexts]
    cases = [(x, *law) for x, law in zip(contexts, laws, strict=True)]
    table = conditional_values(policy, cases).table
    for row, (demands, _) in zip(table.itertuples(), laws, strict=True):
        demand = demands[:, 0]
        best = min(by_hand(np.full(200, y), demand).mean() for y in demand)
        mean = by_hand(np.full(200, demand.mean()), demand).mean()
        assert row.vss == pytest.approx(mean - best)
        assert row.evpi == pytest.approx(best + 0.05 * demand.mean())
        assert row.captured == pytest.approx((mean - row.policy) / (mean - best))


def test_a_model_that_is_maximized_has_the_same(history):
    contexts = newsvendor.sample(3, seed=7)[0]
    cases = [(x, *newsvendor.conditional(x)) for x in contexts]
    one, other = (
        conditional_values(fit(history, model, method="mmd"), cases).table
        for model in (newsvendor.build(), maximized())
    )
    assert np.allclose(one, other)


def test_on_data_alone_costs_are_those_of_the_outcomes(
    policy, history, held_out, by_hand
):
    found = values(policy, held_out, history=history)
    demands = held_out[1][:, 0]
    orders = policy.decide(held_out[0])["order"].to_numpy()
    assert not found.known and len(found.table) == 120
    assert np.allclose(found.table["policy"], by_hand(orders, demands))
    assert np.allclose(found.table["perfect"], -0.05 * demands)
    assert found.vss > 0 and found.evpi > 0
    assert "with one outcome each" in str(found)


def test_without_a_history_baselines_learn_from_half_of_the_data(policy, held_out):
    assert len(values(policy, held_out).table) == 60


def test_data_and_known_distributions_agree(policy, history):
    """On many pairs, data alone and the law say about the same of the policy."""
    contexts, demands = newsvendor.sample(100, seed=8)
    seen = values(policy, (contexts, demands), history=history)
    cases = [(x, *newsvendor.conditional(x)) for x in contexts[:30]]
    law = conditional_values(policy, cases)
    assert seen.table["policy"].mean() == pytest.approx(
        law.table["policy"].mean(), abs=0.03
    )
    assert seen.evpi == pytest.approx(law.evpi, abs=0.03)


def test_outcomes_that_do_not_fit_are_refused(policy):
    with pytest.raises(csg.DataError, match="outside its domain"):
        conditional_values(policy, [([0.0, 0.0], [[-1.0], [15.0]])])
