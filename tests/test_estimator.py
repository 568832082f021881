"""csg.ScenarioGenerator: agrees with csg.fit, and scikit-learn's tools work on it."""

import inspect

import cloudpickle
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold, LeaveOneOut, cross_val_score

import pyomo_csg as csg
from models import newsvendor
from tests.quick import QUICK, fit, maximized, panels, portfolio, shorten


@pytest.fixture(autouse=True)
def short(monkeypatch):
    shorten(monkeypatch.setattr)


@pytest.fixture
def pairs():
    return newsvendor.sample(40, seed=1)


def generator(model=None, **options):
    """Return one that fits a newsvendor, or another model, quickly."""
    options = {"scenarios": 2, "method": "mmd", "config": QUICK, **options}
    return csg.ScenarioGenerator(model or newsvendor.build(), **options)


def cost(orders, demands):
    """Return the costs of orders by the newsvendor's own formula."""
    sold = np.minimum(orders, demands)
    return orders - 1.05 * sold - 0.1 * (orders - sold)


def test_it_is_a_face_of_fit(pairs):
    policy = fit(pairs, method="mmd", seed=3)

    found = generator(method="mmd", seed=3).fit(*pairs)

    contexts, _ = pairs
    assert found.policy_.method == "mmd"
    assert (found.transform(contexts) == policy.scenarios(contexts)).all()
    assert found.predict(contexts) == pytest.approx(policy.decide(contexts).to_numpy())
    assert found.predict(contexts[0]) == pytest.approx(found.predict(contexts)[0])


def test_it_takes_what_fit_takes_but_for_what_clones_cannot_share():
    theirs = inspect.signature(csg.fit).parameters
    mine = inspect.signature(csg.ScenarioGenerator).parameters
    assert set(theirs) - set(mine) == {
        "data",
        "executor",
        "checkpoint",
        "callback",
        "plan",
        "distribution",
    }
    assert set(mine) <= set(theirs)
    assert [name for name in mine if mine[name].default != theirs[name].default] == [
        "progress"
    ]


def test_the_seconds_and_the_solvers_options_are_passed_on(pairs):
    found = generator(seconds=100.0, options={"time_limit": 5.0}).fit(*pairs)
    assert found.policy_.learned.summary["identity"]["options"] == {"time_limit": 5.0}
    with pytest.raises(csg.DataError, match="seconds is -1"):
        generator(seconds=-1).fit(*pairs)


def test_the_score_is_minus_the_mean_cost(pairs):
    found = generator().fit(*pairs)
    contexts, demands = newsvendor.sample(30, seed=2)

    expected = -cost(found.predict(contexts), demands).mean()
    assert found.score(contexts, demands) == pytest.approx(expected)
    assert found.score(contexts, demands[:, 0]) == pytest.approx(expected)


def test_the_score_of_a_maximized_model_is_its_profit(pairs):
    minimized = generator().fit(*pairs)
    profit = generator(maximized()).fit(*pairs)
    assert profit.score(*pairs) == pytest.approx(minimized.score(*pairs))


def test_cross_validation_scores_rows_that_were_not_seen(pairs):
    contexts, demands = pairs
    folds = KFold(3)

    scores = cross_val_score(generator(), *pairs, cv=folds, error_score="raise")

    expected = []
    for seen, held in folds.split(contexts):
        policy = fit((contexts[seen], demands[seen]), method="mmd")
        orders = policy.decide(contexts[held]).to_numpy()
        expected.append(-cost(orders, demands[held]).mean())
    assert scores == pytest.approx(expected)


def test_a_fold_may_be_a_single_row(pairs):
    few = tuple(side[:3] for side in pairs)
    scores = cross_val_score(generator(), *few, cv=LeaveOneOut(), error_score="raise")
    assert np.isfinite(scores).all() and len(scores) == 3


def test_a_grid_search_finds_the_best_method_and_count(pairs):
    grid = {"method": ["mmd", "direct"], "scenarios": [1, 3]}
    search = GridSearchCV(generator(), grid, cv=2, error_score="raise")

    search.fit(*pairs)

    scores = dict(
        zip(
            ((p["method"], p["scenarios"]) for p in search.cv_results_["params"]),
            search.cv_results_["mean_test_score"],
            strict=True,
        )
    )
    assert len(scores) == 4
    best = search.best_estimator_
    assert scores[best.method, best.scenarios] == max(scores.values())
    assert best.policy_.count == best.scenarios
    assert search.predict(pairs[0]).shape == (40, 1)


def test_a_clone_has_a_model_of_its_own(pairs):
    mine = generator(scenarios=3).fit(*pairs)
    other = clone(mine).set_params(scenarios=1)

    assert not hasattr(other, "policy_")
    assert (mine.scenarios, other.scenarios) == (3, 1)
    assert other.model is not mine.model
    other.model.order.setub(1)
    assert other.fit(*pairs).predict(pairs[0]).max() == 1
    assert mine.fit(*pairs).predict(pairs[0]).min() > 1


def test_it_goes_to_other_processes(pairs):
    found = generator().fit(*pairs)
    sent = cloudpickle.loads(cloudpickle.dumps(found))
    assert sent.predict(pairs[0]) == pytest.approx(found.predict(pairs[0]))
    assert sent.fit(*pairs).score(*pairs) == pytest.approx(found.score(*pairs))


def test_frames_are_read_by_name(pairs):
    X = pd.DataFrame(pairs[0], columns=["rain", "price"])  # noqa: N806
    Y = pd.DataFrame(pairs[1], columns=["demand"])  # noqa: N806

    found = generator().fit(X, Y)

    assert found.policy_.context_names == ("rain", "price")
    assert found.predict(X[["price", "rain"]]) == pytest.approx(found.predict(X))
    plain = cross_val_score(generator(), *pairs, cv=2)
    assert cross_val_score(generator(), X, Y, cv=2) == pytest.approx(plain)
    assert cross_val_score(generator(), X, Y["demand"], cv=2) == pytest.approx(plain)


def test_outcomes_of_a_frame_may_be_in_any_order():
    contexts, returns = panels()
    names = [f"returns[{i}]" for i in range(1, 5)]
    Y = pd.DataFrame(returns, columns=names)  # noqa: N806
    found = generator(portfolio()).fit(contexts, Y[names[::-1]])

    assert found.transform(contexts).shape == (30, 2, 4)
    assert found.score(contexts, Y[names[::-1]]) == found.score(contexts, returns)


def test_what_is_not_fitted_says_so(pairs):
    for ask in ("predict", "transform"):
        with pytest.raises(NotFittedError, match="ScenarioGenerator"):
            getattr(generator(), ask)(pairs[0])


def test_a_wrong_parameter_is_told_by_fit(pairs):
    with pytest.raises(csg.DataError, match="method is 'magic'"):
        generator(method="magic").fit(*pairs)
