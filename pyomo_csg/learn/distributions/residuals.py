"""A point forecast plus its past errors, whose size may depend on the context."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pyomo_csg.learn.distributions.features import context_features, evenly_spaced
from pyomo_csg.learn.distributions.forecasts.fitting import restore_forecast
from pyomo_csg.learn.distributions.forecasts.forecast import (
    Forecast,
    default_folds,
    fold_numbers,
    row_units,
)
from pyomo_csg.learn.distributions.forecasts.forest import fit_forest
from pyomo_csg.learn.distributions.forecasts.ridge import fit_ridge
from pyomo_csg.learn.distributions.stored_arrays import (
    Arrays,
    StoredArrays,
    damage,
    with_prefix,
)
from pyomo_csg.learn.distributions.weighted import MOST_OUTCOMES, draw_others

_FEWEST = 60  # rows, below which the scale is constant
_LEAST_ERROR = 0.05  # of the mean error, so that logarithms stay finite
_TREES, _LEAF = 40, 20
_WIDEST = 4.0  # times the typical scale, and one over it
_CLEAR = 2.0  # standard errors
_BLOCKS = 20
_MOST_ROWS = 2000
_MOST_COLUMNS = 24


def _empty() -> np.ndarray:
    return np.empty((0, 0))


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
    fitted: np.ndarray = field(default_factory=_empty)

    def __call__(self, contexts: np.ndarray, location: np.ndarray) -> np.ndarray:
        """Return the scale (n, p), given contexts and the location (n, p) there."""
        if self.forecast is None:
            return np.ones((len(contexts), len(self.used)))
        logarithm = self.forecast.predict(_features(contexts, location))
        return np.where(self.used, _limited_exp(logarithm), 1.0)

    def to_arrays(self) -> tuple[dict[str, Any], Arrays]:
        """Return a JSON description, and the arrays."""
        arrays = {"used": self.used.astype(np.int32)}
        if self.forecast is None:
            return {"forecast": None}, arrays
        description, inside = self.forecast.to_arrays()
        return {"forecast": description}, arrays | with_prefix("forecast", inside)


@dataclass(frozen=True, eq=False)
class Residuals:
    """Outcomes ``location(x) + scale(x) * residual``, within the bounds (p,).

    Attributes
    ----------
    residuals : array (m, p)
        Errors out of fold in units of the scale, in the order of the history.
    fitted_location, fitted_scale : arrays (m, p)
        Out of fold; empty after the distribution is restored from arrays.
    """

    name: str
    forecast: Forecast
    size: Scale
    lower: np.ndarray
    upper: np.ndarray
    residuals: np.ndarray
    fitted_location: np.ndarray = field(default_factory=_empty)
    fitted_scale: np.ndarray = field(default_factory=_empty)

    def location(self, contexts: np.ndarray) -> np.ndarray:
        """Return the forecast (n, p)."""
        return self.forecast.predict(contexts)

    def scale(self, contexts: np.ndarray) -> np.ndarray:
        """Return the scale (n, p) of the errors."""
        if self.size.forecast is None:
            return np.ones((len(contexts), len(self.lower)))
        return self.size(contexts, self.location(contexts))

    def location_and_scale(self, contexts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return location and scale (n, p), faster than one after the other."""
        location = self.location(contexts)
        return location, self.size(contexts, location)

    def place(
        self, location: np.ndarray, scale: np.ndarray, residuals: np.ndarray
    ) -> np.ndarray:
        """Return outcomes (n, k, p) for residuals (k, p) or (n, k, p), within the bounds."""
        outcomes = location[:, None] + scale[:, None] * residuals
        return np.minimum(np.maximum(outcomes, self.lower), self.upper)

    @property
    def feature_count(self) -> int | None:
        """The number of features of a context, or None if it does not matter."""
        return self.forecast.feature_count

    @property
    def column_count(self) -> int:
        """The number of outcome columns p."""
        return len(self.lower)

    def outcomes(
        self, contexts: np.ndarray
    ) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Return, per context, outcomes (k, p) and equal weights (k,).

        At most 1000 residuals are used, evenly spaced in the history.
        """
        used = self.residuals[evenly_spaced(len(self.residuals), MOST_OUTCOMES)]
        location, scale = self.location_and_scale(contexts)
        share = np.full(len(used), 1 / len(used))
        points = [
            self.place(mine[None], width[None], used)[0]
            for mine, width in zip(location, scale, strict=True)
        ]
        return points, [share] * len(points)

    def sample(
        self, contexts: np.ndarray, count: int, rng: np.random.Generator
    ) -> np.ndarray:
        """Return outcomes (n, count, p) drawn for each context."""
        picked = rng.integers(len(self.residuals), size=(len(contexts), count))
        location, scale = self.location_and_scale(contexts)
        return self.place(location, scale, self.residuals[picked])

    def sample_fitted(
        self, rows: np.ndarray, count: int, rng: np.random.Generator
    ) -> np.ndarray:
        """Return outcomes (B, count, p) drawn for rows of the history.

        Location and scale are out of fold, and a row's residual is not drawn for it.
        """
        picked = draw_others(rows, len(self.residuals), count, rng)
        return self.place(
            self.fitted_location[rows], self.fitted_scale[rows], self.residuals[picked]
        )

    def to_arrays(self) -> tuple[dict[str, Any], Arrays]:
        """Return a JSON description and arrays, without the forecasts of the fitted rows."""
        forecast, inside = self.forecast.to_arrays()
        size, sizes = self.size.to_arrays()
        arrays = with_prefix("forecast", inside) | with_prefix("size", sizes)
        for name in ("lower", "upper", "residuals"):
            arrays[name] = getattr(self, name)
        return {
            "kind": "residuals",
            "name": self.name,
            "forecast": forecast,
            "size": size,
        }, arrays


def restore_residuals(stored: StoredArrays, name: str) -> Residuals:
    """Return the distribution that was stored."""
    forecast = restore_forecast(stored.part("forecast"))
    p = forecast.column_count
    size = restore_scale(stored.part("size"), forecast)
    residuals = stored.numbers("residuals", None, p)
    if not len(residuals):
        raise damage("array 'residuals' is empty")
    return Residuals(name, forecast, size, *stored.bounds(p), residuals)


def fit_residuals(
    name: str,
    forecast: Forecast,
    contexts: np.ndarray,
    outcomes: np.ndarray,
    bounds: tuple[np.ndarray, np.ndarray],
    seed: int,
    in_time: bool,
) -> Residuals:
    """Return a fitted forecast with its errors (m, p) out of fold."""
    location = forecast.out_of_fold
    errors = outcomes - location
    size = fit_scale(contexts, location, errors, seed, in_time)
    residuals = errors / size.fitted
    return Residuals(name, forecast, size, *bounds, residuals, location, size.fitted)


def restore_scale(stored: StoredArrays, location: Forecast) -> Scale:
    """Return the scale that was stored with a forecast of the location."""
    p = location.column_count
    used = stored.integers("used", p, high=2).astype(bool)
    if "forecast" not in stored:
        if used.any():
            raise damage("a scale has no forecast")
        return Scale(used)
    forecast = restore_forecast(stored.part("forecast"))
    expected = location.feature_count + _location_count(p), p
    if (forecast.feature_count, forecast.column_count) != expected:
        raise damage("a scale does not fit the location")
    return Scale(used, forecast)


def fit_scale(
    contexts: np.ndarray,
    location: np.ndarray,
    errors: np.ndarray,
    seed: int,
    in_time: bool,
) -> Scale:
    """Fit a scale to errors (m, p) out of fold, where it clearly improves the likelihood.

    The logarithm of absolute errors is predicted by the better of a linear and a forest
    model. Columns in which it does not improve the likelihood out of fold have scale 1.
    """
    m, p = errors.shape
    constant = Scale(np.zeros(p, dtype=bool), None, np.ones((m, p)))
    if m < _FEWEST or not errors.any():
        return constant
    features = _features(contexts, location)
    rows = evenly_spaced(m, _MOST_ROWS)
    typical = np.abs(errors[rows]).mean(axis=0)
    sizes = np.abs(errors[rows]) / np.where(typical > 0, typical, 1.0)
    targets = np.log(np.maximum(sizes, _LEAST_ERROR))
    targets -= targets.mean(axis=0)
    tried = _fit_logarithms(features[rows], targets, seed, in_time)
    gains = np.stack([_gains(sizes, _limited_exp(one.out_of_fold)) for one in tried])
    best = int(gains.mean(axis=(1, 2)).argmax())
    used = _is_clear(gains[best])
    if not used.any():
        return constant
    logarithm = np.empty((m, p)) if len(rows) == m else tried[best].predict(features)
    logarithm[rows] = tried[best].out_of_fold
    return Scale(used, tried[best], np.where(used, _limited_exp(logarithm), 1.0))


def _fit_logarithms(
    features: np.ndarray, targets: np.ndarray, seed: int, in_time: bool
) -> list[Forecast]:
    """Return a linear and a forest model of logarithms (m, p)."""
    units = row_units(features, targets, in_time)
    folds = fold_numbers(units, seed, in_time, default_folds(len(targets), in_time))
    return [
        fit_ridge(features, targets, folds, False),
        fit_forest(features, targets, units, seed, True, _LEAF, _TREES),
    ]


def _features(contexts: np.ndarray, location: np.ndarray) -> np.ndarray:
    """Return features with the location among them: errors often grow with the level."""
    if _location_count(location.shape[1]) == 1:
        location = location.mean(axis=1, keepdims=True)
    return np.hstack([context_features(contexts), location])


def _location_count(p: int) -> int:
    """Return how many features the location adds: its columns, or their mean if many."""
    return p if p <= _MOST_COLUMNS else 1


def _limited_exp(logarithm: np.ndarray) -> np.ndarray:
    bound = np.log(_WIDEST)
    return np.exp(np.clip(logarithm, -bound, bound))


def _gains(sizes: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Return by how much each row's Laplace log-likelihood (m, p) is above a constant's."""
    size = np.maximum(sizes.mean(axis=0), _LEAST_ERROR)
    scale = scale * np.maximum((sizes / scale).mean(axis=0), _LEAST_ERROR)
    return np.log(size / scale) + sizes / size - sizes / scale


def _is_clear(gains: np.ndarray) -> np.ndarray:
    """Return the columns (p,) with a gain of some standard errors, over blocks of rows."""
    blocks = np.array_split(gains, min(_BLOCKS, len(gains)))
    means = np.stack([block.mean(axis=0) for block in blocks])
    error = means.std(axis=0, ddof=1) / np.sqrt(len(means))
    return means.mean(axis=0) > _CLEAR * error
