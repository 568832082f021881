"""Gradients through the optimal basis against finite differences."""

import numpy as np
import pyomo.environ as pyo
import pytest

import pyomo_csg as csg
from models import cep1, cvar_portfolio, newsvendor
from tests.benchmarks.real_size.problems import PROBLEMS
from tests.solve.test_oracle import batch, many_optima
from tests.zoo import ZOO, scenarios

WEIGHTS = [0.5, 0.2, 0.3]
STEP = 1e-6
RIGHT_SIDES = ["newsvendor", "cep1", "nested_blocks", "deactivated", "from_abstract"]
ELSEWHERE = [
    "farmer",
    "apl1p",
    "uncertain_bounds",
    "named_expressions",
    "nonlinear_data",
]


def pairs(model, count=24):
    """Return scenarios, outcomes and directions to move the scenarios in."""
    zetas = np.array([scenarios(model, 3, seed) for seed in range(count)])
    omegas = np.array([scenarios(model, 1, seed + 50)[0] for seed in range(count)])
    directions = np.random.default_rng(0).standard_normal(zetas.shape) * zetas
    return zetas, omegas, directions


@pytest.mark.parametrize("name", RIGHT_SIDES + ELSEWHERE)
def test_the_losss_gradient_agrees_with_differences_where_it_is_smooth(name):
    oracle = csg.Oracle(ZOO[name]())
    zetas, omegas, directions = pairs(ZOO[name]())
    found = oracle.loss_gradient(zetas, omegas, weights=WEIGHTS, on_error="record")
    up = oracle.loss(
        zetas + STEP * directions, omegas, weights=WEIGHTS, on_error="record"
    )
    down = oracle.loss(
        zetas - STEP * directions, omegas, weights=WEIGHTS, on_error="record"
    )
    differences = (up - down) / (2 * STEP)
    slopes = np.einsum("nkp,nkp->n", found.gradient, directions)
    assert found.smooth.sum() >= 5
    assert slopes[found.smooth] == pytest.approx(
        differences[found.smooth], rel=1e-4, abs=1e-4
    )


@pytest.mark.parametrize("name", RIGHT_SIDES + ELSEWHERE + ["mnv", "integers"])
def test_the_values_gradient_agrees_with_differences(name):
    oracle = csg.Oracle(ZOO[name]())
    zetas, _, directions = pairs(ZOO[name](), count=6)
    found = oracle.solve(zetas, WEIGHTS, gradient=True)
    up = oracle.solve(zetas + STEP * directions, WEIGHTS).value
    down = oracle.solve(zetas - STEP * directions, WEIGHTS).value
    slopes = np.einsum("nkp,nkp->n", found.gradient, directions)
    differences = (up - down) / (2 * STEP)
    agree = np.isclose(slopes, differences, rtol=1e-4, atol=1e-3)
    assert agree[found.smooth].all()
    assert agree.sum() >= 5  # one of them may stand at a kink


def test_integers_are_held_at_the_incumbent():
    model = cvar_portfolio.build()
    oracle = csg.Oracle(model)
    rng = np.random.default_rng(3)
    zetas, omegas = rng.normal(0.1, 1, (6, 3, 10)), rng.normal(0.1, 1, (6, 10))
    found = oracle.loss_gradient(zetas, omegas)
    directions = rng.standard_normal(zetas.shape)
    up = oracle.loss(zetas + STEP * directions, omegas, "recourse")
    down = oracle.loss(zetas - STEP * directions, omegas, "recourse")
    slopes = np.einsum("nkp,nkp->n", found.gradient, directions)
    # Assets that are not held make every basis degenerate, so none is called smooth.
    assert slopes == pytest.approx((up - down) / (2 * STEP), rel=1e-3, abs=1e-3)


def test_a_kink_is_said_to_be_one():
    oracle = csg.Oracle(many_optima())
    found = oracle.loss_gradient(np.full((1, 1, 2), 2.0), [[2.0, 8.0]])
    assert not found.smooth[0]
    assert np.isfinite(found.gradient).all()


def test_the_gradient_at_a_kink_is_a_limit_of_gradients_nearby():
    oracle, outcome = csg.Oracle(newsvendor.build()), [[15.0]]
    zeta = np.array([[[10.0], [10.0], [30.0]]])  # the order is the lesser of two
    found = oracle.loss_gradient(zeta, outcome)
    moves = np.random.default_rng(0).uniform(-1, 1, (20, *zeta.shape[1:]))
    nearby = oracle.loss_gradient(zeta + STEP * moves, outcome * 20)
    same = np.isclose(nearby.gradient, found.gradient).all(axis=(1, 2))

    assert not found.smooth[0] and nearby.smooth.all()
    assert 0 < same.sum() < 20
    # In the directions of that piece, it is the slope of the loss.
    losses = oracle.loss(zeta + STEP * moves, outcome * 20)
    slopes = np.einsum("kp,nkp->n", found.gradient[0], moves)
    differences = (losses - found.loss) / STEP
    assert slopes[same] == pytest.approx(differences[same], rel=1e-4, abs=1e-7)
    assert slopes[~same] != pytest.approx(differences[~same], rel=1e-4, abs=1e-7)


