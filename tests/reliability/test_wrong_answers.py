"""Wrong answers of a solver are detected or repaired."""

import highspy
import numpy as np
import pyomo.environ as pyo
import pytest

import pyomo_csg as csg
from tests.reliability import families

CASES = 6


def perturb_largest(numbers, step=1e-3):
    """Return numbers with the largest one changed."""
    numbers = np.array(numbers)
    numbers[np.argmax(np.abs(numbers))] += step * (1 + np.abs(numbers).max())
    return numbers.tolist()


def shifted(found):
    found.col_value = perturb_largest(found.col_value)


def shifted_slightly(found):
    found.col_value = perturb_largest(found.col_value, 1e-5)


def doubled(found):
    found.col_value = (2 * np.array(found.col_value)).tolist()


def zero(found):
    found.col_value = np.zeros(len(found.col_value)).tolist()


def nan_point(found):
    found.col_value = np.full(len(found.col_value), np.nan).tolist()


def negative(found):
    found.col_value = (-np.array(found.col_value)).tolist()


def reversed_order(found):
    found.col_value = list(found.col_value)[::-1]


def shifted_duals(found):
    found.row_dual = perturb_largest(found.row_dual)


def zero_duals(found):
    found.row_dual = np.zeros(len(found.row_dual)).tolist()


def negated_duals(found):
    found.row_dual = (-np.array(found.row_dual)).tolist()


def nan_duals(found):
    found.row_dual = np.full(len(found.row_dual), np.nan).tolist()


def shifted_by_half(found):
    found.col_value = [x + 0.5 if abs(x) > 1e-9 else x for x in found.col_value]


ERRORS = (
    shifted,
    shifted_slightly,
    doubled,
    zero,
    nan_point,
    negative,
    reversed_order,
    shifted_duals,
    zero_duals,
    negated_duals,
    nan_duals,
    shifted_by_half,
)


class FaultySolver:
    """Makes HiGHS return wrong solutions, every one or only some."""

    def __init__(self, monkeypatch, error, every):
        self.changed, self._calls = 0, 0
        correct = highspy.Highs.getSolution

        def get_solution(highs):
            found = correct(highs)
            self._calls += 1
            if self._calls % every == 0:
                before = [*found.col_value], [*found.row_dual]
                error(found)
                self.changed += before != ([*found.col_value], [*found.row_dual])
            return found

        monkeypatch.setattr(highspy.Highs, "getSolution", get_solution)


def linear():
    """Return a program, scenarios (n, K, p), and outcomes (n, p)."""
    rng = np.random.default_rng(1)
    instance, _, _ = families.many_optima(rng)
    cases = [families.outcomes(rng, instance, 2) for _ in range(CASES)]
    return instance.model(), *map(np.array, zip(*cases, strict=True))


def integer():
    """Return the same with binaries in the first stage and integers in the recourse."""
    rng = np.random.default_rng(2)
    instance, _, _ = families.big_m(rng)
    instance.v[:2], instance.integer_z = 2.0, (0, 1)
    cases = [families.outcomes(rng, instance, 2) for _ in range(CASES)]
    return instance.model(), *map(np.array, zip(*cases, strict=True))


def answers(model, scenarios, outcomes, decision):
    """Return an oracle's answers by name, and how many errors it recorded."""
    oracle, found, errors = csg.Oracle(model), {}, 0
    how = {"on_error": "record", "progress": False, "fresh": True}
    found["value"] = oracle.solve(scenarios, **how).value
    errors += len(oracle.failures)
    found["loss"] = oracle.loss(scenarios, outcomes, **how)
    errors += len(oracle.failures)
    found["cost"] = oracle.cost(decision, outcomes, **how)
    return found, errors + len(oracle.failures)


