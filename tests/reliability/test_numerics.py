"""Losses, values and costs of ill-conditioned programs are exact, or an error is raised."""

import numpy as np
import pytest

import pyomo_csg as csg
from models import cep1
from tests.reliability import families
from tests.reliability.exact import Instance, NoOptimumError

CASES = [(family, 12) for family in families.LINEAR]
CASES += [(families.big_m, 6), (families.integer_recourse, 2), (families.near_ties, 20)]
MAX_ERRORS = 0.1  # share of the solvable cases


def exact_or_none(answer, *data):
    """Return an exact answer, or None if the program has no optimum."""
    try:
        return float(answer(*data))
    except NoOptimumError:
        return None


def assert_exact_or_error(found, exact, failed):
    """Check that a number is exact to 1e-6, or that an error was recorded."""
    if np.isnan(found):
        assert failed
    else:
        assert exact is not None, f"{found} for an infeasible program"
        assert found == pytest.approx(exact, rel=1e-6, abs=0)


def answers(oracle, scenarios, outcome):
    """Yield the oracle's answers: name, number, decision, and number of failures."""
    solution = oracle.solve(scenarios[None], on_error="record", fresh=True)
    decision = solution.decision[0]
    yield "value", solution.value[0], decision, len(oracle.failures)
    for kind in ("optimistic", "recourse"):
        (loss,) = oracle.loss(
            scenarios[None], outcome[None], kind, on_error="record", fresh=True
        )
        yield kind, loss, decision, len(oracle.failures)
    if np.isfinite(decision).all():
        (cost,) = oracle.cost(decision, outcome[None], on_error="record", fresh=True)
        yield "cost", cost, decision, len(oracle.failures)


@pytest.mark.parametrize(
    "family, count", CASES, ids=lambda case: getattr(case, "__name__", "")
)
def test_every_answer_is_exact_or_an_error(family, count):
    answered, errors = 0, 0
    for seed in range(count):
        instance, scenarios, outcome = family(np.random.default_rng(seed))
        oracle = csg.Oracle(instance.model())
        exact = {
            "value": exact_or_none(instance.saa, scenarios),
            "optimistic": exact_or_none(instance.l_opt, scenarios, outcome),
        }
        for name, found, decision, failed in answers(oracle, scenarios, outcome):
            if name in ("recourse", "cost") and "cost" not in exact:
                exact["cost"] = exact_or_none(instance.cost, decision, outcome)
            true = exact["cost" if name == "recourse" else name]
            assert_exact_or_error(found, true, failed)
            answered += true is not None
            errors += true is not None and bool(failed)
    assert errors <= MAX_ERRORS * answered


def test_batch_agrees_with_exact_answers():
    rng = np.random.default_rng(3)
    instance, _, _ = families.units(rng)
    cases = [families.outcomes(rng, instance, 2) for _ in range(30)]
    scenarios, outcomes = map(np.array, zip(*cases, strict=True))
    losses = csg.Oracle(instance.model()).loss(scenarios, outcomes)
    exact = [float(instance.l_opt(*case)) for case in cases]
    assert losses == pytest.approx(exact, rel=1e-9)


def test_exact_solver_agrees_with_a_closed_form():
    """A newsvendor who orders at 1 and covers shortage at 4; the critical quantile is 3/4."""
    one = np.ones((1, 1))
    found = Instance(
        c=np.ones(1),
        q=np.array([4.0]),
        A=one,
        b=np.zeros(1),
        T=one,
        W=one,
        h=np.zeros(1),
        H=one,
        u=np.array([np.inf]),
        v=np.array([np.inf]),
    )
    scenarios = np.array([[1.0], [2.0], [3.0], [8.0]])
    # Any order from 3 to 8 costs 8; the best of them for an outcome of 5 is 5.
    assert found.saa(scenarios) == 8
    assert found.l_opt(scenarios, [5.0]) == 5
    assert found.l_opt(scenarios, [0.0]) == 3
    assert found.cost([3.0], [5.0]) == 3 + 8


def test_underflow_counts_as_zero():
    """Softplus returns such numbers, beside huge ones, when scenarios diverge."""
    rng = np.random.default_rng(0)
    scenarios = rng.uniform(1e5, 6e5, (20, 5, 3))
    scenarios[:, :2, :2] = scenarios[:, 2:, ::2] = 0.0
    tiny = np.where(
        scenarios == 0, 1e-60 * rng.uniform(size=scenarios.shape), scenarios
    )
    oracle, outcomes = csg.Oracle(cep1.build()), rng.uniform(0, 4e3, (20, 3))
    losses = oracle.loss(tiny, outcomes, fresh=True)
    assert losses == pytest.approx(oracle.loss(scenarios, outcomes), rel=1e-9)
    nothing = oracle.loss(np.zeros_like(tiny), outcomes)
    assert oracle.loss(1e-60 * tiny, outcomes) == pytest.approx(nothing, rel=1e-9)
