"""Neighbors and forests: weights by plain loops, and the quantiles they make."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor

from pyomo_csg.baselines import ForestWeighted, NeighborWeighted
from pyomo_csg.baselines.weighted_saa import energy_scores
from pyomo_csg.learn.distributions import samplers
from pyomo_csg.learn.distributions.reduction import forward_selection, kmeans
from tests.baselines import papers

X = np.random.default_rng(3).normal(size=(5, 2))


@pytest.fixture(autouse=True)
def few_trees(monkeypatch):
    monkeypatch.setattr(samplers, "_TREES", 10)


def nearest(contexts, x, count):
    """Return the rows of the nearest, by sorting all, in standard deviations."""
    apart = [
        sum(((a - b) / s) ** 2 for a, b, s in zip(row, x, contexts.std(0), strict=True))
        for row in contexts
    ]
    return sorted(range(len(contexts)), key=apart.__getitem__)[:count]


def test_the_scenarios_are_what_followed_the_nearest_contexts():
    model, (contexts, demands) = papers.of_two()
    contexts = contexts * [1.0, 1000.0]  # units must not matter
    policy = NeighborWeighted(model, (contexts, demands), neighbors=7)

    found = policy.scenarios(X * [1.0, 1000.0])

    for mine, x in zip(found, X * [1.0, 1000.0], strict=True):
        assert mine.tolist() == demands[nearest(contexts, x, 7)].tolist()
    assert policy.weights(X[0]).tolist() == [1 / 7] * 7


def test_a_newsvendor_orders_the_quantile_of_the_nearest_demands():
    contexts, demands = papers.pairs()
    policy = NeighborWeighted(papers.build(0.35), (contexts, demands), neighbors=9)
    expected = [
        papers.order(demands[nearest(contexts, x, 9)], np.full(9, 1 / 9), 0.35)
        for x in X
    ]
    assert policy.decide(X)["order"].tolist() == pytest.approx(expected)


def test_energy_scores_are_those_of_the_definition():
    rng = np.random.default_rng(0)
    forecasts, happened = rng.normal(size=(6, 5, 2)), rng.normal(size=(6, 2))

    def score(points, y):
        k = len(points)
        among = sum(np.linalg.norm(a - b) for a in points for b in points)
        return sum(np.linalg.norm(a - y) for a in points) / k - among / (2 * k * k)

    expected = [
        np.mean([score(f[:k], y) for f, y in zip(forecasts, happened, strict=True)])
        for k in range(1, 6)
    ]
    assert energy_scores(forecasts, happened) == pytest.approx(expected)


def test_auto_takes_as_many_neighbors_as_foretell_the_history_best():
    contexts, demands = papers.pairs(40)
    policy = NeighborWeighted(papers.build(0.5), (contexts, demands))

    near = [
        [j for j in nearest(contexts, contexts[i], 40) if j != i][:20]
        for i in range(40)
    ]
    scores = energy_scores(demands[np.array(near)], demands)
    assert policy.neighbors == scores.argmin() + 1


def test_auto_takes_many_neighbors_where_the_context_tells_nothing():
    rng = np.random.default_rng(0)
    contexts, noise = rng.normal(size=(200, 1)), rng.normal(20, 1, (200, 1))
    informed = NeighborWeighted(papers.build(0.5), (contexts, 20 + 5 * contexts))
    uninformed = NeighborWeighted(papers.build(0.5), (contexts, noise))
    assert informed.neighbors < 10
    assert 40 < uninformed.neighbors <= 100


def leaf_shares(contexts, targets, x, seed):
    """Return the weights of all rows for a context, by a loop over trees and rows."""
    forest = RandomForestRegressor(
        10, min_samples_leaf=samplers._LEAF, max_features=1.0, random_state=seed
    ).fit(contexts, targets)
    weights = np.zeros(len(contexts))
    for tree in forest.estimators_:
        leaf = tree.apply(contexts.astype(np.float32))
        mine = tree.apply(x[None].astype(np.float32))[0]
        same = [j for j in range(len(contexts)) if leaf[j] == mine]
        for j in same:
            weights[j] += 1 / len(same) / 10
    return weights


def test_a_forest_weights_outcomes_by_their_shares_of_leaves():
    model, (contexts, demands) = papers.of_two()
    policy = ForestWeighted(model, (contexts, demands), seed=4)

    for x, scenarios, weights in zip(
        X, policy.scenarios(X), policy.weights(X), strict=True
    ):
        expected = leaf_shares(contexts, demands / demands.std(axis=0), x, seed=4)
        used = expected > 0
        assert 0 < used.sum() < 60
        assert scenarios.tolist() == demands[used].tolist()
        assert weights == pytest.approx(expected[used])
        for i in (1, 2):
            best = papers.order(demands[used][:, i - 1], weights, 2 / 3)
            assert policy.decide(x)[f"order[{i}]"] == pytest.approx(best)


@pytest.mark.parametrize("baseline", [ForestWeighted, NeighborWeighted])
@pytest.mark.parametrize("reduction", ["kmeans", "forward"])
def test_the_weighted_outcomes_may_be_reduced(baseline, reduction):
    model, pairs = papers.of_two()
    whole = baseline(model, pairs, seed=1)
    policy = baseline(model, pairs, seed=1, scenarios=3, reduction=reduction)

    found = policy.scenarios(X)

    assert found.shape == (5, 3, 2)
    for x, mine, weights in zip(X, found, policy.weights(X), strict=True):
        full = whole.scenarios(x), whole.weights(x)
        if reduction == "kmeans":
            expected = kmeans(*full, 3, seed=1)
        else:
            expected = forward_selection(*full, 3)
        assert mine.tolist() == expected[0].tolist()
        assert weights.tolist() == expected[1].tolist()


def test_where_there_are_fewer_than_k_the_scenarios_of_many_are_a_list():
    contexts = np.arange(8.0)[:, None]
    demands = np.array([[3.0]] * 4 + [[5.0], [6], [7], [8]])
    policy = NeighborWeighted(
        papers.build(0.5), (contexts, demands), neighbors=3, scenarios=2
    )

    found = policy.scenarios([[0.0], [7.0]])

    assert [len(mine) for mine in found] == [1, 2]
    assert policy.weights([[0.0], [7.0]])[0].tolist() == [1.0]
    assert policy.decide([[0.0], [7.0]])["order"].round(6)[0] == 3.0
