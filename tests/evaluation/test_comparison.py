"""Costs on pairs, against the newsvendor's own formulas."""

import numpy as np
import pandas as pd
import pytest

import pyomo_csg as csg
from models import cep1, newsvendor
from pyomo_csg.baselines.standard_baselines import CONTEXT_FREE, FORECAST
from pyomo_csg.evaluation.comparison import Comparison, compare
from pyomo_csg.policy.policy import Policy
from tests.quick import shorten
from tests.test_policy import machines, papers

PRICE, SALVAGE = 1.05, 0.1


def cost(orders, demands):
    """Return what a newsvendor's orders cost, by hand."""
    sold = np.minimum(orders, demands)
    return orders - PRICE * sold - SALVAGE * (orders - sold)


@pytest.fixture(autouse=True)
def short(monkeypatch):
    shorten(monkeypatch.setattr)


@pytest.fixture(scope="module")
def policy():
    return Policy(newsvendor.build(), papers())


def test_costs_are_the_newsvendors(policy):
    contexts, demands = newsvendor.sample(30, seed=2)
    history = newsvendor.sample(80, seed=3)

    costs = compare({"mine": policy}, (contexts, demands), history).costs

    orders = policy.decide(contexts)["order"].to_numpy()
    assert costs["mine"].to_numpy() == pytest.approx(cost(orders, demands[:, 0]))
    level = (PRICE - 1) / (PRICE - SALVAGE)
    best = np.quantile(history[1], level, method="inverted_cdf")
    assert costs[CONTEXT_FREE].to_numpy() == pytest.approx(cost(best, demands[:, 0]))


def test_the_expected_value_follows_what_the_context_tells():
    rng = np.random.default_rng(0)
    contexts = rng.uniform(0, 1, (200, 2))
    demands = 10 + 10 * (
        contexts[:, :1] > 0.5
    )  # a forest sees this almost without error
    policy = Policy(newsvendor.build(), papers(reach=99.0))

    table = compare({"mine": policy}, (contexts, demands)).table()

    perfect = cost(demands, demands).mean()
    followed, ignored = (
        table.loc[name, "mean"] - perfect for name in (FORECAST, CONTEXT_FREE)
    )
    assert 0 <= followed < 0.1 * ignored


def test_without_a_history_no_decision_is_evaluated_on_a_pair_it_was_fitted_to(policy):
    demands = np.full((10, 1), 12.0)
    demands[3] = 20.0  # the only one that would have made an order of 20 good
    contexts = np.zeros((10, 2))

    costs = compare({"mine": policy}, (contexts, demands)).costs

    # Whoever did not see the 20 forecasts 12 for it.
    assert costs[FORECAST][3] == pytest.approx(cost(12.0, 20.0))


def test_differences_are_paired():
    costs = pd.DataFrame(
        {"a": [1.0, 2, 3, 4], "b": [2.0, 2, 5, 3], "c": [1.0, 2, 3, 4]}
    )

    table = Comparison(costs).table()

    apart = np.array([1.0, 0, 2, -1])
    assert table.loc["b", "difference"] == apart.mean()
    assert table.loc["b", "difference_error"] == pytest.approx(apart.std(ddof=1) / 2)
    assert table.loc["a", "standard_error"] == pytest.approx(costs["a"].std() / 2)
    assert table["first_better"].tolist() == [0.5, 0.625, 0.5]


def test_a_pair_without_a_cost_counts_as_the_worst():
    costs = pd.DataFrame({"a": [1.0, np.nan, 3], "b": [2.0, 7.0, 5]})

    table = Comparison(costs).table()

    assert table.loc["a", "mean"] == pytest.approx((1 + 7 + 3) / 3)
    assert table["unsolved"].tolist() == [1, 0]
    with pytest.raises(csg.DataError, match="no decision has a cost"):
        Comparison(costs * np.nan).table()


def test_several_policies_and_many_numbers_are_compared():
    policies = {f"K={k}": Policy(cep1.build(), machines(k)) for k in (1, 3)}
    contexts, demands = cep1.sample(12, seed=1)

    costs = compare(policies, (contexts, demands)).costs

    oracle = csg.Oracle(cep1.build())
    for name, policy in policies.items():
        expected = oracle.cost(policy.decide(contexts).to_numpy(), demands)
        assert costs[name].to_numpy() == pytest.approx(expected)


def test_a_frame_is_read_by_the_names_that_the_policy_knows():
    policy = Policy(newsvendor.build(), papers(names=("rain", "price")))
    contexts, demands = newsvendor.sample(10, seed=2)
    frame = pd.DataFrame(contexts, columns=["rain", "price"]).assign(
        demand=demands, weekday="Monday"
    )

    by_name = compare({"mine": policy}, frame[["weekday", "price", "demand", "rain"]])

    expected = compare({"mine": policy}, (contexts, demands))
    pd.testing.assert_frame_equal(by_name.costs, expected.costs)
    with pytest.raises(csg.DataError, match="no column for 'rain'"):
        compare({"mine": policy}, frame.drop(columns="rain"))
