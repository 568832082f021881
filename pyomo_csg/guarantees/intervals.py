"""Confidence intervals of a mean, with and without a known range of the values."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import stats

from pyomo_csg.stages.inputs import float_array
from pyomo_csg.validation import Problems

_HOEFFDING, _BERNSTEIN, _STUDENT = "hoeffding", "bernstein", "student"
_COCHRAN = 25  # times the squared skewness: values needed for a nearly normal mean
_SYMMETRIC = 1e-8  # with less skewness, Hall's correction would divide by about zero
_SUBJECT = "Cannot compute a confidence interval"


@dataclass(frozen=True)
class Interval:
    """A sample mean and a confidence interval of the true mean.

    Attributes
    ----------
    mean, lower, upper : float
    count : int
        The number of values.
    method : str
        ``'hoeffding'`` or ``'bernstein'``, which hold for any distribution within a known
        range, or ``'student'``, which assumes a nearly normal mean.
    doubtful : bool
        Whether the values are too skewed, or too few, for ``'student'`` by Cochran's rule:
        fewer than 25 times their squared skewness.
    """

    mean: float
    lower: float
    upper: float
    count: int
    method: str
    doubtful: bool = False


def mean_interval(
    values: np.ndarray, delta: float, width: float | None = None
) -> Interval:
    """Return a confidence interval of the mean of independent values.

    Parameters
    ----------
    values : array (n,)
        Independent draws from one distribution.
    delta : float
        The probability, at most, that the mean is below ``lower``, and likewise that it is
        above ``upper``.
    width : float, optional
        The largest possible difference of two values. With it, the interval is the tighter
        of Hoeffding's and of Maurer and Pontil's (2009) empirical Bernstein bound, each at
        ``delta / 2``. Without it, it is the wider of Student's t and of Hall's (1992)
        correction for skewness, at ``delta / 2``: the other half allows for their error.

    Examples
    --------
    >>> values = np.random.default_rng(0).uniform(size=500)
    >>> found = mean_interval(values, delta=0.05, width=1.0)
    >>> found.method, round(found.lower, 2), round(found.upper, 2)
    ('bernstein', 0.47, 0.59)
    """
    values = float_array("values", values, _SUBJECT)
    _check_arguments(values, delta, width)
    mean, n = float(values.mean()), len(values)
    if width is not None:
        margin, method = _bounded_margin(values, delta / 2, width)
        return Interval(mean, mean - margin, mean + margin, n, method)
    skewness = _skewness(values)
    below, above = _student_margins(values, delta / 2, skewness)
    doubtful = n < _COCHRAN * skewness**2
    return Interval(mean, mean - below, mean + above, n, _STUDENT, doubtful)


def _bounded_margin(
    values: np.ndarray, delta: float, width: float
) -> tuple[float, str]:
    """Return the smaller of both margins of error, and the name of its inequality."""
    n = len(values)
    hoeffding = width * math.sqrt(math.log(1 / delta) / (2 * n))
    log = math.log(2 / delta)
    spread = math.sqrt(2 * float(values.var(ddof=1)) * log / n)
    bernstein = spread + 7 * width * log / (3 * (n - 1))
    return min((hoeffding, _HOEFFDING), (bernstein, _BERNSTEIN))


def _student_margins(
    values: np.ndarray, delta: float, skewness: float
) -> tuple[float, float]:
    """Return the margins of error below and above the sample mean."""
    n, spread = len(values), float(values.std(ddof=1))
    margin = float(stats.t.ppf(1 - delta, n - 1)) / math.sqrt(n)
    below, above = (
        side * _hall_transform(side * margin, skewness, n) for side in (1, -1)
    )
    return spread * max(margin, below), spread * max(margin, above)


def _skewness(values: np.ndarray) -> float:
    deviations = values - values.mean()
    spread = math.sqrt(float((deviations**2).mean()))
    return float((deviations**3).mean()) / spread**3 if spread > 0 else 0.0


def _hall_transform(x: float, skewness: float, n: int) -> float:
    """Return Hall's inverse cubic transformation of a t value over sqrt(n)."""
    if abs(skewness) < _SYMMETRIC:
        return x
    inside = 1 + skewness * (x - skewness / (6 * n))
    return 3 / skewness * (float(np.cbrt(inside)) - 1)


def _check_arguments(values: np.ndarray, delta: float, width: float | None) -> None:
    problems = Problems(_SUBJECT)
    if values.ndim != 1 or len(values) < 2:
        problems.add(f"values have shape {values.shape}; give at least two")
    if not np.isfinite(values).all():
        problems.add("some value is not finite; drop it")
    problems.check_fractions(delta=delta)
    if width is not None:
        problems.check_nonnegative(width=width)
    if width is not None and not problems and np.ptp(values) > width:
        problems.add(
            f"two values are {np.ptp(values):g} apart, more than the width {width:g}; "
            "give the width of the range of all possible values"
        )
    problems.raise_any()
