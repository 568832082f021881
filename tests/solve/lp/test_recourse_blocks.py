"""A recourse that falls apart into blocks costs what it costs as a whole."""

import numpy as np
import pyomo.environ as pyo
import pytest

import pyomo_csg as csg
from models import cep1
from pyomo_csg.solve.compile.compiler import compile_model
from pyomo_csg.solve.engine import SolveContext
from pyomo_csg.solve.lp.recourse_blocks import (
    DecomposedRecourse,
    independent_blocks,
    new_recourse_solver,
)
from pyomo_csg.solve.lp.recourse_costs import RecourseSolver


def products(count, whole=False):
    """Return stocks of products under one budget; sales and returns of each are apart."""
    m = pyo.ConcreteModel(name="products")
    items = range(count)
    m.demand = pyo.Param(items, initialize=10.0, mutable=True)
    m.rate = pyo.Param(initialize=0.0, mutable=True)
    m.stock = pyo.Var(items, bounds=(0, 30))
    kind = pyo.NonNegativeIntegers if whole else pyo.NonNegativeReals
    m.sold = pyo.Var(items, domain=kind)
    m.back = pyo.Var(items, bounds=(0, None))
    m.tip = pyo.Var(bounds=(0, 1))  # in no constraint
    m.budget = pyo.Constraint(expr=sum(m.stock[i] for i in items) <= 15 * count)
    m.most = pyo.Constraint(items, rule=lambda m, i: m.sold[i] <= m.demand[i])
    m.flow = pyo.Constraint(
        items, rule=lambda m, i: m.sold[i] + m.back[i] <= m.stock[i]
    )
    m.least = pyo.Constraint(expr=m.stock[0] >= m.rate)  # in no recourse variable
    cost = sum(2 * m.stock[i] - (3 + i % 3) * m.sold[i] - m.back[i] for i in items)
    m.cost = pyo.Objective(expr=cost - m.tip)
    csg.annotate(m, first_stage_variables=m.stock, uncertain_params=[m.demand, m.rate])
    return m


def cases(count, n=200, seed=0):
    rng = np.random.default_rng(seed)
    rates = rng.uniform(0, 9, (n, 1))
    return rng.uniform(5, 15, (n, count)), np.hstack(
        [rng.uniform(2, 20, (n, count)), rates]
    )


def test_each_product_is_a_block():
    blocks = independent_blocks(compile_model(csg.TwoStageModel(products(20))))
    sizes = sorted((len(b.columns), len(b.rows)) for b in blocks)
    assert sizes == [(0, 1), (1, 0), *[(2, 2)] * 20]


@pytest.mark.parametrize("whole", [False, True])
def test_costs_and_slopes_are_those_of_the_whole(whole):
    compiled = compile_model(csg.TwoStageModel(products(4, whole)))
    decisions, outcomes = cases(4)
    one = RecourseSolver(compiled, SolveContext())
    many = new_recourse_solver(compiled, SolveContext())
    assert isinstance(many, DecomposedRecourse)
    expected, failed = one.costs(decisions, outcomes)
    costs, failed_too = many.costs(decisions, outcomes)
    assert costs == pytest.approx(expected, rel=1e-12, nan_ok=True)
    assert set(failed) == set(failed_too)
    assert 0 < len(failed) < 100  # where the first stock is below the rate
    smooth = np.ones(len(costs), bool)
    first, second = (s.gradients(decisions, outcomes, smooth) for s in (one, many))
    known = np.isfinite(costs)
    assert second[1][known] == pytest.approx(first[1][known])
    assert (first[2] == second[2])[known].all()


def test_bases_are_a_sum_not_a_product():
    compiled = compile_model(csg.TwoStageModel(products(20)))
    context = SolveContext()
    solver = new_recourse_solver(compiled, context)
    solver.costs(*cases(20, 400))
    assert context.stats.solves <= 20 * 6
    assert len(solver.known) == context.stats.solves
    again = SolveContext()
    new_recourse_solver(compiled, again, solver.known).costs(*cases(20, 400, seed=1))
    assert again.stats.solves <= 10
    alone = SolveContext()
    RecourseSolver(compiled, alone).costs(*cases(20, 400))
    assert alone.stats.solves > context.stats.solves


