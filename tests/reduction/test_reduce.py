"""csg.reduce against brute force, the oracle and the full program."""

from itertools import combinations

import numpy as np
import pyomo.environ as pyo
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pyomo_csg as csg
from models import cep1, farmer, newsvendor
from pyomo_csg.reduction import decision_costs
from pyomo_csg.reduction.decision_costs import WeightedPoints
from tests.zoo import ZOO


def outcomes_of(name, count, seed=0):
    """Return outcomes (count, p) that suit a model."""
    rng = np.random.default_rng(seed)
    if name == "farmer":
        return np.array([2.5, 3.0, 20.0]) * rng.lognormal(0, 0.2, (count, 3))
    if name == "integers":
        return rng.uniform(1, 14, (count, 2))
    return rng.gamma(2, 5, (count, 1))


MODELS = {
    "newsvendor": lambda: newsvendor.build(price=2.0),
    "farmer": farmer.build,
    "integers": ZOO["integers"],
}


def expected_cost(oracle, decision, outcomes, weights=None):
    costs = oracle.cost(np.asarray(decision), outcomes, on_error="record")
    return float(np.average(np.nan_to_num(costs, nan=np.inf), weights=weights))


def least_cost_of_subsets(oracle, outcomes, count):
    """Return the least cost of decisions on any subset, equally weighted or by distance."""
    points = WeightedPoints.distinct(outcomes, np.full(len(outcomes), 1.0))
    sets = [np.array(one) for one in combinations(outcomes, count)]
    found = []
    for weights in (None, [points.shares(one, points.unit) for one in sets]):
        decisions = oracle.solve(np.array(sets), weights).decision
        found += [expected_cost(oracle, y, outcomes) for y in decisions]
    return min(found)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("count", [1, 2])
def test_scenarios_are_as_good_as_the_best_subset_of_outcomes(name, count):
    model, outcomes = MODELS[name](), outcomes_of(name, 8)
    found = csg.reduce(model, outcomes, scenarios=count)
    least = least_cost_of_subsets(csg.Oracle(model), outcomes, count)
    assert found.cost <= least + 1e-3 * abs(least)
    assert found.scenarios.shape == (count, outcomes.shape[1])


@pytest.mark.parametrize("name", MODELS)
@given(seed=st.integers(0, 9), count=st.integers(1, 4), size=st.integers(5, 25))
@settings(max_examples=6, deadline=None)
def test_no_set_is_worse_than_kmeans_or_forward_selection(name, seed, count, size):
    model, outcomes = MODELS[name](), outcomes_of(name, size, seed)
    weights = np.random.default_rng(seed).dirichlet(np.ones(size))
    found = csg.reduce(model, outcomes, weights, scenarios=count, seconds=3)
    oracle = csg.Oracle(model)
    for method in ("kmeans", "forward"):
        simple = csg.reduce(model, outcomes, weights, scenarios=count, method=method)
        other = oracle.solve(simple.scenarios, simple.weights).decision
        least = expected_cost(oracle, other, outcomes, weights)
        assert found.cost <= least + 1e-9 * abs(least)
        assert found.gap <= found.gaps[method]


@pytest.mark.parametrize("name", MODELS)
def test_costs_and_gaps_are_those_of_the_decisions_on_the_scenarios(name):
    outcomes = outcomes_of(name, 60)
    weights = np.random.default_rng(1).dirichlet(np.ones(60))
    oracle = csg.Oracle(MODELS[name]())
    found = csg.reduce(oracle, outcomes, weights, scenarios=3)

    solution = oracle.solve(found.scenarios, found.weights, fresh=True)
    full = oracle.solve(outcomes, weights)
    best = expected_cost(oracle, full.decision, outcomes, weights)
    assert found.weights.sum() == pytest.approx(1)
    assert found.decision == pytest.approx(solution.decision)
    cost = expected_cost(oracle, found.decision, outcomes, weights)
    assert found.cost == pytest.approx(cost)
    assert found.solved
    assert found.reference == pytest.approx(best)
    assert found.bound == pytest.approx(oracle.two_stage.sense * full.bound)
    assert found.gap == pytest.approx((cost - best) / abs(best), abs=1e-8)
    assert found.gap_bound >= found.gap - 1e-8
    assert 0 <= found.gap <= min(found.gaps["kmeans"], found.gaps["forward"])


