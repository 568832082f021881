"""Quantile regression: the least pinball loss by a linear program, and sample quantiles."""

import numpy as np
import pytest
from scipy.optimize import linprog

from pyomo_csg.baselines import QuantileRegression
from tests.baselines import papers


def least_pinball(contexts, outcomes, level):
    """Return the least total pinball loss of a linear function, by its dual LP."""
    n = len(outcomes)
    design = np.hstack([np.ones((n, 1)), contexts])
    bounds = [(level - 1, level)] * n
    found = linprog(
        -outcomes, A_eq=design.T, b_eq=np.zeros(design.shape[1]), bounds=bounds
    )
    return -found.fun


def pinball(errors, level):
    return np.maximum(level * errors, (level - 1) * errors).sum()


@pytest.mark.parametrize("level", [0.11, 0.5, 0.83])
def test_the_line_has_the_least_pinball_loss(level):
    contexts, demands = papers.pairs(80)
    policy = QuantileRegression(
        papers.build(level), (contexts * [1, 1e4], demands), level
    )

    found = policy.scenarios(contexts * [1, 1e4])

    assert found.shape == (80, 1, 1)
    assert pinball((demands - found[:, 0])[:, 0], level) == pytest.approx(
        least_pinball(contexts, demands[:, 0], level)
    )


def test_a_newsvendor_orders_the_quantile_itself():
    policy = QuantileRegression(papers.build(0.7), papers.pairs(), 0.7)
    x = np.array([0.3, -0.2])
    assert policy.decide(x)["order"] == pytest.approx(policy.scenarios(x)[0, 0])


def test_each_number_may_have_a_level_of_its_own():
    model, (_, demands) = papers.of_two(51)
    constant = np.zeros((51, 1))  # no context: the quantiles of the sample

    policy = QuantileRegression(model, (constant, demands), level=[0.2, 0.905])

    expected = [
        papers.order(demands[:, j], np.full(51, 1 / 51), q)
        for j, q in enumerate([0.2, 0.905])
    ]
    assert policy.scenarios([0.0])[0] == pytest.approx(expected)
    both = QuantileRegression(model, (constant, demands), level=0.2)
    assert both.levels.tolist() == [0.2, 0.2]


def test_a_quantile_that_leaves_the_domain_is_moved_to_it():
    x = np.arange(10.0)[:, None]
    policy = QuantileRegression(papers.build(0.5), (x, 18 - 2 * x), 0.5)
    assert policy.scenarios([[4.0], [20.0]]).ravel() == pytest.approx([10.0, 0.0])
