"""CPU seconds of integer programs by the oracle's rule, beside HiGHS on the whole program.

Run: python -m tests.benchmarks.integer_programs [name ...]
"""

import sys

import numpy as np
import pyomo.environ as pyo

import pyomo_csg as csg
from models import cvar_portfolio, facility_location, mnv, sslp, unit_commitment
from pyomo_csg.solve.compile.assembly import Layout, evaluate
from pyomo_csg.solve.compile.compiler import compile_model
from pyomo_csg.solve.engine import SolveContext
from pyomo_csg.solve.lp.highs_program import HighsProgram
from pyomo_csg.solve.mip.integer_solver import IntegerSolver
from tests.benchmarks.oracle import cpu, heading, pairs, row

K = 5
DEFAULTS = {"primal_feasibility_tolerance": 1e-7, "dual_feasibility_tolerance": 1e-7}
GAPS = 0.0, 0.005


def depots(sites=8, customers=16):
    """Return depots to open, then a fixed charge for each truck from a depot to a customer."""
    distance = np.random.default_rng(11).uniform(1, 9, (sites, customers))
    m = pyo.ConcreteModel("depots")
    m.sites, m.customers = pyo.RangeSet(sites), pyo.RangeSet(customers)
    m.orders = pyo.Param(m.customers, initialize=6, mutable=True)
    m.open = pyo.Var(m.sites, within=pyo.Binary)
    m.truck = pyo.Var(m.sites, m.customers, within=pyo.Binary)
    m.flow = pyo.Var(m.sites, m.customers, within=pyo.NonNegativeReals)
    m.missed = pyo.Var(m.customers, within=pyo.NonNegativeReals)

    @m.Constraint(m.sites)
    def capacity(m, i):
        return pyo.quicksum(m.flow[i, :]) <= 34 * m.open[i]

    @m.Constraint(m.sites, m.customers)
    def loaded_if_used(m, i, j):
        return m.flow[i, j] <= 14 * m.truck[i, j]

    @m.Constraint(m.customers)
    def served(m, j):
        return pyo.quicksum(m.flow[:, j]) + m.missed[j] >= m.orders[j]

    trips = sum(
        distance[i - 1, j - 1] * m.flow[i, j] + 6 * m.truck[i, j]
        for i in m.sites
        for j in m.customers
    )
    m.cost = pyo.Objective(
        expr=55 * sum(m.open.values()) + trips + 30 * sum(m.missed.values())
    )
    csg.annotate(m, first_stage_variables=m.open, uncertain_params=m.orders)
    return m


def staffing(shifts=12, hours=16, length=6):
    """Return shifts with general integers of staff, then overtime and queues; a maximization."""
    m = pyo.ConcreteModel("staffing")
    m.shifts, m.hours = pyo.RangeSet(0, shifts - 1), pyo.RangeSet(0, hours - 1)
    m.calls = pyo.Param(m.hours, initialize=40, mutable=True)
    m.staff = pyo.Var(m.shifts, within=pyo.NonNegativeIntegers, bounds=(0, 25))
    m.over = pyo.Var(m.hours, bounds=(0, 8))
    m.queue = pyo.Var(m.hours, bounds=(0, 60))
    m.lost = pyo.Var(m.hours, within=pyo.NonNegativeReals)
    m.served = pyo.Var(m.hours, within=pyo.NonNegativeReals)

    @m.Constraint(m.hours)
    def capacity(m, t):
        working = sum(m.staff[s] for s in m.shifts if s <= t < s + length)
        return m.served[t] <= 4.5 * (working + m.over[t])

    @m.Constraint(m.hours)
    def balance(m, t):
        waiting = m.queue[t - 1] if t else 0
        return waiting + m.calls[t] == m.served[t] + m.lost[t] + m.queue[t]

    m.budget = pyo.Constraint(expr=sum(m.staff.values()) <= 90)
    hourly = sum(
        6 * m.served[t] - 9 * m.lost[t] - 1.2 * m.queue[t] - 31 * m.over[t]
        for t in m.hours
    )
    m.profit = pyo.Objective(
        expr=hourly - 96 * sum(m.staff.values()), sense=pyo.maximize
    )
    csg.annotate(m, first_stage_variables=m.staff, uncertain_params=m.calls)
    return m


