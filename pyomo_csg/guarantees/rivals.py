"""The usual rivals of a policy, from a history: a forecast, one decision for all, SAA."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyomo_csg.decisions.decider import Decider, PerContext
from pyomo_csg.learn.distributions.samplers import forest_weights
from pyomo_csg.learn.history import History
from pyomo_csg.solve import Solution

_MOST, _MOST_INTEGER = 200, 40  # scenarios of a program


class _FromHistory(Decider):
    """Decides on outcomes of a history.

    Parameters
    ----------
    like : Decider
        Whose model it decides for, with the same solver.
    history : History
    seed : int

    Notes
    -----
    A program has at most 200 outcomes as scenarios, 40 where there are integer variables;
    where a history has more, so many of them are drawn.
    """

    def __init__(self, like: Decider, history: History, seed: int = 0):
        settings: Any = like._settings
        super().__init__(like.two_stage.model, **settings)
        self.context_shape = like.context_shape
        self.context_names = like.context_names
        self._history, self._seed = history, seed
        self._most = _MOST_INTEGER if self.two_stage.integer else _MOST

    def _alike(self, contexts: np.ndarray) -> np.ndarray:
        """Return by a forest how much outcomes (n, m) of the history count."""
        seen, m, n = self._history, len(self._history), len(contexts)
        both = np.concatenate([seen.contexts, contexts])
        # Rows that the forest does not learn from need outcomes, but no matter which.
        filled = np.resize(seen.outcomes, (m + n, seen.outcomes.shape[1]))
        return forest_weights(both, filled, np.arange(m), self._seed)[m:, :m]

    def _drawn(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return outcomes (K, p) by their weights (m,), and weights (K,) for them."""
        used = np.flatnonzero(weights)
        if len(used) <= self._most:
            return self._history.outcomes[used], weights[used] / weights[used].sum()
        rng = np.random.default_rng(self._seed)
        rows = rng.choice(len(weights), self._most, p=weights / weights.sum())
        return self._history.outcomes[rows], np.full(self._most, 1 / self._most)


class Forecast(_FromHistory):
    """Decides on the mean outcome that a forest expects: the expected-value decision."""

    def _generate_scenarios(
        self, contexts: np.ndarray
    ) -> tuple[PerContext, PerContext]:
        means = self._alike(contexts) @ self._history.outcomes
        # Weights that sum to 1 but for rounding may take a mean out of a domain.
        low, high = self._history.outcomes.min(0), self._history.outcomes.max(0)
        return np.clip(means, low, high)[:, None], np.ones((len(contexts), 1))


class ContextFree(_FromHistory):
    """Makes one decision for all contexts, on what happened in the history."""

    def _generate_scenarios(
        self, contexts: np.ndarray
    ) -> tuple[PerContext, PerContext]:
        count = len(self._history)
        scenarios, weights = self._drawn(np.full(count, 1 / count))
        shape = (len(contexts), *scenarios.shape)
        return np.broadcast_to(scenarios, shape), np.broadcast_to(weights, shape[:2])

    def _solve_scenarios(self, scenarios: Any, weights: Any, **how: Any) -> Solution:
        once = super()._solve_scenarios(scenarios[:1], weights[:1], **how)
        parts = (once.decision, once.value, once.status)
        return Solution(*(np.repeat(part, len(scenarios), axis=0) for part in parts))


class SampleAverage(_FromHistory):
    """Decides on what happened after like contexts, by a forest's weights."""

    def _generate_scenarios(
        self, contexts: np.ndarray
    ) -> tuple[PerContext, PerContext]:
        drawn = [self._drawn(mine) for mine in self._alike(contexts)]
        return [scenarios for scenarios, _ in drawn], [weights for _, weights in drawn]


def usual_rivals(like: Decider, history: History, seed: int = 0) -> dict[str, Decider]:
    """Return who a policy must beat to be worth its while, by what they do."""
    return {
        "deciding on the forecast": Forecast(like, history, seed),
        "one decision for all contexts": ContextFree(like, history, seed),
    }