def test_most_cases_of_a_large_linear_program_are_smooth():
    problem, rng = PROBLEMS["lp"], np.random.default_rng(0)
    oracle, (_, outcomes) = csg.Oracle(problem.build()), problem.history(0)
    zetas, omegas = outcomes[rng.integers(len(outcomes), size=(12, 5))], outcomes[:12]
    found = oracle.loss_gradient(zetas, omegas)
    directions = rng.standard_normal(zetas.shape) * zetas
    up, down = (
        oracle.loss(zetas + step * directions, omegas) for step in (STEP, -STEP)
    )
    slopes = np.einsum("nkp,nkp->n", found.gradient, directions)

    assert found.smooth.mean() >= 0.5
    differences = (up - down)[found.smooth] / (2 * STEP)
    assert slopes[found.smooth] == pytest.approx(differences, rel=1e-3)


def test_the_newsvendors_gradient_falls_on_the_scenario_that_decides():
    oracle = csg.Oracle(newsvendor.build())
    found = oracle.loss_gradient([[[20.0], [10.0], [30.0]]], [[15.0]])
    # The order is 10, the least demand; a paper more would sell for 1.05 and cost 1.
    assert found.gradient[0, :, 0] == pytest.approx([0, -0.05, 0])
    assert found.loss == pytest.approx([-0.5])


def test_a_side_that_another_has_met_is_no_smooth_place():
    m = pyo.ConcreteModel("meeting")
    m.w = pyo.Param(mutable=True, initialize=1.0)
    m.y = pyo.Var(bounds=(0, 10))
    m.z = pyo.Var(bounds=(0, m.w))
    m.c = pyo.Constraint(expr=m.z <= m.y)
    m.o = pyo.Objective(expr=m.y - 2 * m.z)
    csg.annotate(m, first_stage_variables=m.y, uncertain_params=m.w)
    found = csg.Oracle(m).solve([[0.0], [5.0]], gradient=True)
    assert not found.smooth
    assert found.gradient[:, 0] == pytest.approx([-1, 0])


MANY = ["newsvendor", "cep1", "farmer", "nonlinear_data", "integers", "piecewise"]


def charged_one_by_one(oracle, zetas, omegas):
    """Return losses (n, M) and gradients (n, M, K, p), an outcome at a time."""
    found = [
        oracle.loss_gradient(zetas, omegas[:, m], weights=WEIGHTS, fresh=True)
        for m in range(omegas.shape[1])
    ]
    losses = np.stack([one.loss for one in found], axis=1)
    return losses, np.stack([one.gradient for one in found], axis=1)


@pytest.mark.parametrize("name", [*MANY, "cvar_portfolio"])
def test_many_outcomes_are_charged_as_the_weighted_mean_of_single_ones(name):
    model = cvar_portfolio.build(4, 2) if name == "cvar_portfolio" else ZOO[name]()
    rng = np.random.default_rng(1)
    if name == "cvar_portfolio":
        zetas, omegas = rng.normal(0.1, 1, (3, 3, 4)), rng.normal(0.1, 1, (3, 5, 4))
    else:
        zetas = np.array([scenarios(model, 3, seed) for seed in range(3)])
        omegas = np.array([scenarios(model, 5, seed + 50) for seed in range(3)])
    shares = rng.dirichlet(np.ones(5), 3)
    oracle = csg.Oracle(model)
    losses, gradients = charged_one_by_one(oracle, zetas, omegas)

    weighted = oracle.loss_gradient(
        zetas, omegas, weights=WEIGHTS, outcome_weights=shares, fresh=True
    )
    plain = oracle.loss_gradient(zetas, omegas, weights=WEIGHTS, fresh=True)

    assert weighted.loss == pytest.approx((shares * losses).sum(axis=1))
    assert weighted.gradient == pytest.approx(
        np.einsum("nm,nmkp->nkp", shares, gradients), abs=1e-8
    )
    assert plain.loss == pytest.approx(losses.mean(axis=1))
    assert plain.gradient == pytest.approx(gradients.mean(axis=1), abs=1e-8)


MISSHAPEN = {
    "fewer cases of outcomes": ((3, 5, 1), None, "3 cases, but 2 of scenarios"),
    "fewer outcomes than cases": ((3, 1), None, "3 cases, but 2 of scenarios"),
    "numbers that are not there": ((2, 5, 2), None, "outcomes: an array of shape"),
    "weights of fewer outcomes": ((2, 5, 1), (2, 4), "outcome_weights"),
    "weights of fewer cases": ((2, 5, 1), (3, 5), "outcome_weights"),
}


