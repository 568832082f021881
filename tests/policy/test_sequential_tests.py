"""Sequential tests: false alarms are rare however often one looks, and drift is found."""

import numpy as np
import pytest
from scipy import stats

from pyomo_csg.policy.sequential_tests import (
    first_crossing,
    mean_bounds,
    outside_evidence,
)

LEVEL, REPEATS, ROWS = 0.05, 400, 300
MOST = stats.binom.ppf(0.999, REPEATS, LEVEL)  # false alarms at the level


def samples(draw):
    rng = np.random.default_rng(0)
    return (draw(rng) for _ in range(REPEATS))


@pytest.mark.parametrize(
    "draw",
    [
        lambda rng, n: rng.normal(size=n),
        lambda rng, n: rng.exponential(size=n),
        lambda rng, n: rng.standard_cauchy(size=n),
        lambda rng, n: rng.integers(5, size=n).astype(float),
    ],
    ids=["normal", "exponential", "cauchy", "ties"],
)
def test_rows_of_the_same_world_rarely_raise_an_alarm(draw):
    alarms = 0
    for both in samples(lambda rng: draw(rng, 100 + ROWS)):
        old, new = both[:100], both[100:]
        beyond = (new < old.min()) | (new > old.max())
        alarms += first_crossing(outside_evidence(beyond, 100), LEVEL) is not None
    assert alarms <= MOST


@pytest.mark.parametrize(
    "draw",
    [
        lambda rng: rng.normal(size=ROWS),
        lambda rng: rng.exponential(size=ROWS) - 1,
        lambda rng: 1 - rng.exponential(size=ROWS),
        lambda rng: np.where(rng.random(ROWS) < 0.1, 9.0, -1.0) - 0.0,
    ],
    ids=["normal", "right skew", "left skew", "rare large costs"],
)
def test_the_confidence_sequence_holds_at_all_times_at_once(draw):
    missed = 0
    for values in samples(draw):
        bounds = mean_bounds(values, LEVEL)
        missed += bool(((bounds[:, 0] > 0) | (bounds[:, 1] < 0)).any())
    assert missed <= MOST


def test_looking_only_at_the_end_of_a_t_test_would_fail_here():
    """The simulation would find a test that does not allow for many looks."""
    missed = 0
    for values in samples(lambda rng: rng.normal(size=ROWS)):
        count = np.arange(1, ROWS + 1)
        means = np.cumsum(values) / count
        missed += bool((np.abs(means) * np.sqrt(count) > 1.96)[30:].any())
    assert missed > 2 * MOST


def test_the_chance_to_be_outside_is_that_of_random_orders():
    rng = np.random.default_rng(1)
    draws = rng.random((20_000, 12))
    old, new = draws[:, :9], draws[:, 9:]
    outside = (new < old.min(axis=1)[:, None]) | (new > old.max(axis=1)[:, None])
    patterns, counts = np.unique(outside, axis=0, return_counts=True)
    for pattern, count in zip(patterns, counts, strict=True):
        before = np.cumsum(pattern) - pattern
        chance = (2 + before) / (10 + np.arange(3))
        bet = (0.5 + before) / (1 + np.arange(3))
        expected = np.prod(np.where(pattern, chance, 1 - chance))
        assert count / 20_000 == pytest.approx(expected, abs=0.012)
        evidence = outside_evidence(pattern, 9)[-1]
        ratio = np.prod(np.where(pattern, bet, 1 - bet)) / expected
        assert evidence == pytest.approx(ratio)


def test_drift_is_found_soon():
    rng = np.random.default_rng(2)
    moved = rng.normal(size=60) + 1
    assert first_crossing(outside_evidence(np.ones(5, bool), 200), LEVEL) <= 2
    assert (mean_bounds(moved, LEVEL)[:, 0] > 0).any()
    assert mean_bounds(np.zeros(50), LEVEL)[-1].tolist() == [0, 0]
