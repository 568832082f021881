"""Restores point forecasts from arrays."""

from __future__ import annotations

from pyomo_csg.learn.distributions.forecasts.boosted import restore_boosted
from pyomo_csg.learn.distributions.forecasts.forecast import Forecast
from pyomo_csg.learn.distributions.forecasts.forest import restore_forest
from pyomo_csg.learn.distributions.forecasts.ridge import restore_ridge
from pyomo_csg.learn.distributions.forecasts.stacking import restore_stacked
from pyomo_csg.learn.distributions.stored_arrays import StoredArrays, damage


def restore_forecast(stored: StoredArrays) -> Forecast:
    """Return the forecast that was stored, or raise a DataError if it is damaged."""
    kind = stored.text("kind")
    if kind == "stacked":
        parts = [_restore_single(part) for part in stored.parts("parts")]
        return restore_stacked(stored, parts)
    return _restore_single(stored)


def _restore_single(stored: StoredArrays) -> Forecast:
    kind = stored.text("kind")
    if kind == "ridge":
        return restore_ridge(stored)
    if kind == "forest":
        return restore_forest(stored)
    if kind == "boosting":
        return restore_boosted(stored)
    raise damage(f"a forecast has kind {kind!r:.40}")
