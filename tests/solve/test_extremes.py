"""Models on which solvers fail in silence: units, tiny weights, empty rows, near ties."""

from itertools import product

import numpy as np
import pyomo.environ as pyo
import pytest

import pyomo_csg as csg
from models import cep1


def two_stage(build, *first):
    """Return a model with one uncertain number ``d``; ``build`` adds all else."""
    m = pyo.ConcreteModel(name="extreme")
    m.d = pyo.Param(initialize=5.0, mutable=True, within=pyo.Reals)
    build(m)
    csg.annotate(
        m,
        first_stage_variables=[getattr(m, name) for name in first],
        uncertain_params=m.d,
    )
    return m


@pytest.mark.parametrize("entry", [None, 1e-10, 0.0])
def test_a_recourse_without_nonzeros_is_solved(entry):
    def build(m):
        m.entry = pyo.Param(initialize=entry or 0.0, mutable=True)
        m.y = pyo.Var(bounds=(0, 10))
        m.z = pyo.Var(bounds=(0, 1))
        more = 0 if entry is None else m.entry * m.z
        m.least = pyo.Constraint(expr=m.y + more >= m.d - 8)
        m.cost = pyo.Objective(expr=m.y - 2 * m.z)

    oracle = csg.Oracle(two_stage(build, "y"))
    assert oracle.loss([[[5.0], [6.0]]], [[5.5]]) == pytest.approx([-2])
    found = oracle.loss_gradient([[[9.0], [10.0]]], [[5.5]])
    assert found.loss == pytest.approx([0], abs=1e-9)
    assert found.gradient == pytest.approx(np.array([[[0.0], [1.0]]]))


def shortage(cost, quantity=1.0):
    def build(m):
        m.y = pyo.Var(bounds=(0, 100 * quantity))
        m.s = pyo.Var(bounds=(0, None))
        m.e = pyo.Var(bounds=(0, None))
        m.balance = pyo.Constraint(expr=m.y + m.s - m.e == m.d)
        bent = 0.01 * cost / quantity * m.s**2
        m.cost = pyo.Objective(expr=cost * (m.y + 3 * m.s + 0.5 * m.e) + bent)

    return two_stage(build, "y")


@pytest.mark.parametrize("cost", [1e-9, 1e-6, 1.0, 1e9])
@pytest.mark.parametrize("quantity", [1e-6, 1.0, 1e5, 1e9])
def test_a_quadratic_model_is_right_in_every_unit(cost, quantity):
    oracle = csg.Oracle(shortage(cost, quantity))
    zeta = quantity * np.array([[2.0], [4.0], [7.0]])
    found = oracle.solve(zeta, gradient=True)
    total = cost * quantity
    assert found.decision == pytest.approx([4 * quantity])
    # Mean of 4 + 1, 4 and 4 + 9 + 0.09.
    assert found.value == pytest.approx(total * (5 + 4 + 13.09) / 3)
    slopes = cost * np.array([[-0.5], [0.44], [3.06]]) / 3
    assert found.gradient == pytest.approx(slopes)
    assert oracle.loss(zeta[None], [[5 * quantity]]) == pytest.approx([7.01 * total])
    gradient = oracle.loss_gradient(zeta[None], [[5 * quantity]]).gradient
    assert gradient / cost == pytest.approx(np.array([[[0], [-2.02], [0]]]), abs=1e-9)


def test_a_curved_first_stage_is_solved():
    def build(m):
        m.y = pyo.Var(bounds=(0, 10))
        m.s = pyo.Var(bounds=(0, None))
        m.served = pyo.Constraint(expr=m.y + m.s >= m.d)
        m.cost = pyo.Objective(expr=0.001 * (m.y + 3 * m.s + m.y**2))

    found = csg.Oracle(two_stage(build, "y")).solve([[2.0], [4.0], [7.0]])
    assert found.decision == pytest.approx([1.0])
    assert found.value == pytest.approx(0.012)


@pytest.mark.parametrize("quantity", [1e-3, 1.0, 1e5, 1e9])
def test_a_free_quadratic_model_has_its_closed_form(quantity):
    def build(m):
        m.x = pyo.Var()
        m.z = pyo.Var()
        m.rest = pyo.Constraint(expr=m.z == m.d - m.x)
        m.cost = pyo.Objective(expr=m.x + m.z**2)

    rng = np.random.default_rng(0)
    zetas = quantity * rng.uniform(1, 2, (20, 3, 1))
    omegas = quantity * rng.uniform(1, 2, (20, 1))
    oracle = csg.Oracle(two_stage(build, "x"))
    x = zetas.mean(axis=1) - 0.5
    assert oracle.loss(zetas, omegas) == pytest.approx((x + (omegas - x) ** 2)[:, 0])
    found = oracle.loss_gradient(zetas, omegas)
    assert found.gradient[:, 0] == pytest.approx((1 - 2 * (omegas - x)) / 3)
    assert found.smooth.all()


@pytest.mark.parametrize("quantity", 10.0 ** np.arange(-9, 13, 3))
def test_labels_of_large_quantities_are_not_called_unbounded(quantity):
    def build(m):
        m.y = pyo.Var(bounds=(0, None))
        m.s = pyo.Var(bounds=(0, None))
        m.served = pyo.Constraint(expr=m.y + m.s >= m.d)
        m.cost = pyo.Objective(expr=m.y + 3 * m.s)

    rng = np.random.default_rng(1)
    zetas = quantity * rng.uniform(1, 2, (60, 3, 1))
    omegas = quantity * rng.uniform(1, 2, (60, 1))
    losses = csg.Oracle(two_stage(build, "y")).loss(zetas, omegas)
    # Everything from the second to the third demand is optimal.
    _, low, high = np.sort(zetas[:, :, 0]).T
    best = np.clip(omegas[:, 0], low, high)
    expected = best + 3 * np.maximum(omegas[:, 0] - best, 0)
    assert losses == pytest.approx(expected, rel=1e-9)


