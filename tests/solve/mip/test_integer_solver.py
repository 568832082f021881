"""Integer programs are solved exactly by every method."""

from dataclasses import replace
from functools import cache

import numpy as np
import pyomo.environ as pyo
import pytest

import pyomo_csg as csg
from models import cvar_portfolio, mnv, sslp
from pyomo_csg.solve.compile.assembly import Layout, evaluate
from pyomo_csg.solve.compile.compiler import compile_model
from pyomo_csg.solve.engine import SolveContext, SolverTrouble, Stats
from pyomo_csg.solve.lp.face_search import SearchLayout
from pyomo_csg.solve.mip import integer_solver
from pyomo_csg.solve.mip.first_stage_tree import FirstStageTree
from pyomo_csg.solve.mip.fixed_integers import CostLimit, ScenarioRecourse
from pyomo_csg.solve.mip.integer_solver import IntegerSolver, TreeAttempts
from pyomo_csg.solve.mip.mip_program import MipProgram, cost_size
from pyomo_csg.solve.mip.rounding import Rounder
from pyomo_csg.solve.mip.tie_search import CutLayout, check_cut
from tests import zoo
from tests.solve.mip.portfolio_enumeration import by_enumeration
from tests.solving import solve, transform

METHODS = [None, "relaxation", "tree", "plain"]
MODELS = ["mnv", "integers", "piecewise", "disjunction", "hull"]


class Solver:
    """An IntegerSolver for one model; values are in the model's own sense."""

    def __init__(self, model, count, method=None, **options):
        self.compiled = compile_model(csg.TwoStageModel(model))
        self.stats = Stats()
        self.solver = IntegerSolver(
            self.compiled, count, SolveContext(self.stats, options), method
        )

    def solve(self, scenarios, weights=None):
        scenarios = np.asarray(scenarios, float)
        count = len(scenarios)
        self.weights = np.full(count, 1 / count) if weights is None else weights
        self.blocks = evaluate(self.compiled, scenarios)
        self.found = self.solver.solve(self.blocks, self.weights)
        return self.compiled.sense * self.found.value

    def search(self, outcome):
        block = evaluate(self.compiled, np.asarray(outcome, float)[None])
        loss = self.solver.search(self.found, self.blocks, self.weights, block)
        return self.compiled.sense * loss

    def cost_of_decision(self, outcome):
        """Return the cost of the decision found, as a minimization."""
        recourse = self.solver._recourse
        block = evaluate(self.compiled, np.asarray(outcome, float)[None])
        n1 = len(self.compiled.first)
        decision = self.found.x[:n1]
        x = np.concatenate([decision, recourse.solve(block, decision).z])
        arrays = Layout(self.compiled, 1).arrays(block, np.ones(1))
        return arrays.cost @ x + arrays.offset


def by_pyomo(model, scenarios, outcome, weights=None):
    """Return v* and l_opt from the Pyomo programs."""
    data = {"scenarios": scenarios, "weights": weights}
    value = solve(transform("extensive_form", model, **data))
    search = transform(
        "opt_search", model, **data, outcome=outcome, optimal_value=value
    )
    return value, solve(search)


