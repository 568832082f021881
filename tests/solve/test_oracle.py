"""csg.Oracle against the transformed Pyomo models, scipy and closed forms."""

import numpy as np
import pandas as pd
import pyomo.environ as pyo
import pytest
from hypothesis import given, settings

import pyomo_csg as csg
from models import cep1, farmer, mnv, newsvendor
from pyomo_csg.solve.lp import face_search
from tests.solving import solve, transform
from tests.transform.test_properties import Matrices, cases, columns, usable_model
from tests.zoo import ZOO, scenarios

WEIGHTS = [0.5, 0.2, 0.3]
LINEAR = [name for name in ZOO if name not in ("quadratic", "cross_products")]


def batch(model, count=4, k=3):
    """Return scenarios (count, k, p) and outcomes (count, p)."""
    return (
        np.array([scenarios(model, k, seed) for seed in range(count)]),
        np.array([scenarios(model, 1, seed + 100)[0] for seed in range(count)]),
    )


@pytest.mark.parametrize("name", LINEAR)
def test_values_losses_and_costs_are_those_of_the_pyomo_programs(name):
    model = ZOO[name]()
    sense = int(csg.TwoStageModel(model).sense)
    zetas, omegas = batch(model)
    oracle = csg.Oracle(model)
    solution = oracle.solve(zetas, WEIGHTS)
    losses = oracle.loss(zetas, omegas, weights=WEIGHTS, on_error="record")
    costs = oracle.cost(solution.decision, omegas, on_error="record")
    assert np.isfinite(losses).sum() >= 2
    for i, (zeta, omega) in enumerate(zip(zetas, omegas, strict=True)):
        ef = transform("extensive_form", model, scenarios=zeta, weights=WEIGHTS)
        value = solve(ef)
        assert solution.value[i] == pytest.approx(value, rel=1e-7, abs=1e-7)
        if np.isnan(losses[i]):
            continue
        search = transform(
            "opt_search",
            model,
            scenarios=zeta,
            weights=WEIGHTS,
            outcome=omega,
            optimal_value=value,
        )
        assert losses[i] == pytest.approx(sense * solve(search), rel=1e-6, abs=1e-6)
        if not np.isnan(costs[i]):
            recourse = transform(
                "recourse", model, decision=solution.decision[i], outcome=omega
            )
            assert costs[i] == pytest.approx(
                sense * solve(recourse), rel=1e-7, abs=1e-7
            )
            assert losses[i] <= costs[i] + 1e-7 * max(1, abs(costs[i]))


@pytest.mark.parametrize("name", ["quadratic", "cross_products"])
def test_quadratic_objectives_give_the_values_of_the_pyomo_programs(name):
    model = ZOO[name]()
    zetas, omegas = batch(model)
    oracle = csg.Oracle(model)
    solution = oracle.solve(zetas, WEIGHTS)
    losses = oracle.loss(zetas, omegas, weights=WEIGHTS)
    costs = oracle.cost(solution.decision, omegas)
    for i, (zeta, omega) in enumerate(zip(zetas, omegas, strict=True)):
        ef = transform("extensive_form", model, scenarios=zeta, weights=WEIGHTS)
        assert solution.value[i] == pytest.approx(solve(ef), rel=1e-6)
        recourse = transform(
            "recourse", model, decision=solution.decision[i], outcome=omega
        )
        assert costs[i] == pytest.approx(solve(recourse), rel=1e-6)
    assert losses == pytest.approx(costs, rel=1e-6)  # the cost curves in y


def test_the_search_holds_for_a_quadratic_recourse_with_many_optimal_decisions():
    m = many_optima()
    m.cost.set_value(m.y[1] + m.y[2] + m.short[1] ** 2 + m.short[2] ** 2)
    oracle = csg.Oracle(m)
    losses = oracle.loss(np.full((2, 1, 2), 2.0), [[2.0, 8.0], [8.0, 2.0]])
    assert losses == pytest.approx([10, 10], abs=1e-4)


@settings(max_examples=60)
@given(cases())
def test_values_and_losses_are_those_of_hand_made_matrices(case):
    oracle = csg.Oracle(usable_model(case))
    zetas = columns(case, case.scenarios)
    optimum, _ = Matrices(case, case.scenarios).solve(case.weights)
    found = oracle.solve(zetas, case.weights)
    assert found.value == pytest.approx(optimum, rel=1e-6, abs=1e-6)
    (loss,) = oracle.loss(
        zetas[None], columns(case, case.outcome)[None], weights=case.weights
    )
    near, far = (searched(case, optimum, slack) for slack in (1e-7, 2e-7))
    theirs = case.sense * (2 * near - far)  # linear in the slack, so exact at none
    assert loss == pytest.approx(theirs, rel=1e-5, abs=1e-5)


