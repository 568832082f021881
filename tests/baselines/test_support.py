"""Probabilities on a support: what training through the decision gives."""

import numpy as np
import pytest

import pyomo_csg as csg
from models import newsvendor
from pyomo_csg.baselines import SupportProbabilities
from pyomo_csg.baselines.trained.support_probabilities import random_probabilities


def test_contexts_that_matter_beat_equal_weights():
    contexts = np.tile([[-1.0], [1.0]], (30, 1))
    noise = np.random.default_rng(0).uniform(-2, 2, (60, 1))
    demands = 15 + 6 * contexts + noise
    model = newsvendor.build(price=2.0, salvage=0.0)

    baseline = SupportProbabilities(
        model, (contexts, demands), support=10, progress=False
    )

    oracle = csg.Oracle(model)
    costs = oracle.cost(baseline.decide(contexts).to_numpy(), demands).mean()
    equal = oracle.cost(oracle.solve(baseline.support).decision, demands).mean()
    best = np.mean(
        [
            oracle.cost(oracle.solve(mine).decision, mine).mean()
            for mine in (demands[::2], demands[1::2])
        ]
    )
    assert costs - best < 0.1 * (equal - best)


def test_costs_count_more_than_likelihood():
    """After context 1 demand is 14 three times in four, whose likeliest stand-in is 10.

    Of the orders 10 and 20 the latter earns more, though 10 is the critical quantile of
    the likely weights.
    """
    contexts = np.repeat([[0.0], [1.0]], 40, axis=0)
    demands = np.repeat([6.0, 14.0, 20.0], [40, 30, 10])[:, None]
    model = newsvendor.build(price=2.0, salvage=0.5)
    oracle = csg.Oracle(model)
    assert oracle.solve([[10.0], [20.0]], [0.75, 0.25]).decision == [10.0]
    after = demands[40:]
    assert oracle.cost([20.0], after).mean() < oracle.cost([10.0], after).mean()

    baseline = SupportProbabilities(
        model,
        (contexts, demands),
        support=[[10.0], [20.0]],
        smoothing=1.0,
        epochs=100,
        progress=False,
    )

    assert baseline.decide([0.0])["order"] == pytest.approx(10)
    assert baseline.decide([1.0])["order"] == pytest.approx(20)
    assert baseline.weights([0.0]) == pytest.approx([1, 0], abs=0.2)


def test_without_a_count_all_outcomes_are_the_support():
    contexts, demands = newsvendor.sample(20, seed=0)
    demands[:5] = demands[0]
    baseline = SupportProbabilities(
        newsvendor.build(), (contexts, demands), support=None, epochs=1, progress=False
    )
    assert baseline.support.ravel().tolist() == sorted(set(demands.ravel()))


def test_sampled_probabilities_are_of_few_points_and_of_many():
    found = random_probabilities(30, 200, np.random.default_rng(0))
    assert found.sum(axis=1) == pytest.approx(1)
    spoken_for = 1 / (found**2).sum(axis=1)  # by so many points
    assert spoken_for.min() < 2
    assert spoken_for.max() > 12
