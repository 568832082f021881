"""What every baseline shares with a policy, on each of those that need no training."""

import pickle

import numpy as np
import pandas as pd
import pytest

import pyomo_csg as csg
from pyomo_csg.baselines import (
    ExpectedValue,
    ForestWeighted,
    NeighborWeighted,
    QuantileRegression,
    Residuals,
    SampleAverage,
)
from tests.baselines import papers
from tests.quick import maximized, panels, portfolio

BASELINES = {
    "expected value": (ExpectedValue, {}),
    "known mean": (ExpectedValue, {"forecast": lambda x: 20 + 5 * x[:, :1]}),
    "SAA": (SampleAverage, {}),
    "reduced": (SampleAverage, {"scenarios": 3, "reduction": "forward"}),
    "quantiles": (QuantileRegression, {"level": 0.6}),
    "neighbors": (NeighborWeighted, {}),
    "forest": (ForestWeighted, {}),
    "forest of three": (ForestWeighted, {"scenarios": 3}),
    "residuals": (Residuals, {"scale": True}),
    "residuals of a forest": (Residuals, {"forecast": "forest", "folds": 2}),
}
baselines = pytest.mark.parametrize("name", BASELINES)
X = np.random.default_rng(7).normal(size=(4, 2))


@pytest.fixture(autouse=True)
def few_trees(monkeypatch):
    monkeypatch.setattr("pyomo_csg.learn.distributions.samplers._TREES", 10)


def make(name, data=None, model=None, **settings):
    baseline, options = BASELINES[name]
    data = papers.pairs() if data is None else data
    return baseline(model or papers.build(0.62), data, **{**options, **settings})


@baselines
def test_a_decision_is_that_of_the_model_on_its_scenarios(name):
    policy = make(name)
    for x in X:
        decision = policy.decide(x)
        expected = papers.order(policy.scenarios(x), policy.weights(x), 0.62)
        assert decision["order"] == pytest.approx(expected, abs=1e-6)
        assert policy.weights(x).sum() == pytest.approx(1)


@baselines
def test_many_contexts_are_decided_as_one_by_one(name):
    policy = make(name)
    table = policy.decide(X, progress=False)

    assert table["order"].tolist() == pytest.approx(
        [policy.decide(x)["order"] for x in X]
    )
    for mine, x in zip(policy.scenarios(X), X, strict=True):
        assert mine == pytest.approx(policy.scenarios(x))


@baselines
def test_a_baseline_can_be_pickled(name):
    policy = make(name, seed=3, solver="appsi_highs")
    again = pickle.loads(pickle.dumps(policy))

    assert repr(again) == repr(policy)
    assert again.history.fingerprint() == policy.history.fingerprint()
    assert again.decide(X[0]).vector == pytest.approx(policy.decide(X[0]).vector)
    assert (again.scenarios(X[0]) == policy.scenarios(X[0])).all()


@baselines
def test_a_seed_gives_the_same_scenarios_again(name):
    one, other = make(name, seed=5), make(name, seed=5)
    assert (one.scenarios(X[0]) == other.scenarios(X[0])).all()
    assert (one.weights(X[0]) == other.weights(X[0])).all()


@baselines
def test_a_history_may_be_a_table(name):
    contexts, demands = papers.pairs()
    frame = pd.DataFrame(contexts, columns=["rain", "price"])
    frame["demand"] = demands
    frame["note"] = 1.0

    policy = make(name, frame, context=["rain", "price"])

    named = {"price": X[0, 1], "rain": X[0, 0]}
    assert policy.scenarios(named) == pytest.approx(make(name).scenarios(X[0]))
    assert policy.decide(frame.iloc[5:7]).index.tolist() == [5, 6]


@pytest.mark.parametrize("name", [name for name in BASELINES if name != "known mean"])
def test_contexts_may_be_panels(name):
    contexts, returns = panels()
    policy = make(name, (contexts, returns), portfolio())

    scenarios, weights = policy.scenarios(contexts[3]), policy.weights(contexts[3])
    assert scenarios.shape == (len(weights), 4)
    holdings = policy.decide(contexts[3])
    assert sum(holdings[f"holding[{i}]"] for i in range(1, 5)) == pytest.approx(1)


@baselines
def test_a_maximized_model_is_decided_as_a_minimized_one(name):
    table = make(name, model=maximized(price=1.9)).decide(X)
    minimized = maximized(price=1.9)
    minimized.profit.sense = 1
    minimized.profit.expr = -minimized.profit.expr
    assert table["order"].tolist() == pytest.approx(
        make(name, model=minimized).decide(X)["order"].tolist(), abs=1e-6
    )


def test_settings_of_the_oracle_are_taken():
    policy = make("SAA", workers=2, options={"time_limit": 9.0})
    assert policy.decide(X[0]).vector == pytest.approx(make("SAA").decide(X[0]).vector)
    with pytest.raises(csg.DataError, match="workers is 0"):
        make("SAA", workers=0)
    with pytest.raises(csg.DataError, match="there is no option 'depth'"):
        make("SAA", depth=3)


def test_a_baseline_says_what_it_is():
    assert repr(make("forest of three")) == (
        "<ForestWeighted for 'newsvendor': forest-weighted SAA, K=3 by kmeans, "
        "from 60 pairs>"
    )
    names = [make(name).name for name in BASELINES]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("name", "options", "problem"),
    [
        ("SAA", {"seed": -1}, "seed is -1; give a whole number from 0 to"),
        ("SAA", {"seed": 2**32}, "seed is 4294967296"),
        ("SAA", {"seed": True}, "seed is True"),
        ("SAA", {"scenarios": 0}, "scenarios is 0; give a whole number from 1 up"),
        ("SAA", {"scenarios": 2.0}, "scenarios is 2.0"),
        ("forest", {"reduction": "pam"}, "reduction is 'pam'; give one of"),
        ("forest", {"units": "si"}, "units is 'si'; give one of ('raw', 'standard')"),
        ("neighbors", {"neighbors": 61}, "give a whole number from 1 to 60"),
        ("neighbors", {"neighbors": "many"}, "neighbors is 'many'"),
        ("quantiles", {"level": 1.0}, "level is 1.0; give a number between 0 and 1"),
        ("quantiles", {"level": [0.2, 0.3]}, "or one for each of 1 uncertain numbers"),
        ("quantiles", {"level": "high"}, "level is 'high'"),
        ("residuals", {"scale": "log"}, "scale is 'log'; give True or False"),
        (
            "residuals",
            {"folds": 1},
            "folds is 1; give a whole number from 2 up, or None",
        ),
        ("residuals", {"forecast": "lstm"}, "forecast is 'lstm'; give one of"),
        ("expected value", {"forecast": None}, "forecast is None; give one of"),
        ("expected value", {"forecast": dict}, "an object, not its class"),
    ],
)
def test_an_option_that_is_none_is_refused_with_what_to_give(name, options, problem):
    with pytest.raises(csg.DataError) as refused:
        make(name, **options)
    assert problem in str(refused.value)
    assert f"Cannot create {BASELINES[name][0].__name__}" in str(refused.value)


def test_data_that_does_not_fit_the_model_is_refused():
    contexts, demands = papers.pairs()
    with pytest.raises(csg.DataError, match="outside its domain NonNegativeReals"):
        make("SAA", (contexts, demands - 50))
