"""Programs whose units differ a lot within one model have right answers, or say why not."""

import numpy as np
import pyomo.environ as pyo
import pytest

import pyomo_csg as csg


def cover(small, kind=pyo.Reals):
    """Return a purchase y now, and one later of z in a unit that is ``small`` beside y's."""
    m = pyo.ConcreteModel("cover")
    m.demand = pyo.Param(mutable=True, initialize=1.0)
    m.y = pyo.Var(bounds=(0, 3), domain=kind)
    m.z = pyo.Var(bounds=(0, None))
    m.served = pyo.Constraint(expr=m.y + m.z / small >= m.demand)
    m.cost = pyo.Objective(expr=2 * m.y + 3 * m.z / small)
    csg.annotate(m, first_stage_variables=m.y, uncertain_params=m.demand)
    return m


@pytest.mark.parametrize("kind", [pyo.Reals, pyo.Integers], ids=["linear", "integer"])
@pytest.mark.parametrize("small", [1e-12, 1.0, 1e10, 1e12, 1e15])
def test_a_recourse_in_a_small_unit_is_solved(small, kind):
    oracle, zeta = csg.Oracle(cover(small, kind)), [[4.5], [2.0]]
    # A unit saves 3 later in half of the cases above 2, and costs 2.
    assert oracle.solve(zeta).value == pytest.approx(4 + 0.5 * 7.5)
    assert oracle.loss([zeta], [[3.5]]) == pytest.approx([4 + 4.5])
    assert oracle.loss([zeta], [[3.5]], "recourse") == pytest.approx([4 + 4.5])
    assert oracle.cost([[1.0]], [[3.5]]) == pytest.approx([2 + 7.5])
    assert oracle.loss_gradient([zeta], [[3.5]]).loss == pytest.approx([4 + 4.5])


def without_recourse_variables(quantity):
    m = pyo.ConcreteModel("stock")
    m.demand = pyo.Param(mutable=True, initialize=quantity)
    m.y = pyo.Var(bounds=(0, 5 * quantity))
    m.served = pyo.Constraint(expr=m.y >= m.demand)
    m.cost = pyo.Objective(expr=m.y / quantity)
    csg.annotate(m, first_stage_variables=m.y, uncertain_params=m.demand)
    return m


@pytest.mark.parametrize("quantity", [1e-9, 1e-6, 1.0, 1e9])
def test_a_decision_that_serves_too_little_is_infeasible_in_any_unit(quantity):
    oracle = csg.Oracle(without_recourse_variables(quantity))
    decisions = quantity * np.array([[0.999], [1.0], [2.0]])
    costs = oracle.cost(decisions, [[quantity]] * 3, on_error="record")
    assert costs == pytest.approx([np.nan, 1, 2], nan_ok=True)
    assert [failure.status for failure in oracle.failures] == ["infeasible"]


def bounded(quantity):
    m = pyo.ConcreteModel("bounded")
    m.demand = pyo.Param(mutable=True, initialize=quantity)
    m.y = pyo.Var(range(2), bounds=(0, quantity))
    m.s = pyo.Var(bounds=(0, None))
    m.budget = pyo.Constraint(expr=m.y[0] + m.y[1] <= 1.5 * quantity)
    m.served = pyo.Constraint(expr=m.y[0] + m.y[1] + m.s >= m.demand)
    m.cost = pyo.Objective(expr=(m.y[0] + m.y[1] + 3 * m.s) / quantity)
    csg.annotate(m, first_stage_variables=m.y, uncertain_params=m.demand)
    return m


@pytest.mark.parametrize("quantity", [1e-9, 1e-6, 1.0, 1e9])
def test_a_decision_is_compared_with_the_first_stage_in_any_unit(quantity):
    oracle = csg.Oracle(bounded(quantity))
    decisions = quantity * np.array([[1.1, 0.0], [0.9, 0.9], [0.9, 0.6], [-0.01, 0.5]])
    costs = oracle.cost(decisions, [[3 * quantity]] * 4, on_error="record")
    assert costs == pytest.approx([np.nan, np.nan, 6, np.nan], nan_ok=True)
    assert {failure.status for failure in oracle.failures} == {"infeasible"}


@pytest.mark.parametrize(
    "first, second",
    [
        (pyo.Reals, pyo.Reals),
        (pyo.Integers, pyo.Reals),
        (pyo.Reals, pyo.Integers),
        (pyo.Integers, pyo.Integers),
    ],
)
def test_a_model_of_bounds_alone_is_solved(first, second):
    m = pyo.ConcreteModel("bounds")
    m.most = pyo.Param(mutable=True, initialize=2.0)
    m.y = pyo.Var(bounds=(0, 3), domain=first)
    m.z = pyo.Var(bounds=(0, m.most), domain=second)
    m.cost = pyo.Objective(expr=2 * m.y - m.z)
    csg.annotate(m, first_stage_variables=m.y, uncertain_params=m.most)
    oracle, zeta = csg.Oracle(m), [[1.0], [2.0]]
    assert oracle.solve(zeta).value == pytest.approx(-1.5)
    assert oracle.loss([zeta], [[3.0]]) == pytest.approx([-3])
    assert oracle.cost([[1.0]], [[3.0]]) == pytest.approx([-1])
    assert oracle.loss_gradient([zeta], [[3.0]]).loss == pytest.approx([-3])


