"""Convex quadratic programs with low-rank Hessians, equations and ties, in any unit."""

from types import SimpleNamespace

import numpy as np
import pyomo.environ as pyo
import pytest

import pyomo_csg as csg

CASES, SCENARIOS = 6, 3


def random_data(rng):
    """Return the numbers of a model; some are whole, which makes ties."""
    s, n, r = rng.integers(2, 5), rng.integers(2, 7), rng.integers(2, 6)
    rounded = np.round if rng.random() < 0.4 else np.asarray
    rank = max(1, n // 2)
    return SimpleNamespace(
        first_upper=rng.uniform(1, 4, s),
        lower=np.where(rng.random(n) < 0.3, -rng.uniform(0, 2, n), 0.0),
        upper=rng.uniform(1, 3, n),
        technology=rounded(rng.uniform(0, 2, (r, s))),
        recourse=rounded(rng.uniform(-1, 2, (r, n))),
        is_equation=rng.random(r) < 0.4,
        first_cost=rounded(rng.uniform(0.5, 3, s)),
        cost=rounded(rng.uniform(0.5, 3, n)),
        penalty=rng.uniform(8, 20, r),
        factors=rng.normal(size=(rank, n)) * (rng.random((rank, n)) < 0.6),
    )


def model(data, first, second, rows, price):
    """Return the model with columns and rows in units, and costs times a price."""
    m = pyo.ConcreteModel("quadratic")
    m.need = pyo.Param(range(len(rows)), mutable=True, initialize=1.0)
    m.y = pyo.Var(
        range(len(first)), bounds=lambda m, j: (0, data.first_upper[j] * first[j])
    )
    m.z = pyo.Var(
        range(len(second)),
        bounds=lambda m, j: (data.lower[j] * second[j], data.upper[j] * second[j]),
    )
    m.short = pyo.Var(range(len(rows)), bounds=(0, None))
    m.over = pyo.Var(range(len(rows)), bounds=(0, None))

    def cover(m, i):
        served = sum(data.technology[i, j] * rows[i] / first[j] * m.y[j] for j in m.y)
        served += sum(data.recourse[i, j] * rows[i] / second[j] * m.z[j] for j in m.z)
        if data.is_equation[i]:
            return served + m.short[i] - m.over[i] == m.need[i]
        return served + m.short[i] >= m.need[i]

    m.cover = pyo.Constraint(range(len(rows)), rule=cover)
    cost = sum(data.first_cost[j] / first[j] * m.y[j] for j in m.y)
    cost += sum(data.cost[j] / second[j] * m.z[j] for j in m.z)
    for i in m.short:
        cost += data.penalty[i] / rows[i] * (m.short[i] + 0.3 * m.over[i])
    for factor in data.factors:
        cost += sum(factor[j] / second[j] * m.z[j] for j in m.z) ** 2 / 2
    m.cost = pyo.Objective(expr=price * cost)
    csg.annotate(m, first_stage_variables=m.y, uncertain_params=m.need)
    return m


@pytest.mark.parametrize("seed", range(10))
def test_answers_are_the_same_in_other_units(seed):
    rng = np.random.default_rng([seed, 3])
    data = random_data(rng)
    s, n, r = len(data.first_cost), len(data.cost), len(data.penalty)
    first, second, rows = (10 ** rng.uniform(-6, 9, size) for size in (s, n, r))
    price = 10 ** rng.uniform(-9, 9)
    zetas = rng.uniform(0, 5, (CASES, SCENARIOS, r))
    omegas = rng.uniform(0, 5, (CASES, r))
    weights = 10.0 ** rng.uniform(-13, 0, SCENARIOS)
    weights[0] = 1.0
    weights /= weights.sum()
    ones = np.ones(s), np.ones(n), np.ones(r), 1.0
    ordinary = csg.Oracle(model(data, *ones))
    other = csg.Oracle(model(data, first, second, rows, price))

    expected = ordinary.solve(zetas, weights)
    found = other.solve(zetas * rows, weights)
    assert found.value / price == pytest.approx(expected.value, rel=1e-8)
    losses = other.loss(zetas * rows, omegas * rows, weights=weights)
    assert losses / price == pytest.approx(
        ordinary.loss(zetas, omegas, weights=weights), rel=1e-6
    )


@pytest.mark.parametrize("nothing", [0.0, 1e-12, 1e-115])
def test_a_decision_that_is_rounding_leaves_the_units_alone(nothing):
    rng = np.random.default_rng(0)
    data = random_data(rng)
    s, n, r = len(data.first_cost), len(data.cost), len(data.penalty)
    first, second, rows = (10 ** rng.uniform(-6, 9, size) for size in (s, n, r))
    omegas = rng.uniform(0, 5, (CASES, r))
    oracle = csg.Oracle(model(data, first, second, rows, 1.0))
    costs = oracle.cost(nothing * first, omegas * rows)
    ordinary = csg.Oracle(model(data, np.ones(s), np.ones(n), np.ones(r), 1.0))
    assert costs == pytest.approx(ordinary.cost(np.zeros(s), omegas), rel=1e-9)
