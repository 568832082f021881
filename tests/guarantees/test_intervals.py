"""Intervals: formulas by hand, scipy's t, and how often they hold."""

import numpy as np
import pytest
from scipy import stats

import pyomo_csg as csg
from pyomo_csg.guarantees import mean_interval

REPEATS = 1000


def _held(draw, mean, delta, width=None, repeats=REPEATS):
    """Return how often the mean was above ``lower`` and below ``upper``."""
    found = [mean_interval(draw(), delta, width) for _ in range(repeats)]
    return (
        np.mean([one.lower <= mean for one in found]),
        np.mean([one.upper >= mean for one in found]),
    )


def _least(delta):
    """Return what the share of intervals that hold, each 1 - delta, exceeds surely."""
    return 1 - stats.binom.ppf(0.999, REPEATS, delta) / REPEATS


def test_hoeffding_agrees_with_the_textbook():
    values = np.array([0.0, 1.0] * 20)
    found = mean_interval(values, 0.1, width=1.0)
    assert found.method == "hoeffding"
    assert found.upper == pytest.approx(0.5 + np.sqrt(np.log(1 / 0.05) / 80))
    assert found.lower == pytest.approx(0.5 - np.sqrt(np.log(1 / 0.05) / 80))


def test_bernstein_is_maurer_and_pontil_s_and_wins_where_values_hardly_vary():
    values = np.random.default_rng(0).normal(0.3, 0.01, 2000).clip(0, 1)
    found = mean_interval(values, 0.1, width=1.0)
    log, n = np.log(2 / 0.05), 2000
    reach = np.sqrt(2 * values.var(ddof=1) * log / n) + 7 * log / (3 * (n - 1))
    assert found.method == "bernstein"
    assert found.upper == pytest.approx(values.mean() + reach)


def test_without_skewness_it_is_students_t():
    half = np.random.default_rng(1).normal(size=25)
    values = np.concatenate([half, -half]) + 3
    found = mean_interval(values, 0.05)
    t = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert (found.lower, found.upper) == pytest.approx((t.low, t.high))
    assert found.method == "student" and not found.doubtful


def test_constant_values_give_an_interval_of_width_zero():
    found = mean_interval(np.full(10, 2.5), 0.05)
    assert (found.lower, found.mean, found.upper) == (2.5, 2.5, 2.5)


@pytest.mark.parametrize("width", [None, 1.0])
@pytest.mark.parametrize("delta", [0.05, 0.01])
def test_coverage_is_at_least_nominal(delta, width):
    rng = np.random.default_rng(2)
    lower, upper = _held(lambda: rng.beta(0.5, 2, 60), 0.2, delta, width)
    assert lower >= _least(delta) and upper >= _least(delta)


def test_student_alone_would_not_hold_on_skewed_values():
    rng = np.random.default_rng(3)
    mean, delta = np.exp(0.5), 0.05
    draws = rng.lognormal(size=(REPEATS, 60))
    reach = stats.t.ppf(1 - delta, 59) * draws.std(axis=1, ddof=1) / np.sqrt(60)
    plain = np.mean(draws.mean(axis=1) + reach >= mean)
    corrected = np.mean([mean_interval(d, delta).upper >= mean for d in draws])
    assert plain < _least(delta) and corrected > plain


def test_few_skewed_values_are_doubtful_and_many_are_not():
    rng = np.random.default_rng(4)
    assert mean_interval(rng.lognormal(size=50), 0.05).doubtful
    assert not mean_interval(rng.exponential(size=2000), 0.05).doubtful


@pytest.mark.parametrize(
    ("values", "delta", "width", "says"),
    [
        ([1.0], 0.05, None, "at least two"),
        ([1.0, np.nan], 0.05, None, "not finite"),
        ([1.0, 2.0], 1.5, None, "delta is 1.5"),
        ([1.0, 2.0], 0.05, -1.0, "width is -1.0"),
        ([1.0, 4.0], 0.05, 2.0, "3 apart"),
    ],
)
def test_bad_arguments_are_refused(values, delta, width, says):
    with pytest.raises(csg.DataError, match=says):
        mean_interval(np.array(values), delta, width)
