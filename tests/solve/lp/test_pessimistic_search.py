"""The worst optimal decision, compared with closed forms and with vertices found by Pyomo."""

import numpy as np
import pyomo.environ as pyo
import pytest

import pyomo_csg as csg
from models import apl1p, cep1, mnv, newsvendor
from tests.solving import TIGHT, objective_of, transform


def _worst_of_random_vertices(model, scenarios, outcome, seed=0, directions=20):
    """Return the largest cost among optimal vertices found in random directions."""
    form = transform("extensive_form", model, scenarios=scenarios)
    solver = pyo.SolverFactory("highs")
    solver.solve(form, solver_options=TIGHT)
    objective = objective_of(form)
    value = pyo.value(objective)
    form.stay = pyo.Constraint(expr=objective.expr <= value + 1e-9 * abs(value))
    objective.deactivate()
    form.direction = pyo.Objective(expr=0.0)
    names = [v.name for v in csg.TwoStageModel(model).first_stage_variables]
    rng, decisions = np.random.default_rng(seed), []
    for _ in range(directions):
        weights = rng.normal(size=len(names))
        form.direction.expr = sum(
            w * form.find_component(name)
            for w, name in zip(weights, names, strict=True)
        )
        solver.solve(form, solver_options=TIGHT)
        decisions.append([form.find_component(name).value for name in names])
    outcomes = np.repeat(outcome[None], directions, axis=0)
    return csg.Oracle(model).cost(decisions, outcomes).max()


def test_newsvendor_with_an_interval_of_optimal_orders():
    """At the critical ratio 1/2 any order between two demands is optimal."""
    oracle = csg.Oracle(newsvendor.build(price=1.9))
    scenarios = np.array([[[10.0], [20.0]]] * 3)
    outcomes = np.array([[5.0], [14.0], [30.0]])
    worst = oracle.loss(scenarios, outcomes, "pessimistic")
    best = oracle.loss(scenarios, outcomes)
    assert worst == pytest.approx([20 - 1.9 * 5 - 1.5, 20 - 26.6 - 0.6, 10 - 19])
    assert best == pytest.approx([10 - 1.9 * 5 - 0.5, 14 - 26.6, 20 - 38])


@pytest.mark.parametrize("build", [cep1.build, apl1p.build])
@pytest.mark.parametrize("count", [1, 3])
def test_agrees_with_vertices_of_the_optimal_set(build, count):
    model, rng = build(), np.random.default_rng(count)
    nominal = [p.value for p in csg.TwoStageModel(model).uncertain_params]
    scenarios = rng.uniform(0.4, 1.0, (2, count, len(nominal))) * nominal
    outcomes = rng.uniform(0.4, 1.0, (2, len(nominal))) * nominal
    oracle = csg.Oracle(model)
    worst = oracle.loss(scenarios, outcomes, "pessimistic")
    found = [
        _worst_of_random_vertices(model, *case)
        for case in zip(scenarios, outcomes, strict=True)
    ]
    assert worst == pytest.approx(found, rel=1e-5)


def _two_goods():
    """Return a shop with two goods in which ordering costs as much as shortage."""
    m = pyo.ConcreteModel("two goods")
    m.goods = pyo.Set(initialize=[1, 2])
    m.demand = pyo.Param(m.goods, initialize=5.0, mutable=True)
    m.order = pyo.Var(m.goods, bounds=(0, 20))
    m.short = pyo.Var(m.goods, within=pyo.NonNegativeReals)
    m.over = pyo.Var(m.goods, within=pyo.NonNegativeReals)
    m.room = pyo.Constraint(expr=m.order[1] + m.order[2] <= 40)
    m.balance = pyo.Constraint(
        m.goods, rule=lambda m, i: m.order[i] + m.short[i] - m.over[i] == m.demand[i]
    )
    m.cost = pyo.Objective(expr=sum(m.order[i] + m.short[i] for i in m.goods))
    csg.annotate(m, first_stage_variables=m.order, uncertain_params=m.demand)
    return m


@pytest.mark.parametrize("seed", range(4))
def test_worst_corner_of_a_square_of_optima(seed):
    """Any order up to the smallest demand is optimal."""
    rng = np.random.default_rng(seed)
    zeta, omega = rng.uniform(2, 18, (2, 2)), rng.uniform(2, 18, 2)
    oracle = csg.Oracle(_two_goods())

    best, worst = (
        float(oracle.loss(zeta[None], omega[None], kind)[0])
        for kind in ("optimistic", "pessimistic")
    )

    corners = np.stack(np.meshgrid(*([0.0, low] for low in zeta.min(axis=0))), -1)
    orders = corners.reshape(-1, 2)
    worst_corner = (orders + np.maximum(omega - orders, 0)).sum(axis=1).max()
    assert worst == pytest.approx(worst_corner)
    assert best == pytest.approx(omega.sum())
    short = (zeta.min(axis=0) > omega).any()
    assert (worst > best + 1e-6) == short