def cover(cost):
    def build(m):
        m.y = pyo.Var(range(3), domain=pyo.Binary)
        m.s = pyo.Var(bounds=(0, None))
        m.few = pyo.Constraint(expr=sum(m.y[i] for i in range(3)) <= 2)
        m.served = pyo.Constraint(
            expr=3 * m.y[0] + 5 * m.y[1] + 4 * m.y[2] + m.s >= m.d
        )
        prices = 2 * m.y[0] + 3 * m.y[1] + 2.9 * m.y[2] + 1.5 * m.s
        m.cost = pyo.Objective(expr=cost * prices)

    return two_stage(build, "y")


def cover_by_enumeration(cost, zeta, omega):
    def price(y, d):
        short = max(d - 3 * y[0] - 5 * y[1] - 4 * y[2], 0)
        return cost * (2 * y[0] + 3 * y[1] + 2.9 * y[2] + 1.5 * short)

    choices = [y for y in product((0, 1), repeat=3) if sum(y) <= 2]
    values = {y: np.mean([price(y, d) for d in zeta]) for y in choices}
    best = min(values.values())
    tied = [y for y, value in values.items() if value <= best * (1 + 1e-9)]
    return best, min(price(y, omega) for y in tied)


@pytest.mark.parametrize("cost", [1e-12, 1e-9, 1e-4, 1.0, 1e9])
def test_integer_models_are_right_at_any_cost_level(cost):
    rng = np.random.default_rng(0)
    zetas, omegas = 10 * rng.random((20, 3, 1)), 10 * rng.random((20, 1))
    oracle = csg.Oracle(cover(cost))
    expected = np.array(
        [
            cover_by_enumeration(cost, zeta[:, 0], omega[0])
            for zeta, omega in zip(zetas, omegas, strict=True)
        ]
    )
    assert oracle.solve(zetas).value == pytest.approx(expected[:, 0], rel=1e-9)
    assert oracle.loss(zetas, omegas) == pytest.approx(expected[:, 1], rel=1e-9)


def test_a_runner_up_is_no_tie():
    def build(m):
        m.y = pyo.Var(range(2), domain=pyo.Binary)
        m.s = pyo.Var(bounds=(0, None))
        m.one = pyo.Constraint(expr=m.y[0] + m.y[1] == 1)
        m.more = pyo.Constraint(expr=m.s >= m.d * m.y[0])
        m.cost = pyo.Objective(expr=1e-4 * m.y[0] + 1.1e-4 * m.y[1] + 1e-5 * m.s)

    oracle = csg.Oracle(two_stage(build, "y"))
    assert oracle.loss([[[0.5]]], [[40.0]]) == pytest.approx([5e-4])


def test_a_cost_is_the_same_alone_and_in_a_batch():
    def build(m):
        m.y = pyo.Var(bounds=(0, None))
        m.s = pyo.Var(bounds=(0, None))
        m.served = pyo.Constraint(expr=m.y + m.s >= m.d)
        m.cost = pyo.Objective(expr=m.y + 1e9 * m.s)

    model, near = two_stage(build, "y"), 1 + 9e-10
    (alone,) = csg.Oracle(model).cost([[1.0]], [[near]])
    outcomes = np.array([[0.5], [0.7], [near], [1e6], [2.0]])
    batch = csg.Oracle(model).cost(np.ones((5, 1)), outcomes)
    assert alone == pytest.approx(1.9, rel=1e-6)
    assert batch[2] == pytest.approx(alone, rel=1e-9)


def budgeted():
    def build(m):
        m.y = pyo.Var(bounds=(0, None))
        m.w = pyo.Var(bounds=(0, 3))
        m.s = pyo.Var(bounds=(0, None))
        m.budget = pyo.Constraint(expr=m.y + m.w <= 4)
        m.served = pyo.Constraint(expr=m.y + m.w + m.s >= m.d)
        m.cost = pyo.Objective(expr=m.y + m.w + 5 * m.s)

    return two_stage(build, "y", "w")


def test_a_decision_must_satisfy_the_first_stage():
    oracle = csg.Oracle(budgeted())
    with pytest.raises(
        csg.SolveError, match="violates constraint 'budget': 18 is above"
    ):
        oracle.cost([[9.0, 9.0]], [[3.0]])
    with pytest.raises(csg.SolveError, match="the bounds of 'w': 3.5 is above 3"):
        oracle.cost([[0.0, 3.5]], [[3.0]])
    decisions = [[9.0, 9.0], [1.0, 1.0], [1.0, 3.0 + 1e-9]]
    costs = oracle.cost(decisions, [[3.0]] * 3, on_error="record")
    assert costs == pytest.approx([np.nan, 7, 4], nan_ok=True)
    assert [failure.status for failure in oracle.failures] == ["infeasible"]
    unchecked = oracle.cost([[9.0, 9.0]], [[3.0]], check_first_stage=False)
    assert unchecked == pytest.approx([18])


@pytest.mark.parametrize("count", [50, 200])
def test_tiny_weights_are_solved(count):
    _, outcomes = cep1.sample(count, seed=1)
    weights = 10.0 ** np.random.default_rng(0).uniform(-13, 0, count)
    weights /= weights.sum()
    found = csg.Oracle(cep1.build()).solve(outcomes, weights)
    other = csg.Oracle(cep1.build(), solver="appsi_highs").solve(outcomes, weights)
    assert found.value == pytest.approx(other.value, rel=1e-8)