def searched(case, optimum, slack):
    """Return Opt-Search's optimum by hand, its cut being this slack."""
    matrices = Matrices(case, [*case.scenarios, case.outcome])
    row, constant = matrices.cost([*case.weights, 0.0])
    matrices.a_ub.append(row)
    matrices.b_ub.append(case.sense * optimum + slack * max(1, abs(optimum)) - constant)
    value, _ = matrices.solve([*np.zeros(len(case.weights)), 1.0])
    return value


def test_the_newsvendor_orders_the_critical_quantile():
    oracle = csg.Oracle(newsvendor.build())
    demands = np.random.default_rng(0).uniform(5, 40, (50, 80, 1))
    ratio = (1.05 - 1.0) / (1.05 - 0.1)
    expected = np.quantile(demands[:, :, 0], ratio, axis=1, method="inverted_cdf")
    assert oracle.solve(demands).decision[:, 0] == pytest.approx(expected)


def test_the_newsvendors_cost_has_a_closed_form():
    oracle = csg.Oracle(newsvendor.build())
    rng = np.random.default_rng(1)
    orders, demands = rng.uniform(0, 60, (300, 1)), rng.uniform(0, 60, (300, 1))
    sold = np.minimum(orders, demands)
    expected = orders - 1.05 * sold - 0.1 * (orders - sold)
    assert oracle.cost(orders, demands) == pytest.approx(expected[:, 0], abs=1e-9)


@pytest.mark.parametrize("k", [1, 80])
def test_one_scenario_and_eighty_are_as_good(k):
    model = cep1.build()
    zetas, omegas = batch(model, count=2, k=k)
    oracle = csg.Oracle(model)
    values = oracle.solve(zetas).value
    expected = [solve(transform("extensive_form", model, scenarios=z)) for z in zetas]
    assert values == pytest.approx(expected, rel=1e-9)
    assert (
        oracle.loss(zetas, omegas) <= oracle.loss(zetas, omegas, "recourse") + 1e-6
    ).all()


def many_optima():
    """Any split of 10 units over two plants is optimal; the outcome prefers the second."""
    m = pyo.ConcreteModel("many_optima")
    m.w = pyo.Param([1, 2], mutable=True, initialize=5.0)
    m.y = pyo.Var([1, 2], bounds=(0, 10))
    m.short = pyo.Var([1, 2], within=pyo.NonNegativeReals)
    m.total = pyo.Constraint(expr=m.y[1] + m.y[2] == 10)
    m.need = pyo.Constraint([1, 2], rule=lambda m, i: m.y[i] + m.short[i] >= m.w[i])
    m.cost = pyo.Objective(expr=m.y[1] + m.y[2] + 4 * (m.short[1] + m.short[2]))
    csg.annotate(m, first_stage_variables=m.y, uncertain_params=m.w)
    return m


def test_the_best_of_many_optimal_decisions_counts():
    oracle = csg.Oracle(many_optima())
    zetas = np.full((2, 1, 2), 2.0)  # any y from (2, 8) to (8, 2) serves these
    omegas = np.array([[2.0, 8.0], [8.0, 2.0]])
    optimistic = oracle.loss(zetas, omegas)
    at_hand = oracle.loss(zetas, omegas, "recourse")
    assert optimistic == pytest.approx([10.0, 10.0])
    assert (at_hand > optimistic + 1).any()
    assert oracle.audit.cases == 2 and oracle.audit.certified == 0
    assert oracle.audit.worst > 0.1


def test_the_audit_finds_nothing_where_decisions_are_unique():
    oracle = csg.Oracle(cep1.build())
    oracle.loss(*batch(cep1.build(), count=30), kind="recourse")
    assert oracle.audit == csg.solve.Audit(certified=30, cases=0, worst=0.0)


def test_a_maximized_model_has_values_in_its_own_sense_and_losses_to_be_minimized():
    model = mnv.build()
    zetas, omegas = batch(model, count=1)
    oracle = csg.Oracle(model)
    assert oracle.solve(zetas[0]).value > 0
    assert oracle.loss(zetas, omegas)[0] < 0


def test_one_set_of_scenarios_or_a_data_frame_gives_one_solution():
    oracle = csg.Oracle(farmer.build())
    frame = pd.DataFrame(
        farmer.scenarios(),
        columns=[f"crop_yield[{crop}]" for crop in ("wheat", "corn", "beets")],
    )
    for given_scenarios in (farmer.scenarios(), frame):
        solution = oracle.solve(given_scenarios)
        assert solution.value == pytest.approx(-108390)
        assert solution.decision == pytest.approx([170, 80, 250])
        assert solution.status == "optimal"


