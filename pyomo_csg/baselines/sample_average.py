"""Sample average approximation: one decision for all contexts."""

from __future__ import annotations

from typing import Any

import numpy as np
from pyomo.core.base.block import BlockData

from pyomo_csg.baselines.conditional import Conditional
from pyomo_csg.solve import Solution


class SampleAverage(Conditional):
    """Solves once on all outcomes of the history, whatever the context.

    With ``scenarios=K`` it is context-free scenario reduction. The first decision is
    kept: all others take no solve.

    Parameters
    ----------
    model, data, context, seed, solver, options, workers, executor
        As in :class:`Baseline`.
    scenarios, reduction, units
        As in :class:`Conditional`.

    Examples
    --------
    >>> import pyomo_csg as csg
    >>> from models import newsvendor
    >>> contexts = [[0.0], [1], [2], [3], [4]]
    >>> demands = [[10.0], [11], [12], [13], [30]]
    >>> m = newsvendor.build(price=2.0, salvage=0.4)  # the critical level is 5/8
    >>> csg.baselines.SampleAverage(m, (contexts, demands)).decide([0.5])["order"]
    13.0
    """

    name = "SAA"
    _solution: Solution | None = None

    def __init__(self, model: BlockData, data: Any, **options: Any):
        super().__init__(model, data, **options)
        (scenarios,), (weights,) = super()._generated(self.history.contexts[:1])
        self._scenarios, self._weights = scenarios, weights

    def _law(self, contexts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        n, outcomes = len(contexts), self.history.outcomes
        shares = np.full(len(outcomes), 1 / len(outcomes))
        return (
            np.broadcast_to(outcomes, (n, *outcomes.shape)),
            np.broadcast_to(shares, (n, *shares.shape)),
        )

    def _generated(self, contexts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        n = len(contexts)
        return (
            np.broadcast_to(self._scenarios, (n, *self._scenarios.shape)),
            np.broadcast_to(self._weights, (n, *self._weights.shape)),
        )

    def _solved(self, scenarios: Any, weights: Any, **how: Any) -> Solution:
        kept = self._solution
        if kept is None or how["on_error"] == "raise" and kept.status[0] != "optimal":
            kept = super()._solved(scenarios[:1], weights[:1], **how)
            self._solution = kept
        return Solution(
            *(
                np.repeat(part, len(scenarios), axis=0)
                for part in (kept.decision, kept.value, kept.status)
            )
        )
