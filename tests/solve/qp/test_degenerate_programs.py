"""Random convex programs with weakly active, redundant and dependent rows, in any unit."""

from types import SimpleNamespace

import numpy as np
import pyomo.environ as pyo
import pytest
from scipy.optimize import LinearConstraint, minimize

import pyomo_csg as csg

CASES = 3


def random_data(rng):
    """Return whole numbers, of which ties come, with a row twice and flat directions."""
    s, n, r = rng.integers(1, 4), rng.integers(1, 7), rng.integers(2, 6)
    data = SimpleNamespace(
        technology=np.round(rng.uniform(-1, 3, (r, s))),
        recourse=np.round(rng.uniform(-3, 4, (r, n))),
        is_equation=rng.random(r) < 0.4,
        first_cost=np.round(rng.uniform(0, 3, s)),
        cost=np.round(rng.uniform(1, 4, n)),
        first_upper=np.round(rng.uniform(1, 5, s)),
        upper=np.round(rng.uniform(1, 4, n)),
        curvature=np.where(rng.random(n) < 0.5, 1.0, 0.0),
        penalty=np.round(rng.uniform(8, 20, r)),
    )
    for rows in (data.technology, data.recourse, data.is_equation):
        rows[-1] = rows[0]
    return data


def model(data, first, second, rows, price):
    """Return the model with columns and rows in units, and costs times a price."""
    m = pyo.ConcreteModel("degenerate")
    m.need = pyo.Param(range(len(rows)), mutable=True, initialize=1.0)
    m.y = pyo.Var(
        range(len(first)), bounds=lambda m, j: (0, data.first_upper[j] * first[j])
    )
    m.z = pyo.Var(
        range(len(second)), bounds=lambda m, j: (0, data.upper[j] * second[j])
    )
    m.short = pyo.Var(range(len(rows)), bounds=(0, None))
    m.over = pyo.Var(range(len(rows)), bounds=(0, None))

    def cover(m, i):
        served = sum(data.technology[i, j] * rows[i] / first[j] * m.y[j] for j in m.y)
        served += sum(data.recourse[i, j] * rows[i] / second[j] * m.z[j] for j in m.z)
        if data.is_equation[i]:
            return served + m.short[i] - m.over[i] == m.need[i]
        return served + m.short[i] - 0 * m.over[i] >= m.need[i]

    m.cover = pyo.Constraint(range(len(rows)), rule=cover)
    cost = sum(data.first_cost[j] / first[j] * m.y[j] for j in m.y)
    for j in m.z:
        z = m.z[j] / second[j]
        cost += data.cost[j] * z + data.curvature[j] * z**2
    for i in m.short:
        cost += data.penalty[i] / rows[i] * (m.short[i] + 0.3 * m.over[i])
    m.cost = pyo.Objective(expr=price * cost)
    csg.annotate(m, first_stage_variables=m.y, uncertain_params=m.need)
    return m


def reference(data, zeta, y=None):
    """Return the optimum on scenarios (K, rows) by sequential programming, y held if given."""
    s, n, r, count = len(data.first_cost), len(data.cost), len(data.penalty), len(zeta)
    block = n + 2 * r
    size = s + count * block
    linear, square = np.zeros(size), np.zeros(size)
    upper = np.full(size, np.inf)
    linear[:s], upper[:s] = data.first_cost, data.first_upper
    matrix, lower, side = [], [], []
    for k, needs in enumerate(zeta):
        at = s + k * block
        linear[at : at + block] = np.r_[data.cost, data.penalty, 0.3 * data.penalty]
        linear[at : at + block] /= count
        square[at : at + n] = data.curvature / count
        upper[at : at + n] = data.upper
        for i in range(r):
            row = np.zeros(size)
            row[:s], row[at : at + n] = data.technology[i], data.recourse[i]
            row[at + n + i], row[at + n + r + i] = 1.0, -float(data.is_equation[i])
            matrix.append(row)
            lower.append(needs[i])
            side.append(needs[i] if data.is_equation[i] else np.inf)
    bounds = [(0.0, u) for u in upper]
    if y is not None:
        bounds[:s] = [(v, v) for v in y]
    rows, lower, side = np.array(matrix), np.array(lower), np.array(side)
    equal = lower == side
    constraints = [
        LinearConstraint(rows[some], lower[some], side[some])
        for some in (equal, ~equal)
        if some.any()
    ]
    found = minimize(
        lambda x: linear @ x + square @ x**2,
        np.ones(size),
        jac=lambda x: linear + 2 * square * x,
        bounds=bounds,
        constraints=constraints,
        method="SLSQP",
        options={"ftol": 1e-13, "maxiter": 1000},
    )
    return found.fun if found.success else np.nan


