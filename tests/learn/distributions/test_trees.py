"""Trees as arrays against scikit-learn, and forests by plain loops."""

import numpy as np
import pytest
from sklearn.tree import DecisionTreeRegressor

from pyomo_csg.learn.distributions.features import scale_features
from pyomo_csg.learn.distributions.forecasts.forest import fit_forest
from pyomo_csg.learn.distributions.forecasts.trees import trees_from_sklearn


@pytest.fixture
def history():
    rng = np.random.default_rng(0)
    contexts = rng.normal(size=(80, 4)) * [1, 1e3, 1e-3, 0] + [0, 5e8, 0, 7]
    contexts[:, 1] = contexts[:, 1].round()
    outcomes = np.column_stack([contexts[:, 0] > 0, rng.normal(size=80)]).astype(float)
    return contexts, outcomes


@pytest.mark.parametrize("depth", [None, 1, 0])
def test_walks_end_in_scikit_learns_leaves(depth):
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(200, 5)), rng.normal(size=(200, 3))
    center, spread = rng.normal(size=5), rng.uniform(0.5, 2, 5)
    inside = scale_features(x, center, spread).astype(np.float32)
    settings = {"max_depth": depth, "max_features": 2} if depth else {"max_depth": 1}
    if depth == 0:
        y[:] = 1.0  # nothing to split
    fitted = [
        DecisionTreeRegressor(random_state=seed, **settings).fit(inside, y)
        for seed in range(6)
    ]

    trees = trees_from_sklearn(fitted, center, spread)

    new = rng.normal(size=(300, 5))
    seen = scale_features(new, center, spread).astype(np.float32)
    expected = np.column_stack([tree.apply(seen) for tree in fitted]) + trees.roots
    assert trees.leaves(new).tolist() == expected.tolist()
    assert trees.leaves(new[:1]).tolist() == expected[:1].tolist()


def test_a_forest_predicts_the_mean_of_its_trees(history):
    contexts, outcomes = history
    forest = fit_forest(contexts, outcomes, np.arange(80), seed=3, trees=7)

    leaves = forest.trees.leaves(contexts)
    for i in range(0, 80, 9):
        by_tree = []
        for t in range(7):
            mine = forest.nodes == leaves[i, t]
            rows, counts = forest.rows[mine], forest.counts[mine]
            assert len(rows) >= 5
            by_tree.append(counts @ outcomes[rows] / counts.sum())
        assert forest.predict(contexts[i : i + 1])[0] == pytest.approx(
            np.mean(by_tree, axis=0)
        )


def test_forest_weights_give_the_forests_predictions(history):
    contexts, outcomes = history
    forest = fit_forest(contexts, outcomes, np.arange(80), seed=3)

    weights = forest.weights(contexts)

    assert weights.sum(axis=1) == pytest.approx(np.ones(80))
    assert weights @ outcomes == pytest.approx(forest.predict(contexts))


def test_out_of_fold_a_row_and_its_unit_have_no_part(history):
    contexts, outcomes = history
    units = np.arange(80) // 8
    forest = fit_forest(contexts, outcomes, units, seed=3)
    rows = np.arange(80)

    weights = forest.fitted_weights(rows).toarray()

    assert not weights[units[:, None] == units].any()
    assert weights.sum(axis=1) == pytest.approx(np.ones(80))
    assert weights @ outcomes == pytest.approx(forest.out_of_fold)


@pytest.mark.parametrize("n", [2, 3, 5])
def test_a_short_history_still_has_predictions_out_of_fold(n):
    outcomes = np.arange(float(n))[:, None]
    forest = fit_forest(np.zeros((n, 1)), outcomes, np.arange(n), seed=0, trees=40)

    assert not forest.fitted_weights(np.arange(n)).diagonal().any()
    if n == 2:
        assert forest.out_of_fold.tolist() == [[1.0], [0.0]]


def test_a_long_history_is_seen_in_parts(monkeypatch):
    module = "pyomo_csg.learn.distributions.forecasts.forest.MOST_ROWS"
    monkeypatch.setattr(module, 50)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 2))
    forest = fit_forest(x, x, np.arange(200), seed=0, trees=30)

    assert np.unique(forest.counts).tolist() == [1]
    assert len(forest.rows) <= 30 * 50
    assert not forest.fitted_weights(np.arange(200)).diagonal().any()


def test_many_columns_split_by_their_main_components():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(150, 3))
    y = np.sign(x[:, :1]) * rng.uniform(1, 2, 40) + 0.1 * rng.normal(size=(150, 40))
    forest = fit_forest(x, y, np.arange(150), seed=0)

    left = ((forest.out_of_fold - y) ** 2).mean() / y.var(axis=0).mean()
    assert left < 0.2
