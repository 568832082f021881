"""Lemma 2's constants on small models: closed forms, and never exceeded by what is drawn."""

import numpy as np
import pyomo.environ as pyo
import pytest

import pyomo_csg as csg
from models import cep1, farmer, mnv, newsvendor
from pyomo_csg.guarantees import cost_range, task_constants
from pyomo_csg.guarantees.paper import constants
from pyomo_csg.guarantees.paper.constants import (
    read_support,
    right_hand_side_model,
)

LOW, HIGH = 10.0, 20.0


def shop(short=4.0, over=1.0, most=30.0):
    """Return a model of simple recourse in two goods: shortage and surplus both cost."""
    m = pyo.ConcreteModel("shop")
    m.goods = pyo.Set(initialize=[1, 2])
    m.demand = pyo.Param(m.goods, mutable=True, initialize=15.0)
    m.made = pyo.Var(m.goods, bounds=(0, most))
    m.short = pyo.Var(m.goods, within=pyo.NonNegativeReals)
    m.over = pyo.Var(m.goods, within=pyo.NonNegativeReals)
    m.balance = pyo.Constraint(
        m.goods, rule=lambda m, i: m.made[i] + m.short[i] - m.over[i] == m.demand[i]
    )
    m.shelf = pyo.Constraint(expr=sum(m.made.values()) <= 1.5 * most)
    m.cost = pyo.Objective(
        expr=sum(m.made[i] + short * m.short[i] + over * m.over[i] for i in m.goods)
    )
    csg.annotate(m, first_stage_variables=m.made, uncertain_params=m.demand)
    return m


@pytest.mark.parametrize("count", [1, 2, 3])
def test_the_newsvendor_agrees_with_the_closed_form(count):
    """Prices of demand are 0 or 0.95; the value's slopes are -0.05 and 0.9."""
    found = task_constants(newsvendor.build(), count, (LOW, HIGH))
    assert found.u_pi == pytest.approx(0.95)
    assert found.l_v == pytest.approx(0.95 / np.sqrt(count))
    assert found.penalty == pytest.approx(18.0)
    # The most robust order is 10, and the way from a scenario to the outcome is 10, too.
    assert (found.lower, found.upper) == pytest.approx((-1.0, -0.5 + 9.5))
    assert found.l_lemma == pytest.approx(found.l_prime * np.hypot(1, found.l_v))
    assert found.l_scenarios <= found.l_opt <= found.l_lemma


def test_recourse_is_complete_or_only_relatively_so():
    assert task_constants(shop(), 1, (LOW, HIGH)).complete
    assert not task_constants(newsvendor.build(), 1, (LOW, HIGH)).complete


def test_duals_of_simple_recourse_are_its_costs():
    found = task_constants(shop(), 1, (LOW, HIGH))
    assert found.u_pi == pytest.approx(np.hypot(4, 4))


@pytest.mark.parametrize(
    ("build", "count"), [(newsvendor.build, 1), (newsvendor.build, 3), (shop, 1)]
)
def test_random_draws_never_exceed_a_constant(build, count):
    model = build()
    found, oracle = task_constants(model, count, (LOW, HIGH)), csg.Oracle(model)
    rng, n, p = (
        np.random.default_rng(count),
        150,
        len(oracle.two_stage.uncertain_params),
    )
    one = rng.uniform(LOW, HIGH, (n, count, p))
    other = np.clip(one + rng.normal(0, 0.5, one.shape), LOW, HIGH)
    omegas = rng.uniform(LOW, HIGH, (2, n, p))
    apart = np.linalg.norm((one - other).reshape(n, -1), axis=1)
    moved = np.linalg.norm(omegas[0] - omegas[1], axis=1)
    values = [oracle.solve(zeta).value for zeta in (one, other)]
    losses = [oracle.loss(zeta, omegas[0]) for zeta in (one, other)]
    decisions = oracle.solve(one).decision
    costs = [oracle.cost(decisions, omega) for omega in omegas]
    both = oracle.loss(other, omegas[1])

    assert (np.abs(values[0] - values[1]) <= found.l_v * apart + 1e-7).all()
    assert (np.abs(costs[0] - costs[1]) <= found.u_pi * moved + 1e-7).all()
    assert (np.abs(losses[0] - losses[1]) <= found.l_scenarios * apart + 1e-7).all()
    together = np.hypot(apart, moved)
    assert (np.abs(losses[0] - both) <= found.l_opt * together + 1e-7).all()
    assert (found.lower - 1e-7 <= np.array(losses)).all()
    assert (np.array(losses) <= found.upper + 1e-7).all()
    # They are not idle, either: something comes near to them.
    assert np.max(np.abs(values[0] - values[1]) / apart) > found.l_v / 25
    assert np.max(np.abs(costs[0] - costs[1]) / moved) > found.u_pi / 2


