"""Neur2SP: the network that is learned, and what is decided with it."""

import logging

import numpy as np
import pytest
import torch

import pyomo_csg as csg
from models import cep1, newsvendor
from pyomo_csg.baselines import Neur2SP
from pyomo_csg.baselines.trained.neur2sp import RecourseNet
from tests.baselines import papers
from tests.learn.methods.test_direct import hard_to_serve
from tests.zoo import ZOO

QUICK = {"hidden": 6, "labels": 80, "outcomes": 4, "decisions": 12, "epochs": 5}


@pytest.fixture(autouse=True)
def few_trees(monkeypatch):
    monkeypatch.setattr("pyomo_csg.learn.distributions.samplers._TREES", 10)


def make(model, data, **options):
    return Neur2SP(model, data, **{**QUICK, "progress": False, **options})


def test_a_decision_is_where_the_network_and_h_are_least():
    model = papers.build(0.62)
    baseline = make(model, papers.pairs())
    variable = baseline.embedded.two_stage.first_stage_variables[0]
    grid = np.linspace(variable.lb, variable.ub, 4001)

    for x in np.random.default_rng(0).normal(size=(4, 2)):
        features = torch.as_tensor(baseline._features(x[None])).expand(len(grid), -1)
        with torch.no_grad():
            recourse = baseline.network(features, torch.as_tensor(grid)[:, None])
        totals = grid + recourse.numpy()  # h is the order itself
        decision = baseline.decide(x)
        assert decision.value == pytest.approx(totals.min(), abs=1e-3)
        assert decision.value <= totals.min() + 1e-9
        assert decision.scenarios.shape == (0, 1)


def test_the_layer_and_its_biases_are_the_network():
    rng = np.random.default_rng(0)
    ys, features = rng.normal(40, 9, (7, 3)), rng.normal(size=(7, 2))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = RecourseNet(2, 4, ys, rng.normal(300, 50, 7))
    layer, biases = network.layer(), network.biases(features)
    with torch.no_grad():
        expected = network(torch.as_tensor(features), torch.as_tensor(ys)).numpy()
    found = [layer(y, bias) for y, bias in zip(ys, biases, strict=True)]
    assert found == pytest.approx(expected)
    assert np.ptp(expected) > 1


def test_orders_follow_the_critical_quantile():
    contexts = np.tile([[-1.0], [1.0]], (40, 1))
    demands = 20 + 4 * contexts + np.random.default_rng(0).uniform(-3, 3, (80, 1))

    baseline = make(
        papers.build(0.7),
        (contexts, demands),
        hidden=16,
        labels=1000,
        outcomes=20,
        decisions=60,
        epochs=40,
    )

    oracle = csg.Oracle(papers.build(0.7))

    def cost(order):
        return oracle.cost(order, demands).mean()

    quantiles = [
        papers.order(mine, np.full(40, 1 / 40), 0.7)
        for mine in (demands[::2], demands[1::2])
    ]
    best = cost(np.tile(quantiles, 40)[:, None])
    constant = cost([papers.order(demands, np.full(80, 1 / 80), 0.7)])
    found = cost(baseline.decide(contexts, progress=False).to_numpy())
    assert found - best < 0.25 * (constant - best)


def test_it_says_that_it_has_no_scenarios():
    baseline = make(newsvendor.build(), newsvendor.sample(20, seed=0))
    for ask in (baseline.scenarios, baseline.weights):
        with pytest.raises(csg.CsgError, match="Neur2SP has no scenarios"):
            ask([0.0, 0.0])


def test_a_variable_without_bounds_gets_those_of_sampled_decisions():
    baseline = make(cep1.build(), cep1.sample(30, seed=0))
    program = baseline.embedded.two_stage.model
    highest = [program.added[j].ub for j in (1, 2, 3, 4)]
    assert 0 < max(highest) < 2501  # all that the busiest machine can be used for
    plan = baseline.decide(np.zeros(4))
    for j in (1, 2, 3, 4):
        assert plan[f"operated[{j}]"] <= plan[f"added[{j}]"] + 500 + 1e-6


def test_decisions_without_recourse_are_left_out_and_told(caplog):
    needs = np.random.default_rng(0).uniform(4, 6.9, (30, 1))
    with caplog.at_level(logging.WARNING):
        baseline = make(hard_to_serve(), (np.zeros((30, 1)), needs))
    assert "of 80 sampled decisions have no recourse" in caplog.text
    assert 4 - 1e-6 <= baseline.decide([0.0])["stock"] <= 5 + 1e-6


def test_a_model_without_any_recourse_is_refused():
    data = np.zeros((4, 1)), np.full((4, 1), 40.0)
    with pytest.raises(csg.DataError, match="none of 12 programs on outcomes"):
        make(hard_to_serve(), data)


def test_what_the_solver_cannot_embed_is_refused_before_training():
    needs = np.array([[3.0, 7.0], [4.0, 6.0]])
    with pytest.raises(csg.ModelError, match="quadratic and the model has integer"):
        make(ZOO["quadratic"](), (np.zeros((2, 1)), needs))