@pytest.mark.parametrize("method", ["kmeans", "forward"])
def test_simple_methods_have_the_gaps_that_the_search_reports(method):
    outcomes = outcomes_of("newsvendor", 200)
    model = newsvendor.build(price=2.0)
    simple = csg.reduce(model, outcomes, scenarios=3, method=method)
    searched = csg.reduce(model, outcomes, scenarios=3)
    assert simple.gap == pytest.approx(searched.gaps[method])
    assert searched.gap < simple.gap
    assert list(simple.gaps) == ["kmeans", "forward"]


def test_a_quadratic_model_is_reduced_by_its_gradient():
    rng = np.random.default_rng(0)
    outcomes = rng.uniform([1, 3], [5, 9], (15, 2))
    found = csg.reduce(ZOO["quadratic"](), outcomes, scenarios=2)
    assert found.gap < 1e-3
    assert found.gap <= min(found.gaps.values())


def test_uncertain_costs_are_reduced_without_a_gradient():
    m = pyo.ConcreteModel("roads")
    m.minutes = pyo.Param([1, 2, 3], mutable=True, initialize=30.0)
    m.take = pyo.Var([1, 2, 3], bounds=(0, 1))
    m.one = pyo.Constraint(expr=sum(m.take.values()) == 1)
    m.late = pyo.Var(bounds=(0, None))
    m.delay = pyo.Constraint(
        expr=m.late >= sum(m.minutes[r] * m.take[r] for r in m.minutes) - 30
    )
    m.time = pyo.Objective(
        expr=sum(m.minutes[r] * m.take[r] for r in m.minutes) + 5 * m.late
    )
    csg.annotate(m, first_stage_variables=m.take, uncertain_params=m.minutes)
    outcomes = 28 * np.random.default_rng(0).lognormal(0, [0.1, 0.3, 0.2], (80, 3))
    found = csg.reduce(m, outcomes, scenarios=4)
    assert found.gap <= min(found.gaps.values())
    assert found.gap < 0.02


def test_scenarios_are_values_that_the_params_validate():
    m = pyo.ConcreteModel("whole")
    m.demand = pyo.Param(
        mutable=True, initialize=5, validate=lambda m, value: value == round(value)
    )
    m.order = pyo.Var(bounds=(0, 60))
    m.short = pyo.Var(bounds=(0, None))
    m.meet = pyo.Constraint(expr=m.order + m.short >= m.demand)
    m.cost = pyo.Objective(expr=m.order + 3 * m.short)
    csg.annotate(m, first_stage_variables=m.order, uncertain_params=m.demand)
    outcomes = np.random.default_rng(0).poisson(15, (100, 1)).astype(float)
    found = csg.reduce(m, outcomes, scenarios=3)
    assert (found.scenarios == found.scenarios.round()).all()
    assert found.gap == 0


def test_as_many_scenarios_as_outcomes_are_the_outcomes():
    outcomes = np.array([[3.0], [9.0], [9.0], [5.0]])
    found = csg.reduce(newsvendor.build(), outcomes, [0.2, 0.3, 0.5, 0.0], scenarios=4)
    assert found.scenarios.tolist() == [[3.0], [9.0]]
    assert found.weights == pytest.approx([0.2, 0.8])
    assert found.gap == 0


def test_the_same_seed_gives_the_same_scenarios():
    outcomes = outcomes_of("newsvendor", 100)
    one, other = (
        csg.reduce(newsvendor.build(price=2.0), outcomes, scenarios=2, seed=3)
        for _ in range(2)
    )
    assert (one.scenarios == other.scenarios).all()
    assert (one.weights == other.weights).all()


