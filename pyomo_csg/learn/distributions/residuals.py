"""A point forecast plus its past errors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pyomo_csg.learn.distributions.features import evenly_spaced
from pyomo_csg.learn.distributions.forecasts.fitting import restore_forecast
from pyomo_csg.learn.distributions.forecasts.forecast import Forecast
from pyomo_csg.learn.distributions.scales import Scale, fit_scale, restore_scale
from pyomo_csg.learn.distributions.stored_arrays import (
    Arrays,
    StoredArrays,
    damage,
    with_prefix,
)
from pyomo_csg.learn.distributions.weighted import MOST_OUTCOMES, draw_others


def _empty() -> np.ndarray:
    return np.empty((0, 0))


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
        """Return both, for less than each by itself."""
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

        Of more than 1000 residuals, 1000 that are evenly spaced are used.
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
        """Return a JSON description and arrays; the fitted rows' forecasts are not kept."""
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
