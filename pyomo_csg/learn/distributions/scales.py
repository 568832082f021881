"""How the size of a forecast's errors depends on the context."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pyomo_csg.learn.distributions.features import context_features
from pyomo_csg.learn.distributions.forecasts.forecast import Forecast
from pyomo_csg.learn.distributions.forecasts.forest_fitting import fit_forest
from pyomo_csg.learn.distributions.forecasts.ridge import fit_ridge
from pyomo_csg.learn.distributions.forecasts.row_parts import (
    default_folds,
    fold_numbers,
    row_units,
)
from pyomo_csg.learn.distributions.stored_arrays import Arrays, with_prefix

_FEWEST = 60  # rows, below which the scale is constant
_LEAST_ERROR = 0.05  # of the mean error, so that logarithms stay finite
_TREES, _LEAF = 60, 20
_WIDEST = 4.0  # times the typical scale, and one over it
_CLEAR = 2.0  # standard errors
_BLOCKS = 20


@dataclass(frozen=True, eq=False)
class Scale:
    """The typical size of the errors: exp of a forecast, or 1 in columns without ``used``.

    Attributes
    ----------
    fitted : array (m, p)
        The scale at the fitted rows by models that have not seen them.
    """

    used: np.ndarray
    forecast: Forecast | None = None
    fitted: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))

    def __call__(self, contexts: np.ndarray, location: np.ndarray) -> np.ndarray:
        """Return the scale (n, p), given contexts and the location (n, p) there."""
        if self.forecast is None:
            return np.ones((len(contexts), len(self.used)))
        logarithm = self.forecast.predict(_features(contexts, location))
        return np.where(self.used, _limited(logarithm), 1.0)

    def to_arrays(self) -> tuple[dict[str, Any], Arrays]:
        """Return a JSON description, and the arrays."""
        arrays = {"used": self.used.astype(np.int32)}
        if self.forecast is None:
            return {"forecast": None}, arrays
        description, inside = self.forecast.to_arrays()
        return {"forecast": description}, arrays | with_prefix("forecast", inside)


def fit_scale(
    contexts: np.ndarray,
    location: np.ndarray,
    errors: np.ndarray,
    seed: int,
    in_time: bool,
) -> Scale:
    """Fit a scale to errors (m, p) out of fold, where that clearly pays.

    The better of a linear and a forest model of the logarithm of absolute errors is
    used in the columns where it clearly improves the likelihood out of fold.
    """
    m, p = errors.shape
    constant = Scale(np.zeros(p, dtype=bool), None, np.ones((m, p)))
    typical = np.abs(errors).mean(axis=0)
    if m < _FEWEST or not (typical > 0).any():
        return constant
    typical = np.where(typical > 0, typical, 1.0)
    sizes = np.abs(errors) / typical
    targets = np.log(np.maximum(sizes, _LEAST_ERROR))
    targets -= targets.mean(axis=0)
    features = _features(contexts, location)
    units = row_units(features, errors, in_time)
    folds = fold_numbers(units, seed, in_time, default_folds(m, in_time))
    tried: list[Forecast] = [
        fit_ridge(features, targets, folds, False),
        fit_forest(features, targets, units, seed, leaf=_LEAF, trees=_TREES),
    ]
    gains = np.stack([_gains(sizes, _limited(one.out_of_fold)) for one in tried])
    best = int(gains.mean(axis=(1, 2)).argmax())
    used = _is_clear(gains[best])
    if not used.any():
        return constant
    fitted = np.where(used, _limited(tried[best].out_of_fold), 1.0)
    return Scale(used, tried[best], fitted)


def _features(contexts: np.ndarray, location: np.ndarray) -> np.ndarray:
    """Return features: errors often grow with the level."""
    if location.shape[1] > 24:
        location = location.mean(axis=1, keepdims=True)
    return np.hstack([context_features(contexts), location])


def _limited(logarithm: np.ndarray) -> np.ndarray:
    bound = np.log(_WIDEST)
    return np.exp(np.clip(logarithm, -bound, bound))


def _gains(sizes: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Return by how much each row's Laplace log-likelihood (m, p) is above a constant's."""
    unit = (sizes / scale).mean(axis=0)
    return np.log(sizes.mean(axis=0) / (scale * unit)) + sizes - sizes / (scale * unit)


def _is_clear(gains: np.ndarray) -> np.ndarray:
    """Return the columns (p,) with a gain of some standard errors, over blocks of rows."""
    blocks = np.array_split(gains, min(_BLOCKS, len(gains)))
    means = np.stack([block.mean(axis=0) for block in blocks])
    error = means.std(axis=0, ddof=1) / np.sqrt(len(means))
    return means.mean(axis=0) > _CLEAR * error
