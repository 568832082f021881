"""Scenario reduction: by definition, and by the transport that it claims to minimize."""

from itertools import product

import numpy as np
import ot
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans

from pyomo_csg.learn.distributions.reduction import forward_selection, kmeans, reduce


def sample(seed, m=12, p=2):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(m, p)) * [1.0, 5.0][:p], rng.dirichlet(np.ones(m))


def distance(outcomes, weights, scenarios, shares):
    """Return the Kantorovich distance by POT."""
    return ot.emd2(weights, shares, cdist(outcomes, scenarios))


def least_distance(outcomes, weights, scenarios):
    """Return the least Kantorovich distance to any weights of scenarios, by an LP."""
    m, k = len(outcomes), len(scenarios)
    leaving = np.kron(np.eye(m), np.ones(k))  # all of an outcome's mass is moved
    cost = cdist(outcomes, scenarios).ravel()
    return linprog(cost, A_eq=leaving, b_eq=weights).fun


def greedy(outcomes, weights, count):
    """Pick one by one, by definition, with an LP for every try."""
    picked = []
    for _ in range(count):
        tries = {
            u: least_distance(outcomes, weights, outcomes[[*picked, u]])
            for u in range(len(outcomes))
            if u not in picked
        }
        picked.append(min(tries, key=tries.get))
    return outcomes[picked]


@pytest.mark.parametrize("seed", range(3))
def test_forward_selection_picks_by_definition(seed):
    outcomes, weights = sample(seed)

    scenarios, _ = forward_selection(outcomes, weights, 4)

    assert scenarios == pytest.approx(greedy(outcomes, weights, 4))


@given(seed=st.integers(0, 10_000), count=st.integers(1, 12))
def test_the_weights_of_forward_selection_are_the_best_for_what_it_picked(seed, count):
    outcomes, weights = sample(seed)

    scenarios, shares = forward_selection(outcomes, weights, count)

    assert len(scenarios) == count
    assert shares.sum() == pytest.approx(1)
    assert distance(outcomes, weights, scenarios, shares) == pytest.approx(
        least_distance(outcomes, weights, scenarios), abs=1e-9
    )


def test_units_change_what_is_near():
    outcomes = np.array([[0.0, 0], [1, 0], [0, 100], [1, 100], [3, 1]])

    scenarios, _ = forward_selection(outcomes, None, 2, unit=[1.0, 1000.0])
    same, shares = forward_selection(outcomes / [1.0, 1000.0], None, 2)

    assert scenarios.tolist() == (same * [1.0, 1000.0]).tolist()
    assert {x for x, _ in scenarios} == {1.0, 3.0}  # the second number hardly counts
    assert sorted(shares) == pytest.approx([0.2, 0.8])


def partitions(m, count):
    for labels in product(range(count), repeat=m):
        if len(set(labels)) == count:
            yield np.array(labels)


def squares(outcomes, weights, labels):
    """Return the weighted squares around the centers of clusters."""
    total = 0.0
    for k in set(labels):
        mine, w = outcomes[labels == k], weights[labels == k]
        total += (w @ (mine - w @ mine / w.sum()) ** 2).sum()
    return total


@pytest.mark.parametrize("seed", range(3))
def test_kmeans_finds_the_clusters_of_least_squares(seed):
    outcomes, weights = sample(seed, m=8)

    centers, shares = kmeans(outcomes, weights, 3)

    labels = min(partitions(8, 3), key=lambda all_: squares(outcomes, weights, all_))
    expected = sorted(
        (weights[labels == k].sum(), *np.average(mine, axis=0, weights=w))
        for k in range(3)
        for mine, w in [(outcomes[labels == k], weights[labels == k])]
    )
    found = sorted(zip(shares, *centers.T, strict=True))
    assert np.array(found) == pytest.approx(np.array(expected))


def test_kmeans_sees_outcomes_in_the_units_that_are_given():
    outcomes = np.array([[0.0, 0], [1, 0], [0, 100], [1, 100]])

    raw, _ = kmeans(outcomes, None, 2)
    scaled, shares = kmeans(outcomes, None, 2, unit=[1.0, 1000.0])

    assert sorted(raw.tolist()) == [[0.5, 0], [0.5, 100]]
    assert sorted(scaled.tolist()) == [[0, 50], [1, 50]]
    assert shares.tolist() == [0.5, 0.5]


