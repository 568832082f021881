"""A degenerate program of ordinary size is solved without the slow fallback, and exactly."""

import numpy as np
import pytest

import pyomo_csg as csg
from tests.solve.qp import dispatch

STEP = 1e-3
_MOST_STEPS = 50  # of PIQP; the other method would add its own


@pytest.fixture(scope="module")
def oracle():
    return csg.Oracle(dispatch.build())


def test_a_program_takes_one_interior_point_run(oracle):
    zetas = dispatch.demands(np.random.default_rng(0), 6, 5)
    oracle.stats.reset()
    found = oracle.solve(zetas)
    assert oracle.stats.solves == 6
    assert oracle.stats.iterations <= 6 * _MOST_STEPS
    # The value is the mean cost of the decision over the scenarios.
    costs = [
        oracle.cost(y, zeta).mean()
        for y, zeta in zip(found.decision, zetas, strict=True)
    ]
    assert found.value == pytest.approx(costs, rel=1e-9)


def test_values_are_those_of_another_solver():
    hours = 6
    zetas = dispatch.demands(np.random.default_rng(1), 3, 2, hours=hours)
    ours, other = (
        csg.Oracle(dispatch.build(hours), solver=solver)
        for solver in ("highs", "contrib_highs")
    )
    assert ours.solve(zetas).value == pytest.approx(other.solve(zetas).value, rel=1e-7)


def test_few_active_sets_answer_many_evaluations(oracle):
    rng = np.random.default_rng(2)
    decisions = oracle.solve(dispatch.demands(rng, 4, 5)).decision
    omegas = dispatch.demands(rng, 400)
    oracle.stats.reset()
    costs = oracle.cost(np.repeat(decisions, 100, axis=0), omegas)
    assert oracle.stats.solves < 40
    assert oracle.stats.cache_hits + oracle.stats.solves == 400
    for i in (0, 123, 399):
        alone = csg.Oracle(dispatch.build()).cost(
            decisions[i // 100], omegas[i : i + 1]
        )
        assert alone == pytest.approx(costs[i], rel=1e-11)


def test_gradients_agree_with_differences(oracle):
    rng = np.random.default_rng(3)
    zetas, omegas = dispatch.demands(rng, 8, 5), dispatch.demands(rng, 8)
    found = oracle.loss_gradient(zetas, omegas)
    assert found.smooth.mean() > 0.5
    assert found.loss == pytest.approx(oracle.loss(zetas, omegas), rel=1e-9)
    for _ in range(4):
        move = rng.normal(size=zetas.shape[1:]) * STEP
        up, down = (oracle.loss_gradient(zetas + d, omegas).loss for d in (move, -move))
        slopes = (found.gradient * move).sum(axis=(1, 2)) * 2
        assert (up - down)[found.smooth] == pytest.approx(
            slopes[found.smooth], rel=1e-3, abs=1e-5
        )
