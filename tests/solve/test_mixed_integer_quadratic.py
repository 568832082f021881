"""Mixed-integer quadratic models: refused by our engine, solved by SCIP and Gurobi."""

import itertools

import numpy as np
import pyomo.environ as pyo
import pytest

import pyomo_csg as csg
from tests.solving import needs_solver

SOLVERS = [
    pytest.param(name, marks=needs_solver(name))
    for name in ("scip_persistent", "scip_direct", "gurobi_persistent", "appsi_gurobi")
]
RANGE = range(7)


def machines():
    """Buy whole machines at a convex price; what is missing costs its square."""
    m = pyo.ConcreteModel("machines")
    m.demand = pyo.Param([1, 2], mutable=True, initialize=4.0)
    m.y = pyo.Var([1, 2], within=pyo.Integers, bounds=(0, 6))
    m.short = pyo.Var([1, 2], within=pyo.NonNegativeReals)
    m.lack = pyo.Constraint(
        [1, 2], rule=lambda m, i: m.short[i] >= m.demand[i] - m.y[i]
    )
    price = m.y[1] ** 2 / 2 + m.y[1] * m.y[2] / 4 + m.y[2] ** 2 / 3
    m.cost = pyo.Objective(expr=price + sum(2 * m.short[i] ** 2 for i in (1, 2)))
    csg.annotate(m, first_stage_variables=m.y, uncertain_params=m.demand)
    return m


def cost(y, demand):
    """Return the cost of a decision, by hand."""
    price = y[0] ** 2 / 2 + y[0] * y[1] / 4 + y[1] ** 2 / 3
    return price + 2 * (np.maximum(0, demand - y) ** 2).sum()


def enumerate_decisions(scenarios, weights):
    """Return the best of all decisions and its value."""
    values = {
        y: sum(
            w * cost(np.array(y), z) for w, z in zip(weights, scenarios, strict=True)
        )
        for y in itertools.product(RANGE, RANGE)
    }
    best = min(values, key=values.get)
    return np.array(best), values[best]


def test_our_engine_says_which_solvers_can():
    match = "integer variables.*'scip_persistent'.*pyscipopt.*'gurobi_persistent'"
    with pytest.raises(csg.ModelError, match=match):
        csg.Oracle(machines())


@pytest.mark.parametrize("solver", SOLVERS)
def test_decisions_values_and_costs_agree_with_enumeration(solver):
    rng = np.random.default_rng(4)
    oracle = csg.Oracle(machines(), solver=solver)
    for count in (1, 2, 3):
        scenarios = rng.uniform(0, 8, (count, 2))
        weights = rng.dirichlet(np.ones(count))
        decision, value = enumerate_decisions(scenarios, weights)
        solution = oracle.solve(scenarios, weights)
        assert solution.decision.tolist() == decision.tolist()
        assert solution.value == pytest.approx(value, rel=1e-6)
        outcome = rng.uniform(0, 8, 2)
        expected = pytest.approx(cost(decision, outcome), rel=1e-6)
        assert oracle.cost(decision, outcome[None])[0] == expected
        # The decision is whole and unique, so the slack of the cut does not move it.
        loss = oracle.loss(
            scenarios[None], outcome[None], weights=weights, kind="recourse"
        )
        assert loss[0] == expected
