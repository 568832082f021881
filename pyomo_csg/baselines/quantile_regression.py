"""Quantile regression: one scenario, a quantile of each uncertain parameter."""

from __future__ import annotations

from typing import Any

import numpy as np
from pyomo.core.base.block import BlockData
from sklearn.linear_model import QuantileRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pyomo_csg.baselines.base import Baseline
from pyomo_csg.learn.distributions.samplers import context_features


class QuantileRegression(Baseline):
    """Solve on one scenario: quantiles that are linear in the context (Koenker).

    A newsvendor orders the quantile itself. For other models no theory gives the level;
    try several.

    Parameters
    ----------
    model, data, **settings
        As in :class:`Baseline`.
    level : float or sequence of float (p,)
        Between 0 and 1, for all uncertain parameters or for each. A newsvendor's is
        (price - cost) / (price - salvage).

    Examples
    --------
    >>> import pyomo_csg as csg
    >>> from models import newsvendor
    >>> contexts = [[0.0], [1], [2], [3], [4]]
    >>> demands = [[10.0], [12], [14], [16], [40]]
    >>> m = newsvendor.build(price=1.6, salvage=0.1)
    >>> policy = csg.baselines.QuantileRegression(m, (contexts, demands), level=0.4)
    >>> round(policy.decide([10.0])["order"], 6)
    30.0
    """

    def __init__(self, model: BlockData, data: Any, level: Any, **settings: Any):
        super().__init__(model, data, **settings)
        self.levels = self._read_levels(level)
        shown = dict.fromkeys(f"{q:.3g}" for q in self.levels)
        self.name = f"quantile regression, {', '.join(shown)}"
        features = context_features(self.history.contexts)
        self._regressors = [
            make_pipeline(
                StandardScaler(), QuantileRegressor(quantile=q, alpha=0.0)
            ).fit(features, column)
            for q, column in zip(self.levels, self.history.outcomes.T, strict=True)
        ]

    def _generate_scenarios(
        self, contexts: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        features = context_features(contexts)
        quantiles = np.stack([r.predict(features) for r in self._regressors], axis=-1)
        return self._project(quantiles)[:, None], np.ones((len(contexts), 1))

    def _read_levels(self, level: Any) -> np.ndarray:
        """Return levels (p,), or raise a DataError."""
        p = self.history.outcomes.shape[1]
        try:
            levels = np.array(np.broadcast_to(level, p), dtype=float)
        except (TypeError, ValueError):
            levels = np.full(p, np.nan)
        if not ((levels > 0) & (levels < 1)).all():
            self._raise_problems(
                f"level is {level!r}; give a number between 0 and 1, or one for each of "
                f"{p} uncertain numbers"
            )
        return levels
