"""Derivatives of decisions against finite differences."""

import numpy as np
import pytest

import pyomo_csg as csg
from models import cep1, cvar_portfolio
from tests.solve.test_gradient import ELSEWHERE, RIGHT_SIDES, STEP, WEIGHTS, pairs
from tests.zoo import ZOO

QUADRATIC = ["quadratic", "cross_products"]


def jacobian_by_differences(oracle, zetas):
    """Return central differences (n, s, K, p) of the decisions."""
    shape = zetas.shape[1:]
    columns = []
    for place in np.ndindex(shape):
        move = np.zeros(shape)
        move[place] = STEP
        up, down = (oracle.solve(zetas + d, WEIGHTS).decision for d in (move, -move))
        columns.append((up - down) / (2 * STEP))
    return np.stack(columns, axis=-1).reshape(*columns[0].shape, *shape)


@pytest.mark.parametrize("name", RIGHT_SIDES + ELSEWHERE + QUADRATIC)
def test_the_jacobian_agrees_with_differences_where_it_is_smooth(name):
    oracle = csg.Oracle(ZOO[name]())
    zetas, _, _ = pairs(ZOO[name](), count=10)
    found = oracle.decision_gradient(zetas, weights=WEIGHTS)
    expected = jacobian_by_differences(oracle, zetas)

    assert found.smooth.sum() >= 2
    assert found.decision[found.smooth] == pytest.approx(
        oracle.solve(zetas, WEIGHTS).decision[found.smooth], abs=1e-7
    )
    assert found.gradient[found.smooth] == pytest.approx(
        expected[found.smooth], rel=1e-4, abs=1e-4
    )


@pytest.mark.parametrize("name", ["cep1", "farmer", "quadratic", "integers"])
def test_slopes_give_products_with_the_jacobian(name):
    oracle = csg.Oracle(ZOO[name]())
    zetas, _, _ = pairs(ZOO[name](), count=5)
    whole = oracle.decision_gradient(zetas, fresh=True)
    slopes = np.random.default_rng(1).standard_normal(whole.decision.shape)

    found = oracle.decision_gradient(zetas, slopes, fresh=True)

    assert (found.decision == whole.decision).all()
    assert found.gradient == pytest.approx(
        np.einsum("ns,nskp->nkp", slopes, whole.gradient), abs=1e-9
    )


def test_integer_variables_are_held_and_the_others_move():
    oracle = csg.Oracle(cvar_portfolio.build())
    zetas = np.random.default_rng(3).normal(0.1, 1, (4, 3, 10))
    found = oracle.decision_gradient(zetas, weights=WEIGHTS)
    whole = [not v.is_continuous() for v in oracle.two_stage.first_stage_variables]

    expected = jacobian_by_differences(oracle, zetas)

    assert any(whole)
    assert (found.gradient[:, whole] == 0).all()
    assert np.abs(found.gradient).max() > 0.01
    assert found.gradient == pytest.approx(expected, rel=1e-3, abs=1e-3)


def test_batches_and_workers_give_what_single_cases_give():
    zetas, _, _ = pairs(ZOO["from_abstract"](), count=9)
    oracle, two = (
        csg.Oracle(ZOO["from_abstract"](), workers=workers) for workers in (1, 2)
    )
    found = oracle.decision_gradient(zetas, fresh=True)
    shared = two.decision_gradient(zetas, fresh=True)
    singles = [oracle.decision_gradient(z[None], fresh=True) for z in zetas]

    assert found.smooth.any()
    assert (found.gradient == shared.gradient).all()
    decisions = np.concatenate([single.decision for single in singles])
    gradients = np.concatenate([single.gradient for single in singles])
    assert found.decision == pytest.approx(decisions, abs=1e-9)
    assert found.gradient[found.smooth] == pytest.approx(gradients[found.smooth])


def test_costs_in_other_units_do_not_change_the_derivatives():
    model, small = ZOO["from_abstract"](), ZOO["from_abstract"]()
    small.cost.set_value(1e-6 * small.cost.expr)
    zetas, _, _ = pairs(model, count=9)
    found, other = (csg.Oracle(m).decision_gradient(zetas) for m in (model, small))
    both = found.smooth & other.smooth
    assert both.any()
    assert found.gradient[both] == pytest.approx(other.gradient[both])


def test_cases_without_a_solution_are_recorded():
    model = cep1.build()
    model.shortfall.setub(100)
    zetas = np.array([[[900.0] * 3], [[9000.0] * 3]])
    oracle = csg.Oracle(model)

    found = oracle.decision_gradient(zetas, np.ones((2, 8)), on_error="record")

    assert np.isfinite(found.decision[0]).all()
    assert np.isfinite(found.gradient[0]).all()
    assert np.isnan(found.decision[1]).all()
    assert np.isnan(found.gradient[1]).all()
    assert [failure.status for failure in found.failures] == ["infeasible"]
    with pytest.raises(csg.SolveError, match="Case 1: infeasible"):
        oracle.decision_gradient(zetas)


@pytest.mark.parametrize("slopes", [np.ones((2, 3)), np.ones(8), "up"])
def test_slopes_of_another_shape_are_refused(slopes):
    with pytest.raises(csg.DataError, match="slopes"):
        csg.Oracle(cep1.build()).decision_gradient(np.full((2, 1, 3), 900.0), slopes)


def test_other_solvers_have_no_derivatives():
    oracle = csg.Oracle(cep1.build(), solver="appsi_highs")
    with pytest.raises(csg.ModelError, match="gives no gradient"):
        oracle.decision_gradient(np.full((2, 1, 3), 900.0))
