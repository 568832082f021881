"""Point forecasts: what each of them offers, and the folds on which they are compared."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from pyomo_csg.learn.distributions.stored_arrays import Arrays

_FOLDS = 10
_BLOCKS = 40  # of consecutive rows; a tree sees all rows of a block or none


class Forecast(Protocol):
    """Predicts outcomes given contexts.

    Attributes
    ----------
    out_of_fold : array (m, p)
        Predictions of the fitted rows by models that have not seen them. It is empty
        after a forecast is restored from arrays.
    """

    @property
    def out_of_fold(self) -> np.ndarray:
        """Predictions (m, p) of the fitted rows by models that have not seen them."""

    @property
    def feature_count(self) -> int:
        """The number of features f of a context."""

    @property
    def column_count(self) -> int:
        """The number of outcome columns p."""

    def predict(self, contexts: np.ndarray) -> np.ndarray:
        """Return predictions (n, p) for contexts (n, d) or (n, W, d)."""

    def to_arrays(self) -> tuple[dict[str, Any], Arrays]:
        """Return a JSON description and arrays, for :func:`restore_forecast`."""


def fold_numbers(units: np.ndarray, seed: int, in_time: bool, folds: int) -> np.ndarray:
    """Return the fold (m,) of each row, given its unit: blocks in time, else at random."""
    count = int(units.max()) + 1
    order = np.arange(count)
    if not in_time:
        order = np.random.default_rng(seed).permutation(count)
    return (order * min(folds, count) // count)[units]


def default_folds(m: int, in_time: bool) -> int:
    """Return the number of folds; for a short history, the number of rows."""
    return m if m <= 4 * _FOLDS and not in_time else _FOLDS


def row_units(contexts: np.ndarray, outcomes: np.ndarray, in_time: bool) -> np.ndarray:
    """Return the unit (m,) of each row, from 0; a unit is held out as a whole.

    Units are single rows, copies of a row together, or in time short blocks of rows.
    """
    m = len(outcomes)
    if in_time:
        return np.arange(m) * min(m, _BLOCKS) // m
    rows = np.hstack([contexts.reshape(m, -1), outcomes])
    _, units = np.unique(rows, axis=0, return_inverse=True)
    units = units.ravel()
    return units if units.max() else np.arange(m)


def choose_by_column(squares: np.ndarray) -> np.ndarray:
    """Return the option (p,) with the least squared error, given (options, p).

    The mean over all columns, which is less noisy, has half of the weight.
    """
    relative = squares / np.maximum(squares.min(axis=0), np.finfo(float).tiny)
    # Logarithms keep one column from outvoting the others; without errors it is 0 / 0.
    worse = np.log(np.clip(relative, 1.0, 1e6))
    return (worse + worse.mean(axis=1, keepdims=True)).argmin(axis=0)
