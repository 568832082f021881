"""Policies by generators that have no network: all that a policy does works with them."""

import pickle

import numpy as np
import pytest

import pyomo_csg as csg
from models import newsvendor
from pyomo_csg.learn.fit_result import FitResult
from tests.learn.generators import points
from tests.learn.generators.points import ConstantPoints, VaryingPoints
from tests.solving import solve, transform

POINTS = np.array([[10.0], [14.0], [30.0]])
SHARES = np.array([0.5, 0.3, 0.2])
CONTEXTS = np.array([[1.0, 0.0], [2.0, 0.5], [3.0, -0.5]])
KINDS = {"constant": ConstantPoints, "varying": VaryingPoints}


def policy_by(generator, **options):
    """Return a policy for the newsvendor, as if such a generator had been fitted."""
    learned = FitResult(generator, "auto", {}, reach=3.0)
    return csg.Policy(newsvendor.build(), learned, **options)


@pytest.fixture(params=KINDS)
def policy(request, monkeypatch):
    points.register(monkeypatch)
    return policy_by(KINDS[request.param](POINTS, SHARES))


def test_a_decision_is_an_optimum_for_its_scenarios_and_weights(policy):
    for x in CONTEXTS:
        decision = policy.decide(x)
        program = transform(
            "extensive_form",
            newsvendor.build(),
            scenarios=decision.scenarios,
            weights=decision.weights,
        )
        assert decision.value == pytest.approx(solve(program), rel=1e-7)


def test_many_contexts_are_decided_as_one_by_one(policy):
    table = policy.decide(CONTEXTS)
    assert table["order"].tolist() == [policy.decide(x)["order"] for x in CONTEXTS]
    scenarios, weights = policy.scenarios(CONTEXTS), policy.weights(CONTEXTS)
    assert [len(one) for one in scenarios] == [len(one) for one in weights]
    very_many = np.tile(CONTEXTS, (2000, 1))
    assert len(policy.scenarios(very_many)) == len(policy.weights(very_many)) == 6000


def test_a_varying_number_of_scenarios_is_told():
    policy = policy_by(VaryingPoints(POINTS, SHARES))
    assert policy.count is None
    assert [len(one) for one in policy.scenarios(CONTEXTS)] == [1, 2, 3]
    assert "how many depends on the context" in policy.report()
    assert (
        repr(policy) == "<Policy for 'newsvendor': scenarios of 1 numbers, by 'auto'>"
    )


def test_it_comes_back_from_a_file_and_from_a_pickle(policy, tmp_path):
    policy.save(tmp_path / "policy.csg")
    loaded = csg.load(tmp_path / "policy.csg", newsvendor.build())
    for again in (loaded, pickle.loads(pickle.dumps(policy))):
        assert type(again.learned.generator) is type(policy.learned.generator)
        for x in CONTEXTS:
            np.testing.assert_array_equal(again.scenarios(x), policy.scenarios(x))
            np.testing.assert_array_equal(again.weights(x), policy.weights(x))
        assert again.count == policy.count and again.report() == policy.report()


def test_it_has_no_network_and_says_so(policy):
    with pytest.raises(csg.DataError, match="scenarios come from a"):
        _ = policy.network
    pairs = newsvendor.sample(20, seed=1)
    with pytest.raises(csg.DataError, match="has no network"):
        csg.guarantees.mmd_bound(policy, pairs, support=([0.0], [40.0]))


def test_it_is_reported_evaluated_and_certified(policy, tmp_path):
    pairs = newsvendor.sample(60, seed=1)
    policy.report(tmp_path / "page.html", pairs)
    assert "scenarios" in (tmp_path / "page.html").read_text()
    cases = [csg.Case(x, POINTS) for x in CONTEXTS]
    evaluation = csg.evaluate({"mine": policy}, cases, progress=False)
    assert np.isfinite(evaluation.costs["mine"]).all()
    certificate = policy.certify(pairs, gaps=False)
    assert "on 60 held-out pairs" in str(certificate)


def test_a_far_context_is_logged(policy, caplog):
    policy.decide([9.0, 9.0])
    assert "1 of 1 contexts are far from the history" in caplog.text


@pytest.mark.parametrize(
    ("generator", "found"),
    [
        (ConstantPoints(np.ones((2, 3)), np.full(2, 0.5)), r"expected \(1, 2, 1\)"),
        (ConstantPoints(POINTS, np.ones(3)), "not shares of 1"),
        (ConstantPoints(POINTS, np.array([1.5, -0.5, 0.0])), "not shares of 1"),
        (
            ConstantPoints(POINTS, np.array([0.5, 0.5])),
            r"weights \(1, 2\) for scenarios \(1, 3, 1\)",
        ),
        (ConstantPoints(np.full((3, 1), np.nan), SHARES), "not finite"),
        (VaryingPoints(np.ones((2, 3)), np.full(2, 0.5)), r"expected \(1, K, 1\)"),
        (VaryingPoints(POINTS, np.full(3, np.nan)), "not finite"),
    ],
)
def test_a_generator_that_does_not_fit_is_refused(generator, found):
    with pytest.raises(csg.DataError, match=found):
        policy_by(generator)


def test_a_file_whose_points_leave_the_domain_is_refused(monkeypatch, tmp_path):
    points.register(monkeypatch)
    policy = policy_by(ConstantPoints(POINTS - 20.0, SHARES))
    policy.save(tmp_path / "policy.csg")
    with pytest.raises(csg.DataError, match="anywhere in \\[-10, 10\\]"):
        csg.load(tmp_path / "policy.csg", newsvendor.build())


def test_a_file_of_an_unknown_kind_is_refused(tmp_path):
    policy_by(ConstantPoints(POINTS, SHARES)).save(tmp_path / "policy.csg")
    with pytest.raises(csg.DataError, match="no generator of kind 'constant points'"):
        csg.load(tmp_path / "policy.csg", newsvendor.build())
