"""Stochastic optimization forests (Kallus and Mao, 2023): trees split by decision costs."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from pyomo.core.base.block import BlockData
from scipy.sparse import csr_array

from pyomo_csg.baselines.weighted_saa import WeightedSAA
from pyomo_csg.errors import DataError
from pyomo_csg.learn.distributions.features import context_features, standard_spread
from pyomo_csg.learn.distributions.reduction import kmeans
from pyomo_csg.learn.distributions.weighted import positive_outcomes
from pyomo_csg.progress_bars import progress_bar
from pyomo_csg.solve import Oracle

_SCENARIOS = 10  # of the programs whose optima are compared
_SAMPLE = 0.632  # the share of the rows that a tree sees, as of a bootstrap sample
_FEWEST_FEATURES = 5  # that a node considers


class StochasticOptimizationForest(WeightedSAA):
    """Solve on past outcomes, weighted by a forest whose splits lower the decision's cost.

    A random forest splits where outcomes differ. These trees split where the best decisions
    differ: a split minimizes the cost of the best decision on each side (Kallus and Mao,
    2023). The best decision is chosen among decisions that are optimal for parts of the
    history, so that all splits of a node are compared exactly and fast.

    Parameters
    ----------
    model, data, **settings
        As in :class:`Baseline`.
    trees : int
    leaf : int
        The fewest rows in a leaf.
    decisions : int
        How many decisions are compared. Each is the solution of a program on at most ten
        scenarios.
    progress : bool
        Whether to show a progress bar.
    scenarios, reduction, units
        As in :class:`WeightedSAA`.

    Examples
    --------
    >>> import pyomo_csg as csg
    >>> from pyomo_csg.zoo import newsvendor
    >>> pairs = newsvendor.sample(60, seed=1)
    >>> policy = csg.baselines.StochasticOptimizationForest(
    ...     newsvendor.build(), pairs, trees=10, decisions=12, progress=False
    ... )
    >>> policy.decide([0.0, 0.0])["order"] > 0
    True
    """

    name = "stochastic optimization forest"
    takes_known = False  # the forest compares decisions across rows

    def __init__(
        self,
        model: BlockData | Oracle,
        data: Any,
        *,
        trees: int = 100,
        leaf: int = 10,
        decisions: int = 60,
        progress: bool = True,
        **options: Any,
    ):
        problems = self._new_problems()
        problems.check_counts(trees=trees, leaf=leaf, decisions=decisions)
        problems.raise_any()
        super().__init__(model, data, **options)
        rng = np.random.default_rng(self.seed)
        features = context_features(self.history.contexts)
        costs = self._evaluate(self._decisions(features, decisions, rng), progress)
        size = max(1, math.ceil(_SAMPLE * len(features)))
        leaf = min(leaf, max(1, size // 2))
        self._trees = []
        for _ in range(trees):
            rows = np.sort(rng.choice(len(features), size, replace=False))
            self._trees.append(grow_tree(features, costs, rows, leaf, rng))

    def _decisions(
        self, features: np.ndarray, count: int, rng: np.random.Generator
    ) -> np.ndarray:
        """Return decisions (m, s) that are optimal for neighborhoods of the history.

        Their sizes range from a few rows to all of them.
        """
        n, outcomes = len(features), self.history.outcomes
        scaled, unit = features / standard_spread(features), standard_spread(outcomes)
        k = min(_SCENARIOS, n)
        sets, shares = [], []
        for size in np.geomspace(k, n, count).astype(int):
            apart = np.square(scaled - scaled[rng.integers(n)]).sum(axis=1)
            nearest = np.argsort(apart, kind="stable")[:size]
            points, weights = kmeans(outcomes[nearest], None, k, self.seed, unit)
            missing = k - len(points)  # where outcomes repeat
            sets.append(np.pad(points, ((0, missing), (0, 0)), mode="edge"))
            shares.append(np.pad(weights, (0, missing)))
        found = self.oracle.solve(
            np.stack(sets), np.stack(shares), on_error="record", progress=False
        )
        return found.decision[np.isfinite(found.decision).all(axis=1)]

    def _evaluate(self, decisions: np.ndarray, progress: bool) -> np.ndarray:
        """Return the costs (n, m) of decisions under each outcome of the history."""
        outcomes = self.history.outcomes
        costs = np.empty((len(outcomes), len(decisions)))
        with progress_bar("decisions", len(decisions), "decisions", progress) as bar:
            for j, decision in enumerate(decisions):
                costs[:, j] = self.oracle.cost(
                    decision, outcomes, on_error="record", progress=False
                )
                bar.update()
        costs = costs[:, np.isfinite(costs).all(axis=0)]
        if not costs.shape[1]:
            found = "none of the decisions that were tried has recourse to all outcomes"
            remedy = "give the model complete recourse"
            raise DataError("Cannot grow the forest", [f"{found}; {remedy}"])
        return costs

    def _distribution(
        self, contexts: np.ndarray
    ) -> tuple[list[np.ndarray], list[np.ndarray]]:
        features = context_features(contexts)
        total = sum(tree.weights(features, len(self.history)) for tree in self._trees)
        return positive_outcomes(csr_array(total), self.history.outcomes)


@dataclass
class CostTree:
    """A binary tree over features: nodes in preorder, and the rows of each leaf."""

    feature: list[int] = field(default_factory=list)  # -1 in a leaf
    threshold: list[float] = field(default_factory=list)
    right: list[int] = field(default_factory=list)  # the left child is the next node
    rows: list[np.ndarray] = field(default_factory=list)

    def leaves(self, features: np.ndarray) -> np.ndarray:
        """Return the node of each row's leaf."""
        feature, right = np.array(self.feature), np.array(self.right)
        threshold, node = np.array(self.threshold), np.zeros(len(features), int)
        inside = np.flatnonzero(feature[node] >= 0)
        while len(inside):
            at = node[inside]
            goes_left = features[inside, feature[at]] <= threshold[at]
            node[inside] = np.where(goes_left, at + 1, right[at])
            inside = inside[feature[node[inside]] >= 0]
        return node

    def weights(self, features: np.ndarray, count: int) -> csr_array:
        """Return the weight (n, count) of each row of the history."""
        rows = [self.rows[leaf] for leaf in self.leaves(features)]
        ends = np.cumsum([0, *map(len, rows)])
        shares = np.concatenate([np.full(len(one), 1 / len(one)) for one in rows])
        return csr_array((shares, np.concatenate(rows), ends), (len(rows), count))


