"""Forests: predictions, and weights of the history's rows by shared leaves."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from pyomo_csg.learn.distributions.forecasts.trees import Trees, restore_trees
from pyomo_csg.learn.distributions.stored_arrays import Arrays, StoredArrays, damage

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_MOST_AT_ONCE = 4_000_000  # numbers that are summed in one step


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
        """Return the weights (B, m) of rows of the history, by trees that have not seen them."""
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
        from scipy.sparse import csr_array  # networks do without

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
        raise damage("array 'nodes' leaves a leaf empty, or names a node that is none")
    return Forest(trees, outcomes, rows, nodes, counts)