@pytest.mark.parametrize("every", [1, 2])
@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("make", [linear, integer])
def test_wrong_solution_is_detected_or_repaired(monkeypatch, make, error, every):
    model, scenarios, outcomes = make()
    decision = csg.Oracle(model).solve(scenarios[0]).decision
    correct, errors = answers(model, scenarios, outcomes, decision)
    assert errors == 0
    solver = FaultySolver(monkeypatch, error, every)
    found, errors = answers(model, scenarios, outcomes, decision)
    if "duals" not in error.__name__:
        assert solver.changed > 0
    missing_answers = 0
    for name, numbers in found.items():
        there = ~np.isnan(numbers)
        assert numbers[there] == pytest.approx(correct[name][there], rel=1e-6)
        missing_answers += int((~there).sum())
    assert missing_answers == errors


def test_optimal_point_that_costs_a_little_more_is_repaired(monkeypatch):
    """HiGHS 1.15.1 may do so after a warm start (its issues 3194 and 3294)."""
    model, scenarios, outcomes = linear()
    decision = csg.Oracle(model).solve(scenarios[0]).decision
    correct, _ = answers(model, scenarios, outcomes, decision)

    def dearer(found):  # in these models, more of a column is feasible
        found.col_value = perturb_largest(found.col_value, 1e-7)

    solver = FaultySolver(monkeypatch, dearer, every=2)
    found, _ = answers(model, scenarios, outcomes, decision)

    assert solver.changed > 0
    for name, numbers in found.items():
        there = ~np.isnan(numbers)
        assert there.any()
        assert numbers[there] == pytest.approx(correct[name][there], rel=2e-9)


def test_warm_starts_give_the_answers_of_cold_starts():
    """A long chain of changed bounds, as in HiGHS's issue 3294, and each case alone."""
    rng = np.random.default_rng(4)
    instance, _, _ = families.degenerate(rng)
    drawn = [families.outcomes(rng, instance, 3, 0.0, 30.0) for _ in range(300)]
    scenarios, outcomes = map(np.array, zip(*drawn, strict=True))
    scenarios, outcomes = np.round(scenarios / 5) * 5, np.round(outcomes / 5) * 5
    chain = csg.Oracle(instance.model()).loss(scenarios, outcomes, progress=False)
    for case in range(0, 300, 20):
        alone = csg.Oracle(instance.model())
        (loss,) = alone.loss(scenarios[[case]], outcomes[[case]])
        assert loss == pytest.approx(chain[case], rel=1e-9)


def status_of(name):
    return lambda highs: getattr(highspy.HighsModelStatus, name)


@pytest.mark.parametrize(
    "status", ["kInfeasible", "kUnbounded", "kUnknown", "kTimeLimit", "kSolveError"]
)
def test_status_other_than_optimal_is_an_error(monkeypatch, status):
    model, scenarios, outcomes = linear()
    monkeypatch.setattr(highspy.Highs, "getModelStatus", status_of(status))
    oracle = csg.Oracle(model)
    assert np.isnan(oracle.loss(scenarios, outcomes, on_error="record")).all()
    assert len(oracle.failures) == CASES


def test_wrong_optimal_status_is_an_error(monkeypatch):
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


def test_incumbent_above_its_bound_is_an_error(monkeypatch):
    model, scenarios, outcomes = integer()
    correct = highspy.Highs.getInfo

    def get_info(highs):
        found = correct(highs)
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


def test_wrong_bases_do_not_change_costs(monkeypatch):
    model, scenarios, outcomes = linear()
    decision = csg.Oracle(model).solve(scenarios[0]).decision
    many = np.repeat(outcomes, 20, axis=0) * np.linspace(0.5, 1.5, 120)[:, None]
    expected = csg.Oracle(model).cost(decision, many)
    correct = highspy.Highs.getBasicVariables

    def get_basic_variables(highs):
        status, found = correct(highs)
        return status, np.roll(np.arange(len(found)), 1)

    monkeypatch.setattr(highspy.Highs, "getBasicVariables", get_basic_variables)
    costs = csg.Oracle(model).cost(decision, many, on_error="record")
    there = ~np.isnan(costs)
    assert costs[there] == pytest.approx(expected[there], rel=1e-9)