@pytest.mark.parametrize("wild", [False, True])
def test_degenerate_programs_are_right_in_any_unit(wild):
    compared = 0
    for seed in range(12):
        rng = np.random.default_rng([seed, wild])
        data = random_data(rng)
        s, n, r = len(data.first_cost), len(data.cost), len(data.penalty)
        first, second, rows, price = np.ones(s), np.ones(n), np.ones(r), 1.0
        if wild:
            first, second, rows = (10 ** rng.uniform(-6, 9, size) for size in (s, n, r))
            price = 10 ** rng.uniform(-9, 9)
        zetas = np.round(rng.uniform(-1, 5, (CASES, 2, r)))
        ys = np.round(rng.uniform(0, 1, (CASES, s)) * data.first_upper)
        oracle = csg.Oracle(model(data, first, second, rows, price))
        values = oracle.solve(zetas * rows).value / price
        costs = oracle.cost(ys * first, zetas[:, 0] * rows) / price
        expected = [reference(data, zeta) for zeta in zetas]
        expected += [
            reference(data, zeta[:1], y) for zeta, y in zip(zetas, ys, strict=True)
        ]
        known = np.isfinite(expected)  # the reference does not converge on all
        compared += known.sum()
        found = np.concatenate([values, costs])
        assert found[known] == pytest.approx(
            np.array(expected)[known], rel=1e-6, abs=1e-7
        )
    assert compared >= 36


def banded(rng, wild):
    """Return a model whose costs are zero in bands, units of its rows, and of its price."""
    s, n, r = rng.integers(2, 13), rng.integers(0, 30), rng.integers(3, 13)
    first = np.round(rng.uniform(-1, 2, (r, s))) * (rng.random((r, s)) > 0.4)
    second = np.round(rng.uniform(-2, 3, (r, n))) * (rng.random((r, n)) > 0.5)
    band, square = np.round(rng.uniform(0, 3, r)), rng.integers(0, 5, r)
    first[-1], second[-1], band[-1] = first[0], second[0], band[0]
    upper, price = rng.integers(1, 7, s + n), np.round(rng.uniform(0, 3, n))
    units = 10 ** rng.uniform(-6, 6, s + n + r + 1) if wild else np.ones(s + n + r + 1)
    of_y, of_z, of_row, money = np.split(units, [s, s + n, s + n + r])
    m = pyo.ConcreteModel("banded")
    m.need = pyo.Param(range(r), mutable=True, initialize=1.0)
    m.y = pyo.Var(range(s), bounds=lambda m, j: (0, upper[j] * of_y[j]))
    m.z = pyo.Var(range(n), bounds=lambda m, j: (0, upper[s + j] * of_z[j]))
    m.short = pyo.Var(range(r), bounds=(0, None))
    m.over = pyo.Var(range(r), bounds=(0, None))
    m.rows, cost = pyo.ConstraintList(), 0
    for i in range(r):
        unit = of_row[i]
        served = sum(first[i, j] * unit / of_y[j] * m.y[j] for j in range(s))
        served += sum(second[i, j] * unit / of_z[j] * m.z[j] for j in range(n))
        m.rows.add(m.over[i] >= served - m.need[i] - band[i] * unit)
        m.rows.add(m.short[i] >= m.need[i] - served - band[i] * unit)
        over, short = m.over[i] / unit, m.short[i] / unit
        cost += square[i] * (over**2 + short**2) + (over + 2 * short) * float(
            square[i] < 2
        )
    for j in range(n):
        cost += price[j] / of_z[j] * m.z[j] + float(j % 2) * (m.z[j] / of_z[j]) ** 2
    m.cost = pyo.Objective(expr=money[0] * cost)
    csg.annotate(m, first_stage_variables=m.y, uncertain_params=m.need)
    return m, of_row, money[0]


