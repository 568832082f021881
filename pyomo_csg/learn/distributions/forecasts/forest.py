"""Forests: how they are fitted, their predictions, and weights by shared leaves."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from pyomo_csg.learn.distributions.features import (
    feature_spread,
    scale_features,
    standard_spread,
)
from pyomo_csg.learn.distributions.forecasts.trees import (
    MOST_LEVELS,
    Trees,
    restore_trees,
    trees_from_sklearn,
)
from pyomo_csg.learn.distributions.stored_arrays import Arrays, StoredArrays, damage

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_MOST_AT_ONCE = 4_000_000  # numbers that are summed in one step
LEAF = 5
MOST_ROWS = 3000  # that one tree sees
_MOST_TARGETS = 8  # columns that trees are split by; more are first projected
_MOST_TREES, _FEWEST_TREES = 200, 40
_WORK = 3e8  # numbers that all splits of a forest may look at


@dataclass(frozen=True, eq=False)
class Forest:
    """The mean of trees, each fitted to some of the rows.

    Each tree's rows, in their leaves, are its members: ``rows``, ``nodes`` and ``counts``
    (how often a row was drawn) have one entry per tree and row. Weights are shares of
    leaves.

    Attributes
    ----------
    out_of_fold : array (m, p)
        Mean predictions of the trees that have not seen the row.
    """

    trees: Trees
    outcomes: np.ndarray
    rows: np.ndarray
    nodes: np.ndarray
    counts: np.ndarray
    fitted_leaves: np.ndarray | None = None

    @property
    def feature_count(self) -> int:
        """The number of features f of a context."""
        return len(self.trees.center)

    @property
    def column_count(self) -> int:
        """The number of outcome columns p."""
        return self.outcomes.shape[1]

    def predict(self, contexts: np.ndarray) -> np.ndarray:
        """Return predictions (n, p)."""
        leaves = self.trees.leaves(contexts)
        predicted = np.empty((len(leaves), self.outcomes.shape[1]))
        step = max(1, _MOST_AT_ONCE // (leaves.shape[1] * predicted.shape[1]))
        for start in range(0, len(leaves), step):
            rows = slice(start, start + step)
            predicted[rows] = self._leaf_values[leaves[rows]].mean(axis=1)
        return predicted

    def weights(self, contexts: np.ndarray) -> csr_array:
        """Return the weights (n, m) of the history's rows; each row sums to 1."""
        leaves = self.trees.leaves(contexts)
        return self._weights(leaves, np.ones(leaves.shape))

    def fitted_weights(self, rows: np.ndarray) -> csr_array:
        """Return weights (B, m) for rows of the history, by trees that have not seen them."""
        assert self.fitted_leaves is not None
        unseen = ~self._seen[rows]
        return self._weights(self.fitted_leaves[rows], unseen.astype(float))

    @cached_property
    def out_of_fold(self) -> np.ndarray:
        """Return predictions (m, p) by the trees that have not seen the row."""
        leaves = self.fitted_leaves
        if leaves is None:
            return np.empty((0, self.outcomes.shape[1]))
        unseen = ~self._seen
        total = np.zeros(self.outcomes.shape)
        for mine, left_out in zip(leaves.T, unseen.T, strict=True):
            total[left_out] += self._leaf_values[mine[left_out]]
        return total / unseen.sum(axis=1, keepdims=True)

    @cached_property
    def _shares(self) -> csr_array:
        """The share (nodes, m) of each row in its leaf."""
        from scipy.sparse import csr_array  # not needed by networks

        shape = self.trees.node_count, len(self.outcomes)
        sizes = np.bincount(self.nodes, self.counts, self.trees.node_count)
        shares = self.counts / sizes[self.nodes]
        return csr_array((shares, (self.nodes, self.rows)), shape)

    @cached_property
    def _leaf_values(self) -> np.ndarray:
        return self._shares @ self.outcomes

    @cached_property
    def _seen(self) -> np.ndarray:
        """Whether each tree has seen each row, (m, trees)."""
        seen = np.zeros((len(self.outcomes), len(self.trees)), dtype=bool)
        tree = np.searchsorted(self.trees.roots, self.nodes, side="right") - 1
        seen[self.rows, tree] = True
        return seen

    def _weights(self, leaves: np.ndarray, uses: np.ndarray) -> csr_array:
        """Return weights (n, m) given the leaves (n, trees) and which trees are used."""
        from scipy.sparse import csr_array

        n, trees = leaves.shape
        uses = uses / np.maximum(uses.sum(axis=1, keepdims=True), 1)
        starts = np.arange(0, n * trees + 1, trees)
        visits = csr_array(
            (uses.ravel(), leaves.ravel(), starts), (n, self.trees.node_count)
        )
        visits.eliminate_zeros()
        return visits @ self._shares

    def to_arrays(self) -> tuple[dict[str, Any], Arrays]:
        """Return a JSON description, and the arrays."""
        names = "outcomes", "rows", "nodes", "counts"
        arrays = {name: getattr(self, name) for name in names}
        return {"kind": "forest"}, arrays | self.trees.to_arrays()


