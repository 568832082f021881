"""Point forecasts: closed forms, refits by loops, and honesty out of fold."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, Ridge

from pyomo_csg.learn.distributions.features import feature_spread
from pyomo_csg.learn.distributions.forecasts import ridge as ridge_module
from pyomo_csg.learn.distributions.forecasts.fitting import (
    FORECASTS,
    Fits,
)
from pyomo_csg.learn.distributions.forecasts.forecast import (
    default_folds,
    fold_numbers,
    row_units,
)

SHAPES = {
    "two rows": ((2, 3), 2),
    "more columns than rows": ((7, 30), 3),
    "panels": ((40, 5, 2), 2),
    "one context": ((30, 1), 1),
    "many outcomes": ((25, 2), 60),
}


@pytest.fixture
def few_trees(monkeypatch):
    package = "pyomo_csg.learn.distributions.forecasts"
    monkeypatch.setattr(f"{package}.forest._MOST_TREES", 20)
    monkeypatch.setattr(f"{package}.boosting._STEPS", 5)


def forecast(kind, contexts, outcomes, seed, in_time):
    """Return the forecast of one kind."""
    return Fits(contexts, outcomes, seed, in_time).forecast(kind)


def linear(n, p=3, noise=0.3, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 4)) * [1, 100, 0.01, 1] + [0, 5, 0, 2]
    truth = rng.normal(size=(4, p)) / np.array([[1], [100], [0.01], [1]])
    return x, x @ truth + noise * rng.normal(size=(n, p)), truth


def one_penalty(monkeypatch, penalty):
    monkeypatch.setattr(ridge_module, "_PENALTIES", np.array([penalty]))


@pytest.mark.parametrize("shape", [(50, 4), (6, 9)])
def test_ridge_is_scikit_learns_with_folds_by_refits(monkeypatch, shape):
    one_penalty(monkeypatch, 0.3)
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=shape), rng.normal(size=(shape[0], 2))

    found = forecast("ridge", x, y, seed=5, in_time=False)

    scaled = (x - x.mean(0)) / feature_spread(x)
    n = len(x)
    whole = Ridge(alpha=0.3 * n).fit(scaled, y)
    assert found.predict(x) == pytest.approx(whole.predict(scaled))
    units = row_units(x, y, False)
    folds = fold_numbers(units, 5, False, default_folds(n, False))
    for k in range(folds.max() + 1):
        out = folds == k
        part = Ridge(alpha=0.3 * (~out).sum()).fit(scaled[~out], y[~out])
        assert found.out_of_fold[out] == pytest.approx(part.predict(scaled[out]))


def test_ridge_hardly_shrinks_a_clear_line():
    errors = []
    for seed in range(5):
        x, y, truth = linear(20, p=8, noise=0.1, seed=seed)
        new, _, _ = linear(400, seed=seed + 100)
        ours = forecast("ridge", x, y, seed, in_time=False).predict(new)
        ols = LinearRegression().fit(x, y).predict(new)
        errors.append([((f - new @ truth) ** 2).mean() for f in (ours, ols)])
    ours, ols = np.mean(errors, axis=0)
    assert ours < 1.1 * ols


def test_ridge_ignores_contexts_without_information():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 40)), rng.normal(size=(60, 1))
    new = rng.normal(size=(200, 40))

    predicted = forecast("ridge", x, y, 0, in_time=False).predict(new)

    assert predicted.std() < 0.35
    assert predicted == pytest.approx(np.full((200, 1), y.mean()), abs=0.9)


def test_a_quadratic_truth_is_found():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 3))
    y = np.column_stack([x[:, 0] ** 2 - x[:, 1] * x[:, 2], x[:, 0] + x[:, 1]])
    y += 0.05 * rng.normal(size=y.shape)

    fits = Fits(x, y, 0, False)

    for one in map(fits.forecast, ("quadratic", "stacked")):
        assert (y - one.out_of_fold).std(axis=0) == pytest.approx(0.05, rel=0.4)


@pytest.mark.parametrize("in_time", [True, False])
@pytest.mark.parametrize("kind", FORECASTS)
@pytest.mark.parametrize("case", SHAPES)
def test_every_kind_fits_every_shape(few_trees, case, kind, in_time):
    shape, p = SHAPES[case]
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=shape), rng.normal(size=(shape[0], p))
    x[..., 0] = 3.0  # a constant column

    found = forecast(kind, x, y, seed=0, in_time=in_time)
    again = forecast(kind, x, y, seed=0, in_time=in_time)

    for array in (found.out_of_fold, found.predict(x), found.predict(1e100 * x)):
        assert array.shape == y.shape
        assert np.isfinite(array).all()
    assert np.array_equal(found.predict(x), again.predict(x))


@pytest.mark.parametrize("kind", ["ridge", "quadratic", "forest", "extra trees"])
@pytest.mark.parametrize("in_time", [True, False])
def test_a_row_has_no_part_in_its_prediction_out_of_fold(kind, in_time):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 3)), rng.normal(size=(60, 1))
    changed = y.copy()
    changed[17] += 1e-9  # too little to change splits or penalties

    before, after = (
        forecast(kind, x, some, 0, in_time=in_time) for some in (y, changed)
    )

    moved = np.abs(after.out_of_fold - before.out_of_fold)
    assert moved[17] < 1e-13
    assert moved.max() > 1e-12


def test_copies_of_a_row_are_held_out_together():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(15, 2)), rng.normal(size=(15, 1))
    twice = np.tile(np.arange(15), 2)

    units = row_units(x[twice], y[twice], False)

    assert (units[:15] == units[15:]).all()
    assert len(set(units)) == 15
    noise = forecast("forest", x[twice], y[twice], 0, in_time=False).out_of_fold
    assert np.corrcoef(noise[:, 0], y[twice, 0])[0, 1] < 0.3


def test_parts_in_time_are_blocks():
    units = row_units(np.zeros((100, 1)), np.zeros((100, 1)), True)
    folds = fold_numbers(units, 0, True, 10)

    assert (np.diff(units) >= 0).all()
    assert (np.diff(folds) >= 0).all()
    assert np.bincount(folds).tolist() == [8, 12] * 5 or len(set(folds)) == 10


def test_stacking_is_close_to_the_best_part():
    for seed in range(3):
        x, y, truth = linear(80, seed=seed)
        new, _, _ = linear(300, seed=seed + 50)
        fits = Fits(x, y, seed, False)
        errors = {
            kind: ((fits.forecast(kind).predict(new) - new @ truth) ** 2).mean() + 0.09
            for kind in FORECASTS
        }
        stacked = errors.pop("stacked")
        assert stacked < 1.1 * min(errors.values())


def test_stacked_weights_are_shares():
    x, y, _ = linear(50)
    stacked = forecast("stacked", x, y, 0, in_time=False)

    assert (stacked.weights >= 0).all()
    assert stacked.weights.sum(axis=0) == pytest.approx(np.ones(3))


def test_boosting_adds_nothing_to_a_line_and_much_to_a_step():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 2))
    y = np.column_stack([x[:, 0], np.sign(x[:, 0]) * np.sign(x[:, 1])])
    y += 0.1 * rng.normal(size=y.shape)

    fits = Fits(x, y, 0, False)

    ridge, boosted = (
        (y - fits.forecast(kind).out_of_fold).std(axis=0)
        for kind in ("ridge", "boosting")
    )
    assert boosted[0] < 1.3 * ridge[0]
    assert boosted[1] < 0.7 * ridge[1]