def test_the_same_answers_come_in_any_order_and_any_mix_of_k():
    model = cep1.build()
    zetas, omegas = batch(model, count=40)
    oracle = csg.Oracle(model)
    losses = oracle.loss(zetas, omegas)
    oracle.loss(*batch(model, count=5, k=7))
    order = np.random.default_rng(0).permutation(40)
    assert oracle.loss(zetas[order], omegas[order]) == pytest.approx(
        losses[order], rel=1e-12
    )


def test_asking_again_with_scenarios_that_moved_a_little_takes_few_pivots():
    model = cep1.build()
    zetas, omegas = batch(model, count=60, k=5)
    oracle = csg.Oracle(model)
    oracle.loss(zetas, omegas)
    first = oracle.stats.iterations
    oracle.loss(1.001 * zetas, omegas)
    assert oracle.stats.iterations - first < first / 3


@pytest.mark.parametrize("workers", [1, 2])
def test_cases_find_their_basis_by_their_keys_in_any_order(workers):
    model = cep1.build()
    zetas, omegas = batch(model, count=60, k=5)
    oracle = csg.Oracle(model, workers=workers)
    losses = oracle.loss(zetas, omegas, keys=np.arange(60))
    first = oracle.stats.iterations
    for part in np.split(np.random.default_rng(0).permutation(60), 4):
        again = oracle.loss(1.0001 * zetas[part], omegas[part], keys=part)
        assert again == pytest.approx(losses[part], rel=1e-2)
    assert oracle.stats.iterations - first < first / 3


def test_bases_are_reused_for_costs():
    oracle = csg.Oracle(cep1.build())
    decision = oracle.solve(cep1.higle_sen_scenarios()).decision
    before = oracle.stats.solves
    costs = oracle.cost(decision, cep1.higle_sen_scenarios())
    assert costs.mean() == pytest.approx(355159.9537, rel=1e-9)
    assert oracle.stats.solves - before < 40
    assert oracle.stats.cache_hits > 170


def test_stats_count_what_was_done():
    oracle = csg.Oracle(cep1.build())
    oracle.loss(*batch(cep1.build(), count=20))
    stats = oracle.stats
    assert stats.solves >= 20 and stats.certified + stats.solves >= 40
    assert 0 < stats.solver_seconds < stats.total_seconds


def test_any_appsi_solver_gives_the_same_answers():
    model = cep1.build()
    zetas, omegas = batch(model)
    direct, through = csg.Oracle(model), csg.Oracle(model, solver="appsi_highs")
    assert through.solve(zetas, WEIGHTS).value == pytest.approx(
        direct.solve(zetas, WEIGHTS).value, rel=1e-8
    )
    assert through.loss(zetas, omegas) == pytest.approx(
        direct.loss(zetas, omegas), rel=1e-6
    )
    decisions = direct.solve(zetas).decision
    assert through.cost(decisions, omegas) == pytest.approx(
        direct.cost(decisions, omegas), rel=1e-8
    )
    with pytest.raises(csg.ModelError, match="gives no gradient"):
        through.loss_gradient(zetas, omegas)
    with pytest.raises(csg.ModelError, match="highs"):
        csg.Oracle(model, solver="appsi_hihgs")


def ranged(cost):
    """One recourse variable between two uncertain sides."""
    m = pyo.ConcreteModel("ranged")
    m.w = pyo.Param([1, 2], mutable=True, initialize=1.0)
    m.y = pyo.Var(bounds=(0, 1))
    m.z = pyo.Var(bounds=(0, None))
    m.c = pyo.Constraint(expr=pyo.inequality(m.w[1], m.z, m.w[2]))
    m.o = pyo.Objective(expr=m.y + cost * m.z)
    csg.annotate(m, first_stage_variables=m.y, uncertain_params=m.w)
    return m


def test_a_basis_found_where_two_sides_meet_is_not_taken_where_they_do_not():
    oracle = csg.Oracle(ranged(-1))
    assert oracle.cost([0.0], [[1, 1], [1, 9]]) == pytest.approx([-1, -9])
    assert oracle.loss([[[1, 9]]] * 2, [[1, 1], [1, 9]]) == pytest.approx([-1, -9])


def test_sides_that_cross_are_infeasible_and_not_a_basis_for_others():
    costs = csg.Oracle(ranged(1)).cost(
        [0.0], [[1, 2], [3, 2], [2, 2]], on_error="record"
    )
    assert costs == pytest.approx([1, np.nan, 2], nan_ok=True)


