"""Decision trees as arrays, walked by NumPy for all trees at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pyomo_csg.learn.distributions.features import context_features, scale_features
from pyomo_csg.learn.distributions.stored_arrays import Arrays, StoredArrays, damage

MOST_LEVELS = 30
_MOST_AT_ONCE = 2_000_000  # nodes that are visited in one step


@dataclass(frozen=True, eq=False)
class Trees:
    """The nodes of some trees, one after the other.

    Node i compares number ``feature[i]`` of the scaled features with ``threshold[i]``. If
    it is larger, the walk continues at ``children[2 i]``, otherwise at
    ``children[2 i + 1]``. Both are i itself for a leaf. Children have larger numbers than
    their parent.
    """

    center: np.ndarray
    spread: np.ndarray
    roots: np.ndarray
    children: np.ndarray
    feature: np.ndarray
    threshold: np.ndarray
    levels: int

    def __len__(self) -> int:
        return len(self.roots)

    @property
    def node_count(self) -> int:
        """The number of nodes of all trees."""
        return len(self.feature)

    def leaves(self, contexts: np.ndarray) -> np.ndarray:
        """Return the number of each context's leaf in each tree, (n, trees)."""
        features = context_features(contexts)
        step = max(1, _MOST_AT_ONCE // len(self))
        found = np.empty((len(features), len(self)), dtype=np.int32)
        for start in range(0, len(features), step):
            rows = slice(start, start + step)
            scaled = scale_features(features[rows], self.center, self.spread)
            found[rows] = self._walk(scaled.astype(np.float32))
        return found

    def _walk(self, scaled: np.ndarray) -> np.ndarray:
        n, f = scaled.shape
        starts = np.repeat(np.arange(n) * f, len(self))
        node = np.tile(self.roots, n)
        flat = scaled.ravel()
        for _ in range(self.levels):
            is_low = flat[starts + self.feature[node]] <= self.threshold[node]
            node = self.children[2 * node + is_low]
        return node.reshape(n, len(self))

    def to_arrays(self) -> Arrays:
        """Return the arrays."""
        names = "center", "spread", "roots", "children", "feature", "threshold"
        return {name: getattr(self, name) for name in names}


def trees_from_sklearn(
    fitted: Sequence[Any], center: np.ndarray, spread: np.ndarray
) -> Trees:
    """Return fitted scikit-learn trees as arrays; they saw scaled features."""
    sizes = [one.tree_.node_count for one in fitted]
    roots = np.cumsum([0, *sizes[:-1]])
    children, features, thresholds = [], [], []
    for root, size, one in zip(roots, sizes, fitted, strict=True):
        tree = one.tree_
        is_leaf = tree.children_left < 0
        itself = np.arange(size)
        low = np.where(is_leaf, itself, tree.children_left)
        high = np.where(is_leaf, itself, tree.children_right)
        children.append(root + np.column_stack([high, low]).ravel())
        features.append(np.where(is_leaf, 0, tree.feature))
        thresholds.append(np.where(is_leaf, 0.0, tree.threshold))
    return Trees(
        center,
        spread,
        roots.astype(np.int32),
        np.concatenate(children).astype(np.int32),
        np.concatenate(features).astype(np.int32),
        np.concatenate(thresholds),
        max(one.tree_.max_depth for one in fitted),
    )


def restore_trees(stored: StoredArrays) -> Trees:
    """Return the trees that were stored, or raise a DataError if a walk could leave its tree."""
    center = stored.numbers("center", None)
    threshold = stored.numbers("threshold", None)
    nodes = len(threshold)
    roots = stored.integers("roots", None, high=nodes)
    children = stored.integers("children", 2 * nodes, high=nodes)
    if not len(roots) or roots[0] != 0 or (np.diff(roots) <= 0).any():
        raise damage("array 'roots' does not start at 0 and rise")
    return Trees(
        center,
        stored.positive("spread", len(center)),
        roots,
        children,
        stored.integers("feature", nodes, high=len(center)),
        threshold,
        _checked_levels(roots, children.reshape(nodes, 2)),
    )


def _checked_levels(roots: np.ndarray, children: np.ndarray) -> int:
    """Return the depth of the deepest tree; refuse cycles and ways out of a tree."""
    nodes = np.arange(len(children))
    tree = np.searchsorted(roots, nodes, side="right")
    is_leaf = (children == nodes[:, None]).all(axis=1)
    inner, below = nodes[~is_leaf], children[~is_leaf]
    if (below <= inner[:, None]).any() or (tree[below] != tree[inner, None]).any():
        raise damage("array 'children' does not describe trees")
    level, reached = 0, roots
    while (reached := reached[~is_leaf[reached]]).size:
        level, reached = level + 1, np.unique(children[reached])
        if level > MOST_LEVELS:
            raise damage(f"a tree has more than {MOST_LEVELS} levels")
    return level
