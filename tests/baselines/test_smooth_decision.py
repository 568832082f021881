"""The smooth stand-in for a decision, against differences, the solver and mixtures."""

import numpy as np
import pytest
import torch

import pyomo_csg as csg
from pyomo_csg.baselines.trained.support_probabilities import (
    KnownDecisions,
    random_probabilities,
)
from tests.learn.methods.test_direct import hard_to_serve
from tests.zoo import ZOO, scenarios

SMALL = 1e-6


def known_on(name, points=5, outcomes=12, count=20):
    model = ZOO[name]()
    both = scenarios(model, points + outcomes)
    known = KnownDecisions(csg.Oracle(model), both[:points], both[points:])
    probabilities = random_probabilities(points, count, np.random.default_rng(0))
    known.add(probabilities)
    return known, probabilities, both[:points], both[points:]


@pytest.mark.parametrize("name", ["newsvendor", "cep1", "integers"])
def test_the_smooth_costs_gradient_is_that_of_differences(name):
    known, _, _, _ = known_on(name)
    smooth = known.smooth(0.3)
    rng = np.random.default_rng(1)
    probabilities = torch.tensor(rng.dirichlet(np.ones(5), 12), requires_grad=True)
    rows = torch.arange(12)

    smooth.costs(probabilities, rows).sum().backward()

    direction = torch.as_tensor(rng.standard_normal((12, 5)))
    ends = [
        smooth.costs(probabilities.detach() + side * SMALL * direction, rows)
        for side in (1, -1)
    ]
    slopes = (ends[0] - ends[1]) / (2 * SMALL)
    found = (probabilities.grad * direction).sum(dim=1)
    assert found.numpy() == pytest.approx(slopes.numpy(), rel=1e-4, abs=1e-6)
    assert found.abs().max() > 1e-3


@pytest.mark.parametrize("name", ["newsvendor", "cep1", "integers", "nonlinear_data"])
def test_a_cold_decision_is_as_good_as_the_solvers(name):
    known, probabilities, points, _ = known_on(name)
    cold, oracle = known.smooth(1e-9), csg.Oracle(ZOO[name]())
    for p in probabilities:
        expected = cold.shares(torch.as_tensor(p)).numpy() @ known.costs[:, :5] @ p
        value = int(oracle.two_stage.sense) * oracle.solve(points, p).value
        assert expected == pytest.approx(value, rel=1e-7)


@pytest.mark.parametrize("name", ["newsvendor", "cep1"])
def test_a_cold_decision_costs_what_the_solvers_does(name):
    known, probabilities, points, outcomes = known_on(name)
    weights = np.tile(probabilities[0], (len(outcomes), 1))
    exact = csg.Oracle(ZOO[name]()).loss(
        np.tile(points, (len(outcomes), 1, 1)), outcomes, weights=weights
    )
    rows = torch.arange(len(outcomes))
    found = known.smooth(1e-9).costs(torch.as_tensor(weights), rows)
    assert found.numpy() == pytest.approx(exact, rel=1e-7)


def test_chances_are_least_in_expected_cost_less_entropy():
    known, probabilities, _, _ = known_on("cep1")
    smoothing = 0.4
    smooth, temperature = known.smooth(smoothing), smoothing * known.spread()
    expected = known.costs[:, :5] @ probabilities[3]

    def objective(mixture):
        return mixture @ expected + temperature * mixture @ np.log(mixture)

    best = smooth.shares(torch.as_tensor(probabilities[3])).numpy()
    others = np.random.default_rng(0).dirichlet(np.ones(len(best)), 200)
    assert best.sum() == pytest.approx(1)
    for part in (0.01, 0.3, 1.0):
        for other in others:
            assert objective((1 - part) * best + part * other) >= objective(best)


def test_decisions_are_kept_once_and_only_with_recourse():
    known, probabilities, _, _ = known_on("newsvendor")
    count = len(known.decisions)
    known.add(probabilities)
    assert len(known.decisions) == count == len(np.unique(known.decisions.round(6)))

    oracle, points = csg.Oracle(hard_to_serve()), np.array([[1.0], [5.0]])
    partly = KnownDecisions(oracle, points, np.array([[6.0]]))
    partly.add(np.eye(2))
    assert partly.decisions.ravel().tolist() == [5.0]  # 1 leaves 6 - 1 - 2 unserved
    with pytest.raises(csg.DataError, match="none of 2 decisions"):
        KnownDecisions(oracle, points, np.array([[60.0]])).add(np.eye(2))
