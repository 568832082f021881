"""A solver that answers wrong: the checks catch it, or put it right."""

import highspy
import numpy as np
import pyomo.environ as pyo
import pytest

import pyomo_csg as csg
from tests.reliability import families

CASES = 6


def one_more(numbers, step=1e-3):
    """Return numbers of which the largest is off."""
    numbers = np.array(numbers)
    numbers[np.argmax(np.abs(numbers))] += step * (1 + np.abs(numbers).max())
    return numbers.tolist()


def shifted(found):
    found.col_value = one_more(found.col_value)


def shifted_a_little(found):
    found.col_value = one_more(found.col_value, 1e-5)


def doubled(found):
    found.col_value = (2 * np.array(found.col_value)).tolist()


def zero(found):
    found.col_value = np.zeros(len(found.col_value)).tolist()


def missing(found):
    found.col_value = np.full(len(found.col_value), np.nan).tolist()


def negative(found):
    found.col_value = (-np.array(found.col_value)).tolist()


def other_order(found):
    found.col_value = list(found.col_value)[::-1]


def other_prices(found):
    found.row_dual = one_more(found.row_dual)


def no_prices(found):
    found.row_dual = np.zeros(len(found.row_dual)).tolist()


def turned_prices(found):
    found.row_dual = (-np.array(found.row_dual)).tolist()


def lost_prices(found):
    found.row_dual = np.full(len(found.row_dual), np.nan).tolist()


def half_off(found):
    found.col_value = [x + 0.5 if abs(x) > 1e-9 else x for x in found.col_value]


LIES = (
    shifted,
    shifted_a_little,
    doubled,
    zero,
    missing,
    negative,
    other_order,
    other_prices,
    no_prices,
    turned_prices,
    lost_prices,
    half_off,
)


class Liar:
    """Has HiGHS's solutions told wrong, every one or only some."""

    def __init__(self, monkeypatch, lie, every):
        self.told, self._asked = 0, 0
        honest = highspy.Highs.getSolution

        def get_solution(highs):
            found = honest(highs)
            self._asked += 1
            if self._asked % every == 0:
                before = [*found.col_value], [*found.row_dual]
                lie(found)
                self.told += before != ([*found.col_value], [*found.row_dual])
            return found

        monkeypatch.setattr(highspy.Highs, "getSolution", get_solution)


def linear():
    """Return a program, scenarios (n, K, p), and outcomes (n, p)."""
    rng = np.random.default_rng(1)
    instance, _, _ = families.many_optima(rng)
    cases = [families.outcomes(rng, instance, 2) for _ in range(CASES)]
    return instance.model(), *map(np.array, zip(*cases, strict=True))


def whole():
    """The same with switches in the first stage and lots in the recourse."""
    rng = np.random.default_rng(2)
    instance, _, _ = families.big_m(rng)
    instance.v[:2], instance.whole_z = 2.0, (0, 1)
    cases = [families.outcomes(rng, instance, 2) for _ in range(CASES)]
    return instance.model(), *map(np.array, zip(*cases, strict=True))


def answers(model, scenarios, outcomes, decision):
    """Return what an oracle answers, by name, and how many errors it recorded."""
    oracle, found, errors = csg.Oracle(model), {}, 0
    how = {"on_error": "record", "progress": False, "fresh": True}
    found["value"] = oracle.solve(scenarios, **how).value
    errors += len(oracle.failures)
    found["loss"] = oracle.loss(scenarios, outcomes, **how)
    errors += len(oracle.failures)
    found["cost"] = oracle.cost(decision, outcomes, **how)
    return found, errors + len(oracle.failures)


@pytest.mark.parametrize("every", [1, 2])
@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("make", [linear, whole])
def test_a_solution_that_is_off_is_caught_or_put_right(monkeypatch, make, lie, every):
    model, scenarios, outcomes = make()
    decision = csg.Oracle(model).solve(scenarios[0]).decision
    honest, errors = answers(model, scenarios, outcomes, decision)
    assert errors == 0
    liar = Liar(monkeypatch, lie, every)
    found, errors = answers(model, scenarios, outcomes, decision)
    if "prices" not in lie.__name__:
        assert liar.told > 0
    missing_answers = 0
    for name, numbers in found.items():
        there = ~np.isnan(numbers)
        assert numbers[there] == pytest.approx(honest[name][there], rel=1e-6)
        missing_answers += int((~there).sum())
    assert missing_answers == errors


def status_of(name):
    return lambda highs: getattr(highspy.HighsModelStatus, name)


@pytest.mark.parametrize(
    "status", ["kInfeasible", "kUnbounded", "kUnknown", "kTimeLimit", "kSolveError"]
)
def test_a_status_that_denies_an_optimum_is_an_error(monkeypatch, status):
    model, scenarios, outcomes = linear()
    monkeypatch.setattr(highspy.Highs, "getModelStatus", status_of(status))
    oracle = csg.Oracle(model)
    assert np.isnan(oracle.loss(scenarios, outcomes, on_error="record")).all()
    assert len(oracle.failures) == CASES


def test_a_status_that_claims_an_optimum_where_there_is_none_is_an_error(monkeypatch):
    m = pyo.ConcreteModel("short")
    m.w = pyo.Param(mutable=True, initialize=5.0)
    m.y, m.z = pyo.Var(bounds=(0, 10)), pyo.Var(bounds=(0, 3))
    m.need = pyo.Constraint(expr=m.y + m.z >= m.w)
    m.cost = pyo.Objective(expr=m.y + 2 * m.z)
    csg.annotate(m, first_stage_variables=m.y, uncertain_params=m.w)
    monkeypatch.setattr(highspy.Highs, "getModelStatus", status_of("kOptimal"))
    oracle = csg.Oracle(m)
    with pytest.raises(csg.SolveError, match="not exact"):
        oracle.solve([[20.0]])
    with pytest.raises(csg.SolveError, match="not exact"):
        oracle.cost([4.0], [[9.0]])


def test_an_incumbent_that_its_bound_does_not_prove_is_an_error(monkeypatch):
    model, scenarios, outcomes = whole()
    honest = highspy.Highs.getInfo

    def get_info(highs):
        found = honest(highs)
        found.mip_dual_bound -= 1.0
        return found

    expected = csg.Oracle(model).loss(scenarios, outcomes)
    monkeypatch.setattr(highspy.Highs, "getInfo", get_info)
    oracle = csg.Oracle(model)
    losses = oracle.loss(scenarios, outcomes, on_error="record")
    statuses = {failure.status for failure in oracle.failures}
    there = ~np.isnan(losses)
    assert losses[there] == pytest.approx(expected[there], rel=1e-6)
    assert statuses == {"not optimal"}


def test_bases_that_are_off_cost_time_at_most(monkeypatch):
    model, scenarios, outcomes = linear()
    decision = csg.Oracle(model).solve(scenarios[0]).decision
    many = np.repeat(outcomes, 20, axis=0) * np.linspace(0.5, 1.5, 120)[:, None]
    expected = csg.Oracle(model).cost(decision, many)
    honest = highspy.Highs.getBasicVariables

    def get_basic_variables(highs):
        status, found = honest(highs)
        return status, np.roll(np.arange(len(found)), 1)

    monkeypatch.setattr(highspy.Highs, "getBasicVariables", get_basic_variables)
    costs = csg.Oracle(model).cost(decision, many, on_error="record")
    there = ~np.isnan(costs)
    assert costs[there] == pytest.approx(expected[there], rel=1e-9)
