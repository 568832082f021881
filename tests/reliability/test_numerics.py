"""Losses, values and costs of troublesome programs are exact, or there is an error."""

import numpy as np
import pytest

import pyomo_csg as csg
from models import cep1
from tests.reliability import families
from tests.reliability.exact import Instance, NoOptimumError

CASES = [(family, 12) for family in families.LINEAR]
CASES += [(families.big_m, 6), (families.whole_recourse, 2)]
MOST_ERRORS = 0.1  # of the cases that have an answer


def exactly(answer, *data):
    """Return an exact answer, or None if there is none."""
    try:
        return float(answer(*data))
    except NoOptimumError:
        return None


def assert_right_or_said(found, exact, failed):
    """See that a number is right to a millionth, or that an error stands for it."""
    if np.isnan(found):
        assert failed
    else:
        assert exact is not None, f"{found} for a program without an answer"
        assert found == pytest.approx(exact, rel=1e-6, abs=0)


def answers(oracle, scenarios, outcome):
    """Yield what the oracle says: its name, the number, the decision, and failures."""
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
def test_every_answer_is_right_to_a_millionth_or_an_error(family, count):
    answered, errors = 0, 0
    for seed in range(count):
        instance, scenarios, outcome = family(np.random.default_rng(seed))
        oracle = csg.Oracle(instance.model())
        exact = {
            "value": exactly(instance.saa, scenarios),
            "optimistic": exactly(instance.l_opt, scenarios, outcome),
        }
        for name, found, decision, failed in answers(oracle, scenarios, outcome):
            if name in ("recourse", "cost") and "cost" not in exact:
                exact["cost"] = exactly(instance.cost, decision, outcome)
            true = exact["cost" if name == "recourse" else name]
            assert_right_or_said(found, true, failed)
            answered += true is not None
            errors += true is not None and bool(failed)
    assert errors <= MOST_ERRORS * answered


def test_a_batch_gives_what_single_cases_give():
    rng = np.random.default_rng(3)
    instance, _, _ = families.units(rng)
    cases = [families.outcomes(rng, instance, 2) for _ in range(30)]
    scenarios, outcomes = map(np.array, zip(*cases, strict=True))
    losses = csg.Oracle(instance.model()).loss(scenarios, outcomes)
    exact = [float(instance.l_opt(*case)) for case in cases]
    assert losses == pytest.approx(exact, rel=1e-9)


def test_the_exact_answer_is_that_of_a_closed_form():
    """Newsvendors: order at 1, buy what is short at 4; the critical quantile is 3/4."""
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


def test_numbers_that_are_zero_but_for_underflow_count_as_zero():
    """As softplus gives them to scenarios that run away: most of them, beside huge ones."""
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
