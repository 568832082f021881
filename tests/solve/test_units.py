"""Answers are right in every unit, alone and in shuffled batches, against exact ones."""

from fractions import Fraction

import numpy as np
import pyomo.environ as pyo
import pytest

import pyomo_csg as csg
from tests.solve.exact_newsvendor import Newsvendor

KINDS = ("linear", "quadratic", "integer")
QUANTITIES = -6, 9  # powers of ten
CASES = 6


def random_program(kind, rng):
    """Return a newsvendor in units of 1e-6 to 1e9 and costs of 1e-9 to 1e9 a unit."""
    quantity, cost = 10.0 ** rng.uniform(-6, 9), 10.0 ** rng.uniform(-9, 9)
    price = cost / quantity
    order, short, excess = price * rng.choice([1.0, 2.0, 0.5], 3) * [1, 3, 0.25]
    bend = price / quantity * 10.0 ** rng.uniform(-2, 1) if kind == "quadratic" else 0.0
    fixed = cost * 10.0 ** rng.uniform(-1, 0.3) if kind == "integer" else 0.0
    numbers = (order, short, excess, bend, fixed, 3 * quantity)
    return Newsvendor(*map(Fraction, map(float, numbers))), quantity


def random_weights(rng, count):
    weights = 10.0 ** rng.uniform(-13, 0, count)
    weights[rng.integers(count)] = 1.0
    return weights / weights.sum()


def exact(values):
    return [Fraction(float(v)) for v in np.ravel(values)]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", KINDS)
def test_no_answer_is_wrong_in_any_unit(kind, seed, record_property):
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    wrong = refused = 0
    for _ in range(12):
        problem, quantity = random_program(kind, rng)
        oracle = csg.Oracle(problem.model())
        zetas = quantity * rng.uniform(0.2, 2.5, (CASES, 3, 1))
        omegas = quantity * rng.uniform(0.2, 2.5, (CASES, 1))
        weights = random_weights(rng, 3)
        found = oracle.solve(zetas, weights, on_error="record")
        losses = oracle.loss(zetas, omegas, weights=weights, on_error="record")
        order = rng.permutation(CASES)
        again = oracle.loss(
            zetas[order], omegas[order], weights=weights, on_error="record"
        )
        assert again == pytest.approx(losses[order], rel=1e-9, nan_ok=True)
        for i in range(CASES):
            demands, shares = exact(zetas[i]), exact(weights)
            value, _ = problem.optima(demands, shares)
            loss = problem.loss(demands, shares, exact(omegas[i])[0])
            refused += np.isnan(found.value[i]) + np.isnan(losses[i])
            wrong += abs(found.value[i] - float(value)) > 1e-8 * abs(float(value))
            wrong += abs(losses[i] - float(loss)) > 1e-6 * abs(float(loss))
    record_property("wrong", int(wrong))
    print(f"{kind}: {wrong} wrong and {refused} refused of {12 * 2 * CASES}")
    assert wrong == 0
    assert refused == 0


def covering_model(numbers, kind, first, second, rows, price):
    """Return a covering model with columns and rows in units, and costs times a price."""
    c, q, technology, recourse, penalty, curvature = numbers
    is_integer = kind == "integer"
    m = pyo.ConcreteModel("covering")
    m.need = pyo.Param(range(len(rows)), mutable=True, initialize=1.0)
    whole = pyo.NonNegativeIntegers if is_integer else pyo.NonNegativeReals
    m.y = pyo.Var(range(len(c)), within=whole, bounds=lambda m, j: (0, 3 * first[j]))
    m.z = pyo.Var(range(len(q)), bounds=lambda m, j: (0, 2 * second[j]))
    m.short = pyo.Var(range(len(rows)), bounds=(0, None))
    m.cover = pyo.Constraint(
        range(len(rows)),
        rule=lambda m, i: (
            sum(technology[i, j] * rows[i] / first[j] * m.y[j] for j in m.y)
            + sum(recourse[i, j] * rows[i] / second[j] * m.z[j] for j in m.z)
            + m.short[i]
            >= m.need[i]
        ),
    )
    cost = sum(price * c[j] / first[j] * m.y[j] for j in m.y)
    cost += sum(price * q[j] / second[j] * m.z[j] for j in m.z)
    cost += sum(price * penalty[i] / rows[i] * m.short[i] for i in m.short)
    if kind == "quadratic":
        cost += sum(price * curvature[j] * (m.z[j] / second[j]) ** 2 for j in m.z)
    m.cost = pyo.Objective(expr=cost)
    csg.annotate(m, first_stage_variables=m.y, uncertain_params=m.need)
    return m


