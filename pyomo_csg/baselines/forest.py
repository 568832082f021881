"""SAA on the outcomes of contexts that a forest finds alike (Bertsimas and Kallus, 2020)."""

from __future__ import annotations

from typing import Any

import numpy as np
from pyomo.core.base.block import BlockData

from pyomo_csg.baselines.conditional import Conditional
from pyomo_csg.learn.omega import spread_of
from pyomo_csg.learn.outcomes import Forest


class ForestWeighted(Conditional):
    """Solves on all outcomes that a random forest gives a weight for the context.

    An outcome's weight is the mean over trees of its share in the context's leaf. How
    many have one differs from context to context: scenarios of many are a list.

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
    >>> pairs = newsvendor.sample(60, seed=1)
    >>> policy = csg.baselines.ForestWeighted(newsvendor.build(), pairs)
    >>> weights = policy.weights([0.0, 0.0])
    >>> len(weights) == len(policy.scenarios([0.0, 0.0])), bool(abs(weights.sum() - 1) < 1e-9)
    (True, True)
    """

    name = "forest-weighted SAA"

    def __init__(self, model: BlockData, data: Any, **options: Any):
        super().__init__(model, data, **options)
        outcomes = self.history.outcomes
        targets = outcomes / spread_of(outcomes)
        self._forest = Forest(self.history.contexts, targets, self.seed)

    def _law(self, contexts: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
        weights = self._forest.weights(contexts)
        used = [mine > 0 for mine in weights]
        return (
            [self.history.outcomes[these] for these in used],
            [w[these] / w[these].sum() for w, these in zip(weights, used, strict=True)],
        )