def restore_forest(stored: StoredArrays) -> Forest:
    """Return the forest that was stored."""
    trees = restore_trees(stored)
    outcomes = stored.numbers("outcomes", None, None)
    rows = stored.integers("rows", None, high=len(outcomes))
    nodes = stored.integers("nodes", len(rows), high=trees.node_count)
    counts = stored.integers("counts", len(rows), low=1)
    is_leaf = trees.children[::2] == np.arange(trees.node_count)
    filled = np.bincount(nodes, minlength=trees.node_count) > 0
    if (filled != is_leaf).any():
        raise damage(
            "array 'nodes' leaves a leaf empty, or names a node that is not a leaf"
        )
    return Forest(trees, outcomes, rows, nodes, counts)


def fit_forest(
    features: np.ndarray,
    outcomes: np.ndarray,
    units: np.ndarray,
    seed: int,
    extra: bool = False,
    leaf: int = LEAF,
    trees: int | None = None,
) -> Forest:
    """Fit a random forest, or extra trees, to features (m, f) and outcomes (m, p).

    Each tree sees a bootstrap sample of ``units``, the number (m,) of each row's unit.
    Every column has the same influence.
    """
    # Imported here, since restored forests do not need scikit-learn.
    from sklearn.tree import DecisionTreeRegressor, ExtraTreeRegressor

    rng = np.random.default_rng(seed)
    center, spread = features.mean(axis=0), feature_spread(features)
    scaled = scale_features(features, center, spread).astype(np.float32)
    targets = outcomes / standard_spread(outcomes)
    targets = targets @ main_axes(targets)
    share = feature_share(features.shape[1], extra)
    width = share * features.shape[1] / (4 if extra else 1)
    count = trees or _tree_count(len(features), width, targets.shape[1])
    samples = _samples(units, count, rng)
    kind: Any = ExtraTreeRegressor if extra else DecisionTreeRegressor
    fitted, members = [], []
    for sample in samples:
        tree = kind(
            max_depth=MOST_LEVELS,
            min_samples_leaf=leaf,
            max_features=share,
            random_state=int(rng.integers(2**31)),
        )
        drawn = sample[units]
        rows = np.flatnonzero(drawn)
        inside, counts = scaled[rows], drawn[rows]
        tree.fit(inside, targets[rows], counts.astype(float), check_input=False)
        fitted.append(tree)
        members.append((rows, tree.tree_.apply(inside), counts))
    grown = trees_from_sklearn(fitted, center, spread)
    first = np.repeat(grown.roots, [len(mine) for mine, *_ in members])
    seen, leaves, drawn = (
        np.concatenate(part).astype(np.int32) for part in zip(*members, strict=True)
    )
    return Forest(grown, outcomes, seen, leaves + first, drawn, grown.leaves(features))


def main_axes(targets: np.ndarray) -> np.ndarray:
    """Return the directions (p, q) of the main components, or all where they are few."""
    if targets.shape[1] <= _MOST_TARGETS:
        return np.eye(targets.shape[1])
    centered = targets - targets.mean(axis=0)
    _, vectors = np.linalg.eigh(centered.T @ centered)
    return vectors[:, : -_MOST_TARGETS - 1 : -1]


def feature_share(f: int, extra: bool) -> float:
    """Return the share of features that a split looks at."""
    if extra or f < 4:
        return 1.0
    return max(1 / 3, 2 / f)


def _tree_count(m: int, features: float, targets: int) -> int:
    """Return how many trees are affordable if a split looks at some number of features."""
    rows = min(m, MOST_ROWS)
    work = rows * np.log2(rows + 2) * features * (targets + 4)
    return int(np.clip(_WORK / work, _FEWEST_TREES, _MOST_TREES))


def _samples(units: np.ndarray, trees: int, rng: np.random.Generator) -> np.ndarray:
    """Return how often each unit is in each tree's sample, (trees, units).

    Every unit is left out of at least one sample. For a long history, samples are smaller.
    """
    m, count = len(units), int(units.max()) + 1
    if m > MOST_ROWS:
        size = max(1, count * MOST_ROWS // m)
        order = rng.random((trees, count)).argsort(axis=1)
        samples = (order < size).astype(int)
    else:
        drawn = rng.integers(count, size=(trees, count))
        drawn += count * np.arange(trees)[:, None]
        samples = np.bincount(drawn.ravel(), minlength=trees * count)
        samples = samples.reshape(trees, count)
    always = np.flatnonzero((samples > 0).all(axis=0))
    widest = (samples > 0).sum(axis=1).argmax()
    samples[widest, always[: count - 1]] = 0
    return samples