def lot_sizing(products=3, periods=8):
    """Return setups of products, then lots and stocks."""
    setup = np.random.default_rng(0).uniform(60, 140, (products, periods))
    m = pyo.ConcreteModel("lot_sizing")
    m.lots = pyo.Set(initialize=list(np.ndindex(products, periods)))
    m.demand = pyo.Param(m.lots, initialize=20, mutable=True)
    m.made = pyo.Var(m.lots, within=pyo.Binary)
    m.lot = pyo.Var(m.lots, within=pyo.NonNegativeReals)
    m.stock = pyo.Var(m.lots, within=pyo.NonNegativeReals)
    m.lost = pyo.Var(m.lots, within=pyo.NonNegativeReals)

    @m.Constraint(m.lots)
    def set_up(m, p, t):
        return m.lot[p, t] <= 80 * m.made[p, t]

    @m.Constraint(range(periods))
    def capacity(m, t):
        used = sum(m.lot[p, t] + 10 * m.made[p, t] for p in range(products))
        return used <= 28 * products

    @m.Constraint(m.lots)
    def balance(m, p, t):
        before = m.stock[p, t - 1] if t else 0
        return before + m.lot[p, t] + m.lost[p, t] == m.demand[p, t] + m.stock[p, t]

    m.cost = pyo.Objective(
        expr=sum(float(setup[i]) * m.made[i] for i in m.lots)
        + sum(m.stock.values())
        + 2 * sum(m.lot.values())
        + 25 * sum(m.lost.values())
    )
    csg.annotate(m, first_stage_variables=m.made, uncertain_params=m.demand)
    return m


def _orders(n, seed=0):
    rng = np.random.default_rng(seed)
    level = np.exp(rng.normal(0, 0.35, (n, K, 1)))
    return np.minimum(6 * level * rng.gamma(6, 1 / 6, (n, K, 16)), 40)


def _calls(n, seed=0):
    rng = np.random.default_rng(seed)
    shape = 55 + 35 * np.sin(np.arange(16) / 16 * np.pi * 2.2 - 0.6)
    return rng.poisson(shape * np.exp(rng.normal(0, 0.3, (n, K, 1)))).astype(float)


def _drawn(module, n, k=K):
    outcomes = module.sample(200, 1)[1]
    picked = np.random.default_rng(0).integers(len(outcomes), size=(n, k))
    return module.build(), outcomes[picked]


CASES = {
    "depots, binary recourse": lambda: (depots(), _orders(5)),
    "lot sizing": lambda: (
        lot_sizing(),
        np.random.default_rng(0).gamma(4, 5, (5, K, 24)),
    ),
    "facility_location": lambda: _drawn(facility_location, 8),
    "unit_commitment": lambda: _drawn(unit_commitment, 5),
    "staffing, general integers": lambda: (staffing(), _calls(10)),
    "sslp_5_25": lambda: (
        sslp.build(5, 25),
        sslp.scenarios(5 * K, 25).reshape(5, K, 25),
    ),
    "sslp_15_45, K = 1": lambda: (
        sslp.build(15, 45),
        sslp.scenarios(5, 45).reshape(5, 1, 45),
    ),
    "mnv": lambda: (mnv.build(), pairs(mnv, 10, K)[0]),
    "cvar_portfolio, K = 40": lambda: (
        cvar_portfolio.build(),
        pairs(cvar_portfolio, 20, 40)[0],
    ),
}


def compare(names):
    """Print a row for each model, exact and with a gap of 0.5 %."""
    heading(
        f"CPU s a program beside HiGHS on the whole program, K = {K}",
        *("model", "integers by stage", "programs", "gap"),
        *("the rule", "HiGHS", "ratio", "apart"),
    )
    for name in names:
        model, scenarios = CASES[name]()
        compiled = compile_model(csg.TwoStageModel(model))
        n, count, _ = scenarios.shape
        blocks, weights = evaluate(compiled, scenarios), np.full((n, count), 1 / count)
        integers = compiled.first.integer.sum(), compiled.recourse.integer.sum()
        for gap in GAPS:
            context = SolveContext(options={"mip_rel_gap": gap})
            solver = IntegerSolver(compiled, count, context)
            ours, solved = cpu(solver.solve_many, blocks, weights)
            layout = Layout(compiled, count)
            exact = {**DEFAULTS, "mip_rel_gap": gap, "mip_abs_gap": 0.0}
            program = HighsProgram(layout, SolveContext(options=exact))
            theirs, values = cpu(_values, program, layout, blocks, weights)
            apart = np.abs(solved.values / values - 1).max()
            row(
                *(name, f"{integers[0]}, {integers[1]}", n, gap),
                *(f"{ours / n:.3g}", f"{theirs / n:.3g}"),
                *(f"{ours / theirs:.2f}", f"{apart:.0e}"),
            )


def _values(program, layout, blocks, weights):
    """Return the optimal values (n,) by HiGHS alone."""
    values = []
    for i in range(len(weights)):
        arrays = layout.arrays(blocks[i], weights[i])
        program.solve(arrays)
        values.append(arrays.value(program.point()))
    return np.array(values)


if __name__ == "__main__":
    compare(sys.argv[1:] or CASES)