@pytest.mark.parametrize("name", MISSHAPEN)
def test_outcomes_of_another_shape_are_refused(name):
    outcomes, shares, words = MISSHAPEN[name]
    oracle = csg.Oracle(newsvendor.build())
    shares = None if shares is None else np.full(shares, 1 / shares[1])

    with pytest.raises(csg.DataError, match=words):
        oracle.loss_gradient(
            np.full((2, 3, 1), 9.0), np.full(outcomes, 9.0), outcome_weights=shares
        )


def test_weights_of_outcomes_sum_to_one():
    oracle = csg.Oracle(newsvendor.build())
    with pytest.raises(csg.DataError, match="outcome_weights"):
        oracle.loss_gradient(
            np.full((1, 2, 1), 9.0),
            np.full((1, 2, 1), 9.0),
            outcome_weights=[[0.5, 0.6]],
        )


def test_a_batch_without_any_answer_has_no_gradient():
    m = pyo.ConcreteModel("hopeless")
    m.w = pyo.Param(mutable=True, initialize=1.0)
    m.y = pyo.Var(bounds=(0, 1))
    m.z = pyo.Var(bounds=(0, 1))
    m.c = pyo.Constraint(expr=m.y + m.z >= m.w)
    m.o = pyo.Objective(expr=m.y + 2 * m.z)
    csg.annotate(m, first_stage_variables=m.y, uncertain_params=m.w)
    oracle = csg.Oracle(m)

    found = oracle.loss_gradient([[[5.0]], [[6.0]]], [[1.0], [1.0]], on_error="record")

    assert np.isnan(found.loss).all()
    assert [failure.case for failure in oracle.failures] == [0, 1]


def test_a_key_keeps_its_basis_for_the_next_gradient():
    zetas, omegas = batch(cep1.build(), count=40, k=5)
    oracle, keys = csg.Oracle(cep1.build()), np.arange(40)
    first = oracle.loss_gradient(zetas, omegas, keys=keys)
    before = oracle.stats.iterations
    order = np.random.default_rng(0).permutation(40)
    again = oracle.loss_gradient(zetas[order], omegas[order], keys=keys[order])
    assert oracle.stats.iterations - before < 0.2 * before
    assert again.loss == pytest.approx(first.loss[order], rel=1e-9)


def test_integer_programs_without_any_answer_have_no_gradient():
    m = newsvendor.build()
    m.order.domain = pyo.Integers
    m.floor = pyo.Constraint(expr=m.order >= 1e6 + m.sold)
    oracle = csg.Oracle(m)
    found = oracle.loss_gradient([[[3.0]]], [[3.0]], on_error="record")
    assert np.isnan(found.loss).all() and len(found.failures) == 1


def random_plan(quantity):
    """Return a plan without ties, whose quantities are in a unit."""
    rng, items, needs = np.random.default_rng(3), 4, 6
    share = rng.uniform(0.1, 1, (needs, items))
    price, short, excess = (
        rng.uniform(low, high, count)
        for low, high, count in ((1, 2, items), (3, 9, needs), (0.1, 0.3, needs))
    )
    m = pyo.ConcreteModel("plan")
    m.need = pyo.Param(range(needs), mutable=True, initialize=quantity)
    m.made = pyo.Var(range(items), bounds=(0, 20 * quantity))
    m.short = pyo.Var(range(needs), within=pyo.NonNegativeReals)
    m.excess = pyo.Var(range(needs), within=pyo.NonNegativeReals)

    @m.Constraint(range(needs))
    def balance(m, i):
        covered = sum(share[i, j] * m.made[j] for j in range(items))
        return covered + m.short[i] - m.excess[i] == m.need[i]

    cost = sum(price[j] * m.made[j] for j in range(items))
    cost += sum(short[i] * m.short[i] + excess[i] * m.excess[i] for i in range(needs))
    m.cost = pyo.Objective(expr=cost / quantity)
    csg.annotate(m, first_stage_variables=m.made, uncertain_params=m.need)
    return m


@pytest.mark.parametrize("quantity", [1e-7, 1e-6, 1e9])
def test_a_gradient_is_as_often_smooth_in_any_unit(quantity):
    rng = np.random.default_rng(0)
    zetas, omegas = rng.uniform(0.5, 2, (40, 3, 6)), rng.uniform(0.5, 2, (40, 6))
    usual = csg.Oracle(random_plan(1.0)).loss_gradient(zetas, omegas)
    found = csg.Oracle(random_plan(quantity)).loss_gradient(
        quantity * zetas, quantity * omegas
    )
    assert usual.smooth.all() and found.smooth.mean() > 0.95
    assert found.loss == pytest.approx(usual.loss)
    assert quantity * found.gradient == pytest.approx(usual.gradient, abs=1e-9)
