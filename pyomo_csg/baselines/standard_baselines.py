"""The baselines that every comparison, report, certificate and monitoring uses by default.

They are the classes of :mod:`pyomo_csg.baselines`, on at most a few hundred outcomes a
program.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestRegressor

from pyomo_csg.baselines.base import Baseline
from pyomo_csg.baselines.forecast_based import ExpectedValue
from pyomo_csg.baselines.weighted_saa import SampleAverage, WeightedSAA
from pyomo_csg.decisions.decider import Decider
from pyomo_csg.learn.distributions.features import context_features, standard_spread
from pyomo_csg.learn.distributions.samplers import forest_weights
from pyomo_csg.learn.tables.history import History
from pyomo_csg.solve import Oracle

_MAX_OUTCOMES, _MAX_OUTCOMES_INTEGER = 200, 40
_MAX_COMPARED, _MAX_COMPARED_INTEGER = 500, 20
_TREES, _LEAF = 100, 5

FORECAST, CONTEXT_FREE = "deciding on the forecast", "one decision for all contexts"


def standard_baselines(oracle: Oracle, history: History) -> dict[str, Baseline]:
    """Return the expected-value and the context-free decision, learned from a history.

    The first decides on a random forest's forecast of the mean outcome, the second on past
    outcomes: all of them, or a random sample if there are many.
    """
    pool, most = history, _MAX_COMPARED
    if oracle.two_stage.integer:
        most = _MAX_COMPARED_INTEGER
    if len(history) > most:
        order = np.random.default_rng(0).permutation(len(history))
        pool = history.select(order[:most])
    forest = _RegressionForest(history)
    return {
        FORECAST: ExpectedValue(oracle, history, forecast=forest),
        CONTEXT_FREE: SampleAverage(oracle, pool),
    }


class SampledForestSAA(WeightedSAA):
    """Forest-weighted SAA on a sample of the weighted outcomes, if there are many."""

    name = "sampled forest-weighted SAA"

    def __init__(self, policy: Decider, history: History, seed: int = 0):
        settings: Any = policy._settings
        super().__init__(policy.two_stage.model, history, seed=seed, **settings)
        self._most = _outcome_limit(self)

    def _distribution(
        self, contexts: np.ndarray
    ) -> tuple[list[np.ndarray], list[np.ndarray]]:
        weights = _conditional_weights(self.history, contexts, self.seed)
        sampled = [self._sample(mine) for mine in weights]
        return [outcomes for outcomes, _ in sampled], [shares for _, shares in sampled]

    def _sample(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        used = np.flatnonzero(weights)
        if len(used) <= self._most:
            return self.history.outcomes[used], weights[used] / weights[used].sum()
        rows = _draw_rows(weights, self._most, self.seed)
        return self.history.outcomes[rows], np.full(self._most, 1 / self._most)


def _outcome_limit(policy: Decider) -> int:
    return _MAX_OUTCOMES_INTEGER if policy.two_stage.integer else _MAX_OUTCOMES


def _draw_rows(weights: np.ndarray, count: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.choice(len(weights), count, p=weights / weights.sum())


def _conditional_weights(
    history: History, contexts: np.ndarray, seed: int
) -> np.ndarray:
    """Return a forest's weights (n, m) of the history's outcomes for contexts.

    Unlike ForestWeighted, the outcomes are scaled by the spread over as many rows as the
    history and the contexts have together. With several uncertain parameters the forest
    thus depends, slightly, on the number of contexts. A change here would change the
    numbers of certificates.
    """
    m, n = len(history), len(contexts)
    rows = np.concatenate([history.contexts, contexts])
    outcomes = np.resize(history.outcomes, (m + n, history.outcomes.shape[1]))
    return forest_weights(rows, outcomes, np.arange(m), seed)[m:, :m]


class _RegressionForest:
    """The conditional mean (n, p) by scikit-learn's random forest."""

    def __init__(self, history: History):
        # In standard deviations, so that every column has the same influence.
        self._unit = standard_spread(history.outcomes)
        targets = history.outcomes / self._unit
        self._forest = RandomForestRegressor(
            _TREES, min_samples_leaf=_LEAF, random_state=0
        ).fit(
            context_features(history.contexts),
            targets if targets.shape[1] > 1 else targets[:, 0],
        )

    def __call__(self, contexts: np.ndarray) -> np.ndarray:
        means = self._forest.predict(context_features(contexts))
        return means.reshape(len(contexts), -1) * self._unit