@pytest.mark.parametrize("scale", [1e-8, 1e-4, 1e4, 1e8])
@pytest.mark.parametrize("k", [5, 80])
def test_decisions_do_not_depend_on_the_unit_of_cost(scale, k):
    m = newsvendor.build()
    m.cost.set_value(scale * m.cost.expr)
    demands = np.random.default_rng(0).uniform(5, 40, (20, k, 1))
    omegas = demands[:, 0]
    plain, scaled = csg.Oracle(newsvendor.build()), csg.Oracle(m)
    assert scaled.solve(demands).decision == pytest.approx(
        plain.solve(demands).decision
    )
    assert scaled.loss(demands, omegas) == pytest.approx(
        scale * plain.loss(demands, omegas), rel=1e-6, abs=1e-9 * scale
    )


@pytest.mark.parametrize("function", [abs, pyo.ceil, pyo.floor])
def test_steps_and_kinks_of_params_can_be_compiled(function):
    m = newsvendor.build()
    m.market.set_value(m.sold <= function(m.demand) + 0.5)
    oracle = csg.Oracle(m)
    expected = pyo.value(function(7.3)) + 0.5
    assert oracle.solve([[7.3]], gradient=True).decision == pytest.approx([expected])


def test_a_model_in_which_nothing_is_left_to_choose():
    m = pyo.ConcreteModel("no_recourse")
    m.w = pyo.Param(mutable=True, initialize=5.0)
    m.y = pyo.Var(bounds=(0, 10))
    m.c = pyo.Constraint(expr=m.y >= m.w)
    m.o = pyo.Objective(expr=m.y + 2 * m.w)
    csg.annotate(m, first_stage_variables=m.y, uncertain_params=m.w)
    oracle = csg.Oracle(m)
    assert oracle.solve([[3.0], [5.0]]).decision == pytest.approx([5])
    costs = oracle.cost([5.0], [[4.0], [6.0]], on_error="record")
    assert costs == pytest.approx([13, np.nan], nan_ok=True)


def in_units(model, units):
    """Multiply every constraint by its unit, which changes no point's cost."""
    for constraint, unit in zip(
        model.component_data_objects(pyo.Constraint), units, strict=True
    ):
        lower, body, upper = constraint.to_bounded_expression()
        low, high = (None if s is None else unit * s for s in (lower, upper))
        constraint.set_value((low, unit * body, high))
    return model


@pytest.mark.parametrize("price", [4.0, 1e3, 1e5])
@pytest.mark.parametrize("unit", [1e-6, 1e-3, 1.0, 1e3, 1e6])
@pytest.mark.parametrize("coin", [1.0, 1e-6])
def test_a_row_in_another_unit_still_counts_as_one_that_is_paid_for(unit, price, coin):
    m = many_optima()
    m.total.set_value(m.y[1] + m.y[2] >= 10)
    m.cost.set_value(coin * (m.y[1] + m.y[2] + price * (m.short[1] + m.short[2])))
    oracle = csg.Oracle(in_units(m, [unit, 1.0, 1.0]))
    # Free of the first row, whose dual is 1 / unit, the search would build 8 and 8.
    losses = oracle.loss(np.full((2, 1, 2), 2.0), [[8.0, 8.0], [8.0, 2.0]])
    assert losses / coin == pytest.approx([10 + 6 * price, 10], rel=1e-8)


@pytest.mark.parametrize("name", ["cep1", "farmer", "apl1p"])
def test_losses_do_not_depend_on_the_units_of_rows(name):
    zetas, omegas = batch(ZOO[name](), count=10, k=5)
    expected = csg.Oracle(ZOO[name]()).loss(zetas, omegas)
    for seed in range(4):
        rng, m = np.random.default_rng(seed), ZOO[name]()
        count = len(list(m.component_data_objects(pyo.Constraint)))
        units = 10.0 ** rng.integers(-3, 6, count, endpoint=True)
        losses = csg.Oracle(in_units(m, units)).loss(zetas, omegas)
        assert losses == pytest.approx(expected, rel=1e-7)


def test_a_point_of_the_search_that_is_no_optimum_is_an_error_and_no_loss(monkeypatch):
    m = many_optima()
    m.total.set_value(m.y[1] + m.y[2] >= 10)
    m.cost.set_value(m.y[1] + m.y[2] + 1e3 * (m.short[1] + m.short[2]))
    monkeypatch.setattr(face_search, "restrict_to_face", lambda program, duals: program)
    with pytest.raises(csg.SolveError, match="not exact"):
        csg.Oracle(m).loss(np.full((1, 1, 2), 2.0), [[8.0, 8.0]])