def test_is_never_below_the_other_losses():
    oracle = csg.Oracle(newsvendor.build(price=1.9))
    rng = np.random.default_rng(0)
    demands = rng.uniform(10, 20, (40, 4, 1)), rng.uniform(10, 20, (40, 1))
    best, recourse, worst = (
        oracle.loss(*demands, kind)
        for kind in ("optimistic", "recourse", "pessimistic")
    )
    assert (best <= recourse + 1e-9).all() and (recourse <= worst + 1e-9).all()
    assert (best < recourse - 0.1).any() and (recourse < worst - 0.1).any()


def test_equals_the_optimistic_loss_if_decisions_are_unique():
    oracle = csg.Oracle(newsvendor.build())
    rng = np.random.default_rng(0)
    demands = rng.uniform(10, 20, (30, 2, 1)), rng.uniform(10, 20, (30, 1))
    assert np.allclose(oracle.loss(*demands, "pessimistic"), oracle.loss(*demands))
    assert oracle.stats.certified == 60


def _narrow():
    """Return a newsvendor who must sell every paper and can salvage at most 3."""
    m = newsvendor.build(price=1.9)
    m.room = pyo.Constraint(expr=m.salvaged <= 3)
    m.stock.set_value(m.sold + m.salvaged == m.order)
    return m


def test_optimal_decision_without_recourse_is_an_error():
    """The best optimal order has a recourse; the worst has none."""
    oracle = csg.Oracle(_narrow())
    scenarios, outcomes = np.array([[[10.0], [12.0]]]), np.array([[8.0]])
    assert oracle.loss(scenarios, outcomes) == pytest.approx([10 - 15.2 - 0.2])
    with pytest.raises(csg.SolveError, match="no recourse"):
        oracle.loss(scenarios, outcomes, "pessimistic")


def test_batch_continues_after_a_case_without_recourse():
    oracle = csg.Oracle(_narrow())
    scenarios = np.array([[[10.0], [12.0]]] * 2)
    outcomes = np.array([[8.0], [11.0]])
    found = oracle.loss(scenarios, outcomes, "pessimistic", on_error="record")
    assert np.isnan(found[0]) and found[1] == pytest.approx(10 - 19)
    assert [failure.status for failure in oracle.failures] == ["infeasible"]


def test_model_without_recourse_variables():
    m = pyo.ConcreteModel("plain")
    m.price = pyo.Param(mutable=True, initialize=1.0)
    m.y = pyo.Var([1, 2], bounds=(0, 1))
    m.one = pyo.Constraint(expr=m.y[1] + m.y[2] == 1)
    m.cost = pyo.Objective(expr=m.y[1] + m.price * m.y[2])
    csg.annotate(m, first_stage_variables=m.y, uncertain_params=m.price)
    found = csg.Oracle(m).loss([[[1.0]]], [[3.0]], "pessimistic")
    assert found == pytest.approx([3.0])


@pytest.mark.parametrize(
    ("oracle", "message"),
    [
        (lambda: csg.Oracle(mnv.build()), "integer variables"),
        (
            lambda: csg.Oracle(newsvendor.build(), solver="appsi_highs"),
            "solver='highs'",
        ),
    ],
)
def test_nonlinear_or_foreign_models_are_refused(oracle, message):
    oracle = oracle()
    size = len(oracle.two_stage.uncertain_params)
    with pytest.raises(csg.ModelError, match=message):
        oracle.loss(np.ones((1, 1, size)), np.ones((1, size)), "pessimistic")


def test_unknown_kind_is_refused():
    with pytest.raises(csg.DataError, match="'pessimistic'"):
        csg.Oracle(newsvendor.build()).loss([[[1.0]]], [[1.0]], "unknown")


@pytest.mark.parametrize("price", [1e-8, 1.0, 1e8])
@pytest.mark.parametrize("quantity", [1e-6, 1.0, 1e6])
def test_the_worst_decision_is_the_same_in_other_units(price, quantity):
    m = pyo.ConcreteModel("units")
    m.d = pyo.Param(range(3), mutable=True, initialize=1.0)
    m.y = pyo.Var(range(2), bounds=(0, 6 * quantity))
    m.z = pyo.Var(range(3), bounds=(0, None))
    # Both first-stage variables serve the last row at one cost: the first serves no other.
    m.a = pyo.Constraint(expr=2 * m.y[1] + (m.z[0] + m.z[1] + m.z[2]) / 10 >= m.d[0])
    m.b = pyo.Constraint(expr=m.y[1] + (m.z[1] + m.z[2]) / 10 >= m.d[1])
    m.c = pyo.Constraint(expr=m.y[0] + m.y[1] + m.z[2] / 10 >= m.d[2])
    recourse = 0.9 * m.z[0] + m.z[1] + m.z[2]
    m.cost = pyo.Objective(expr=price * (5 * m.y[0] + 5 * m.y[1] + recourse))
    csg.annotate(m, first_stage_variables=m.y, uncertain_params=m.d)
    zeta, omega = quantity * np.array([[[0.0, 0.0, 4.0]]]), np.array([[4.0, 4.0, 4.0]])
    worst = csg.Oracle(m).loss(zeta, quantity * omega, "pessimistic")
    best = csg.Oracle(m).loss(zeta, quantity * omega)
    # Buying 4 of the second serves all rows; buying the first leaves 4 to buy for 10 each.
    assert best / (price * quantity) == pytest.approx([20])
    assert worst / (price * quantity) == pytest.approx([20 + 40])
