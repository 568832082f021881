"""Optimality certificates: the quick check never accepts what the full check rejects."""

from types import SimpleNamespace

import numpy as np
import pyomo.environ as pyo
import pytest

import pyomo_csg as csg
from models import cep1, cvar_portfolio, newsvendor
from pyomo_csg.solve.compile.assembly import Arrays, Layout, evaluate
from pyomo_csg.solve.compile.compiler import compile_model
from pyomo_csg.solve.engine import SolveContext
from pyomo_csg.solve.lp.certificates import CertificateChecker
from pyomo_csg.solve.lp.highs_program import HighsProgram
from pyomo_csg.stages import TwoStageModel

MODELS = {
    "newsvendor": (newsvendor.build, newsvendor.sample),
    "cep1": (cep1.build, cep1.sample),
    "cvar": (cvar_portfolio.build, cvar_portfolio.sample),
}


def solved(name, cases=8, count=4):
    """Return a checker, programs of a model, and HiGHS's points and row duals."""
    build, sample = MODELS[name]
    compiled = compile_model(TwoStageModel(build()))
    outcomes = sample(cases * count, seed=3)[1].reshape(cases, count, -1)
    layout = Layout(compiled, count)
    weights = np.full((cases, count), 1 / count)
    stack = layout.stack(evaluate(compiled, outcomes), weights)
    program = HighsProgram(layout, SolveContext(), relaxed=True)
    found = []
    for arrays in stack:
        program.solve(arrays)
        x, _, row_duals = program.solution()
        found.append((x.copy(), row_duals.copy()))
    points, row_duals = map(np.array, zip(*found, strict=True))
    return CertificateChecker(layout), stack, points, row_duals


@pytest.mark.parametrize("name", MODELS)
def test_quick_check_proves_optima(name):
    checker, stack, points, row_duals = solved(name)
    assert checker.check_quickly(stack, points, row_duals).all()
    each = [
        bool(checker.check_quickly(arrays, x, y))
        for arrays, x, y in zip(stack, points, row_duals, strict=True)
    ]
    assert all(each)


@pytest.mark.parametrize("part", ["point", "row_duals"])
@pytest.mark.parametrize("name", MODELS)
def test_quick_check_implies_full_check(name, part):
    checker, stack, points, row_duals = solved(name)
    rng = np.random.default_rng(5)
    rejected = 0
    for size in np.geomspace(1e-14, 1e-1, 40):
        moved = {"point": points.copy(), "row_duals": row_duals.copy()}
        moved[part] *= 1 + size * rng.standard_normal(moved[part].shape)
        moved[part] += size * rng.standard_normal(moved[part].shape)
        quick = checker.check_quickly(stack, moved["point"], moved["row_duals"])
        full = checker.check(stack, moved["point"], moved["row_duals"]).optimal
        assert not (quick & ~full).any()
        rejected += int((~quick).sum())
    assert rejected > 0


def test_nan_point_is_not_proven():
    checker, stack, points, row_duals = solved("cep1")
    points[2] = np.nan
    assert checker.check_quickly(stack, points, row_duals).tolist() == [
        i != 2 for i in range(len(points))
    ]


def steep(a, dear):
    """Return min (1 + dear) x0 + x1 where x0 + x1 >= 3, a x0 <= 2 a, and x >= 0."""
    return Arrays(
        np.array([1 + dear, 1.0]),
        0.0,
        np.zeros(2),
        np.full(2, np.inf),
        np.array([3.0, -np.inf]),
        np.array([np.inf, 2 * a]),
        np.array([1.0, a, 1.0]),
    )


@pytest.mark.parametrize("a", [1.0, 1e2, 1e4, 1e6])
def test_larger_entries_leave_less_room_for_rounding(a):
    layout = SimpleNamespace(
        rows=2, columns=2, start=np.array([0, 2, 3]), index=np.array([0, 1, 0])
    )
    checker = CertificateChecker(layout)
    point = np.array([2.0, 1.0])
    assert checker.check_quickly(steep(1.0, 0.0), point, np.array([1.0, 0.0]))
    for price in np.geomspace(1e-16, 1e-4, 60):
        # The second row's dual points to a bound that does not exist: (0, 3) is cheaper.
        program, row_duals = steep(a, a * price), np.array([1.0, price])
        quick = checker.check_quickly(program, point, row_duals)
        assert not (quick and not checker.check(program, point, row_duals).optimal)


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_zero_cost_node_is_certified(unit):
    m = pyo.ConcreteModel("idle")
    m.demand = pyo.Param(mutable=True, initialize=5.0)
    m.open = pyo.Var(within=pyo.Binary)
    m.order = pyo.Var(bounds=(0, 40))
    m.sold = pyo.Var(within=pyo.NonNegativeReals)
    m.only = pyo.Constraint(expr=m.order <= 40 * m.open)
    m.stock = pyo.Constraint(expr=m.sold <= m.order)
    m.market = pyo.Constraint(expr=m.sold <= m.demand)
    m.cost = pyo.Objective(expr=unit * (m.order + 2 * m.open - 3 * m.sold))
    csg.annotate(m, first_stage_variables=[m.open, m.order], uncertain_params=m.demand)
    rng = np.random.default_rng(0)
    demands, weights = rng.uniform(5, 15, (60, 3, 1)), rng.dirichlet(np.ones(3), 60)
    found = csg.Oracle(m).solve(demands, weights)
    # One node of the tree is "order nothing": its cost of zero must be certified, too.
    for value, these, shares in zip(found.value, demands, weights, strict=True):
        orders = these[:, 0]
        sold = np.minimum(orders[:, None], these[:, 0]) @ shares
        assert value == pytest.approx(unit * (orders + 2 - 3 * sold).min(), rel=1e-9)
