"""Certificates: numbers by hand, text, and coverage."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pyomo.environ as pyo
import pytest
from scipy import stats

import pyomo_csg as csg
from models import newsvendor
from pyomo_csg.decisions.decider import Decider
from pyomo_csg.evaluation.comparison import default_baselines, policy_costs
from pyomo_csg.guarantees import mean_interval
from pyomo_csg.learn.tables.history import History
from tests.quick import fit, maximized

REPEATS = 1000


class Fixed(Decider):
    """Orders the same, whatever the context."""

    context_shape = (2,)

    def __init__(self, order):
        super().__init__(newsvendor.build())
        self._order = order

    def _generate_scenarios(self, contexts):
        shape = (len(contexts), 1, 1)
        return np.full(shape, self._order), np.ones(shape[:2])


@pytest.fixture(scope="module")
def certificate(policy, held_out):
    return policy.certify(held_out, against={"hoarding": Fixed(30.0)})


def test_cost_is_the_mean_on_held_out_pairs(certificate, policy, held_out, by_hand):
    orders = policy.decide(held_out[0])["order"].to_numpy()
    costs = by_hand(orders, held_out[1][:, 0])
    expected = mean_interval(costs, 0.05 / 5)
    assert certificate.cost.mean == pytest.approx(costs.mean())
    assert certificate.cost.upper == pytest.approx(expected.upper)


def test_an_advantage_is_a_mean_of_paired_differences(
    certificate, policy, held_out, by_hand
):
    orders, demands = policy.decide(held_out[0])["order"].to_numpy(), held_out[1][:, 0]
    apart = by_hand(np.full(120, 30.0), demands) - by_hand(orders, demands)
    expected = mean_interval(apart, 0.05 / 5)
    found = certificate.advantages["hoarding"]
    assert (found.lower, found.upper) == pytest.approx((expected.lower, expected.upper))
    assert certificate.excess == pytest.approx(-expected.lower)


def test_perfect_information_saves_what_the_closed_form_says(
    certificate, policy, held_out, by_hand
):
    orders, demands = policy.decide(held_out[0])["order"].to_numpy(), held_out[1][:, 0]
    gaps = by_hand(orders, demands) - by_hand(demands, demands)
    assert certificate.gaps[0].reference == "perfect information"
    assert certificate.gaps[0].interval.mean == pytest.approx(gaps.mean())


def test_text_agrees_with_the_numbers(certificate):
    text = str(certificate)
    assert "With 95 % confidence, all of these hold:" in text
    assert f"at most {certificate.cost.upper:.5g}" in text
    assert "it beats hoarding by between 13." in text
    assert "Student's t" in text
    assert ("Caution" in text) == certificate.cost.doubtful


def test_a_policy_that_loses_is_reported_as_such(policy, held_out):
    known = newsvendor.conditional(np.zeros(2))[0]
    text = str(policy.certify(held_out, against={"an expert": Fixed(known.min())}))
    assert "an expert beats it" in text or "better or worse" in text


def test_default_baselines_learn_from_the_given_history(policy, held_out, history):
    found = policy.certify(held_out, history=history, gaps=False)
    demands = history[1][:, 0]
    candidates = np.unique(demands)
    costs = [_mean_cost(order, demands) for order in candidates]
    best = candidates[np.argmin(costs)]
    orders = policy.decide(held_out[0])["order"].to_numpy()
    apart = [
        _mean_cost(best, d) - _mean_cost(order, d)
        for order, d in zip(orders, held_out[1][:, 0], strict=True)
    ]
    advantage = found.advantages["one decision for all contexts"]
    assert advantage.mean == pytest.approx(np.mean(apart))
    assert advantage.count == 120


def test_without_a_history_baselines_learn_from_half_of_the_pairs(policy, held_out):
    forgetful = csg.Policy(newsvendor.build(), replace(policy.learned, pairs=None))
    found = forgetful.certify(held_out, gaps=False)
    assert {one.count for one in found.advantages.values()} == {60}
    assert found.cost.count == 120


def test_baselines_learn_from_the_policys_own_history(policy, history, held_out):
    kept = policy.certify(held_out, gaps=False)
    passed = policy.certify(held_out, history=history, gaps=False)
    assert {one.count for one in kept.advantages.values()} == {120}
    assert kept.verdict == passed.verdict
    assert kept.advantages == passed.advantages


def test_a_range_gives_bounds_for_any_distribution(policy, held_out):
    found = policy.certify(held_out, cost_range=(-3.0, 54.0), against={})
    assert found.cost.method == "bernstein" and found.cost.upper > 4
    assert "for any distribution of costs" in str(found)


def test_a_baseline_s_cost_outside_the_range_is_refused(policy, held_out):
    costs, dear = policy_costs(policy, History(*held_out)), Fixed(500.0)
    mine = {"cost_range": (float(costs.min()) - 1, float(costs.max()) + 1)}
    assert policy.certify(held_out, against={}, gaps=False, **mine).cost.method
    with pytest.raises(csg.DataError, match="no cost can exceed"):
        policy.certify(held_out, against={"dear": dear}, gaps=False, **mine)


def test_a_model_that_is_maximized_earns_what_the_other_costs(history, held_out):
    costs, profits = (
        fit(history, model, method="mmd").certify(held_out, against={})
        for model in (newsvendor.build(), maximized())
    )
    assert profits.cost.upper == pytest.approx(costs.cost.upper)
    assert [gap.interval.upper for gap in profits.gaps] == pytest.approx(
        [gap.interval.upper for gap in costs.gaps]
    )
    assert f"earns {-costs.cost.mean:.5g} on average, at least" in str(profits)


def test_columns_are_found_by_their_names(history, held_out):
    columns = ["rain", "price"]
    frame = pd.DataFrame(history[0], columns=columns).assign(demand=history[1])
    named = fit(frame, method="mmd")
    new = pd.DataFrame(held_out[0], columns=columns).assign(
        demand=held_out[1], weekday="Monday"
    )
    by_name = named.certify(new[["demand", "price", "weekday", "rain"]], against={})
    by_place = named.certify(held_out, against={})
    assert by_name.cost.upper == pytest.approx(by_place.cost.upper)


@pytest.mark.parametrize(
    ("rows", "options", "says"),
    [
        (7, {}, "7 pairs"),
        (20, {"delta": 0.0}, "delta is 0.0"),
        (20, {"cost_range": (2.0, 1.0)}, "two finite numbers in order"),
        (20, {"cost_range": (0.0, 1.0)}, "costs are between -0.7"),
    ],
)
def test_bad_arguments_are_refused(policy, held_out, rows, options, says):
    data = held_out[0][:rows], held_out[1][:rows]
    with pytest.raises(csg.DataError, match=says):
        policy.certify(data, against={}, **options)


@pytest.mark.parametrize(
    ("baseline", "says"),
    [
        (lambda history: 3, "it is of type int"),
        (
            lambda history: fit((history[0][:, :1], history[1]), method="mmd"),
            r"contexts of shape \(1,\)",
        ),
    ],
)
def test_a_baseline_that_cannot_be_compared_is_refused(
    policy, history, held_out, baseline, says
):
    with pytest.raises(csg.DataError, match=says):
        policy.certify(held_out, against={"it": baseline(history)})


def test_contexts_of_another_shape_are_refused(policy, held_out):
    with pytest.raises(csg.DataError, match=r"shape \(120, 3\)"):
        policy.certify((np.ones((120, 3)), held_out[1]))


def test_infinite_costs_give_no_certificate(history):
    m = newsvendor.build()
    m.least = pyo.Constraint(expr=m.sold >= 14.0)
    fussy = fit(history, m, method="mmd")
    with pytest.raises(csg.SolveError, match="infeasible"):
        fussy.certify((history[0], history[1] * 0.5), against={})


def test_joint_coverage_is_at_least_nominal(policy, history, by_hand):
    """On bootstrap samples of many pairs, whose means are known."""
    contexts, demands = newsvendor.sample(1000, seed=5)
    everyone = [policy, *default_baselines(policy, History(*history)).values()]
    orders = [one.decide(contexts)["order"].to_numpy() for one in everyone]
    ours, *theirs = (by_hand(order, demands[:, 0]) for order in orders)
    gaps = ours - by_hand(demands[:, 0], demands[:, 0])
    columns = np.stack([ours, gaps, *(baseline - ours for baseline in theirs)])
    truth, rng, delta = columns.mean(axis=1), np.random.default_rng(6), 0.05
    missed = 0
    for _ in range(REPEATS):
        drawn = columns[:, rng.integers(1000, size=100)]
        found = [mean_interval(one, delta / 6) for one in drawn]
        above = [one.upper < mean for one, mean in zip(found, truth, strict=True)]
        below = [
            one.lower > mean for one, mean in zip(found[2:], truth[2:], strict=True)
        ]
        missed += any(above) or any(below)
    assert missed <= stats.binom.ppf(0.999, REPEATS, delta)


def _mean_cost(order, demands):
    sold = np.minimum(order, demands)
    return np.mean(order - 1.05 * sold - 0.1 * (order - sold))
