"""Fits and restores point forecasts of every kind."""

from __future__ import annotations

import numpy as np

from pyomo_csg.learn.distributions.features import context_features
from pyomo_csg.learn.distributions.forecasts.boosting import (
    Boosted,
    boost_ridge,
    restore_boosted,
)
from pyomo_csg.learn.distributions.forecasts.forecast import (
    Forecast,
    default_folds,
    fold_numbers,
    row_units,
)
from pyomo_csg.learn.distributions.forecasts.forest import fit_forest, restore_forest
from pyomo_csg.learn.distributions.forecasts.ridge import (
    Ridge,
    fit_ridge,
    restore_ridge,
)
from pyomo_csg.learn.distributions.forecasts.stacking import restore_stacked, stack
from pyomo_csg.learn.distributions.stored_arrays import StoredArrays, damage

FORECASTS = ("ridge", "quadratic", "forest", "extra trees", "boosting", "stacked")
_BOOSTING_FOLDS = 3
_MOST_BOOSTED = 1_000_000  # numbers in the contexts


class Fits:
    """The forecasts of one history, each fitted when it is first needed."""

    def __init__(
        self, contexts: np.ndarray, outcomes: np.ndarray, seed: int, in_time: bool
    ):
        self.contexts, self.outcomes = contexts, outcomes
        self.seed, self.in_time = seed, in_time
        self._features = context_features(contexts)
        self._units = row_units(contexts, outcomes, in_time)
        self._done: dict[str, Forecast] = {}

    @property
    def affordable(self) -> tuple[str, ...]:
        """The kinds that a history of this size allows."""
        if self._features.size <= _MOST_BOOSTED:
            return FORECASTS
        return tuple(kind for kind in FORECASTS if kind != "boosting")

    def forecast(self, kind: str) -> Forecast:
        """Return the forecast of one kind."""
        if kind not in self._done:
            self._done[kind] = self._fit(kind)
        return self._done[kind]

    def _fit(self, kind: str) -> Forecast:
        if kind == "stacked":
            parts = [self.forecast(one) for one in self.affordable if one != "stacked"]
            return stack(parts, self.outcomes, self._folds())
        if kind == "boosting":
            return self._boost()
        if kind in ("forest", "extra trees"):
            return fit_forest(
                self._features,
                self.outcomes,
                self._units,
                self.seed,
                extra=kind == "extra trees",
            )
        return self._ridge(quadratic=kind == "quadratic")

    def _ridge(self, quadratic: bool) -> Ridge:
        return fit_ridge(self._features, self.outcomes, self._folds(), quadratic)

    def _boost(self) -> Boosted:
        ridge = self.forecast("ridge")
        assert isinstance(ridge, Ridge)
        return boost_ridge(
            ridge,
            self._features,
            self.outcomes,
            self._units,
            self._folds(_BOOSTING_FOLDS),
            self.seed,
        )

    def _folds(self, count: int | None = None) -> np.ndarray:
        """Return the fold (m,) of each row."""
        wanted = count or default_folds(len(self.outcomes), self.in_time)
        return fold_numbers(self._units, self.seed, self.in_time, wanted)


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
