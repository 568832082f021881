"""Sampled decisions and their recourse costs, against the oracle's."""

import numpy as np
import pyomo.environ as pyo
import pytest

import pyomo_csg as csg
from pyomo_csg.baselines.trained.network_training import Sampler, systematic_sample
from pyomo_csg.learn.tables.history import History
from tests.baselines import papers
from tests.zoo import ZOO


@pytest.fixture(autouse=True)
def few_trees(monkeypatch):
    monkeypatch.setattr("pyomo_csg.learn.distributions.samplers._TREES", 10)


@pytest.mark.parametrize("name", ["cep1", "nonlinear_data", "fixed_variables", "mnv"])
def test_samples_are_recourse_costs_of_decisions_around_the_optimal(name):
    """Where all outcomes are one, a sample is what recourse to it costs."""
    model = ZOO[name]()
    two_stage, oracle = csg.TwoStageModel(model), csg.Oracle(model)
    outcome = np.array([p.value for p in two_stage.uncertain_params])
    history = History(np.arange(4.0)[:, None], np.tile(outcome, (4, 1)))
    sampler = Sampler(oracle, history, 3, seed=0)

    samples = sampler.draw(6, 2, False)

    best = sampler.optimal[0]
    costs = [*samples.costs, *sampler.costs(np.zeros(1, int), best[None], 2, False)]
    for y, recourse in zip([*samples.decisions, best], costs, strict=True):
        for v, number in zip(two_stage.first_stage_variables, y, strict=True):
            v.set_value(number, skip_validation=True)
        h = two_stage.sense * pyo.value(two_stage.first_stage_cost)
        assert h + recourse == pytest.approx(oracle.cost(y, outcome[None])[0])
    value = two_stage.sense * oracle.solve(outcome[None]).value
    assert h + recourse == pytest.approx(value)


def test_samples_cover_the_range_of_the_optimal_decisions():
    model, (contexts, demands) = papers.of_two()
    sampler = Sampler(csg.Oracle(model), History(contexts, demands), 60, seed=0)

    ys = sampler.draw(2000, 1, False).decisions

    lower, upper = sampler.bounds
    height = (ys - lower) / (upper - lower)
    assert (np.quantile(height, 0.99, axis=0) > 0.9).all()
    assert (height.max(axis=1) < 0.2).sum() > 10  # both low at once
    assert (height.min(axis=1) > 0.8).sum() > 10
    assert ys.min() >= 0


def test_outcomes_are_drawn_as_often_as_their_weights_say():
    weights = np.array([[0.1, 0.0, 0.55, 0.35], [0.0, 1.0, 0.0, 0.0]])
    found = systematic_sample(weights, 20, np.random.default_rng(0))
    counts = np.stack([np.bincount(row, minlength=4) for row in found])
    assert np.abs(counts - 20 * weights).max() <= 1
    assert counts[1].tolist() == [0, 20, 0, 0]
