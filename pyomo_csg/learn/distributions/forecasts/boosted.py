"""Boosted trees on the errors of a ridge regression."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pyomo_csg.learn.distributions.forecasts.ridge import Ridge, restore_ridge
from pyomo_csg.learn.distributions.forecasts.trees import Trees, restore_trees
from pyomo_csg.learn.distributions.stored_arrays import (
    Arrays,
    StoredArrays,
    damage,
    with_prefix,
)

_MOST_AT_ONCE = 4_000_000


@dataclass(frozen=True, eq=False)
class Boosted:
    """A ridge regression, plus what each tree adds in its leaves: ``values`` (nodes, p)."""

    ridge: Ridge
    trees: Trees
    values: np.ndarray
    out_of_fold: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))

    @property
    def feature_count(self) -> int:
        """The number of features f of a context."""
        return self.ridge.feature_count

    @property
    def column_count(self) -> int:
        """The number of outcome columns p."""
        return self.ridge.column_count

    def predict(self, contexts: np.ndarray) -> np.ndarray:
        """Return predictions (n, p)."""
        return self.ridge.predict(contexts) + sum_leaves(
            self.trees, self.values, contexts
        )

    def to_arrays(self) -> tuple[dict[str, Any], Arrays]:
        """Return a JSON description, and the arrays."""
        description, arrays = self.ridge.to_arrays()
        return {"kind": "boosting", "ridge": description}, (
            with_prefix("ridge", arrays)
            | self.trees.to_arrays()
            | {"values": self.values}
        )


def restore_boosted(stored: StoredArrays) -> Boosted:
    """Return the boosted trees that were stored."""
    ridge = restore_ridge(stored.part("ridge"))
    trees = restore_trees(stored)
    if len(trees.center) != ridge.feature_count:
        raise damage("boosted trees and their ridge regression have different features")
    values = stored.numbers("values", trees.node_count, len(ridge.offset))
    return Boosted(ridge, trees, values)


def sum_leaves(trees: Trees, values: np.ndarray, contexts: np.ndarray) -> np.ndarray:
    """Return the sums (n, p) of the values of each context's leaves."""
    leaves = trees.leaves(contexts)
    total = np.empty((len(leaves), values.shape[1]))
    step = max(1, _MOST_AT_ONCE // (leaves.shape[1] * values.shape[1]))
    for start in range(0, len(leaves), step):
        rows = slice(start, start + step)
        total[rows] = values[leaves[rows]].sum(axis=1)
    return total