def grow_tree(
    features: np.ndarray,
    costs: np.ndarray,
    rows: np.ndarray,
    leaf: int,
    rng: np.random.Generator,
) -> CostTree:
    """Grow a tree on some rows, given the costs (n, m) of decisions.

    A node considers a third of the features, and at least five. It becomes a leaf if no
    split lowers the cost of the best decisions.
    """
    count = features.shape[1]
    tree, tried = CostTree(), max(min(count, _FEWEST_FEATURES), count // 3)

    def add(mine: np.ndarray) -> None:
        some = rng.choice(count, tried, replace=False)
        split = best_split(features, costs, mine, leaf, some)
        number = len(tree.feature)
        tree.feature.append(-1 if split is None else split[0])
        tree.threshold.append(0.0 if split is None else split[1])
        tree.right.append(-1)
        tree.rows.append(mine)
        if split is None:
            return
        goes_left = features[mine, split[0]] <= split[1]
        add(mine[goes_left])
        tree.right[number] = len(tree.feature)
        add(mine[~goes_left])

    add(rows)
    return tree


def best_split(
    features: np.ndarray,
    costs: np.ndarray,
    rows: np.ndarray,
    leaf: int,
    tried: np.ndarray,
) -> tuple[int, float] | None:
    """Return the feature and threshold with the least cost of the best decisions, if any.

    The cost of a side is that of the decision that is best for all of its rows together.
    """
    if len(rows) < 2 * leaf:
        return None
    total = costs[rows].sum(axis=0)
    least, best = float(total.min()), None
    least -= 1e-9 * max(1e-300, abs(least))  # what rounding can gain
    for j in tried.tolist():
        found = _split_feature(features[rows, j], costs[rows], total, leaf)
        if found is not None and found[0] < least:
            least, best = found[0], (j, found[1])
    return best


def _split_feature(
    values: np.ndarray, costs: np.ndarray, total: np.ndarray, leaf: int
) -> tuple[float, float] | None:
    """Return the cost and the threshold of the best split of one feature, if any."""
    order = np.argsort(values, kind="stable")
    values = values[order]
    places = np.arange(leaf, len(values) - leaf + 1)  # how many rows go left
    places = places[values[places - 1] < values[places]]
    if not len(places):
        return None
    left = np.cumsum(costs[order], axis=0)[places - 1]
    found = left.min(axis=1) + (total - left).min(axis=1)
    best = int(found.argmin())
    at = places[best]
    return float(found[best]), float((values[at - 1] + values[at]) / 2)