def test_uncertain_rows_are_not_decomposed():
    m = products(3)
    m.flow[1].set_value(m.sold[1] + m.rate * m.back[1] <= m.stock[1])
    m.flow[0].set_value(m.sold[0] + m.rate * m.back[0] <= m.stock[0])
    m.flow[2].set_value(m.sold[2] + m.rate * m.back[2] <= m.stock[2])
    compiled = compile_model(csg.TwoStageModel(m))
    assert not isinstance(
        new_recourse_solver(compiled, SolveContext()), DecomposedRecourse
    )


def test_the_summary_counts_the_blocks():
    lines = [line.split() for line in str(csg.TwoStageModel(products(20))).splitlines()]
    assert ["blocks", "0", "20"] in lines
    assert "blocks" not in str(csg.TwoStageModel(cep1.build()))


def test_an_easy_integer_recourse_is_solved_whole():
    compiled = compile_model(csg.TwoStageModel(products(20, True)))
    solves = {}
    for kind in (RecourseSolver, lambda *two: new_recourse_solver(*two)):
        context = SolveContext()
        kind(compiled, context).costs(*cases(20, 16))
        solves[kind] = context.stats.solves
    assert len(set(solves.values())) == 1


def knapsacks(count, items):
    """Return an integer recourse of knapsacks that branch, each with a limit of its own."""
    rng = np.random.default_rng(5)
    size = rng.integers(20, 100, (count, items)).astype(float)
    worth = size + rng.uniform(0, 6, (count, items))
    m = pyo.ConcreteModel("knapsacks")
    blocks, things = range(count), range(items)
    m.limit = pyo.Param(blocks, mutable=True, initialize=1.0)
    m.y = pyo.Var(blocks, bounds=(0, 1e4))
    m.z = pyo.Var(blocks, things, domain=pyo.Binary)

    @m.Constraint(blocks)
    def room(m, b):
        return sum(size[b, j] * m.z[b, j] for j in things) <= m.limit[b] + m.y[b]

    @m.Constraint(blocks)
    def other(m, b):
        weights = size[b][[j * 7 % items for j in things]]
        return sum(weights[j] * m.z[b, j] for j in things) <= m.limit[b]

    worths = sum(worth[b, j] * m.z[b, j] for b in blocks for j in things)
    m.cost = pyo.Objective(expr=sum(m.y[b] for b in blocks) - worths)
    csg.annotate(m, first_stage_variables=m.y, uncertain_params=m.limit)
    return m


def test_an_integer_recourse_that_branches_is_solved_by_blocks():
    compiled = compile_model(csg.TwoStageModel(knapsacks(5, 8)))
    rng = np.random.default_rng(1)
    data = rng.uniform(0, 50, (12, 5)), rng.uniform(100, 300, (12, 5))
    expected, _ = RecourseSolver(compiled, SolveContext()).costs(*data)
    context, blocks = SolveContext(), independent_blocks(compiled)
    solver = DecomposedRecourse(compiled, context, blocks)
    assert solver.costs(*data)[0] == pytest.approx(expected, rel=1e-9)
    # Some cases needed more nodes than there are blocks; a block takes three solves.
    assert context.stats.solves > 3 * len(data) + 3 * len(blocks)


