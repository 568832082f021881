"""Conditional distributions: closed forms, honesty on fitted rows, and quality."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from pyomo_csg.learn.distributions.conditional import KINDS, fit_distributions
from pyomo_csg.learn.distributions.mixture import _least_energy
from pyomo_csg.learn.distributions.residuals import fit_scale
from pyomo_csg.learn.distributions.weighted import (
    Neighbors,
    energy_scores,
    fit_neighbors,
)

FREE = np.full(2, -np.inf), np.full(2, np.inf)


@pytest.fixture
def few_trees(monkeypatch):
    package = "pyomo_csg.learn.distributions.forecasts"
    monkeypatch.setattr(f"{package}.forest._MOST_TREES", 20)
    monkeypatch.setattr(f"{package}.boosting._STEPS", 5)


def history(n, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3))
    y = np.column_stack([2 * x[:, 0], x[:, 1] + x[:, 0]]) + rng.normal(size=(n, 2))
    return x, y


def score(points, weights, outcome):
    among = weights @ cdist(points, points) @ weights
    return weights @ np.linalg.norm(points - outcome, axis=1) - among / 2


@pytest.mark.parametrize("n", [2, 3, 60])
def test_every_kind_is_a_distribution_within_the_bounds(few_trees, n):
    x, y = history(n)
    lower, upper = np.maximum(y.min(axis=0), -1), y.max(axis=0)
    y = np.clip(y, lower, upper)
    new = 3 * np.random.default_rng(1).normal(size=(5, 3))

    found = fit_distributions(x, y, lower, upper, 0, in_time=False)

    assert list(found) == list(KINDS)
    rng = np.random.default_rng(2)
    rows = np.array([1, 0, 1])
    for kind, one in found.items():
        assert (one.name, one.column_count) == (kind, 2)
        assert one.feature_count == (None if kind == "empirical" else 3)
        points, weights = one.outcomes(new)
        assert len(points) == len(weights) == 5
        for mine, shares in zip(points, weights, strict=True):
            assert mine.shape == (len(shares), 2)
            assert (shares > 0).all() and shares.sum() == pytest.approx(1)
            assert (mine >= lower).all() and (mine <= upper).all()
        for drawn in (one.sample(new[:3], 4, rng), one.sample_fitted(rows, 4, rng)):
            assert drawn.shape == (3, 4, 2)
            assert (drawn >= lower).all() and (drawn <= upper).all()


@pytest.mark.parametrize("kind", KINDS[:-1])
def test_draws_have_the_mean_of_the_outcomes(few_trees, kind):
    x, y = history(60)
    one = fit_distributions(x, y, *FREE, 0, in_time=False, kinds=[kind])[kind]

    drawn = one.sample(x[:1], 20_000, np.random.default_rng(0))[0]

    (points,), (weights,) = one.outcomes(x[:1])
    spread = np.sqrt(weights @ (points - weights @ points) ** 2)
    assert drawn.mean(axis=0) == pytest.approx(
        weights @ points, abs=0.04 * spread.max()
    )
    assert drawn.std(axis=0) == pytest.approx(spread, rel=0.05)


@pytest.mark.parametrize("in_time", [True, False])
@pytest.mark.parametrize("kind", KINDS[:4])
def test_a_row_never_draws_its_outcome(few_trees, kind, in_time):
    x, y = history(30)
    one = fit_distributions(x, y, *FREE, 0, in_time=in_time, kinds=[kind])[kind]
    rows = np.arange(30)

    drawn = one.sample_fitted(rows, 200, np.random.default_rng(0))

    assert not (drawn == y[:, None]).all(axis=2).any()


def test_residuals_add_up_to_the_history():
    x, y = history(80)
    y *= np.exp(x[:, 2:])  # the scale depends on the context
    one = fit_distributions(x, y, *FREE, 0, in_time=False, kinds=["ridge"])["ridge"]

    back = one.fitted_location + one.fitted_scale * one.residuals
    assert back == pytest.approx(y)
    assert one.location(x).shape == one.scale(x).shape == y.shape
    location, scale = one.location_and_scale(x)
    (points, *_), _ = one.outcomes(x)
    assert points == pytest.approx(location[0] + scale[0] * one.residuals)


def test_a_residual_is_not_drawn_for_its_row():
    x, y = history(20)
    one = fit_distributions(x, y, *FREE, 0, in_time=False, kinds=["ridge"])["ridge"]
    rows = np.arange(20)

    drawn = one.sample_fitted(rows, 300, np.random.default_rng(0))

    assert np.abs(drawn - y[:, None]).max(axis=2).min() > 1e-9
    residuals = (drawn - one.fitted_location[:, None])[3]
    expected = np.delete(one.residuals, 3, axis=0)
    assert np.unique(residuals.round(9), axis=0) == pytest.approx(
        np.unique(expected.round(9), axis=0)
    )


def test_a_scale_is_found_only_where_there_is_one():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 2))
    sizes = np.column_stack([np.exp(x[:, 0]), np.ones(400)])
    errors = sizes * rng.normal(size=(400, 2))

    found = fit_scale(x, np.zeros((400, 2)), errors, 0, False)

    assert found.used.tolist() == [True, False]
    new = np.array([[-1.0, 0], [1, 0]])
    scale = found(new, np.zeros((2, 2)))
    assert scale[1, 0] / scale[0, 0] == pytest.approx(np.exp(2), rel=0.5)
    assert scale[:, 1].tolist() == [1, 1]
    assert found.fitted[:, 1].tolist() == [1.0] * 400


def test_errors_without_structure_have_no_scale():
    used = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        x, errors = rng.normal(size=(100, 5)), rng.standard_t(4, size=(100, 4))
        used.append(fit_scale(x, np.zeros((100, 4)), errors, seed, False).used)
    assert np.mean(used) < 0.1


def test_the_nearest_are_those_by_sorting_all():
    x, _ = history(50)
    spread = x.std(axis=0)
    neighbors = Neighbors(x.mean(axis=0), spread, (x - x.mean(axis=0)) / spread, 6)
    new = np.random.default_rng(4).normal(size=(9, 3))

    found = neighbors.weights(new)

    expected = cdist(new / spread, x / spread).argsort(axis=1)[:, :6]
    for i in range(9):
        start, end = found.indptr[i : i + 2]
        assert found.indices[start:end].tolist() == expected[i].tolist()
        assert found.data[start:end].tolist() == [1 / 6] * 6


def test_the_number_of_neighbors_has_the_least_energy_score():
    x, y = history(60)
    neighbors, outcomes = fit_neighbors(x, y, seed=0)

    assert outcomes.tolist() == y.tolist()
    apart = cdist(x / x.std(axis=0), x / x.std(axis=0))
    np.fill_diagonal(apart, np.inf)
    scaled = y / y.std(axis=0)
    scores = energy_scores(scaled[apart.argsort(axis=1)[:, :30]], scaled)
    assert neighbors.count == scores.argmin() + 1


def test_copies_of_a_context_do_not_hide_a_row_from_itself():
    x, y = np.zeros((12, 1)), np.arange(12.0)[:, None]
    neighbors, _ = fit_neighbors(x, y, seed=0)

    found = neighbors.nearest_others(np.arange(12), 5)

    assert found.shape == (12, 5)
    assert not (found == np.arange(12)[:, None]).any()


def test_of_a_long_history_some_rows_are_neighbors(monkeypatch):
    monkeypatch.setattr("pyomo_csg.learn.distributions.weighted._MOST_POINTS", 20)
    x, y = history(100)
    neighbors, outcomes = fit_neighbors(x, y, seed=0)

    assert len(outcomes) == 20
    assert outcomes.tolist() == y[neighbors.kept].tolist()
    found = neighbors.nearest_others(np.arange(100), 3)
    assert not (neighbors.kept[found] == np.arange(100)[:, None]).any()


def test_shares_minimize_the_energy_score():
    rng = np.random.default_rng(0)
    points = rng.normal(size=(4, 2))
    among, apart = cdist(points, points), cdist(points, [[0.1, 0.2]])[:, 0]

    shares = _least_energy(apart, among)

    def energy(s):
        return apart @ s - s @ among @ s / 2

    assert shares.sum() == pytest.approx(1)
    tried = rng.dirichlet(np.ones(4) / 2, 20_000)
    assert energy(shares) <= min(energy(s) for s in tried) + 1e-4


@pytest.mark.parametrize("seed", range(3))
def test_the_mixture_is_close_to_the_best_part(seed):
    x, y = history(100, seed)
    new, outcomes = history(200, seed + 50)
    kinds = ["empirical", "neighbors", "forest weights", "ridge", "stacked", "mixture"]

    found = fit_distributions(x, y, *FREE, seed, in_time=False, kinds=kinds)

    scores = {
        kind: np.mean(
            [score(*case) for case in zip(*one.outcomes(new), outcomes, strict=True)]
        )
        for kind, one in found.items()
    }
    assert scores["mixture"] < 1.03 * min(scores.values())
    assert scores["ridge"] < 0.9 * scores["empirical"]


def test_a_mixture_without_information_is_close_to_the_history():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(100, 20)), rng.normal(size=(100, 2))
    found = fit_distributions(x, y, *FREE, 0, in_time=False)

    drawn = found["mixture"].sample(rng.normal(size=(50, 20)), 200, rng)

    means = drawn.mean(axis=1)
    assert means.std(axis=0).max() < 0.35
    assert drawn.std(axis=(0, 1)) == pytest.approx(y.std(axis=0), rel=0.2)


def test_large_histories_are_not_boosted(monkeypatch):
    limit = "pyomo_csg.learn.distributions.forecasts.fitting._MOST_BOOSTED"
    monkeypatch.setattr(limit, 100)
    x, y = history(60)
    kinds = ["ridge", "boosting", "stacked"]

    found = fit_distributions(x, y, *FREE, 0, in_time=True, kinds=kinds)

    assert list(found) == ["ridge", "stacked"]
