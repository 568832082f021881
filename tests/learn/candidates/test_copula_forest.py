"""The conditional distribution, compared with known distributions."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.stats import kstest, norm, spearmanr

from pyomo_csg.learn.candidates import copula_forest as module
from pyomo_csg.learn.candidates.copula_forest import CopulaForest
from pyomo_csg.learn.distributions.samplers import forest_weights

EVERYTHING = np.arange(4)


def pairs(n, seed=0, together=0.9):
    """Two numbers that follow two lines, with noise that they share in part."""
    rng = np.random.default_rng(seed)
    contexts = rng.normal(size=(n, 5))
    cov = [[1.0, together], [together, 1.0]]
    noise = 0.5 * rng.multivariate_normal(np.zeros(2), cov, size=n)
    return contexts, contexts @ lines() + noise


def lines():
    return np.random.default_rng(9).normal(size=(5, 2))


@pytest.fixture(scope="module")
def known():
    contexts, outcomes = pairs(600)
    at = np.random.default_rng(1).normal(size=(4, 5))
    return contexts, outcomes, at, CopulaForest(contexts, outcomes, at, seed=0)


def test_draws_are_near_the_law_that_made_the_history(known):
    *_, at, law = known
    drawn = law.draw(EVERYTHING, 4000, np.random.default_rng(2))

    assert drawn.shape == (4, 4000, 2)
    assert drawn.mean(axis=1) == pytest.approx(at @ lines(), abs=0.5)
    assert 0.4 < drawn.std(axis=1).min() and drawn.std(axis=1).max() < 1.1


def test_it_is_nearer_than_a_forest_that_tells_all_numbers_apart_at_once():
    contexts, outcomes = pairs(300)
    at, truth = pairs(200, seed=5)
    both = np.concatenate([contexts, at])
    likely = CopulaForest(contexts, outcomes, at, seed=0).draw(
        np.arange(200), 100, np.random.default_rng(0)
    )
    padded = np.concatenate([outcomes, truth])
    weights = forest_weights(both, padded, np.arange(300), seed=0)[300:, :300]
    rng = np.random.default_rng(0)
    joint = np.array([outcomes[rng.choice(300, 100, p=w / w.sum())] for w in weights])

    assert energy_score(likely, truth) < 0.95 * energy_score(joint, truth)


def energy_score(samples, truth):
    """Return the mean of a proper score (the lower the better) of samples (n, m, p)."""
    to_truth = np.linalg.norm(samples - truth[:, None], axis=-1).mean()
    apart = np.linalg.norm(samples[:, :, None] - samples[:, None], axis=-1).mean()
    return to_truth - apart / 2


@pytest.mark.parametrize("together", [0.0, 0.9, -0.9])
def test_numbers_go_together_as_they_did(together):
    contexts, outcomes = pairs(500, together=together)
    law = CopulaForest(contexts, outcomes, contexts[:4], seed=0)

    drawn = law.draw(EVERYTHING, 2000, np.random.default_rng(2))

    # What the forests do not tell blurs it.
    found = np.mean([spearmanr(one).statistic for one in drawn])
    assert found == pytest.approx(0.7 * together, abs=0.2)


def test_every_number_that_is_drawn_happened(known):
    _, outcomes, _, law = known
    drawn = law.draw(EVERYTHING, 50, np.random.default_rng(0))

    assert all(np.isin(drawn[..., j], outcomes[:, j]).all() for j in (0, 1))


def test_quantiles_are_those_of_weighted_values():
    values = np.array([3.0, 1.0, 2.0])
    weights = np.array([[0.2, 0.5, 0.3], [1.0, 0.0, 0.0]])

    found = module._quantiles(csr_array(weights), values, levels=10)

    assert found.tolist() == [[1.0] * 5 + [2.0] * 3 + [3.0] * 2, [3.0] * 10]


def test_places_are_uniform_and_tell_who_was_high():
    rng = np.random.default_rng(0)
    values = rng.normal(size=200)
    places = module._conditional_ranks(
        csr_array(np.full((200, 200), 1 / 200)), values, rng
    )

    assert kstest(places, "uniform").statistic < 0.01
    assert places == pytest.approx(norm.cdf(values), abs=0.1)


def test_places_of_ties_fall_anywhere():
    values = np.repeat([0.0, 1.0], 50)
    places = module._conditional_ranks(
        csr_array(np.full((100, 100), 0.01)), values, np.random.default_rng(0)
    )

    assert places[:50].max() < places[50:].min()
    assert spearmanr(places[:50], np.arange(50)).statistic == pytest.approx(0, abs=0.3)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_few_pairs_and_constant_contexts_have_a_law_too(n):
    outcomes = np.arange(n, dtype=float)[:, None]
    law = CopulaForest(np.ones((n, 2)), outcomes, np.ones((4, 2)), seed=0)

    drawn = law.draw(EVERYTHING, 200, np.random.default_rng(0))

    assert set(drawn.ravel()) == set(outcomes.ravel())


def test_units_do_not_matter():
    contexts, outcomes = pairs(60)
    here = CopulaForest(contexts, outcomes, contexts[:4], seed=0)
    there = CopulaForest(contexts, outcomes * [1024.0, 1.0], contexts[:4], seed=0)

    one, other = (
        x.draw(EVERYTHING, 20, np.random.default_rng(0)) for x in (here, there)
    )

    assert other == pytest.approx(one * [1024.0, 1.0])


def test_the_same_seed_has_the_same_law():
    contexts, outcomes = pairs(60)
    one, other = (
        CopulaForest(contexts, outcomes, contexts[:4], seed=3).draw(
            EVERYTHING, 20, np.random.default_rng(0)
        )
        for _ in range(2)
    )
    assert (one == other).all()
