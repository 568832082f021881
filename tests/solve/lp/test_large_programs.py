"""Large programs start from their last basis only as long as that pays."""

import numpy as np
import pyomo.environ as pyo
import pytest
from scipy.optimize import linprog
from scipy.sparse import block_diag, csr_matrix, hstack

import pyomo_csg as csg
from pyomo_csg.solve.lp import highs_program
from pyomo_csg.solve.lp.highs_program import WarmStarts

FIRST, COLUMNS, ROWS, NUMBERS = 4, 60, 24, 12


def covering_data(seed=0):
    """Return costs and matrices of min c y + q z, T y + W z >= d."""
    rng = np.random.default_rng(seed)
    recourse = rng.uniform(0.5, 1.5, (ROWS, COLUMNS)) * (
        rng.random((ROWS, COLUMNS)) < 0.3
    )
    recourse[:, :ROWS] += np.eye(ROWS)
    technology = rng.uniform(0, 1, (ROWS, FIRST))
    return (
        rng.uniform(3, 5, FIRST),
        rng.uniform(1, 2, COLUMNS),
        technology,
        recourse,
    )


def covering_model():
    c, q, technology, recourse = covering_data()
    m = pyo.ConcreteModel("covering")
    m.need = pyo.Param(range(NUMBERS), mutable=True, initialize=10.0)
    m.y = pyo.Var(range(FIRST), bounds=(0, 20))
    m.z = pyo.Var(range(COLUMNS), within=pyo.NonNegativeReals)
    m.cover = pyo.Constraint(
        range(ROWS),
        rule=lambda m, i: (
            sum(float(technology[i, j]) * m.y[j] for j in range(FIRST))
            + sum(float(recourse[i, j]) * m.z[j] for j in recourse[i].nonzero()[0])
            >= m.need[i % NUMBERS]
        ),
    )
    m.cost = pyo.Objective(
        expr=sum(float(c[j]) * m.y[j] for j in range(FIRST))
        + sum(float(q[j]) * m.z[j] for j in range(COLUMNS))
    )
    csg.annotate(m, first_stage_variables=m.y, uncertain_params=m.need)
    return m


def expected_value(scenarios):
    """Return the optimal value of zeta-SAA by scipy."""
    c, q, technology, recourse = covering_data()
    k = len(scenarios)
    rows = hstack([csr_matrix(np.tile(technology, (k, 1))), block_diag([recourse] * k)])
    needs = np.concatenate([np.tile(one, ROWS // NUMBERS) for one in scenarios])
    found = linprog(
        np.concatenate([c, np.tile(q / k, k)]),
        A_ub=-rows,
        b_ub=-needs,
        bounds=[(0, 20)] * FIRST + [(0, None)] * (COLUMNS * k),
    )
    return found.fun


def test_a_large_program_has_the_right_value_however_it_starts(monkeypatch):
    monkeypatch.setattr(highs_program, "_LARGE", 100)
    monkeypatch.setattr(highs_program, "_FEW_ITERATIONS", 10)
    rng = np.random.default_rng(1)
    scenarios = rng.uniform(5, 50, (6, 8, NUMBERS))
    scenarios[3] = scenarios[2] * 1.001  # from whose basis a warm start takes little
    oracle = csg.Oracle(covering_model())

    values = oracle.solve(scenarios).value
    loss = oracle.loss(scenarios[:2], scenarios[2:4, 0])
    gradient = oracle.loss_gradient(scenarios[:2], scenarios[2:4, 0])

    assert values == pytest.approx([expected_value(one) for one in scenarios], rel=1e-9)
    small = csg.Oracle(covering_model())
    monkeypatch.setattr(highs_program, "_LARGE", 10**6)
    assert loss == pytest.approx(small.loss(scenarios[:2], scenarios[2:4, 0]), rel=1e-9)
    assert gradient.loss == pytest.approx(loss, rel=1e-9)


def test_an_infeasible_large_program_is_reported_as_such(monkeypatch):
    monkeypatch.setattr(highs_program, "_LARGE", 1)
    m = pyo.ConcreteModel("short")
    m.need = pyo.Param(mutable=True, initialize=1.0)
    m.y = pyo.Var(bounds=(0, 5))
    m.z = pyo.Var(bounds=(0, 1))
    m.enough = pyo.Constraint(expr=m.y + m.z >= m.need)
    m.cost = pyo.Objective(expr=m.y + 2 * m.z)
    csg.annotate(m, first_stage_variables=m.y, uncertain_params=m.need)
    oracle = csg.Oracle(m)

    with pytest.raises(csg.SolveError, match="infeasible"):
        oracle.solve([[[7.0]]])
    assert oracle.solve([[[5.5]]]).value == pytest.approx(6.0)


def test_warm_starts_that_fail_are_left_out_twice_as_long_each_time():
    starts = WarmStarts(20_000)
    assert starts.most_iterations == 2500
    due = []
    for _ in range(12):
        due.append(starts.is_due())
        if due[-1]:
            starts.failed()
    assert due == [True, False, True, False, False, True] + [False] * 4 + [True, False]


def test_a_warm_start_that_succeeds_is_followed_by_another():
    starts = WarmStarts(20_000)
    for _ in range(5):
        if starts.is_due():
            starts.failed()
    assert starts.is_due()
    starts.succeeded()
    assert starts.is_due()
    starts.failed()
    assert [starts.is_due() for _ in range(2)] == [False, True]
