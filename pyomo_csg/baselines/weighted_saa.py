"""Weighted sample average approximation (Bertsimas and Kallus, 2020).

The model is solved on past outcomes: all of them, those of the nearest contexts, or those
that a random forest weights for the context.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from pyomo.core.base.block import BlockData
from sklearn.neighbors import NearestNeighbors

from pyomo_csg.baselines.base import Baseline
from pyomo_csg.decisions.decider import PerContext
from pyomo_csg.learn.distributions.features import context_features, standard_spread
from pyomo_csg.learn.distributions.reduction import forward_selection, kmeans
from pyomo_csg.learn.distributions.samplers import Forest
from pyomo_csg.learn.distributions.weighted import energy_scores, positive_outcomes
from pyomo_csg.solve import Oracle, Solution
from pyomo_csg.validation import is_one_of, is_whole

_REDUCTIONS = ("kmeans", "forward")
_UNITS = ("raw", "standard")
_MAX_NEIGHBORS = 500
_SCORED_ROWS = 200  # rows on which numbers of neighbors are compared


class WeightedSAA(Baseline):
    """Base class: solve on a conditional distribution, or on K scenarios of it.

    Subclasses implement ``_distribution``.

    Parameters
    ----------
    model, data, **settings
        As in :class:`Baseline`.
    scenarios : int, optional
        K, the maximum number of scenarios. Default: no reduction.
    reduction : {'kmeans', 'forward'}, optional
        How to reduce to K: cluster centers, or fast forward selection among the outcomes.
    units : {'raw', 'standard'}, optional
        Whether the reduction measures distances in the outcomes' units or in standard
        deviations of the history.
    """

    def __init__(
        self,
        model: BlockData | Oracle,
        data: Any,
        *,
        scenarios: int | None = None,
        reduction: str = "kmeans",
        units: str = "raw",
        **settings: Any,
    ):
        self._raise_problems(*_option_problems(scenarios, reduction, units))
        super().__init__(model, data, **settings)
        self._count, self._reduction = scenarios, reduction
        self._unit = 1.0 if units == "raw" else standard_spread(self.history.outcomes)
        if scenarios is not None:
            self.name = f"{self.name}, K={scenarios} by {reduction}"

    @abstractmethod
    def _distribution(self, contexts: np.ndarray) -> tuple[PerContext, PerContext]:
        """Return outcomes (n, m, p) and weights (n, m), or lists where m differs."""

    def _generate_scenarios(
        self, contexts: np.ndarray
    ) -> tuple[PerContext, PerContext]:
        outcomes, weights = self._distribution(contexts)
        if self._count is None:
            return outcomes, weights
        reduced = [self._reduce(*one) for one in zip(outcomes, weights, strict=True)]
        scenarios, shares = zip(*reduced, strict=True)
        return _stack(scenarios), _stack(shares)

    def _reduce(
        self, outcomes: np.ndarray, weights: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        assert self._count is not None
        if self._reduction == "kmeans":
            return kmeans(outcomes, weights, self._count, self.seed, self._unit)
        return forward_selection(outcomes, weights, self._count, self._unit)


def _stack(arrays: Sequence[np.ndarray]) -> PerContext:
    """Return one array if all have the same length, else a list."""
    same = len({len(array) for array in arrays}) == 1
    return np.stack(arrays) if same else list(arrays)


def _option_problems(scenarios: Any, reduction: Any, units: Any) -> list[str]:
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


class SampleAverage(WeightedSAA):
    """Solve once on all outcomes of the history, whatever the context.

    With ``scenarios=K`` this is context-free scenario reduction. The decision is computed
    once and then returned for every context.

    Parameters
    ----------
    model, data, **settings
        As in :class:`Baseline`.
    scenarios, reduction, units
        As in :class:`WeightedSAA`.

    Examples
    --------
    >>> import pyomo_csg as csg
    >>> from pyomo_csg.zoo import newsvendor
    >>> contexts = [[0.0], [1], [2], [3], [4]]
    >>> demands = [[10.0], [11], [12], [13], [30]]
    >>> m = newsvendor.build(price=2.0, salvage=0.4)  # the critical level is 5/8
    >>> csg.baselines.SampleAverage(m, (contexts, demands)).decide([0.5])["order"]
    13.0
    """

    name = "SAA"
    _solution: Solution | None = None

    def __init__(self, model: BlockData | Oracle, data: Any, **options: Any):
        super().__init__(model, data, **options)
        scenarios, weights = super()._generate_scenarios(self.history.contexts[:1])
        self._scenarios, self._weights = scenarios[0], weights[0]

    def _distribution(self, contexts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        outcomes = self.history.outcomes
        return outcomes[None], np.full((1, len(outcomes)), 1 / len(outcomes))

    def _generate_scenarios(
        self, contexts: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        shape = (len(contexts), *self._scenarios.shape)
        return (
            np.broadcast_to(self._scenarios, shape),
            np.broadcast_to(self._weights, shape[:2]),
        )

    def _solve_scenarios(self, scenarios: Any, weights: Any, **how: Any) -> Solution:
        if how["known"].size:  # decisions differ
            return super()._solve_scenarios(scenarios, weights, **how)
        once = self._solution
        if once is None or how["on_error"] == "raise" and once.status[0] != "optimal":
            once = super()._solve_scenarios(scenarios[:1], weights[:1], **how)
            self._solution = once
        parts = once.decision, once.value, once.status
        return Solution(*(np.repeat(part, len(scenarios), axis=0) for part in parts))


class ForestWeighted(WeightedSAA):
    """Solve on past outcomes, weighted by a random forest for the context.

    The weight of an outcome is its share of the context's leaf, averaged over the trees.
    Only outcomes of positive weight are used, so the scenarios of several contexts are a
    list.

    Parameters
    ----------
    model, data, **settings
        As in :class:`Baseline`.
    scenarios, reduction, units
        As in :class:`WeightedSAA`.

    Examples
    --------
    >>> import pyomo_csg as csg
    >>> from pyomo_csg.zoo import newsvendor
    >>> pairs = newsvendor.sample(60, seed=1)
    >>> policy = csg.baselines.ForestWeighted(newsvendor.build(), pairs)
    >>> weights = policy.weights([0.0, 0.0])
    >>> len(weights) == len(policy.scenarios([0.0, 0.0])), bool(abs(weights.sum() - 1) < 1e-9)
    (True, True)
    """

    name = "forest-weighted SAA"

    def __init__(self, model: BlockData | Oracle, data: Any, **options: Any):
        super().__init__(model, data, **options)
        outcomes = self.history.outcomes
        targets = outcomes / standard_spread(outcomes)
        self._forest = Forest(self.history.contexts, targets, self.seed)

    def _distribution(
        self, contexts: np.ndarray
    ) -> tuple[list[np.ndarray], list[np.ndarray]]:
        return positive_outcomes(self._forest.weights(contexts), self.history.outcomes)


class NeighborWeighted(WeightedSAA):
    """Solve on the outcomes of the nearest contexts, with equal weights.

    Distances are Euclidean in standard deviations of the context features. A panel's
    features are the mean, standard deviation and last value of each column.

    Parameters
    ----------
    model, data, **settings
        As in :class:`Baseline`.
    neighbors : int or 'auto'
        Number of neighbors. ``'auto'`` minimizes the energy score of each outcome of the
        history given those of its nearest neighbors, over at most half of the rows and at
        most 500.
    scenarios, reduction, units
        As in :class:`WeightedSAA`.

    Attributes
    ----------
    neighbors : int

    Examples
    --------
    >>> import pyomo_csg as csg
    >>> from pyomo_csg.zoo import newsvendor
    >>> data = [[0.0], [1], [2], [3]], [[10.0], [11], [12], [13]]
    >>> policy = csg.baselines.NeighborWeighted(newsvendor.build(), data, neighbors=2)
    >>> policy.scenarios([2.4])
    array([[12.], [13.]])
    """

    name = "neighbor-weighted SAA"

    def __init__(
        self,
        model: BlockData,
        data: Any,
        *,
        neighbors: int | str = "auto",
        **options: Any,
    ):
        super().__init__(model, data, **options)
        n = len(self.history)
        fixed = is_whole(neighbors) and 1 <= neighbors <= n
        if not fixed and not (isinstance(neighbors, str) and neighbors == "auto"):
            self._raise_problems(
                f"neighbors is {neighbors!r}; give a whole number from 1 to {n}, the "
                "number of pairs, or 'auto'"
            )
        features = context_features(self.history.contexts)
        self._spread = standard_spread(features)
        self._index = NearestNeighbors().fit(features / self._spread)
        self.neighbors = int(neighbors) if fixed else self._best_count()

    def _distribution(self, contexts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        nearest = self._index.kneighbors(
            context_features(contexts) / self._spread,
            self.neighbors,
            return_distance=False,
        )
        weights = np.full(nearest.shape, 1 / nearest.shape[1])
        return self.history.outcomes[nearest], weights

    def _best_count(self) -> int:
        """Return the number of neighbors with the least energy score on the history."""
        n = len(self.history)
        rows = np.random.default_rng(self.seed).permutation(n)[:_SCORED_ROWS]
        # Without contexts, kneighbors answers for the fitted rows and excludes each
        # row from its own neighbors.
        nearest = self._index.kneighbors(
            n_neighbors=min(n // 2, _MAX_NEIGHBORS), return_distance=False
        )[rows]
        outcomes = self.history.outcomes / standard_spread(self.history.outcomes)
        return int(energy_scores(outcomes[nearest], outcomes[rows]).argmin()) + 1
