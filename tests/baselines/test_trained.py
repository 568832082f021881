"""What every trained baseline shares with a policy."""

import pickle

import numpy as np
import pandas as pd
import pytest

import pyomo_csg as csg
from pyomo_csg.baselines import (
    LandscapeSurrogate,
    Neur2SP,
    OneScenario,
    SupportProbabilities,
)
from tests.baselines import papers
from tests.quick import QUICK, maximized, panels, portfolio

BASELINES = {
    "landscape": (LandscapeSurrogate, {"config": QUICK}),
    "linear": (OneScenario, {"evaluations": 12, "pairs": 10}),
    "tree": (OneScenario, {"map": "tree", "evaluations": 12}),
    "support": (
        SupportProbabilities,
        {"support": 6, "decisions": 8, "rounds": 1, "hidden": (6,), "epochs": 3},
    ),
    "neur2sp": (
        Neur2SP,
        {"hidden": 4, "labels": 60, "outcomes": 4, "decisions": 9, "epochs": 4},
    ),
}
baselines = pytest.mark.parametrize("name", BASELINES)
with_scenarios = pytest.mark.parametrize(
    "name", [n for n in BASELINES if n != "neur2sp"]
)
X = np.random.default_rng(7).normal(size=(3, 2))


@pytest.fixture(autouse=True)
def few_trees(monkeypatch):
    monkeypatch.setattr("pyomo_csg.learn.distributions.samplers._TREES", 10)


def make(name, data=None, model=None, **settings):
    baseline, options = BASELINES[name]
    data = papers.pairs() if data is None else data
    settings = {**options, "progress": False, **settings}
    return baseline(model or papers.build(0.62), data, **settings)


@with_scenarios
def test_a_decision_is_that_of_the_model_on_its_scenarios(name):
    policy = make(name)
    for x in X:
        expected = papers.order(policy.scenarios(x), policy.weights(x), 0.62)
        assert policy.decide(x)["order"] == pytest.approx(expected, abs=1e-6)
        assert policy.weights(x).sum() == pytest.approx(1)


@baselines
def test_many_contexts_are_decided_as_one_by_one(name):
    policy = make(name)
    table = policy.decide(X, progress=False)
    alone = [policy.decide(x)["order"] for x in X]
    assert table["order"].tolist() == pytest.approx(alone, abs=1e-6)


@baselines
def test_a_seed_gives_the_same_decisions_again_and_a_pickle_too(name):
    policy = make(name, seed=5)
    again = make(name, seed=5, workers=2)
    kept = pickle.loads(pickle.dumps(again))

    assert repr(kept) == repr(policy)
    for other in (again, kept):
        assert (other.decide(X).to_numpy() == policy.decide(X).to_numpy()).all()


@baselines
def test_a_history_may_be_a_table(name):
    contexts, demands = papers.pairs()
    frame = pd.DataFrame(contexts, columns=["rain", "price"])
    frame["demand"] = demands
    frame["note"] = 1.0

    policy = make(name, frame, context=["rain", "price"])

    named = {"price": X[0, 1], "rain": X[0, 0]}
    assert policy.decide(named).vector == pytest.approx(make(name).decide(X[0]).vector)
    assert policy.decide(frame.iloc[5:7]).index.tolist() == [5, 6]


@baselines
def test_contexts_may_be_panels_and_variables_integer(name):
    contexts, returns = panels()
    policy = make(name, (contexts, returns), portfolio())
    holdings = policy.decide(contexts[3])
    assert sum(holdings[f"holding[{i}]"] for i in range(1, 5)) == pytest.approx(1)


@baselines
def test_a_maximized_model_is_decided_as_a_minimized_one(name):
    profit = maximized(price=1.9)
    cost = maximized(price=1.9)
    cost.profit.sense = 1
    cost.profit.expr = -cost.profit.expr

    ours, theirs = (make(name, model=model) for model in (profit, cost))

    one, other = ours.decide(X[0]), theirs.decide(X[0])
    assert one.vector == pytest.approx(other.vector, abs=1e-6)
    assert one.value == pytest.approx(-other.value)


def test_names_tell_baselines_apart():
    names = [make(name).name for name in BASELINES]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("name", "options", "problem"),
    [
        ("landscape", {"config": {"hiden": (8,)}}, "there is no setting 'hiden'"),
        ("linear", {"map": "cubic"}, "map is 'cubic'; give 'linear' or 'tree'"),
        ("linear", {"pairs": 0}, "pairs is 0; give a whole number from 1 up"),
        ("tree", {"leaf": 2.5}, "leaf is 2.5"),
        ("support", {"support": 0}, "support is 0"),
        ("support", {"support": [[-1.0]]}, "outside its domain NonNegativeReals"),
        ("support", {"smoothing": 0.0}, "smoothing is 0.0; give a number above 0"),
        ("support", {"rounds": True}, "rounds is True"),
        ("neur2sp", {"hidden": 0}, "hidden is 0"),
        ("neur2sp", {"labels": "many"}, "labels is 'many'"),
    ],
)
def test_an_option_that_is_none_is_refused_with_what_to_give(name, options, problem):
    with pytest.raises(csg.DataError) as refused:
        make(name, **options)
    assert problem in str(refused.value)