@pytest.mark.parametrize("name", MODELS)
def test_the_bound_of_groups_is_below_the_optimum(name, monkeypatch):
    outcomes = outcomes_of(name, 80)
    full = csg.reduce(MODELS[name](), outcomes, scenarios=2, method="kmeans")
    for limit in ("_MOST_LINEAR", "_MOST_OTHER"):
        monkeypatch.setattr(decision_costs, limit, 50)
    found = csg.reduce(MODELS[name](), outcomes, scenarios=2, method="kmeans")
    assert full.solved and not found.solved
    assert -np.inf < found.bound <= full.reference + 1e-6 * abs(full.reference)
    assert found.cost == pytest.approx(full.cost)
    assert found.gap_bound >= full.gap - 1e-8
    assert "the best one known" in str(found)


def test_without_time_the_simple_methods_are_still_compared():
    outcomes = cep1.higle_sen_scenarios()
    found = csg.reduce(cep1.build(), outcomes, scenarios=3, seconds=1e-6)
    assert np.isfinite(found.cost)
    assert found.gap <= min(found.gaps.values())
    assert found.bound == -np.inf
    assert found.gap_bound == np.inf


def test_samples_estimate_sums_without_bias():
    rng = np.random.default_rng(0)
    points = WeightedPoints(rng.normal(size=(50, 2)), rng.dirichlet(np.ones(50)))
    samples = [points.sample(20, rng) for _ in range(3000)]
    assert all(one.weights.sum() == pytest.approx(1) for one in samples)
    means = np.array([one.weights @ one.points for one in samples])
    errors = means.std(axis=0) / np.sqrt(len(means))
    exact = points.weights @ points.points
    assert (np.abs(means.mean(axis=0) - exact) < 4 * errors).all()


def test_a_model_without_recourse_to_some_outcome_is_an_error():
    model = cep1.build()
    model.shortfall.setub(1)
    outcomes = np.array([[900.0] * 3, [1e5] * 3, [800.0] * 3])
    with pytest.raises(csg.ModelError, match="recourse to all outcomes"):
        csg.reduce(model, outcomes, scenarios=1)


REFUSED = {
    "no count": ({"scenarios": 0}, "scenarios is 0"),
    "another method": ({"method": "fast"}, "method is 'fast'"),
    "no time": ({"seconds": 0}, "seconds is 0"),
    "a bad seed": ({"seed": -1}, "seed is -1"),
    "weights of fewer": ({"weights": [0.5, 0.5]}, "weights: shape"),
    "weights that sum to 3": ({"weights": [1.0, 1.0, 1.0]}, "they sum to 3"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_unusable_arguments_are_refused(name):
    options, words = REFUSED[name]
    with pytest.raises(csg.DataError, match=words):
        csg.reduce(newsvendor.build(), [[1.0], [2.0], [3.0]], **options)


def test_unusable_outcomes_are_refused():
    with pytest.raises(csg.DataError, match="outside its domain"):
        csg.reduce(newsvendor.build(), [[1.0], [-2.0]])


def test_programs_that_need_whole_numbers_are_reduced_to_outcomes():
    m = pyo.ConcreteModel("clients")
    m.present = pyo.Param([1, 2, 3], mutable=True, initialize=1.0)
    m.size = pyo.Var(bounds=(0, 3), within=pyo.NonNegativeIntegers)
    m.serve = pyo.Var([1, 2, 3], within=pyo.Binary)
    m.over = pyo.Var(bounds=(0, None))
    m.all = pyo.Constraint([1, 2, 3], rule=lambda m, i: m.serve[i] == m.present[i])
    m.room = pyo.Constraint(expr=sum(m.serve.values()) <= m.size + m.over)
    m.cost = pyo.Objective(expr=m.size + 3 * m.over)
    csg.annotate(m, first_stage_variables=m.size, uncertain_params=m.present)
    outcomes = (np.random.default_rng(0).random((40, 3)) < 0.4).astype(float)
    found = csg.reduce(m, outcomes, scenarios=2)
    assert found.gaps["kmeans"] == np.inf
    assert found.gap == 0