def test_the_penalty_is_exact_and_a_smaller_one_is_not(by_hand):
    """Where y costs c(y) under the outcome and V(y) on the scenarios, by enumeration."""
    penalty = task_constants(newsvendor.build(), 2, (LOW, HIGH)).penalty
    rng, orders = np.random.default_rng(0), np.linspace(0, 60, 6001)
    oracle, short = csg.Oracle(newsvendor.build()), []
    for _ in range(40):
        zeta, omega = rng.uniform(LOW, HIGH, 2).round(2), rng.uniform(LOW, HIGH)
        planned = np.mean([by_hand(orders, z) for z in zeta], axis=0)
        regret, cost = planned - planned.min(), by_hand(orders, omega)
        loss = oracle.loss(zeta[None, :, None], [[omega]])[0]
        assert (cost + penalty * regret).min() == pytest.approx(loss, abs=0.02)
        short.append(loss - (cost + 0.05 * penalty * regret).min())
    assert max(short) > 0.1


def test_the_range_is_met_at_corners_of_the_support():
    """With every decision on a grid and every outcome at a corner."""
    model = shop()
    low, high = cost_range(model, (LOW, HIGH))
    oracle = csg.Oracle(model)
    corners = np.array([[a, b] for a in (LOW, HIGH) for b in (LOW, HIGH)])
    scenarios = np.random.default_rng(0).uniform(LOW, HIGH, (200, 1, 2))
    decisions = oracle.solve(scenarios).decision
    costs = [oracle.cost(decisions, np.repeat(c[None], 200, axis=0)) for c in corners]
    assert low == pytest.approx(20.0)
    assert low <= np.min(costs) and np.max(costs) <= high
    assert np.max(costs) > 0.6 * high


def test_a_cost_range_can_be_passed_to_certify(policy, held_out):
    bounds = cost_range(newsvendor.build())
    assert bounds == pytest.approx((-3.0, 54.0))
    found = policy.certify(held_out, cost_range=bounds, against={}, gaps=False)
    assert found.cost.method == "bernstein"


def test_an_unbounded_support_has_an_unbounded_range():
    assert cost_range(cep1.build())[1] == np.inf


def test_too_many_bases_leave_the_penalty_unknown_and_the_rest_known(monkeypatch):
    monkeypatch.setattr(constants, "_MAX_BASES", 50)
    found = task_constants(cep1.build(), 1, (0.0, 5000.0))
    assert found.penalty == found.l_opt == np.inf
    assert found.u_pi == pytest.approx(400 * np.sqrt(3)) and found.vertices == 100


def test_a_table_names_each_constant():
    text = str(task_constants(newsvendor.build(), 2, (LOW, HIGH)))
    assert "relatively complete" in text and "largest cut multiplier" in text
    assert "U_Pi                    0.95" in text


def _unbounded():
    return shop(short=-4.0, over=1.0)


def _narrow():
    m = newsvendor.build()
    m.least = pyo.Constraint(expr=m.sold >= 12)
    return m


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (farmer.build, "coefficients of its constraints are uncertain"),
        (mnv.build, "integer variables"),
        (_unbounded, "Assumption 5"),
        (_narrow, "Assumption 4"),
    ],
)
def test_models_outside_the_paper_s_class_are_refused(build, says):
    with pytest.raises(csg.ModelError, match=says):
        task_constants(build(), 1, (LOW, HIGH))


def test_dual_feasibility_and_complete_recourse_are_checked_by_programs():
    two_stage = csg.TwoStageModel(shop())
    arrays, box = right_hand_side_model(two_stage), read_support(two_stage, (LOW, HIGH))
    assert len(arrays.dual_polyhedron(box).vertices) and arrays.has_complete_recourse()
    unbounded = right_hand_side_model(csg.TwoStageModel(_unbounded()))
    with pytest.raises(csg.ModelError, match="Assumption 5"):
        unbounded.dual_polyhedron(box)


@pytest.mark.parametrize(
    ("support", "says"),
    [((5.0, 1.0), "from 5.0 to 1.0"), (3.0, "give \\(lower, upper\\)")],
)
def test_a_bad_support_is_refused(support, says):
    with pytest.raises(csg.DataError, match=says):
        task_constants(newsvendor.build(), 1, support)