@pytest.mark.parametrize("seed", [*range(6), 20])
@pytest.mark.parametrize("kind", KINDS)
def test_answers_do_not_depend_on_units_that_differ_within_a_model(kind, seed):
    rng = np.random.default_rng([seed, 7])
    s, r, n = 3, 4, 5
    numbers = (
        rng.uniform(0.5, 3, s),
        rng.uniform(0.5, 3, n),
        rng.uniform(0, 2, (r, s)),
        rng.uniform(0, 2, (r, n)),
        rng.uniform(8, 20, r),
        rng.uniform(0.1, 1, n),
    )
    first, second, rows = (10 ** rng.uniform(*QUANTITIES, k) for k in (s, n, r))
    if kind == "integer":
        first = np.ones(s)
    price = 10 ** rng.uniform(-9, 9)
    ones = np.ones(s), np.ones(n), np.ones(r), 1.0
    ordinary = csg.Oracle(covering_model(numbers, kind, *ones))
    oracle = csg.Oracle(covering_model(numbers, kind, first, second, rows, price))
    zetas, omegas = rng.uniform(0, 5, (CASES, 3, r)), rng.uniform(0, 5, (CASES, r))
    weights = random_weights(rng, 3)
    expected = ordinary.solve(zetas, weights)
    found = oracle.solve(zetas * rows, weights)
    assert found.value == pytest.approx(price * expected.value, rel=1e-7)
    decisions = expected.decision * first
    costs = price * ordinary.cost(expected.decision, omegas)
    assert oracle.cost(decisions, omegas * rows) == pytest.approx(costs, rel=1e-7)
    losses = price * ordinary.loss(zetas, omegas, weights=weights)
    found = oracle.loss(zetas * rows, omegas * rows, weights=weights)
    assert found == pytest.approx(losses, rel=1e-6)
    slopes = ordinary.loss_gradient(zetas, omegas, weights=weights)
    scaled = oracle.loss_gradient(zetas * rows, omegas * rows, weights=weights)
    both = slopes.smooth & scaled.smooth
    assert scaled.gradient[both] * rows / price == pytest.approx(
        slopes.gradient[both], rel=1e-5, abs=1e-6
    )


@pytest.mark.parametrize("value", [1e-9, 1e9])
def test_integer_answers_do_not_depend_on_the_values_that_params_have(value):
    rng = np.random.default_rng(3)
    problem = Newsvendor(*map(Fraction, (1, 3, 0.25, 0, 0.5, 30)))
    zetas, omegas = rng.uniform(2, 25, (CASES, 3, 1)), rng.uniform(2, 25, (CASES, 1))
    model = problem.model()
    ordinary = csg.Oracle(model)
    for param in csg.TwoStageModel(model).uncertain_params:
        param.value = value
    other = csg.Oracle(model)
    assert (other.solve(zetas).decision == ordinary.solve(zetas).decision).all()
    assert (other.loss(zetas, omegas) == ordinary.loss(zetas, omegas)).all()


def cheap_or_dear(price, difference):
    """Return two plants of which one must be built, with the dearer one better later."""
    m = pyo.ConcreteModel()
    m.price = pyo.Param(initialize=1e9, mutable=True)
    m.build = pyo.Var(range(2), within=pyo.Binary)
    m.bought = pyo.Var(bounds=(0, None))
    m.some = pyo.Constraint(expr=m.build[0] + m.build[1] == 1)
    m.need = pyo.Constraint(expr=m.bought >= m.build[0])
    first = price * ((1 + difference) * m.build[1])
    m.cost = pyo.Objective(expr=first + m.price * m.bought)
    csg.annotate(m, first_stage_variables=m.build, uncertain_params=m.price)
    return m


@pytest.mark.parametrize("price", [1e-12, 1e-4, 1.0, 1e9])
def test_dearer_integer_decision_is_no_tie_in_any_unit(price):
    oracle = csg.Oracle(cheap_or_dear(price, 1e-6))
    found = oracle.solve([[[price]], [[price * (1 + 2e-6)]]])
    assert found.decision.tolist() == [[1, 0], [0, 1]]
    losses = oracle.loss([[[price]], [[price * (1 + 2e-6)]]], [[2 * price]] * 2)
    assert losses == pytest.approx([2 * price, price * (1 + 1e-6)], rel=1e-12)
