"""Losses of mean costs: the best of zeta-SAA's optimal decisions for many weighted outcomes.

The model's cost is zero within 2 of the outcome, so zeta-SAA has an interval of optima. The
expected answers come from the convex piecewise function of one variable itself.
"""

import numpy as np
import pyomo.environ as pyo
import pytest
from scipy.optimize import minimize_scalar

import pyomo_csg as csg
from pyomo_csg.zoo import cep1, newsvendor, resource_allocation

BAND, TOP = 2.0, 20.0


def band_model(kind):
    """Return a model whose decision costs nothing within a band around the outcome."""
    m = pyo.ConcreteModel("band")
    m.target = pyo.Param(initialize=5.0, mutable=True)
    domain = pyo.NonNegativeIntegers if kind == "integer" else pyo.NonNegativeReals
    m.level = pyo.Var(domain=domain, bounds=(0, TOP))
    m.over, m.under = pyo.Var(domain=pyo.NonNegativeReals), pyo.Var(bounds=(0, None))
    m.above = pyo.Constraint(expr=m.over >= m.level - m.target - BAND)
    m.below = pyo.Constraint(expr=m.under >= m.target - m.level - BAND)
    late = m.over**2 + 2 * m.under**2 if kind == "quadratic" else m.over + 2 * m.under
    m.cost = pyo.Objective(expr=0 * m.level + late)
    csg.annotate(m, first_stage_variables=[m.level], uncertain_params=[m.target])
    return m


def band_cost(kind, level, targets, weights):
    """Return the mean cost of a level."""
    over = np.maximum(0, level - targets - BAND)
    under = np.maximum(0, targets - level - BAND)
    power = 2 if kind == "quadratic" else 1
    return float(weights @ (over**power + 2 * under**power))


def points(kind, zetas):
    """Return levels among which every linear optimum lies, or a fine grid."""
    if kind == "integer":
        return np.arange(TOP + 1)
    ends = np.concatenate([[0, TOP], zetas - BAND, zetas + BAND]).clip(0, TOP)
    return np.unique(np.append(ends, np.linspace(0, TOP, 2001)))


def expected_loss(kind, zetas, weights, omegas, shares):
    """Return the least mean cost on the outcomes of a level that is optimal on zetas."""
    levels = points(kind, np.append(zetas, omegas))
    costs = np.array([band_cost(kind, x, zetas, weights) for x in levels])
    optimal = levels[costs <= costs.min() + 1e-9]
    if kind == "integer":
        return min(band_cost(kind, x, omegas, shares) for x in optimal)
    low, high = optimal.min(), optimal.max()
    if high - low < 1e-6:
        # The grid is coarse where a quadratic optimum is unique.
        (low,) = (
            minimize_scalar(
                lambda x: band_cost(kind, x, zetas, weights),
                bounds=(low - 0.02, high + 0.02),
                method="bounded",
                options={"xatol": 1e-10},
            ).x,
        )
        return band_cost(kind, low, omegas, shares)
    found = minimize_scalar(
        lambda x: band_cost(kind, x, omegas, shares),
        bounds=(low, high),
        method="bounded",
        options={"xatol": 1e-10},
    )
    ends = [band_cost(kind, x, omegas, shares) for x in optimal]
    return min(found.fun, *ends)


@pytest.mark.parametrize("kind", ["linear", "integer", "quadratic"])
def test_the_best_optimal_decision_for_the_mean_cost_is_found(kind):
    rng, oracle = np.random.default_rng(0), csg.Oracle(band_model(kind))
    ties = 0
    for _ in range(12):
        zetas = rng.uniform(6, 9, 3)
        omegas, shares = rng.uniform(2, 14, 5), rng.dirichlet(np.ones(5))
        shares[int(rng.integers(5))] = 0.0
        shares /= shares.sum()
        weights = rng.dirichlet(np.ones(3))
        (found,) = oracle.loss(
            zetas[None, :, None],
            omegas[None, :, None],
            weights=weights,
            outcome_weights=shares,
        )
        wanted = expected_loss(kind, zetas, weights, omegas, shares)
        assert found == pytest.approx(wanted, rel=1e-6, abs=1e-6)
        apart = [
            expected_loss(kind, zetas, weights, omega[None], np.ones(1))
            for omega in omegas
        ]
        assert shares @ apart <= found + 1e-6
        ties += shares @ apart < found - 1e-4
    assert ties > 2  # outcomes by themselves would choose different decisions


