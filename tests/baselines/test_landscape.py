"""The landscape surrogate: a warm start by least squares, then one scenario by cost."""

import numpy as np
import pytest
import torch

import pyomo_csg as csg
from pyomo_csg.baselines import LandscapeSurrogate
from pyomo_csg.baselines.trained.one_scenario import _product
from pyomo_csg.learn.distributions.distances import mmd_loss
from tests.baselines import papers


def test_mmd_with_a_linear_kernel_is_the_squared_error_of_one_scenario():
    rng = np.random.default_rng(0)
    scenarios, outcomes = rng.normal(size=(5, 1, 3)), rng.normal(size=(5, 3))
    found = mmd_loss(
        torch.as_tensor(scenarios), torch.as_tensor(outcomes), None, _product
    )
    squares = ((scenarios[:, 0] - outcomes) ** 2).sum(axis=1)
    assert found.numpy() == pytest.approx(squares - (outcomes**2).sum(axis=1))


def test_it_moves_from_the_mean_toward_the_critical_quantile():
    level, rng = 0.9, np.random.default_rng(0)
    contexts, demands = rng.normal(size=(80, 1)), 20 + 4 * rng.normal(size=(80, 1))
    config = csg.FitConfig(
        hidden=(8,), mmd_epochs=20, loss_epochs=40, task_epochs=20, rounds=2
    )

    baseline = LandscapeSurrogate(
        papers.build(level), (contexts, demands), config=config, progress=False
    )

    oracle = csg.Oracle(papers.build(level))
    orders = baseline.decide(contexts, progress=False).to_numpy()
    mean = oracle.cost([demands.mean()], demands).mean()
    best = papers.order(demands, np.full(80, 1 / 80), level)
    least = oracle.cost([best], demands).mean()
    assert oracle.cost(orders, demands).mean() - least < 0.5 * (mean - least)
    assert baseline.policy.method == "dynamic"
    assert baseline.scenarios(contexts).shape == (80, 1, 1)


def test_a_penalty_for_leaving_the_history_is_not_among_its_settings():
    """What it learns does not depend on the kernel or units of the config."""
    data = papers.pairs(20)
    quick = {"mmd_epochs": 2, "loss_epochs": 2, "task_epochs": 1, "rounds": 1}
    one, other = (
        LandscapeSurrogate(
            papers.build(0.6), data, config={**quick, **extra}, progress=False
        )
        for extra in ({}, {"kernel": "gaussian", "bandwidth": 2.0, "units": "raw"})
    )
    assert (one.scenarios(data[0]) == other.scenarios(data[0])).all()
