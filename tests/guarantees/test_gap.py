"""Gaps of Mak, Morton and Wood: by hand, and never below the truth on average."""

import numpy as np
import pytest

import pyomo_csg as csg
from models import newsvendor
from pyomo_csg.guarantees import optimality_gap
from tests.quick import fit


@pytest.fixture(scope="module")
def pairs():
    return newsvendor.sample(600, seed=3)


def _least(demands, by_hand):
    """Return the least mean cost of one order: it is one of the demands."""
    return min(by_hand(np.full(len(demands), y), demands).mean() for y in demands)


def test_one_group_is_the_cost_above_the_best_order(policy, pairs, by_hand):
    half = pairs[0][:300], pairs[1][:300]
    found = optimality_gap(policy, half, reference="context-free", size=150)
    costs = by_hand(policy.decide(half[0])["order"].to_numpy(), half[1][:, 0])
    order = np.random.default_rng(0).permutation(300).reshape(2, 150)
    best = [_least(half[1][rows, 0], by_hand) for rows in order]
    assert found.interval.mean == pytest.approx(costs.mean() - np.mean(best))
    assert found.interval.count == 2


def test_the_mean_gap_is_no_less_than_the_true_one(policy, pairs, by_hand):
    demands = pairs[1][:, 0]
    orders = policy.decide(pairs[0])["order"].to_numpy()
    true = by_hand(orders, demands).mean() - _least(demands, by_hand)
    smaller = [
        optimality_gap(policy, pairs, reference="context-free", size=size).interval.mean
        for size in (1, 5, 20, 60)
    ]
    assert smaller == sorted(smaller, reverse=True)
    assert smaller[-1] >= true


def test_neighborhoods_are_near_each_other(policy, pairs):
    """A context that decides alone makes groups whose outcomes hardly differ."""
    rng = np.random.default_rng(0)
    contexts = rng.uniform(-1, 1, (400, 2))
    demands = 15 + contexts[:, :1]
    near = optimality_gap(policy, (contexts, demands), size=20)
    mixed = optimality_gap(
        policy, (contexts, demands), reference="context-free", size=20
    )
    known = optimality_gap(policy, (contexts, demands), reference="perfect information")
    assert not near.proven and mixed.proven and known.proven
    assert mixed.interval.mean < near.interval.mean < known.interval.mean


def test_panels_have_neighborhoods_too():
    rng = np.random.default_rng(0)
    data = rng.normal(size=(40, 5, 2)), rng.uniform(14, 16, (40, 1))
    found = optimality_gap(fit(data, method="mmd"), data)
    assert found.interval.count == 20 and found.size == 2


def test_an_unknown_reference_is_refused(policy, pairs):
    with pytest.raises(csg.DataError, match="give one of"):
        optimality_gap(policy, pairs, reference="god")
