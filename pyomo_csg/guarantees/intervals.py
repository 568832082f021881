"""Between which numbers a mean is, with what confidence."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import stats

from pyomo_csg.errors import DataError
from pyomo_csg.stages.inputs import float_array
from pyomo_csg.validation import share_problems, size_problems

_HOEFFDING, _BERNSTEIN, _STUDENT = "hoeffding", "bernstein", "student"
_COCHRAN = 25  # times the squared skewness: so many values make a mean about normal
_SYMMETRIC = 1e-8
_SUBJECT = "There is no confidence interval"


@dataclass(frozen=True)
class Interval:
    """A mean that was seen, and between which numbers the true one is.

    Attributes
    ----------
    mean, lower, upper : float
    count : int
        Values that it was taken over.
    method : str
        ``'hoeffding'`` or ``'bernstein'``, which hold whatever the law of the values
        within a known range, or ``'student'``, which takes their mean as nearly normal.
    doubtful : bool
        Whether the values are so skewed that ``'student'`` would want more of them, by
        Cochran's rule: 25 times the square of their skewness.
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
    """Return between which numbers the mean of independent values is.

    Parameters
    ----------
    values : array (n,)
        Independent draws of one law.
    delta : float
        The chance that the mean is below ``lower``, at most, and that it is above
        ``upper``.
    width : float, optional
        How far apart two values can be at most. With it, the tighter of Hoeffding's
        bound and the empirical Bernstein bound of Maurer and Pontil (2009), each at half
        of ``delta``. Without it, the wider of Student's t and Hall's (1992) correction
        of it for skewness, at half of ``delta``: the other half is for their error.

    Examples
    --------
    >>> values = np.random.default_rng(0).uniform(size=500)
    >>> found = mean_interval(values, delta=0.05, width=1.0)
    >>> found.method, round(found.lower, 2), round(found.upper, 2)
    ('bernstein', 0.47, 0.59)
    """
    values = float_array("values", values, _SUBJECT)
    _refuse(values, delta, width)
    mean, n = float(values.mean()), len(values)
    if width is not None:
        reach, method = _bounded(values, delta / 2, width)
        return Interval(mean, mean - reach, mean + reach, n, method)
    skewness = _skewness(values)
    below, above = _student(values, delta / 2, skewness)
    doubtful = n < _COCHRAN * skewness**2
    return Interval(mean, mean - below, mean + above, n, _STUDENT, doubtful)


def _bounded(values: np.ndarray, delta: float, width: float) -> tuple[float, str]:
    """Return how far off the mean may be, and who says so."""
    n = len(values)
    hoeffding = width * math.sqrt(math.log(1 / delta) / (2 * n))
    log = math.log(2 / delta)
    spread = math.sqrt(2 * float(values.var(ddof=1)) * log / n)
    bernstein = spread + 7 * width * log / (3 * (n - 1))
    return min((hoeffding, _HOEFFDING), (bernstein, _BERNSTEIN))


def _student(values: np.ndarray, delta: float, skewness: float) -> tuple[float, float]:
    """Return how far below and above the mean seen the true one may be."""
    n, spread = len(values), float(values.std(ddof=1))
    reach = float(stats.t.ppf(1 - delta, n - 1)) / math.sqrt(n)
    below, above = (side * _unskewed(side * reach, skewness, n) for side in (1, -1))
    return spread * max(reach, below), spread * max(reach, above)


def _skewness(values: np.ndarray) -> float:
    apart = values - values.mean()
    spread = math.sqrt(float((apart**2).mean()))
    return float((apart**3).mean()) / spread**3 if spread > 0 else 0.0


def _unskewed(x: float, skewness: float, n: int) -> float:
    """Return Hall's inverse cubic transformation."""
    if abs(skewness) < _SYMMETRIC:
        return x
    inside = 1 + skewness * (x - skewness / (6 * n))
    return 3 / skewness * (float(np.cbrt(inside)) - 1)


def _refuse(values: np.ndarray, delta: float, width: float | None) -> None:
    problems = []
    if values.ndim != 1 or len(values) < 2:
        problems.append(f"values are of shape {values.shape}; give at least two")
    if not np.isfinite(values).all():
        problems.append("some value is not finite; drop it")
    problems += share_problems(delta=delta)
    if width is not None:
        problems += size_problems(width=width)
    if width is not None and not problems and np.ptp(values) > width:
        problems.append(
            f"two values are {np.ptp(values):g} apart, which is more than the width "
            f"{width:g}; give the range that all values are in, not only these"
        )
    if problems:
        raise DataError(_SUBJECT, problems)