@cache
def zoo_case(name, seed):
    """Return a case's data and Pyomo's answers, which all methods share."""
    model = zoo.ZOO[name]()
    *scenarios, outcome = zoo.scenarios(model, 4, seed)
    weights = np.random.default_rng(seed).dirichlet([2, 2, 2]) if seed else None
    answers = by_pyomo(model, scenarios, outcome, weights)
    return scenarios, outcome, weights, answers


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", MODELS)
def test_every_method_agrees_with_pyomo_on_the_zoo(name, method):
    solver = Solver(zoo.ZOO[name](), 3, method)
    for seed in range(3):
        scenarios, outcome, weights, (value, loss) = zoo_case(name, seed)
        assert solver.solve(scenarios, weights) == pytest.approx(value, rel=1e-8)
        assert solver.search(outcome) == pytest.approx(loss, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("count", [1, 5])
def test_mnv_agrees_with_pyomo(count):
    model = mnv.build()
    solver = Solver(model, count)
    contexts, outcomes = mnv.sample(2, seed=4)
    for context, outcome in zip(contexts, outcomes, strict=True):
        scenarios = mnv.conditional(context)[0][:count]
        value, loss = by_pyomo(model, scenarios, outcome)
        assert solver.solve(scenarios) == pytest.approx(value, rel=1e-9)
        assert solver.search(outcome) == pytest.approx(loss, rel=1e-6)


@pytest.mark.parametrize("count", range(1, 11))
def test_portfolio_agrees_with_enumeration_of_252_supports(count):
    rng = np.random.default_rng(count)
    returns, outcome = rng.normal(0, 0.02, (count, 10)), rng.normal(0, 0.02, 10)
    value, loss = by_enumeration(returns, outcome)
    solver = Solver(cvar_portfolio.build(), count)
    assert solver.solve(returns) == pytest.approx(value, abs=1e-8)
    assert solver.search(outcome) == pytest.approx(loss, abs=1e-8)


def test_batch_with_branching_agrees_with_enumeration_of_252_supports():
    rng = np.random.default_rng(5)
    returns, outcomes = rng.normal(0, 0.02, (8, 12, 10)), rng.normal(0, 0.02, (8, 10))
    exact = [by_enumeration(*case) for case in zip(returns, outcomes, strict=True)]
    oracle = csg.Oracle(cvar_portfolio.build())
    values, losses = oracle.solve(returns).value, oracle.loss(returns, outcomes)
    assert 0 < oracle.stats.relaxed < 3 * 8
    assert values == pytest.approx([value for value, _ in exact], abs=1e-8)
    assert losses == pytest.approx([loss for _, loss in exact], abs=1e-8)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_agrees_on_the_portfolio(method):
    rng = np.random.default_rng(2)
    returns, outcome = rng.normal(0, 0.02, (15, 10)), rng.normal(0, 0.02, 10)
    solver = Solver(cvar_portfolio.build(), 15, method)
    exact = Solver(cvar_portfolio.build(), 15)
    assert solver.solve(returns) == pytest.approx(exact.solve(returns), abs=1e-9)
    # The cut's slack of 1e-9 changes the loss; the optimal face has no slack.
    assert solver.search(outcome) == pytest.approx(exact.search(outcome), abs=1e-5)


@pytest.mark.parametrize("seed", [0, 1])
def test_sslp_agrees_with_pyomo(seed):
    model = sslp.build(servers=4, clients=8, seed=seed)
    *scenarios, outcome = sslp.scenarios(4, clients=8, seed=seed)
    value, loss = by_pyomo(model, scenarios, outcome)
    for method in METHODS:
        solver = Solver(model, 3, method)
        assert solver.solve(scenarios) == pytest.approx(value, rel=1e-8)
        assert solver.search(outcome) == pytest.approx(loss, rel=1e-6)


def ties(integer_recourse=True):
    """Return a model in which any of three sites serves the scenarios equally well."""
    m = pyo.ConcreteModel("ties")
    m.need = pyo.Param([1, 2, 3], mutable=True, initialize=0.0)
    m.site = pyo.Var([1, 2, 3], within=pyo.Binary)
    m.size = pyo.Var([1, 2, 3], bounds=(0, 10))
    domain = pyo.NonNegativeIntegers if integer_recourse else pyo.NonNegativeReals
    m.lost = pyo.Var([1, 2, 3], within=domain)
    m.one = pyo.Constraint(expr=sum(m.site.values()) == 1)
    m.only = pyo.Constraint([1, 2, 3], rule=lambda m, i: m.size[i] <= 10 * m.site[i])
    m.serve = pyo.Constraint(
        [1, 2, 3], rule=lambda m, i: m.lost[i] >= m.need[i] - m.size[i]
    )
    m.cost = pyo.Objective(
        expr=sum(m.size[i] + 5 * m.site[i] + 3 * m.lost[i] for i in (1, 2, 3))
    )
    csg.annotate(m, first_stage_variables=[m.site, m.size], uncertain_params=m.need)
    return m


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("integer_recourse", [True, False])
def test_search_finds_the_best_of_many_optimal_decisions(method, integer_recourse):
    solver = Solver(ties(integer_recourse), 1, method)
    assert solver.solve([[4.0, 4.0, 4.0]]) == pytest.approx(5 + 4 + 2 * 3 * 4)
    built = int(np.argmax(solver.found.x[:3]))
    for site in range(3):
        outcome = np.zeros(3)
        outcome[site] = 4.0
        assert solver.search(outcome) == pytest.approx(9)
        if site != built:
            assert solver.cost_of_decision(outcome) == pytest.approx(5 + 4 + 3 * 4)


@pytest.mark.parametrize("method", ["tree", "plain"])
def test_general_integers_are_branched_on(method):
    solver = Solver(zoo.integers(), 2, method)
    model, scenarios, outcome = zoo.integers(), [[7.3, 5.1], [2.2, 8.7]], [3.3, 4.4]
    value, loss = by_pyomo(model, scenarios, outcome)
    assert solver.solve(scenarios) == pytest.approx(value)
    assert solver.search(outcome) == pytest.approx(loss)
    assert solver.found.method == method


def random_program(seed):
    """Return a program with continuous, integer and binary variables in both stages."""
    rng = np.random.default_rng(seed)
    domains = [pyo.Reals, pyo.Integers, pyo.Binary]
    m = pyo.ConcreteModel(f"random_{seed}")
    m.w = pyo.Param([0, 1, 2], mutable=True, initialize=1.0)
    m.y = pyo.Var([0, 1, 2], bounds=lambda m, i: (-int(rng.integers(3)), 4))
    m.z = pyo.Var([0, 1, 2, 3], bounds=(0, int(rng.integers(2, 8))))
    m.short = pyo.Var([0, 1, 2, 3], within=pyo.NonNegativeReals)
    for v in [*m.y.values(), *m.z.values()]:
        v.domain = domains[rng.integers(3)]
    tech, matrix = rng.integers(-3, 4, (4, 3)), rng.integers(-3, 4, (4, 4))
    right, price = rng.integers(-2, 5, 4), rng.integers(-1, 5, 7)

    @m.Constraint([0, 1, 2, 3])
    def row(m, k):
        now = sum(int(tech[k, i]) * m.y[i] for i in m.y)
        later = sum(int(matrix[k, j]) * m.z[j] for j in m.z)
        moving = 1 + 0.3 * m.w[2] if k == 0 else 1
        needed = int(right[k]) * m.w[k % 3] + m.w[(k + 1) % 3]
        return now + moving * later + m.short[k] >= needed

    m.limit = pyo.Constraint(expr=sum(m.y.values()) <= 4)
    paid = zip(price.tolist(), [*m.y.values(), *m.z.values()], strict=True)
    m.cost = pyo.Objective(expr=sum(c * v for c, v in paid) + 6 * sum(m.short.values()))
    csg.annotate(m, first_stage_variables=m.y, uncertain_params=m.w)
    return m


@pytest.mark.parametrize("seed", range(12))
def test_every_method_agrees_with_pyomo_on_random_programs(seed):
    model = random_program(seed)
    data = np.random.default_rng([seed, 1]).uniform(0, 3, (4, 3)).round(1)
    value, loss = by_pyomo(model, data[:3], data[3])
    for method in METHODS:
        solver = Solver(model, 3, method)
        assert solver.solve(data[:3]) == pytest.approx(value, rel=1e-7, abs=1e-7)
        assert solver.search(data[3]) == pytest.approx(loss, rel=1e-6, abs=1e-6)


def test_program_stopped_above_a_cost_can_be_solved_again():
    compiled = compile_model(csg.TwoStageModel(mnv.build()))
    layout = Layout(compiled, 3)
    program = MipProgram(layout, SolveContext())
    demands = mnv.sample(3, seed=6)[1]
    arrays = layout.arrays(evaluate(compiled, demands), np.full(3, 1 / 3))
    optimum = program.minimize(arrays)
    value = arrays.cost @ optimum + arrays.offset
    assert program.minimize(arrays, highest=value - 50) is None
    again = program.minimize(arrays)
    assert arrays.cost @ again + arrays.offset == pytest.approx(value, rel=1e-9)
    kept = program.minimize(arrays, highest=value + 1e-9 * abs(value))
    assert arrays.cost @ kept + arrays.offset == pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize("weights", [[0.5, 0.5], [0.9, 0.1], [1.0, 0.0]])
def test_recourse_search_stops_above_a_cost_limit(weights):
    compiled = compile_model(csg.TwoStageModel(sslp.build(3, 8)))
    recourse = ScenarioRecourse(compiled, SolveContext())
    blocks, decision = evaluate(compiled, sslp.scenarios(2, 8)), np.array([1.0, 1, 0])
    costs = recourse.solve(blocks, decision).bound
    weights, least = np.array(weights), weights * (costs - 3.0)
    terms = np.abs(least)
    over = float(weights @ costs - least.sum())
    for spare, is_found in ((over + 1e-6, True), (over - 1e-3, False)):
        limit = CostLimit(weights, least, terms, spare)
        found = recourse.solve(blocks, decision, limit)
        assert (found is not None) == is_found
    assert recourse.solve(blocks, decision).bound == pytest.approx(costs)


def test_tree_is_used_for_few_first_stage_integers(monkeypatch):
    assert Solver(mnv.build(), 1).solver.uses_tree
    assert not Solver(zoo.piecewise(), 1).solver.uses_tree
    monkeypatch.setattr(integer_solver, "_MAX_INTEGERS", 5)
    assert not Solver(mnv.build(), 1).solver.uses_tree


def test_integral_relaxation_needs_no_branching():
    rng = np.random.default_rng(0)
    solver = Solver(cvar_portfolio.build(), 3)
    solver.solve(rng.normal(0, 0.02, (3, 10)))
    assert solver.found.method == "relaxation"
    assert solver.stats.relaxed == 1
    assert solver.stats.nodes == 0


def test_zero_cost_binary_is_branched_on_without_an_lp(monkeypatch):
    returns = np.random.default_rng(6).normal(0, 0.02, (40, 10))
    outcome = np.random.default_rng(7).normal(0, 0.02, 10)
    quick, slow = (Solver(cvar_portfolio.build(), 40, "tree") for _ in range(2))
    found = quick.solve(returns), quick.search(outcome)

    monkeypatch.setattr(Rounder, "move_column", lambda *args: [None, None])

    assert slow.solve(returns) == pytest.approx(found[0], abs=1e-10)
    assert slow.search(outcome) == pytest.approx(found[1], abs=1e-8)
    assert quick.found.method == slow.found.method == "tree"
    assert quick.stats.solves < slow.stats.solves


def test_highs_takes_over_if_the_tree_exceeds_its_budget(monkeypatch):
    model = mnv.build()
    scenarios, outcome = mnv.sample(2, seed=1)[1], mnv.sample(1, seed=2)[1][0]
    whole = Solver(model, 2)
    value, loss = whole.solve(scenarios), whole.search(outcome)
    assert whole.found.method == "tree"
    monkeypatch.setattr(integer_solver, "_MAX_RELAXATIONS", 3)
    stopped = Solver(model, 2)
    assert stopped.solve(scenarios) == pytest.approx(value, rel=1e-9)
    assert stopped.found.method == "plain"
    assert stopped.search(outcome) == pytest.approx(loss, rel=1e-7)


def test_searches_after_one_solve_do_not_depend_on_order():
    model = mnv.build()
    _, demands = mnv.sample(6, seed=3)
    solver, other = Solver(model, 3), Solver(model, 3)
    solver.solve(demands[:3])
    forward = [solver.search(w) for w in demands[3:]]
    other.solve(demands[:3])
    backward = [other.search(w) for w in demands[:2:-1]]
    assert forward == pytest.approx(backward[::-1], rel=1e-7)


def incomplete():
    """Return a model without complete recourse."""
    m = pyo.ConcreteModel("incomplete")
    m.need = pyo.Param(mutable=True, initialize=1.0)
    m.made = pyo.Var(within=pyo.NonNegativeIntegers, bounds=(0, 3))
    m.bought = pyo.Var(within=pyo.NonNegativeIntegers, bounds=(0, 2))
    m.meet = pyo.Constraint(expr=m.made + m.bought >= m.need)
    m.cost = pyo.Objective(expr=m.made + 2 * m.bought)
    csg.annotate(m, first_stage_variables=m.made, uncertain_params=m.need)
    return m


@pytest.mark.parametrize("method", METHODS)
def test_infeasible_case_raises_and_the_next_is_solved(method):
    solver = Solver(incomplete(), 1, method)
    assert solver.solve([[4.5]]) == 3 + 2 * 2
    with pytest.raises(SolverTrouble) as trouble:
        solver.solve([[7.0]])
    assert trouble.value.status == "infeasible"
    assert solver.solve([[1.0]]) == 1
    with pytest.raises(SolverTrouble) as trouble:
        solver.search([6.0])
    assert trouble.value.status == "infeasible"
    assert solver.search([2.0]) == 1 + 2


def test_infeasible_cases_do_not_affect_the_rest_of_a_batch():
    oracle = csg.Oracle(incomplete())
    needs, outcomes = [[[4.5]], [[7.0]], [[1.0]], [[1.0]]], [[2.0], [2.0], [6.0], [2.0]]
    losses = oracle.loss(needs, outcomes, on_error="record")
    assert losses == pytest.approx([3, np.nan, np.nan, 1 + 2], nan_ok=True)
    assert [(f.case, f.status) for f in oracle.failures] == [
        (1, "infeasible"),
        (2, "infeasible"),
    ]
    assert oracle.solve(needs, on_error="record").value == pytest.approx(
        [7, np.nan, 1, 1], nan_ok=True
    )


@pytest.mark.parametrize("method", METHODS)
def test_infeasible_with_a_feasible_relaxation(method):
    m = pyo.ConcreteModel("between")
    m.w = pyo.Param(mutable=True, initialize=0.0)
    m.y = pyo.Var(within=pyo.NonNegativeIntegers, bounds=(0, 5))
    m.z = pyo.Var(within=pyo.NonNegativeIntegers, bounds=(0, 5))
    m.gap = pyo.Constraint(expr=pyo.inequality(0.2, 2 * m.y + 2 * m.z - m.w, 0.8))
    m.cost = pyo.Objective(expr=m.y + m.z)
    csg.annotate(m, first_stage_variables=m.y, uncertain_params=m.w)
    solver = Solver(m, 1, method)
    with pytest.raises(SolverTrouble) as trouble:
        solver.solve([[2.0]])
    assert trouble.value.status == "infeasible"
    assert solver.solve([[1.5]]) == 1


@pytest.mark.parametrize("method", METHODS)
def test_unbounded_program_raises(method):
    m = pyo.ConcreteModel("unbounded")
    m.w = pyo.Param(mutable=True, initialize=0.0)
    m.y = pyo.Var(within=pyo.Integers)
    m.z = pyo.Var(within=pyo.NonNegativeReals)
    m.need = pyo.Constraint(expr=m.z >= m.w - m.y)
    m.cost = pyo.Objective(expr=-m.y + m.z)
    csg.annotate(m, first_stage_variables=m.y, uncertain_params=m.w)
    with pytest.raises(SolverTrouble) as trouble:
        Solver(m, 1, method).solve([[2.0]])
    assert trouble.value.status == "unbounded"


@pytest.mark.parametrize("method", ["tree", "plain"])
def test_time_limit_holds_for_each_case(method):
    model, demands = mnv.build(), mnv.sample(30, seed=0)[1]
    hurried = Solver(model, 30, method, time_limit=0.05)
    for _ in range(2):
        with pytest.raises(SolverTrouble) as trouble:
            hurried.solve(demands)
        assert trouble.value.status == "time limit"
    patient = Solver(model, 1, method, time_limit=20.0)
    for demand in demands[:3]:
        patient.solve([demand])


def test_gap_separates_value_and_bound():
    model, demands = mnv.build(), mnv.sample(6, seed=5)[1]
    exact, loose = Solver(model, 6), Solver(model, 6, mip_rel_gap=0.02)
    value = exact.solve(demands)
    reached = loose.solve(demands)
    bound = -loose.found.bound
    assert reached <= value * (1 + 1e-9) <= bound * (1 + 1e-9)
    assert bound - reached <= 0.02 * reached + 1e-9
    assert exact.found.bound == pytest.approx(exact.found.value, rel=1e-8)


def test_value_is_the_cost_of_an_integral_point():
    solver = Solver(mnv.build(), 4)
    solver.solve(mnv.sample(4, seed=8)[1])
    layout = Layout(solver.compiled, 4)
    arrays = layout.arrays(solver.blocks, solver.weights)
    x = solver.found.x
    assert solver.found.value == arrays.cost @ x + arrays.offset
    assert (x[layout.integer] == np.rint(x[layout.integer])).all()


def test_point_that_violates_the_cut_is_an_error():
    solver = Solver(zoo.integers(), 2)
    value = solver.solve([[7.3, 5.1], [2.2, 8.7]])
    layout = Layout(solver.compiled, 2)
    arrays = layout.arrays(solver.blocks, solver.weights)
    size = cost_size(layout, arrays, solver.found.x)
    check_cut(arrays, solver.found.x, value, size)
    with pytest.raises(SolverTrouble, match="cut broken"):
        check_cut(arrays, solver.found.x, value - 1e-6, size)
    with pytest.raises(SolverTrouble, match="not optimal"):
        check_cut(arrays, solver.found.x, value + 1e-3, size)


def test_cut_is_one_more_row_over_the_scenario_columns():
    compiled = compile_model(csg.TwoStageModel(zoo.integers()))
    base = SearchLayout(compiled, 2)
    layout = CutLayout(base)
    blocks = evaluate(compiled, np.array([[7.3, 5.1], [2.2, 8.7]]))
    saa = Layout(compiled, 2).arrays(blocks, np.array([0.5, 0.5]))
    program = base.search_arrays(blocks, blocks[:1])
    cut = layout.add_cut(program, saa.cost, 7.0)
    dense = np.zeros((layout.rows, layout.columns))
    column = np.repeat(np.arange(layout.columns), np.diff(layout.start))
    dense[layout.index, column] = cut.values
    assert (dense[-1, : len(saa.cost)] == saa.cost).all()
    assert (dense[-1, len(saa.cost) :] == 0).all()
    assert cut.row_upper[-1] == 7.0
    assert layout.rows == base.rows + 1


def test_tree_stopped_by_a_limit_gives_no_loss(monkeypatch):
    """Even if it has an incumbent on an optimal face."""
    grow, regions = FirstStageTree.grow, []

    def stopped(self, *args):
        result = grow(self, *args)
        result.stopped = SolverTrouble("time limit")
        regions.append(result.regions)
        return result

    monkeypatch.setattr(FirstStageTree, "grow", stopped)
    _, outcomes = cvar_portfolio.sample(20 * 41, seed=0)
    drawn = outcomes.reshape(20, 41, -1)
    oracle = csg.Oracle(cvar_portfolio.build())

    losses = oracle.loss(drawn[:, :40], drawn[:, 40], on_error="record", progress=False)

    assert any(len(r) == 1 and r[0].duals is not None for r in regions)
    assert 0 < len(oracle.failures) == len(regions) < 20
    assert np.flatnonzero(np.isnan(losses)).tolist() == [
        e.case for e in oracle.failures
    ]


def test_general_integers_with_continuous_recourse_go_to_highs():
    solver = Solver(_staffing(), 3)
    solver.solve([[3.3], [7.1], [11.8]])
    assert solver.found.method == "plain"
    branched = Solver(_staffing(), 3, "tree")
    branched.solve([[3.3], [7.1], [11.8]])
    assert branched.found.method == "tree"
    assert solver.found.value == pytest.approx(branched.found.value, rel=1e-9)


def test_reduced_costs_cut_off_no_optimum_of_a_general_integer_model():
    rng = np.random.default_rng(3)
    for _ in range(20):
        demands, outcome = rng.uniform(0, 12, (3, 1)), rng.uniform(0, 12, 1)
        solver = Solver(_staffing(), 3)
        value = solver.solve(demands)
        # Integer prices make ties: every staff number is tried.
        costs = [_staffing_cost(n, demands).mean() for n in range(16)]
        ties = [n for n in range(16) if costs[n] <= min(costs) + 1e-9]
        assert value == pytest.approx(min(costs), rel=1e-9)
        best = min(_staffing_cost(n, outcome[None])[0] for n in ties)
        assert solver.search(outcome) == pytest.approx(best, rel=1e-8)


def _staffing():
    """Return a model with one general integer in the first stage."""
    m = pyo.ConcreteModel("staffing")
    m.need = pyo.Param(initialize=5.0, mutable=True)
    m.staff = pyo.Var(within=pyo.NonNegativeIntegers, bounds=(0, 15))
    m.agency = pyo.Var(within=pyo.NonNegativeReals)
    m.cover = pyo.Constraint(expr=m.staff + m.agency >= m.need)
    m.cost = pyo.Objective(expr=m.staff + 3 * m.agency)
    csg.annotate(m, first_stage_variables=m.staff, uncertain_params=m.need)
    return m


def _staffing_cost(staff, demands):
    return staff + 3 * np.maximum(0, demands[:, 0] - staff)


def test_a_tree_that_takes_more_than_highs_is_left_out_for_a_while():
    attempts = TreeAttempts()
    attempts.note_tree(900, finished=True)  # nothing to compare with
    assert attempts.is_due()
    attempts.note_plain(300)
    attempts.note_plain(500)
    attempts.note_tree(390, finished=True)
    assert attempts.is_due()
    attempts.note_tree(410, finished=True)
    assert [attempts.is_due() for _ in range(2)] == [False, True]
    attempts.note_tree(10, finished=False)
    assert [attempts.is_due() for _ in range(3)] == [False, False, True]


def test_values_do_not_depend_on_which_cases_the_tree_is_left_out_of():
    model, scenarios = sslp.build(3, 6), sslp.scenarios(12, 6).reshape(6, 2, 6)
    alone = [Solver(model, 2).solve(one) for one in scenarios]
    solver = Solver(model, 2)
    solver.solver._attempts.note_plain(1)  # so that each tree took too much
    found = [solver.solve(one) for one in scenarios]
    assert found == pytest.approx(alone, rel=1e-9)


@pytest.mark.parametrize(
    "unit, least, most", [(1.0, 1, 1), (1e-9, 1e-3, 1e8), (1e12, 1e-12, 1e-3)]
)
def test_highs_gets_the_models_costs_unless_its_tolerances_need_others(
    unit, least, most
):
    compiled = compile_model(csg.TwoStageModel(sslp.build(3, 6)))
    layout = Layout(compiled, 2)
    blocks = evaluate(compiled, sslp.scenarios(2, 6))
    arrays = layout.arrays(blocks, np.full(2, 0.5))
    value = MipProgram(layout, SolveContext()).minimize(arrays) @ arrays.cost
    arrays = replace(arrays, cost=unit * arrays.cost)
    program = MipProgram(layout, SolveContext())
    assert program.minimize(arrays) @ arrays.cost == pytest.approx(unit * value)
    given = np.array(program.highs.getLp().col_cost_)
    some = arrays.cost != 0
    ratios = given[some] / arrays.cost[some]
    assert least <= ratios.min() <= ratios.max() <= most
