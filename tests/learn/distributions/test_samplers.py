"""Samplers of outcomes: weights by brute force, draws by their frequencies."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.stats import chisquare
from sklearn.ensemble import RandomForestRegressor

from pyomo_csg.learn.distributions import samplers as module
from pyomo_csg.learn.distributions.samplers import (
    ObservedSampler,
    PooledSampler,
    ResidualSampler,
    context_features,
    forest_weights,
    sparse_forest_weights,
)
from pyomo_csg.learn.distributions.weighted import draw_columns


@pytest.fixture
def law():
    rng = np.random.default_rng(0)
    contexts = rng.normal(size=(40, 2))
    return contexts, contexts[:, :1] + 0.1 * rng.normal(size=(40, 1))


@pytest.fixture(autouse=True)
def few_trees(monkeypatch):
    monkeypatch.setattr(module, "_TREES", 10)


@pytest.mark.parametrize("rows", [np.arange(40), np.arange(0, 40, 2), np.arange(3)])
def test_forest_weights_sum_to_one_over_the_rows_that_were_seen(law, rows):
    weights = forest_weights(*law, rows, seed=0)

    others = np.setdiff1d(np.arange(40), rows)
    assert weights.shape == (40, 40)
    assert weights.sum(axis=1) == pytest.approx(np.ones(40))
    assert (weights >= 0).all()
    assert not weights[:, others].any()


def test_forest_weights_are_the_shares_of_the_leaves_by_brute_force(law):
    contexts, outcomes = law
    rows = np.arange(5, 35)
    forest = RandomForestRegressor(
        10, min_samples_leaf=module._LEAF, max_features=1.0, random_state=3
    )
    forest.fit(contexts[rows], outcomes[rows, 0] / outcomes.std())
    expected = np.zeros((40, 40))
    for tree in forest.estimators_:
        leaf = tree.apply(contexts.astype(np.float32))
        for i in range(40):
            same = [j for j in rows if leaf[j] == leaf[i]]
            expected[i, same] += 1 / len(same) / 10

    assert forest_weights(contexts, outcomes, rows, seed=3) == pytest.approx(expected)


def test_forest_weights_favor_like_contexts(law):
    contexts, outcomes = law
    weights = forest_weights(contexts, outcomes, np.arange(40), seed=0)

    apart = np.abs(contexts[:, None, 0] - contexts[None, :, 0])
    assert (weights * apart).sum(axis=1).mean() < 0.5 * apart.mean()


def test_rows_of_which_a_forest_can_make_nothing_are_alike(law):
    contexts, _ = law
    weights = forest_weights(contexts, np.ones((40, 1)), np.arange(40), seed=0)

    assert weights == pytest.approx(np.full((40, 40), 1 / 40))


def test_draws_have_the_frequencies_of_the_weights():
    weights = csr_array(np.array([[0.0, 2.0, 0.0, 1.0, 1.0, 0.0]]))

    drawn = draw_columns(weights, 4000, np.random.default_rng(0))[0]

    counts = np.bincount(drawn, minlength=6)
    assert counts[[0, 2, 5]].tolist() == [0, 0, 0]
    assert chisquare(counts[[1, 3, 4]], [2000, 1000, 1000]).pvalue > 0.01


def test_sparse_weights_draw_as_dense_ones_do(law):
    contexts, outcomes = law
    rows = np.arange(0, 40, 2)
    sparse = sparse_forest_weights(contexts, outcomes, rows, seed=0)
    dense = forest_weights(contexts, outcomes, rows, seed=0)

    assert sparse.toarray().tolist() == dense.tolist()
    drawn = [
        draw_columns(weights[rows], 9, np.random.default_rng(2))
        for weights in (sparse, csr_array(dense))
    ]
    assert np.array_equal(*drawn)


def test_a_pool_draws_any_of_its_rows_and_no_other():
    rows = np.array([1, 4, 5])
    drawn = PooledSampler(np.arange(6.0)[:, None], rows).draw(
        np.zeros(2, dtype=int), 1500, np.random.default_rng(0)
    )

    counts = np.bincount(drawn.ravel().astype(int), minlength=6)
    assert counts[[0, 2, 3]].tolist() == [0, 0, 0]
    assert chisquare(counts[rows]).pvalue > 0.01


def test_the_own_outcome_is_the_only_one():
    drawn = ObservedSampler(np.arange(6.0).reshape(3, 2)).draw(
        np.array([2, 0]), 5, np.random.default_rng(0)
    )
    assert drawn.tolist() == [[[4, 5]], [[0, 1]]]


def test_errors_of_a_forecast_are_in_its_units_and_within_omega():
    frame = np.array([[[1.0, 10.0], [1.0, 2.0]], [[5.0, 0.0], [0.5, 1.0]]])
    residuals = np.array([[-3.0, 1.0], [2.0, 0.0]])
    likely = ResidualSampler(
        frame, residuals, np.array([0.0, -9.0]), np.array([6.0, 11.0])
    )

    drawn = likely.draw(np.array([0, 1]), 50, np.random.default_rng(0))

    # 1 - 3 is moved to 0, and 10 + 2 to 11.
    assert {tuple(pair) for pair in drawn[0]} == {(0.0, 11.0), (3.0, 10.0)}
    assert {tuple(pair) for pair in drawn[1]} == {(3.5, 1.0), (6.0, 0.0)}


def test_a_tree_sees_a_panels_mean_spread_and_last_step():
    panels = np.array([[[1.0, 0.0], [3.0, 0.0], [5.0, 6.0]]])
    spread = [np.sqrt(8 / 3), np.sqrt(8.0)]

    assert context_features(panels)[0] == pytest.approx([3, 2, *spread, 5, 6])
    assert context_features(panels[0]).tolist() == panels[0].tolist()
