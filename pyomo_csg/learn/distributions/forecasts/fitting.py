"""Fits point forecasts of every kind."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from threadpoolctl import threadpool_limits

from pyomo_csg.learn.distributions.features import context_features
from pyomo_csg.learn.distributions.forecasts.boosted import Boosted
from pyomo_csg.learn.distributions.forecasts.boosting import boost_ridge
from pyomo_csg.learn.distributions.forecasts.forecast import Forecast
from pyomo_csg.learn.distributions.forecasts.forest_fitting import fit_forest
from pyomo_csg.learn.distributions.forecasts.ridge import Ridge, fit_ridge
from pyomo_csg.learn.distributions.forecasts.row_parts import (
    default_folds,
    fold_numbers,
    row_units,
)
from pyomo_csg.learn.distributions.forecasts.stacking import stack

FORECASTS = ("ridge", "quadratic", "forest", "extra trees", "boosting", "stacked")
_BOOSTING_FOLDS = 3
_MOST_BOOSTED = 1_000_000  # numbers in the contexts


def fit_forecast(
    kind: str, contexts: np.ndarray, outcomes: np.ndarray, seed: int, *, in_time: bool
) -> Forecast:
    """Return a forecast of outcomes (m, p) given contexts (m, d) or panels (m, W, d).

    Parameters
    ----------
    kind : {'ridge', 'quadratic', 'forest', 'extra trees', 'boosting', 'stacked'}
        ``'quadratic'`` is a ridge regression on squares and products, too. Boosted trees
        start from ridge regression. ``'stacked'`` weights all of them for each column.
    contexts, outcomes : arrays
    seed : int
    in_time : bool
        Whether rows are in the order of time, so that they are held out in blocks.
    """
    return fit_forecasts([kind], contexts, outcomes, seed, in_time=in_time)[kind]


def fit_forecasts(
    kinds: Sequence[str],
    contexts: np.ndarray,
    outcomes: np.ndarray,
    seed: int,
    *,
    in_time: bool,
) -> dict[str, Forecast]:
    """Return one forecast of each kind, with no part fitted twice."""
    fits = Fits(contexts, outcomes, seed, in_time)
    with threadpool_limits(1, "blas"):  # matrices are small, and threads would spin
        return {kind: fits.forecast(kind) for kind in kinds}


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
            return self._boosted()
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

    def _boosted(self) -> Boosted:
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
