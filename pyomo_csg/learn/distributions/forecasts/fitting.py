"""Fits point forecasts of every kind."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

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
_BOOSTING_FOLDS = 5


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
    fit = Fits(contexts, outcomes, seed, in_time)
    return {kind: fit.forecast(kind) for kind in kinds}


class Fits:
    """The forecasts of one history, each fitted when it is first needed."""

    def __init__(
        self, contexts: np.ndarray, outcomes: np.ndarray, seed: int, in_time: bool
    ):
        self._features = context_features(contexts)
        self._outcomes, self._seed, self._in_time = outcomes, seed, in_time
        self._units = row_units(contexts, outcomes, in_time)
        self._done: dict[str, Forecast] = {}

    def forecast(self, kind: str) -> Forecast:
        """Return the forecast of one kind."""
        if kind not in self._done:
            self._done[kind] = self._fit(kind)
        return self._done[kind]

    def _fit(self, kind: str) -> Forecast:
        if kind == "stacked":
            kinds = [one for one in FORECASTS if one != "stacked"]
            parts = [self.forecast(one) for one in kinds]
            return stack(parts, self._outcomes, self._folds())
        if kind == "boosting":
            return self._boosted()
        if kind in ("forest", "extra trees"):
            return fit_forest(
                self._features,
                self._outcomes,
                self._units,
                self._seed,
                extra=kind == "extra trees",
            )
        return self._ridge(quadratic=kind == "quadratic")

    def _ridge(self, quadratic: bool) -> Ridge:
        return fit_ridge(self._features, self._outcomes, self._folds(), quadratic)

    def _boosted(self) -> Boosted:
        ridge = self.forecast("ridge")
        assert isinstance(ridge, Ridge)
        return boost_ridge(
            ridge,
            self._features,
            self._outcomes,
            self._units,
            self._folds(_BOOSTING_FOLDS),
            self._seed,
        )

    def _folds(self, count: int | None = None) -> np.ndarray:
        """Return the fold (m,) of each row."""
        wanted = count or default_folds(len(self._outcomes), self._in_time)
        return fold_numbers(self._units, self._seed, self._in_time, wanted)
