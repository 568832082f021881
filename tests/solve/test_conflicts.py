"""Conflicts: the constraints that are named conflict, and none can be spared."""

import itertools
import pickle

import numpy as np
import pyomo.environ as pyo
import pytest

import pyomo_csg as csg
from models import cep1, newsvendor
from pyomo_csg.solve.conflicts import find_conflict


def is_feasible(model):
    """Return whether Pyomo's HiGHS finds a solution."""
    found = pyo.SolverFactory("appsi_highs").solve(
        model, load_solutions=False, tee=False
    )
    return found.solver.termination_condition == pyo.TerminationCondition.optimal


def check_irreducible(model, conflict):
    """Check a conflict by other programs: alone infeasible, but not without any part."""
    model = model.clone()
    model.nothing = pyo.Objective(expr=0)
    parts = [*conflict.constraints, *conflict.bounds]
    for constraint in model.component_data_objects(pyo.Constraint):
        if constraint.name not in conflict.constraints:
            constraint.deactivate()
    variables = list(model.component_data_objects(pyo.Var))
    for variable in variables:
        if variable.name not in conflict.bounds:
            variable.domain = pyo.Reals if variable.is_continuous() else pyo.Integers
            variable.setlb(None)
            variable.setub(None)
    assert not is_feasible(model)
    for part in parts:
        rest = model.clone()
        component = rest.find_component(part)
        if part in conflict.constraints:
            component.deactivate()
        else:
            component.domain = pyo.Reals if component.is_continuous() else pyo.Integers
            component.setlb(None)
            component.setub(None)
        assert is_feasible(rest), part


@pytest.fixture
def shop():
    m = pyo.ConcreteModel()
    m.x = pyo.Var(range(4), bounds=(0, 10))
    m.total = pyo.Constraint(expr=sum(m.x.values()) <= 12)
    m.pair = pyo.Constraint(expr=m.x[0] + m.x[1] >= 15)
    m.other = pyo.Constraint(expr=m.x[2] - m.x[3] == 1)
    m.idle = pyo.Constraint(expr=m.x[0] <= 9)
    return m


def test_what_does_not_matter_is_left_out(shop):
    found = find_conflict(shop)
    assert set(found.constraints) == {"total", "pair"}
    assert set(found.bounds) <= {"x[2]", "x[3]"} and found.irreducible
    text = str(found)
    assert "without any one of them there is one" in text and "pair: " in text
    check_irreducible(shop, found)


def test_bounds_take_part(shop):
    shop.pair.deactivate()
    shop.high = pyo.Constraint(expr=shop.x[1] >= 11)
    found = find_conflict(shop)
    assert (found.constraints, found.bounds) == (("high",), ("x[1]",))
    assert "x[1]: 0 <= x[1] <= 10" in str(found)


def test_integers_conflict_where_fractions_do_not():
    m = pyo.ConcreteModel()
    m.y = pyo.Var(within=pyo.Integers, bounds=(0, 5))
    m.z = pyo.Var(bounds=(0, 9))
    m.low = pyo.Constraint(expr=3 * m.y >= 4)
    m.high = pyo.Constraint(expr=3 * m.y <= 5)
    m.free = pyo.Constraint(expr=m.y + m.z <= 8)
    found = find_conflict(m)
    assert set(found.constraints) == {"low", "high"}
    check_irreducible(m, found)


@pytest.mark.parametrize("seed", range(6))
def test_random_conflicts_are_irreducible(seed):
    rng = np.random.default_rng(seed)
    m = pyo.ConcreteModel()
    m.x = pyo.Var(range(5), bounds=(-4, 4))
    rows = rng.integers(-3, 4, (14, 5))
    m.rows = pyo.ConstraintList()
    for row, side in zip(rows, rng.integers(-6, 3, 14), strict=True):
        m.rows.add(
            sum(int(a) * m.x[j] for j, a in enumerate(row)) + 0.5 * m.x[0] <= int(side)
        )
    m.last = pyo.Constraint(expr=m.x[0] + m.x[1] + m.x[2] >= 12)
    m.cap = pyo.Constraint(expr=m.x[0] - m.x[3] <= -5)
    found = find_conflict(m)
    assert found.irreducible
    check_irreducible(m, found)


def test_the_errors_of_decisions_and_recourse_explain_themselves():
    m = newsvendor.build()
    m.least = pyo.Constraint(expr=m.sold >= 18.0)
    with pytest.raises(csg.SolveError, match=r"error\.explain\(\) names") as caught:
        csg.Oracle(m).solve([[30.0], [12.0]])
    found = caught.value.explain()
    assert all("scenario[2]" in name for name in found.constraints)
    assert {name.split(".")[-1] for name in found.constraints} >= {"least"}
    with pytest.raises(csg.SolveError) as caught:
        csg.Oracle(m).cost([[10.0]], [[30.0]])
    names = {name.split(".")[-1] for name in caught.value.explain().constraints}
    assert "least" in names


def test_a_policys_error_names_the_conflict():
    from tests.quick import fit

    m = newsvendor.build()
    m.least = pyo.Constraint(expr=m.order >= 500 * m.demand)
    contexts, demands = newsvendor.sample(30, 1)
    policy = fit((contexts, demands), m, method="mmd")
    with pytest.raises(csg.SolveError) as caught:
        policy.decide(contexts[0])
    found = caught.value.explain()
    assert any("least" in name for name in found.constraints)
    assert "order" in found.bounds


def test_what_cannot_be_explained_is_said(shop):
    shop.pair.deactivate()
    with pytest.raises(csg.CsgError, match="The program is feasible"):
        find_conflict(shop)
    shop.square = pyo.Constraint(expr=shop.x[0] ** 2 <= -1)
    with pytest.raises(csg.CsgError, match="'square' is not linear"):
        find_conflict(shop)
    with pytest.raises(csg.CsgError, match="not infeasible, but 'time limit'"):
        csg.SolveError(0, "time limit").explain()
    error = pickle.loads(pickle.dumps(csg.SolveError(0, "infeasible", program=int)))
    with pytest.raises(csg.CsgError, match="not available in this process"):
        error.explain()


def test_large_programs_are_explained_in_few_steps():
    m = cep1.build()
    m.impossible = pyo.Constraint(
        expr=sum(m.component_map(pyo.Var)["operated"].values()) >= 1e9
    )
    outcomes = np.tile(cep1.sample(1, 1)[1], (20, 1))
    with pytest.raises(csg.SolveError) as caught:
        csg.Oracle(m).solve(outcomes)
    found = caught.value.explain()
    assert found.irreducible and len(found.constraints) < 12
    assert len(list(itertools.chain(found.constraints, found.bounds))) == len(
        found.lines
    )
