"""Distances between distributions of scenarios and outcome: POT and feature maps."""

import numpy as np
import ot
import pytest

import pyomo_csg as csg
from pyomo_csg.learn.distributions.distances import (
    joint_mmd,
    kappa_distance,
    wasserstein,
)


def test_wasserstein_is_that_of_pot():
    rng = np.random.default_rng(0)
    one, other = rng.normal(size=(40, 2, 3)), rng.normal(0.5, 2, size=(40, 2, 3))
    apart = ot.dist(one.reshape(40, 6), other.reshape(40, 6), metric="euclidean")
    expected = ot.emd2(ot.unif(40), ot.unif(40), apart)
    assert wasserstein(one, other) == pytest.approx(expected)


def test_samples_of_different_sizes_are_refused():
    with pytest.raises(csg.DataError, match=r"\(3, 1\) and \(2, 1\)"):
        wasserstein(np.zeros((3, 1)), np.zeros((2, 1)))


def _linear(one, other):
    """Return the kernel whose feature map is the point itself."""
    return one @ other.transpose(-1, -2)


def test_kappa_is_the_distance_of_mean_features():
    """With a linear kernel: how far scenarios' means are off the outcomes'."""
    rng = np.random.default_rng(1)
    laws = [(rng.normal(size=(20, 3, 2)), rng.normal(size=(20, 2))) for _ in range(2)]
    means = [(zeta.mean(axis=1) - omega).mean(axis=0) for zeta, omega in laws]
    found = kappa_distance(*laws, kernel=_linear)
    assert found == pytest.approx(np.linalg.norm(means[0] - means[1]))


def test_kappa_counts_scenarios_by_their_weights():
    rng = np.random.default_rng(2)
    zeta, omega = rng.normal(size=(20, 3, 2)), rng.normal(size=(20, 2))
    weights = rng.dirichlet(np.ones(3), 20)
    means = (weights[..., None] * zeta).sum(axis=1)
    found = kappa_distance((zeta, omega, weights), (zeta, omega), kernel=_linear)
    apart = (means - zeta.mean(axis=1)).mean(axis=0)
    assert found == pytest.approx(np.linalg.norm(apart))


def test_a_law_is_not_apart_from_itself():
    rng = np.random.default_rng(3)
    law = rng.normal(size=(20, 3, 2)), rng.normal(size=(20, 2))
    assert kappa_distance(law, law) == pytest.approx(0.0, abs=1e-6)


def test_the_split_is_that_of_means_and_their_spread():
    """With a linear kernel and x ~ N(0, 1): scenarios off by 1 + x, outcomes exact."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=(1200, 1))
    outcomes = np.repeat(x[:, None], 2, axis=1)
    found = joint_mmd((x + 1 + x)[:, None], outcomes, kernel=_linear)
    assert found.bias == pytest.approx(1.0, abs=0.2)
    assert found.variance == pytest.approx(1.0, abs=0.2)
    assert found.total == pytest.approx(2.0, abs=0.3) and not found.noisy


def test_scenarios_drawn_as_the_outcome_is_have_no_bias():
    rng = np.random.default_rng(5)
    x = rng.normal(size=(300, 1, 1))
    scenarios, outcomes = (x + rng.normal(size=(300, m, 1)) for m in (5, 8))
    good = joint_mmd(scenarios, outcomes)
    moved = joint_mmd(scenarios + 1, outcomes)
    assert abs(good.bias) < 0.02 < moved.bias
    assert moved.total == pytest.approx(moved.bias + moved.variance)


def test_more_draws_of_an_outcome_do_not_move_the_mean_and_one_has_its_noise():
    rng = np.random.default_rng(6)
    scenarios = np.zeros((800, 1, 1))
    two, ten, one = (
        joint_mmd(scenarios[:n], rng.normal(1.0, 1.0, (n, m, 1)), kernel=_linear)
        for n, m in ((800, 2), (800, 10), (800, 1))
    )
    assert two.total == pytest.approx(1.0, abs=0.2)
    assert ten.total == pytest.approx(1.0, abs=0.2)
    assert one.total == pytest.approx(2.0, abs=0.3) and one.noisy
