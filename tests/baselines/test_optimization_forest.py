"""Stochastic optimization forests split where decisions differ, not where outcomes do."""

import numpy as np
import pyomo.environ as pyo
import pytest

import pyomo_csg as csg
from models import newsvendor
from pyomo_csg.baselines.trained.optimization_forest import best_split, grow_tree


def brute_force_cost(features, costs, rows, split):
    """Return the cost of the best decisions on both sides of a split."""
    left = features[rows, split[0]] <= split[1]
    return sum(costs[rows[side]].sum(axis=0).min() for side in (left, ~left))


@pytest.mark.parametrize("seed", range(5))
def test_a_split_is_the_best_of_all(seed):
    rng = np.random.default_rng(seed)
    features = rng.integers(0, 6, (30, 3)).astype(float)  # with ties
    costs, rows, leaf = rng.uniform(size=(30, 7)), np.arange(2, 30), 4

    found = best_split(features, costs, rows, leaf, np.arange(3))

    possible = {
        (j, threshold): brute_force_cost(features, costs, rows, (j, threshold))
        for j in range(3)
        for threshold in np.arange(0.5, 5)
        if min(
            (features[rows, j] <= threshold).sum(),
            (features[rows, j] > threshold).sum(),
        )
        >= leaf
    }
    assert brute_force_cost(features, costs, rows, found) == pytest.approx(
        min(possible.values())
    )


def test_nothing_is_split_if_one_decision_is_best_everywhere():
    rng = np.random.default_rng(0)
    features, costs = rng.normal(size=(40, 2)), np.tile([3.0, 1.0, 2.0], (40, 1))
    assert best_split(features, costs, np.arange(40), 2, np.arange(2)) is None


def test_rows_follow_the_thresholds_to_their_leaf():
    rng = np.random.default_rng(0)
    features, costs = rng.normal(size=(80, 3)), rng.uniform(size=(80, 9))
    tree = grow_tree(features, costs, np.arange(80), 5, rng)
    leaves = tree.leaves(features)
    assert len(set(leaves)) > 3
    for leaf in set(leaves):
        assert tree.rows[leaf].tolist() == np.flatnonzero(leaves == leaf).tolist()
        assert len(tree.rows[leaf]) >= 5
    weights = tree.weights(features, 80).toarray()
    assert weights.sum(axis=1) == pytest.approx(1.0)
    assert (weights[0] > 0).tolist() == (leaves == leaves[0]).tolist()


def shop():
    """Return a model in which only the last of 21 uncertain numbers matters."""
    m = pyo.ConcreteModel("shop")
    m.noise = pyo.Param(range(20), mutable=True, initialize=0.0)
    m.demand = pyo.Param(mutable=True, initialize=5.0, within=pyo.NonNegativeReals)
    m.y = pyo.Var(bounds=(0, 100))
    m.z = pyo.Var(within=pyo.NonNegativeReals)
    m.idle = pyo.Var(range(20), within=pyo.NonNegativeReals)
    m.need = pyo.Constraint(expr=m.y + m.z >= m.demand)
    m.rest = pyo.Constraint(range(20), rule=lambda m, i: m.idle[i] >= m.noise[i] - 99)
    m.cost = pyo.Objective(expr=m.y + 4 * m.z)
    csg.annotate(m, first_stage_variables=m.y, uncertain_params=[m.noise, m.demand])
    return m


def shop_history(n, seed):
    """Return contexts and outcomes: twenty contexts move the noise, the last one demand."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (n, 21))
    noise = 20 * x[:, :20] + rng.normal(0, 2, (n, 20))
    demand = np.where(x[:, 20] > 0, 30.0, 10.0) + rng.uniform(0, 12, n)
    return x, np.column_stack([noise, demand])


def test_decisions_cost_less_where_most_outcomes_do_not_matter():
    model, history = shop(), shop_history(150, 0)
    contexts, outcomes = shop_history(400, 1)
    forest = csg.baselines.StochasticOptimizationForest(model, history, progress=False)
    other = csg.baselines.ForestWeighted(model, history)

    ours, theirs = (
        forest.oracle.cost(
            one.decide(contexts, progress=False).to_numpy(float),
            outcomes,
            progress=False,
        )
        for one in (forest, other)
    )

    apart = theirs - ours
    assert apart.mean() > 3 * apart.std() / np.sqrt(len(apart))


def test_the_same_seed_gives_the_same_forest_and_k_scenarios_are_possible():
    model, pairs = newsvendor.build(), newsvendor.sample(50, seed=2)
    options = {"trees": 5, "decisions": 10, "progress": False}
    make = csg.baselines.StochasticOptimizationForest
    one, two = (make(model, pairs, seed=3, **options) for _ in range(2))
    assert np.array_equal(one.weights([0.1, 0.2]), two.weights([0.1, 0.2]))
    few = make(model, pairs, scenarios=3, **options)
    assert few.scenarios(pairs[0][:4]).shape == (4, 3, 1)


def test_a_history_of_few_rows_has_one_leaf():
    policy = csg.baselines.StochasticOptimizationForest(
        newsvendor.build(), ([[0.0, 1.0], [1.0, 0.0]], [[5.0], [9.0]]), progress=False
    )
    assert policy.weights([0.0, 0.0]) == pytest.approx([0.5, 0.5], abs=0.2)


def test_bad_settings_are_refused_together():
    with pytest.raises(csg.DataError) as error:
        csg.baselines.StochasticOptimizationForest(
            newsvendor.build(),
            newsvendor.sample(20, 0),
            trees=0,
            leaf=1.5,
            decisions=-1,
        )
    assert len(error.value.problems) == 3
