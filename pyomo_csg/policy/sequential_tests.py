"""Tests whose error rate holds however often one looks, for monitoring.

An e-process starts at 1 and grows only if what it tests is wrong: the probability that it
ever reaches 1 / level is at most the level (Ville's inequality). So it may be looked at
after every row, and the answer stays valid. A confidence sequence holds for all numbers of
rows at once.
"""

from __future__ import annotations

import math

import numpy as np

_COCHRAN = 25  # times the squared skewness: values needed for a nearly normal mean
_ROUNDING = 1e-12  # of a variance, relative to the mean square
_TUNED_ROWS = 100  # at which the confidence sequence is the tightest
FEWEST_ROWS = 30  # before which a normal approximation says nothing


def outside_evidence(outside: np.ndarray, history_rows: int) -> np.ndarray:
    """Return the e-process (t,) of rows outside the range of a history.

    If the rows and the history are exchangeable, a row is outside with probability
    (2 + s) / (n + 1 + t) after t rows of which s were outside: the smallest and the largest
    of all values are equally likely to be anywhere. The bet is on an unknown constant
    share, by Jeffreys' prior.

    >>> outside_evidence(np.array([True, True, False]), 98).round(1)
    array([ 24.7, 618.7, 107.4])
    """
    seen = np.arange(len(outside))
    before = np.cumsum(outside) - outside
    expected = (2 + before) / (history_rows + 1 + seen)
    bet = (0.5 + before) / (1 + seen)
    ratio = np.where(outside, bet / expected, (1 - bet) / (1 - expected))
    return np.exp(np.cumsum(np.log(ratio)))


def mean_bounds(values: np.ndarray, level: float) -> np.ndarray:
    """Return a confidence sequence (t, 2) of the mean of values, for all t at once.

    It is that of Waudby-Smith et al. (2024, Annals of Statistics), which holds for any
    distribution with a variance as the number of rows grows. It is infinite before 30 rows,
    and before 25 times the squared skewness (Cochran's rule): fewer skewed values are far
    from a normal mean.
    """
    count = np.arange(1, len(values) + 1)
    means = np.cumsum(values) / count
    squares = np.cumsum(values**2) / count - means**2
    spread = np.sqrt(np.maximum(squares, 0) * count / np.maximum(count - 1, 1))
    log = -2 * math.log(level)
    rho = (log + math.log(log + 1)) / _TUNED_ROWS
    inside = 2 * (count * rho + 1) / (count**2 * rho)
    width = spread * np.sqrt(inside * np.log(np.sqrt(count * rho + 1) / level))
    width[count < np.maximum(FEWEST_ROWS, _COCHRAN * _skewness(values) ** 2)] = np.inf
    return np.column_stack([means - width, means + width])


def _skewness(values: np.ndarray) -> np.ndarray:
    """Return the skewness (t,) of the first values, for every number of them."""
    count = np.arange(1, len(values) + 1)
    first, second, third = (np.cumsum(values**power) / count for power in (1, 2, 3))
    variance = second - first**2
    central = third - 3 * first * second + 2 * first**3
    varies = variance > _ROUNDING * np.maximum(second, 1e-300)
    power = np.where(varies, variance, 1.0) ** 1.5
    return np.where(varies, central / power, 0.0)


def first_crossing(evidence: np.ndarray, level: float) -> int | None:
    """Return the number of rows after which evidence was enough; None if it never was."""
    rows = np.flatnonzero(evidence >= 1 / level)
    return int(rows[0]) + 1 if len(rows) else None
