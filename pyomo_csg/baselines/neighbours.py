"""SAA on the outcomes of the nearest contexts (Bertsimas and Kallus, 2020)."""

from __future__ import annotations

from typing import Any

import numpy as np
from pyomo.core.base.block import BlockData
from scipy.spatial.distance import cdist
from sklearn.neighbors import NearestNeighbors

from pyomo_csg.baselines.conditional import Conditional
from pyomo_csg.learn.omega import spread_of
from pyomo_csg.learn.outcomes import features_of
from pyomo_csg.options import is_whole

_MOST, _JUDGED = 500, 200


class NeighbourWeighted(Conditional):
    """Solves on the outcomes of the nearest contexts, each as likely as another.

    Distances are Euclidean in standard deviations of the contexts' numbers; of panels,
    of each number's mean, spread and last value.

    Parameters
    ----------
    model, data, context, seed, solver, options, workers, executor
        As in :class:`Baseline`.
    neighbours : int or 'auto'
        How many. ``'auto'`` takes what would have foretold the history best, by the
        energy score, each outcome by those of its nearest: at most half of the pairs,
        or 500.
    scenarios, reduction, units
        As in :class:`Conditional`.

    Attributes
    ----------
    neighbours : int

    Examples
    --------
    >>> import pyomo_csg as csg
    >>> from models import newsvendor
    >>> data = [[0.0], [1], [2], [3]], [[10.0], [11], [12], [13]]
    >>> policy = csg.baselines.NeighbourWeighted(newsvendor.build(), data, neighbours=2)
    >>> policy.scenarios([2.4])
    array([[12.], [13.]])
    """

    name = "neighbour-weighted SAA"

    def __init__(
        self,
        model: BlockData,
        data: Any,
        *,
        neighbours: int | str = "auto",
        **options: Any,
    ):
        super().__init__(model, data, **options)
        n = len(self.history)
        whole = is_whole(neighbours) and 1 <= neighbours <= n
        if not whole and not (isinstance(neighbours, str) and neighbours == "auto"):
            self._refuse(
                f"neighbours is {neighbours!r}; give a whole number from 1 to {n}, the "
                "number of pairs, or 'auto'"
            )
        features = features_of(self.history.contexts)
        self._spread = spread_of(features)
        self._nearest = NearestNeighbors().fit(features / self._spread)
        self.neighbours = int(neighbours) if whole else self._best()

    def _law(self, contexts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        near = self._nearest.kneighbors(
            features_of(contexts) / self._spread,
            self.neighbours,
            return_distance=False,
        )
        return self.history.outcomes[near], np.full(near.shape, 1 / near.shape[1])

    def _best(self) -> int:
        """Return the number of neighbours that foretells the history best."""
        n = len(self.history)
        rows = np.random.default_rng(self.seed).permutation(n)[:_JUDGED]
        # Asked for no contexts, it answers for its own, none its own neighbour.
        near = self._nearest.kneighbors(
            n_neighbors=min(n // 2, _MOST), return_distance=False
        )[rows]
        outcomes = self.history.outcomes / spread_of(self.history.outcomes)
        return int(energy_scores(outcomes[near], outcomes[rows]).argmin()) + 1


def energy_scores(forecasts: np.ndarray, outcomes: np.ndarray) -> np.ndarray:
    """Return the mean energy score (m,) of the first 1, 2, ... m points of forecasts.

    Parameters
    ----------
    forecasts : array (n, m, p)
    outcomes : array (n, p)
        What happened.
    """
    counts = np.arange(1, forecasts.shape[1] + 1)
    total = np.zeros(len(counts))
    for points, outcome in zip(forecasts, outcomes, strict=True):
        off = np.linalg.norm(points - outcome, axis=1)
        among = cdist(points, points).cumsum(axis=0).cumsum(axis=1).diagonal()
        total += off.cumsum() / counts - among / (2 * counts**2)
    return total / len(outcomes)