@given(seed=st.integers(0, 10_000))
def test_centers_do_not_leave_the_outcomes_by_rounding(seed):
    rng = np.random.default_rng(seed)
    edge = rng.uniform(0.01, 1)
    outcomes = np.append(np.full(6, edge), rng.uniform(edge, 1, 3))[:, None]
    outcomes += rng.choice([0, 1e-16], outcomes.shape)

    centers, _ = kmeans(outcomes, None, 2, unit=rng.uniform(0.1, 10))

    assert outcomes.min() <= centers.min() and centers.max() <= outcomes.max()


@pytest.mark.parametrize("reduce", [kmeans, forward_selection])
def test_few_distinct_outcomes_stay_as_they_are(reduce):
    outcomes = np.array([[2.0], [1], [2], [7]])

    scenarios, shares = reduce(outcomes, np.array([0.25, 0.5, 0.25, 0.0]), 3)

    assert scenarios.tolist() == [[1], [2]]
    assert shares.tolist() == [0.5, 0.5]


@pytest.mark.parametrize("reduce", [kmeans, forward_selection])
def test_an_outcome_without_weight_is_not_looked_at(reduce):
    outcomes, weights = sample(0)
    weights[:3] = 0
    weights /= weights.sum()

    found = reduce(outcomes, weights, 4)
    expected = reduce(outcomes[3:], weights[3:], 4)

    assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))


def inertia(points, weights, centers):
    return weights @ (cdist(points, centers) ** 2).min(axis=1)


@pytest.mark.parametrize("count", [2, 5, 20])
@pytest.mark.parametrize("clustered", [True, False])
def test_the_fast_reduction_is_nearly_as_good_as_scikit_learns(count, clustered):
    ratios = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        points, weights = rng.normal(size=(300, 6)), rng.dirichlet(np.ones(300))
        if clustered:
            points += 6 * rng.normal(size=(count, 6))[rng.integers(count, size=300)]
        fitted = KMeans(count, n_init=10, random_state=0).fit(
            points, sample_weight=weights
        )
        centers, _ = reduce(points, weights, count, seed=seed)
        ratios.append(inertia(points, weights, centers) / fitted.inertia_)
    assert np.mean(ratios) < 1.05


def test_the_fast_reduction_returns_the_means_of_its_clusters():
    points, weights = sample(3, m=60)
    unit = np.array([1.0, 5.0])

    centers, shares = reduce(points, weights, 4, unit, seed=1)

    nearest = cdist(points / unit, centers / unit).argmin(axis=1)
    for k in range(4):
        mine = nearest == k
        assert shares[k] == pytest.approx(weights[mine].sum())
        assert centers[k] == pytest.approx(weights[mine] @ points[mine] / shares[k])
    again = reduce(points, weights, 4, unit, seed=1)
    assert np.array_equal(centers, again[0])


@given(seed=st.integers(0, 10_000), m=st.integers(1, 12), count=st.integers(1, 8))
def test_the_fast_reduction_always_has_k_scenarios_with_weight(seed, m, count):
    rng = np.random.default_rng(seed)
    points = rng.integers(3, size=(m, 2)) * 10.0 ** rng.integers(-9, 9) + rng.normal()
    weights = rng.dirichlet(np.ones(m)) * (rng.random(m) < 0.7)
    weights[0] += 0.1

    centers, shares = reduce(points, weights / weights.sum(), count, seed=seed)

    assert centers.shape == (count, 2)
    assert (shares > 0).all()
    assert shares.sum() == pytest.approx(1)
    used = points[weights > 0]
    assert (centers >= used.min(axis=0)).all() and (centers <= used.max(axis=0)).all()
    mean = weights @ points / weights.sum()
    assert shares @ centers == pytest.approx(mean, rel=1e-6, abs=1e-12)


def test_few_distinct_points_are_repeated_by_the_fast_reduction():
    points = np.array([[2.0], [1], [2], [7]])

    centers, shares = reduce(points, np.array([0.25, 0.5, 0.25, 0.0]), 3)

    assert sorted(zip(centers.ravel(), shares, strict=True)) in (
        [(1.0, 0.25), (1.0, 0.25), (2.0, 0.5)],
        [(1.0, 0.5), (2.0, 0.25), (2.0, 0.25)],
    )