@pytest.mark.parametrize("wild", [False, True])
def test_losses_are_the_limit_of_small_weights_where_costs_are_zero_in_bands(wild):
    """With a small weight on the outcome, its cost is at most the loss, and close to it."""
    weight, refused = 1e-6, 0
    for seed in range(40):
        rng = np.random.default_rng([seed, wild])
        model, units, money = banded(rng, wild)
        zetas = np.round(rng.uniform(-1, 8, (3, 2, len(units)))) * units
        omegas = np.round(rng.uniform(-1, 8, (3, len(units)))) * units
        oracle = csg.Oracle(model)
        losses = oracle.loss(zetas, omegas, on_error="record") / money
        refused += np.isnan(losses).sum()
        joined = np.concatenate([zetas, omegas[:, None]], axis=1)
        weights = [[(1 - weight) / 2, (1 - weight) / 2, weight]] * 3
        decisions = oracle.solve(joined, weights=weights, on_error="record").decision
        known = ~np.isnan(decisions).any(axis=1) & ~np.isnan(losses)
        costs = oracle.cost(decisions[known], omegas[known], on_error="record") / money
        refused += np.isnan(costs).sum()
        given = ~np.isnan(costs)
        expected = costs[given]
        assert losses[known][given] == pytest.approx(expected, rel=1e-3, abs=1e-3)
    assert refused <= 5  # of 120; never wrong


def storage(hours=8):
    """Sales with quadratic costs of imbalance, and a storage whose moves cost nothing."""
    m = pyo.ConcreteModel("storage")
    m.h = pyo.RangeSet(hours)
    m.wind = pyo.Param(m.h, initialize=20.0, mutable=True)
    m.sell = pyo.Var(m.h, bounds=(0, 60))
    m.up, m.down = pyo.Var(m.h, bounds=(0, None)), pyo.Var(m.h, bounds=(0, None))
    m.store = pyo.Var(m.h, bounds=(0, 30))
    m.put, m.take = pyo.Var(m.h, bounds=(0, 10)), pyo.Var(m.h, bounds=(0, 10))

    @m.Constraint(m.h)
    def state(m, i):
        before = 10 if i == 1 else m.store[i - 1]
        return m.store[i] == before + 0.95 * m.put[i] - m.take[i]

    @m.Constraint(m.h)
    def balance(m, i):
        into, out = m.sell[i] + m.put[i] + m.down[i], m.take[i] + m.up[i]
        return into == m.wind[i] + out

    m.profit = pyo.Objective(
        sense=pyo.maximize,
        expr=sum(
            (40 + 5 * (i % 4)) * m.sell[i] - 0.25 * m.sell[i] ** 2
            - 55 * m.up[i] - 0.8 * m.up[i] ** 2 + 5 * m.down[i] - 0.3 * m.down[i] ** 2
            for i in m.h
        ),
    )  # fmt: skip
    csg.annotate(m, first_stage_variables=m.sell, uncertain_params=m.wind)
    return m


def test_a_storage_whose_moves_cost_nothing_is_solved_and_right():
    """Its optima have free columns without multipliers: noise must not look like one."""
    rng, weight, count = np.random.default_rng(0), 1e-6, 12
    oracle = csg.Oracle(storage())
    days = rng.gamma(3, 7, (count, 6, 1)) * rng.lognormal(0, 0.25, (count, 6, 8))
    zetas, omegas = np.clip(days[:, :5], 0, 60), np.clip(days[:, 5], 0, 60)
    losses = oracle.loss(zetas, omegas)  # raises if one is refused
    joined = np.concatenate([zetas, omegas[:, None]], axis=1)
    weights = [[(1 - weight) / 5] * 5 + [weight]] * count
    decisions = oracle.solve(joined, weights=weights).decision
    assert losses == pytest.approx(oracle.cost(decisions, omegas), rel=1e-3)
