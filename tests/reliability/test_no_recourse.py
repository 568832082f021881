"""Models without relatively complete recourse: fits go on, and decisions say so."""

import logging

import numpy as np
import pyomo.environ as pyo
import pytest

import pyomo_csg as csg
from pyomo_csg.learn.methods.labels import penalize_unsolved
from tests.quick import METHODS, QUICK, shorten


def tight(buy=3.0):
    """Return a model in which at most 10 can be ordered and a little bought later."""
    m = pyo.ConcreteModel("tight")
    m.w = pyo.Param(mutable=True, initialize=5.0, within=pyo.NonNegativeReals)
    m.order, m.bought = pyo.Var(bounds=(0, 10)), pyo.Var(bounds=(0, buy))
    m.left = pyo.Var(bounds=(0, None))
    m.need = pyo.Constraint(expr=m.order + m.bought - m.left == m.w)
    m.cost = pyo.Objective(expr=m.order + 3 * m.bought + 0.2 * m.left)
    csg.annotate(m, first_stage_variables=m.order, uncertain_params=m.w)
    return m


def pairs(highest, n=40):
    """Return contexts (n, 1) and outcomes (n, 1) up to about what can be served."""
    rng = np.random.default_rng(0)
    contexts = rng.uniform(-1, 1, (n, 1))
    return contexts, highest * (0.5 + 0.4 * contexts + rng.uniform(0, 0.1, (n, 1)))


def fit(method, data, buy=3.0, **options):
    options = {"scenarios": 2, "config": QUICK, "progress": False, **options}
    return csg.fit(tight(buy), data, method=method, **options)


@pytest.fixture(autouse=True)
def _short(monkeypatch):
    shorten(monkeypatch.setattr)


@pytest.mark.parametrize("method", METHODS)
def test_a_fit_goes_on_and_counts_what_had_no_answer(method, caplog):
    data = pairs(16.0)  # some outcomes are more than 13, which nothing can serve
    with caplog.at_level(logging.WARNING, "pyomo_csg"):
        policy = fit(method, data)
    decisions = policy.decide(data[0][:10], on_error="record")
    served = decisions["order"].notna()
    assert served.any()
    assert decisions["order"][served].between(0, 10 + 1e-9).all()
    if method == "mmd":  # solves nothing
        assert "not solved" not in policy.report()
        return
    assert policy.learned.summary["unsolved"] > 0
    count = policy.learned.summary["unsolved"]
    assert f"not solved      {count} programs" in policy.report()
    assert policy.history["missing"].sum() == count
    assert "could not be solved" in caplog.text


@pytest.mark.parametrize("method", ["direct", "static"])
def test_a_fit_that_always_has_an_answer_says_nothing_of_it(method):
    policy = fit(method, pairs(9.0), buy=1e4)
    assert "not solved" not in policy.report()
    assert "unsolved" not in policy.learned.summary


@pytest.mark.parametrize("method", ["direct", "static", "auto"])
def test_when_nothing_has_an_answer_the_error_says_why(method):
    data = pairs(16.0)
    out_of_reach = data[0], data[1] + 20.0
    try:
        policy = fit(method, out_of_reach)
    except csg.DataError as error:
        assert "complete recourse" in str(error)
    else:
        with pytest.raises(csg.SolveError, match="complete recourse"):
            policy.decide(data[0][0])


def test_without_an_answer_the_mmd_loss_pulls_scenarios_back():
    """From a start where half the plans cannot be served, direct comes back."""
    data = pairs(13.0)
    config = csg.FitConfig(hidden=(8,), mmd_epochs=10, task_epochs=10, noise=1.0)
    policy = fit("direct", data, config=config)
    assert policy.learned.summary["unsolved"] > 0  # the noise goes too far
    assert policy.scenarios(data[0]).max() < 1.2 * data[1].max()


def test_a_decision_says_for_which_context_there_is_none_and_what_to_do():
    policy = fit("mmd", pairs(30.0), config=csg.FitConfig(mmd_epochs=80))
    with pytest.raises(csg.SolveError) as caught:
        policy.decide(np.array([[-1.0], [0.9]]))
    assert caught.value.case == 1 and caught.value.status == "infeasible"
    for words in ("context [0.9]", "complete recourse", "error.write('case.lp')"):
        assert words in str(caught.value)


def test_an_evaluation_goes_on_and_says_how_many_had_none():
    policy = fit("mmd", pairs(9.0))
    cases = [csg.Case([0.0], [[4.0], [5.0]]), csg.Case([0.0], [[4.0], [50.0]])]
    found = csg.evaluate({"mine": policy}, cases, reference=None, progress=False)
    failures = found.records["failure"].tolist()
    assert failures[0] == "" and "no recourse in 1 of 2 outcomes" in failures[1]


def test_a_plan_without_an_answer_is_worse_than_all_with_one():
    losses = np.array([2.0, np.nan, 6.0, np.nan])
    assert penalize_unsolved(losses) == pytest.approx([2, 8, 6, 8])
    assert (
        penalize_unsolved(losses[:1]) is not None
        and (penalize_unsolved(losses[::2]) == [2, 6]).all()
    )
    assert np.isnan(penalize_unsolved(losses[1::2])).all()