def test_bases_of_one_block_do_not_answer_for_the_whole():
    """The whole has integers and an uncertain price, so its bases must not be reused."""
    m = pyo.ConcreteModel()
    m.demand = pyo.Param([1, 2, 3], initialize=3.0, mutable=True)
    m.price = pyo.Param(initialize=3.0, mutable=True)
    m.stock = pyo.Var(bounds=(0, 9), within=pyo.Integers)
    m.boxes = pyo.Var(bounds=(0, 9), within=pyo.Integers)
    m.extra, m.spot, m.lost = (pyo.Var(bounds=(0, 99)) for _ in range(3))
    m.first = pyo.Constraint(expr=m.stock + 2 * m.boxes + m.extra >= m.demand[1])
    m.second = pyo.Constraint(expr=m.stock + m.spot >= m.demand[2])
    m.third = pyo.Constraint(expr=m.stock + m.lost >= m.demand[3])
    m.cost = pyo.Objective(
        expr=m.stock + 5 * m.boxes + m.price * m.extra + 4 * m.spot + 2 * m.lost
    )
    csg.annotate(m, first_stage_variables=m.stock, uncertain_params=[m.demand, m.price])
    oracle, rng = csg.Oracle(m), np.random.default_rng(0)
    outcomes = rng.uniform([1, 1, 1, 1], [8, 9, 9, 6], (40, 4))

    one_by_one = [oracle.cost([[1.0]], one[None])[0] for one in outcomes]
    together = oracle.cost(np.ones((len(outcomes), 1)), outcomes)

    missing = np.maximum(outcomes[:, :3] - 1, 0)
    boxes = np.arange(10)
    extra = np.maximum(missing[:, :1] - 2 * boxes, 0)
    first = (5 * boxes + outcomes[:, 3:] * extra).min(axis=1)
    expected = 1 + first + 4 * missing[:, 1] + 2 * missing[:, 2]
    assert one_by_one == pytest.approx(expected)
    assert together == pytest.approx(expected)


def test_a_known_basis_answers_the_cases_that_it_was_found_in():
    # Demands of zero put basic variables at their bounds, which rounding may make miss them.
    draw = np.random.default_rng(0)
    decisions = np.hstack(
        [draw.uniform(0, 1500, (40, 4)), draw.uniform(0, 500, (40, 4))]
    )
    decisions = np.repeat(decisions, 216, axis=0)
    outcomes = np.tile(cep1.higle_sen_scenarios(), (40, 1))
    oracle = csg.Oracle(cep1.build())
    costs = oracle.cost(decisions, outcomes)
    solves = oracle.stats.solves
    assert oracle.cost(decisions, outcomes) == pytest.approx(costs, rel=1e-12)
    assert oracle.stats.solves == solves


def test_bases_are_tried_where_bounds_of_recourse_variables_are_uncertain():
    m = pyo.ConcreteModel("capped")
    m.demand = pyo.Param(mutable=True, initialize=3.0)
    m.cap = pyo.Param(mutable=True, initialize=1.0)
    m.y, m.z = pyo.Var(bounds=(0, 9)), pyo.Var(bounds=(0, 1 / m.cap))
    m.s = pyo.Var(within=pyo.NonNegativeReals)
    m.served = pyo.Constraint(expr=m.y + m.z + m.s >= m.demand)
    m.cost = pyo.Objective(expr=m.y + 2 * m.z + 5 * m.s)
    csg.annotate(m, first_stage_variables=m.y, uncertain_params=[m.demand, m.cap])
    demand = np.linspace(0, 6, 50)
    cap = np.tile([1.0, 0.5, 0.25, 0.125, 1.0], 10)
    short = np.maximum(demand - 1, 0)
    bought = np.minimum(short, 1 / cap)
    costs = csg.Oracle(m).cost([1.0], np.column_stack([demand, cap]))
    assert costs == pytest.approx(1 + 2 * bought + 5 * (short - bought))


def test_known_bases_do_not_answer_where_bounds_cross():
    m = pyo.ConcreteModel("crossed")
    m.most = pyo.Param(mutable=True, initialize=1.0)
    m.y, m.z = pyo.Var(bounds=(0, 9)), pyo.Var(bounds=(1, m.most))
    m.s = pyo.Var(within=pyo.NonNegativeReals)
    m.served = pyo.Constraint(expr=m.y + m.z + m.s >= 5)
    m.cost = pyo.Objective(expr=m.y + 3 * m.z + 2 * m.s)
    csg.annotate(m, first_stage_variables=m.y, uncertain_params=m.most)
    most = np.tile([3.0, 2.0, 0.5, 4.0], 10)[:, None]
    costs = csg.Oracle(m).cost([1.0], most, on_error="record")
    expected = np.tile([10, 10, np.nan, 10], 10)
    assert costs == pytest.approx(expected, nan_ok=True)