def test_other_solvers_give_the_same_losses_of_means():
    rng = np.random.default_rng(1)
    zetas, omegas = rng.uniform(6, 9, (4, 3, 1)), rng.uniform(2, 14, (4, 6, 1))
    for kind in ("linear", "integer"):
        ours, theirs = (
            csg.Oracle(band_model(kind), solver) for solver in ("highs", "appsi_highs")
        )
        for what in ("optimistic", "recourse"):
            mine, other = (one.loss(zetas, omegas, what) for one in (ours, theirs))
            if what == "optimistic":
                assert mine == pytest.approx(other, abs=1e-6)
            else:  # either solver may return any optimum
                assert (other >= ours.loss(zetas, omegas) - 1e-6).all()


def test_the_cost_of_a_decision_is_the_mean_over_its_outcomes():
    rng, oracle = np.random.default_rng(2), csg.Oracle(cep1.build())
    zetas = rng.uniform(500, 2500, (6, 3, 3))
    omegas, shares = rng.uniform(200, 3000, (6, 7, 3)), rng.dirichlet(np.ones(7), 6)
    found = oracle.loss(zetas, omegas, "recourse", outcome_weights=shares)
    decisions = oracle.solve(zetas).decision
    costs = oracle.cost(np.repeat(decisions, 7, 0), omegas.reshape(-1, 3))
    assert found == pytest.approx((shares * costs.reshape(6, 7)).sum(axis=1))


@pytest.mark.parametrize("zoo", [newsvendor, cep1, resource_allocation])
def test_searching_ties_changes_no_result_of_the_papers_problems(zoo):
    """Section 5.1: the optimistic evaluation under the conditional distribution."""
    model = zoo.build()
    oracle, rng = csg.Oracle(model), np.random.default_rng(3)
    outcomes = np.asarray(zoo.sample(60, seed=1)[1], dtype=float)
    zetas = outcomes[rng.integers(len(outcomes), size=(10, 5))]
    omegas = outcomes[rng.integers(len(outcomes), size=(10, 40))]
    searched = oracle.loss(zetas, omegas)
    returned = oracle.loss(zetas, omegas, "recourse")
    assert searched == pytest.approx(returned, rel=1e-7)


def test_one_outcome_with_its_weight_is_the_usual_loss():
    rng, oracle = np.random.default_rng(4), csg.Oracle(band_model("linear"))
    zetas, omegas = rng.uniform(6, 9, (5, 2, 1)), rng.uniform(2, 14, (5, 1, 1))
    assert oracle.loss(zetas, omegas) == pytest.approx(oracle.loss(zetas, omegas[:, 0]))


def test_a_pessimistic_mean_is_refused_in_words():
    oracle = csg.Oracle(band_model("linear"))
    with pytest.raises(csg.ModelError, match="3 outcomes per case; give one"):
        oracle.loss(np.ones((1, 2, 1)), np.ones((1, 3, 1)), "pessimistic")


def test_unsolved_means_are_recorded_by_case():
    model = band_model("linear")
    model.over.setub(1.0)
    oracle = csg.Oracle(model)
    zetas, omegas = np.full((2, 1, 1), 6.0), np.full((2, 2, 1), 6.0)
    omegas[1] = [[0.0], [6.0]]
    for kind in ("optimistic", "recourse"):
        found = oracle.loss(zetas, omegas, kind, on_error="record")
        # 4 and above is optimal for 6; an excess over 3 has no recourse to 0.
        assert found[0] == 0 and np.isnan(found[1])
        assert [failure.case for failure in oracle.failures] == [1]
