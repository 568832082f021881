"""One scenario by Nelder and Mead, against linear programs and sorted lists."""

import numpy as np
import pytest
from scipy.optimize import linprog

import pyomo_csg as csg
from pyomo_csg.baselines import OneScenario
from pyomo_csg.baselines.trained.one_scenario import simplex
from tests.baselines import papers
from tests.learn.methods.test_direct import hard_to_serve

LEVEL = 0.8
PRICE = 1 / (1 - LEVEL)


def test_the_linear_map_is_the_quantile_regression_of_a_newsvendor():
    contexts, demands = papers.pairs(40, d=1)

    baseline = OneScenario(papers.build(LEVEL), (contexts, demands), progress=False)

    # min over (b, B) of the mean of y - PRICE * min(y, demand), with y = b + B x.
    n = len(contexts)
    design = np.hstack([np.ones((n, 1)), contexts])
    line = linprog(
        np.r_[design.mean(axis=0), np.full(n, -PRICE / n)],
        A_ub=np.hstack([-design, np.eye(n)]),
        b_ub=np.zeros(n),
        bounds=[(None, None)] * 2 + [(None, demand) for demand in demands[:, 0]],
    )
    assert baseline.losses[1] == pytest.approx(line.fun, rel=1e-4)
    orders = baseline.decide(contexts, progress=False).to_numpy()
    costs = csg.Oracle(papers.build(LEVEL)).cost(orders, demands)
    assert costs.mean() == pytest.approx(baseline.losses[1])
    assert baseline.losses[1] < baseline.losses[0]


def test_a_leafs_scenario_is_its_critical_quantile():
    contexts = np.repeat([0.0, 1.0, 2.0], 14)[:, None]
    demands = np.random.default_rng(0).gamma(4.0, 1 + 3 * contexts)

    baseline = OneScenario(
        papers.build(LEVEL), (contexts, demands), map="tree", leaf=14, progress=False
    )

    oracle, best = csg.Oracle(papers.build(LEVEL)), []
    for x in (0.0, 1.0, 2.0):
        mine = demands[contexts == x]
        quantile = papers.order(mine, np.full(14, 1 / 14), LEVEL)
        assert baseline.scenarios([x])[0, 0] == pytest.approx(quantile, rel=1e-2)
        best.append(oracle.cost([quantile], mine[:, None]).mean())
    assert baseline.losses[1] == pytest.approx(np.mean(best), rel=1e-4)


def test_numbers_of_a_scenario_are_searched_together():
    model, (contexts, demands) = papers.of_two(40)
    baseline = OneScenario(
        model, (contexts, demands), map="tree", leaf=40, progress=False
    )
    quantiles = [
        papers.order(column, np.full(40, 1 / 40), 2 / 3) for column in demands.T
    ]
    assert baseline.scenarios(contexts[0])[0] == pytest.approx(quantiles, rel=2e-2)


def test_scenarios_stay_in_the_params_domains():
    contexts, demands = papers.pairs(20, d=1)
    baseline = OneScenario(
        papers.build(LEVEL), (contexts, demands), evaluations=5, progress=False
    )
    assert baseline.scenarios([-100.0])[0, 0] == 0.0
    assert baseline.decide([-100.0])["order"] == pytest.approx(0)


def test_pairs_without_recourse_are_left_aside():
    needs = np.r_[np.linspace(4, 6, 12), 8.0][:, None]
    baseline = OneScenario(
        hard_to_serve(), (np.zeros((13, 1)), needs), map="tree", leaf=13, progress=False
    )
    served = [5.0, baseline.scenarios([0.0])[0, 0]]
    costs = [
        csg.Oracle(hard_to_serve()).cost([min(need, 5.0)], needs[:12]).mean()
        for need in served
    ]
    assert baseline.losses[1] <= costs[0] + 1e-6
    assert baseline.losses[1] == pytest.approx(costs[1])


def test_a_model_without_recourse_to_any_pair_is_refused():
    data = np.zeros((4, 1)), np.full((4, 1), 40.0)
    with pytest.raises(csg.DataError, match="has a cost on any of 4 pairs"):
        OneScenario(hard_to_serve(), data, progress=False)


def rosenbrock(seen):
    def loss(x):
        seen.append(x)
        return float(100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2)

    return loss


def test_a_simplex_finds_the_least_within_its_evaluations():
    seen = []
    best, least = simplex(rosenbrock(seen), np.array([-1.0, 1.0]), 2000)
    assert best == pytest.approx([1, 1], abs=1e-2)
    assert least < 1e-4
    assert len(seen) < 2000

    for evaluations in (1, 2, 7, 30):
        seen = []
        best, least = simplex(rosenbrock(seen), np.array([-1.0, 1.0]), evaluations)
        assert len(seen) <= evaluations
        assert least == rosenbrock([])(best) <= rosenbrock([])(seen[0])


def test_one_number_is_searched_without_shrinking_to_a_point():
    best, _ = simplex(lambda x: abs(float(x[0]) - 7.3), np.array([0.0]), 500)
    assert best == pytest.approx([7.3], abs=1e-3)