def free_column(cost):
    """Return a model with a recourse variable in no row, at a tiny cost and without a bound."""
    m = pyo.ConcreteModel("free column")
    m.demand = pyo.Param(mutable=True, initialize=1.0)
    m.y = pyo.Var(bounds=(0, 9))
    m.s, m.free = pyo.Var(bounds=(0, None)), pyo.Var(bounds=(0, None))
    m.served = pyo.Constraint(expr=m.y + m.s >= m.demand)
    m.cost = pyo.Objective(expr=m.y + 3 * m.s + cost * m.free)
    csg.annotate(m, first_stage_variables=m.y, uncertain_params=m.demand)
    return m


@pytest.mark.parametrize("cost", [-1e-12, -1e-14, -1e-16, 0.0, 1e-12])
def test_a_cost_that_is_rounding_beside_the_others_does_not_count(cost):
    oracle = csg.Oracle(free_column(cost))
    assert oracle.solve([[2.0]]).value == pytest.approx(2)
    assert oracle.loss([[[2.0]]], [[3.0]]) == pytest.approx([5])
    assert oracle.cost([[1.0]], [[3.0]]) == pytest.approx([7])
    assert oracle.loss_gradient([[[2.0]]], [[3.0]]).loss == pytest.approx([5])


@pytest.mark.parametrize("cost", [-1e-3, -1e-7])
def test_a_cost_that_is_no_rounding_makes_a_model_unbounded(cost):
    oracle = csg.Oracle(free_column(cost))
    for ask in (
        lambda: oracle.solve([[2.0]]),
        lambda: oracle.loss([[[2.0]]], [[3.0]]),
        lambda: oracle.cost([[1.0]], [[3.0]]),
        lambda: oracle.loss_gradient([[[2.0]]], [[3.0]]),
    ):
        with pytest.raises(csg.SolveError) as error:
            ask()
        assert error.value.status == "unbounded"


@pytest.mark.parametrize("entry", [0.0, 1e-13, 1.0])
def test_bounds_that_cross_are_infeasible_whatever_the_units_of_the_rows(entry):
    m = pyo.ConcreteModel("crossed")
    m.most = pyo.Param(mutable=True, initialize=1.0)
    m.y, m.z = pyo.Var(bounds=(0, 9)), pyo.Var(bounds=(0, m.most))
    m.x = pyo.Var(bounds=(0, 1))
    m.served = pyo.Constraint(expr=m.y + entry * m.z + m.most * m.x >= 1)
    m.cost = pyo.Objective(expr=m.y - 2 * m.z + m.x)
    csg.annotate(m, first_stage_variables=m.y, uncertain_params=m.most)
    oracle = csg.Oracle(m)
    costs = oracle.cost([[6.0], [6.0]], [[-2.0], [2.0]], on_error="record")
    assert costs == pytest.approx([np.nan, 2], nan_ok=True)
    assert [failure.status for failure in oracle.failures] == ["infeasible"]


def nothing_to_do(unused):
    """Return a quadratic model whose optimum is zero."""
    m = pyo.ConcreteModel("nothing")
    m.price = pyo.Param(mutable=True, initialize=1.0)
    m.y = pyo.Var(bounds=(-2, 3))
    if unused:
        m.free_of_charge = pyo.Var(bounds=(0, 4))
    m.bought, m.sold = pyo.Var(bounds=(0, None)), pyo.Var(bounds=(0, None))
    m.stock = pyo.Constraint(expr=m.bought - m.sold + 3 * m.y >= 0)
    cost = 3.0625 * m.y + 1.875 * m.y**2 + 10 * m.bought
    cost += (8 + 0.125 * m.price) * m.sold
    if unused:
        cost += 0.0 * m.free_of_charge
    m.cost = pyo.Objective(expr=cost)
    csg.annotate(m, first_stage_variables=m.y, uncertain_params=m.price)
    return m


@pytest.mark.parametrize("unused", [False, True])
def test_a_quadratic_optimum_of_zero_is_solved(unused):
    found = csg.Oracle(nothing_to_do(unused)).solve([[1.25], [0.0], [3.75]])
    assert found.value == pytest.approx(0, abs=1e-9)
    assert found.decision == pytest.approx([0], abs=1e-9)
