"""SAA on the outcomes of the nearest contexts (Bertsimas and Kallus, 2020)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from pyomo.core.base.block import BlockData
from scipy.spatial.distance import cdist
from sklearn.neighbors import NearestNeighbors

from pyomo_csg.baselines.base import Baseline
from pyomo_csg.baselines.reduction import forward_selection, kmeans
from pyomo_csg.decisions.decider import PerContext
from pyomo_csg.learn.distributions.samplers import Forest, context_features
from pyomo_csg.learn.networks.domains import standard_spread
from pyomo_csg.solve import Solution
from pyomo_csg.validation import is_one_of, is_whole

_REDUCTIONS = ("kmeans", "forward")
_UNITS = ("raw", "standard")


class Conditional(Baseline):
    """Solves on a distribution given the context, or on K scenarios that stand for it.

    Whoever derives from it gives the distribution, in ``_law``.

    Parameters
    ----------
    model, data, context, seed, solver, options, workers, executor
        As in :class:`Baseline`.
    scenarios : int, optional
        K, at most: a distribution of fewer outcomes stays as it is. Default: all.
    reduction : {'kmeans', 'forward'}, optional
        How to come to K: centers of clusters, or fast forward selection, which picks
        among the outcomes.
    units : {'raw', 'standard'}, optional
        Of the outcomes when their distances are taken: as they are, or in standard
        deviations of the history.
    """

    def __init__(
        self,
        model: BlockData,
        data: Any,
        *,
        scenarios: int | None = None,
        reduction: str = "kmeans",
        units: str = "raw",
        **settings: Any,
    ):
        self._refuse(*_problems(scenarios, reduction, units))
        super().__init__(model, data, **settings)
        self._count, self._reduction = scenarios, reduction
        raw = units == "raw"
        self._unit = 1.0 if raw else standard_spread(self.history.outcomes)
        if scenarios is not None:
            self.name = f"{self.name}, K={scenarios} by {reduction}"

    @abstractmethod
    def _law(self, contexts: np.ndarray) -> tuple[PerContext, PerContext]:
        """Return outcomes (n, m, p) and weights (n, m), or lists where m differs."""

    def _generate_scenarios(
        self, contexts: np.ndarray
    ) -> tuple[PerContext, PerContext]:
        outcomes, weights = self._law(contexts)
        if self._count is None:
            return outcomes, weights
        reduced = [
            self._reduced(mine, shares, self._count)
            for mine, shares in zip(outcomes, weights, strict=True)
        ]
        sets, shares = zip(*reduced, strict=True)
        return _stacked(sets), _stacked(shares)

    def _reduced(
        self, outcomes: np.ndarray, weights: np.ndarray, count: int
    ) -> tuple[np.ndarray, np.ndarray]:
        if self._reduction == "kmeans":
            return kmeans(outcomes, weights, count, self.seed, self._unit)
        return forward_selection(outcomes, weights, count, self._unit)


def _stacked(arrays: Sequence[np.ndarray]) -> PerContext:
    """Return one array where all are of a size, else a list."""
    same = len({len(array) for array in arrays}) == 1
    return np.stack(arrays) if same else list(arrays)


def _problems(scenarios: Any, reduction: Any, units: Any) -> list[str]:
    problems = []
    if not (scenarios is None or is_whole(scenarios) and scenarios >= 1):
        problems.append(
            f"scenarios is {scenarios!r}; give a whole number from 1 up, or None for all"
        )
    if not is_one_of(reduction, _REDUCTIONS):
        problems.append(f"reduction is {reduction!r}; give one of {_REDUCTIONS}")
    if not is_one_of(units, _UNITS):
        problems.append(f"units is {units!r}; give one of {_UNITS}")
    return problems


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
        (scenarios,), (weights,) = super()._generate_scenarios(
            self.history.contexts[:1]
        )
        self._scenarios, self._weights = scenarios, weights

    def _law(self, contexts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        n, outcomes = len(contexts), self.history.outcomes
        shares = np.full(len(outcomes), 1 / len(outcomes))
        return (
            np.broadcast_to(outcomes, (n, *outcomes.shape)),
            np.broadcast_to(shares, (n, *shares.shape)),
        )

    def _generate_scenarios(
        self, contexts: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        n = len(contexts)
        return (
            np.broadcast_to(self._scenarios, (n, *self._scenarios.shape)),
            np.broadcast_to(self._weights, (n, *self._weights.shape)),
        )

    def _solve_scenarios(self, scenarios: Any, weights: Any, **how: Any) -> Solution:
        kept = self._solution
        if kept is None or how["on_error"] == "raise" and kept.status[0] != "optimal":
            kept = super()._solve_scenarios(scenarios[:1], weights[:1], **how)
            self._solution = kept
        return Solution(
            *(
                np.repeat(part, len(scenarios), axis=0)
                for part in (kept.decision, kept.value, kept.status)
            )
        )


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
        targets = outcomes / standard_spread(outcomes)
        self._forest = Forest(self.history.contexts, targets, self.seed)

    def _law(self, contexts: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
        weights = self._forest.weights(contexts)
        used = [mine > 0 for mine in weights]
        return (
            [self.history.outcomes[these] for these in used],
            [w[these] / w[these].sum() for w, these in zip(weights, used, strict=True)],
        )


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
        features = context_features(self.history.contexts)
        self._spread = standard_spread(features)
        self._nearest = NearestNeighbors().fit(features / self._spread)
        self.neighbours = int(neighbours) if whole else self._best()

    def _law(self, contexts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        near = self._nearest.kneighbors(
            context_features(contexts) / self._spread,
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
        outcomes = self.history.outcomes / standard_spread(self.history.outcomes)
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
