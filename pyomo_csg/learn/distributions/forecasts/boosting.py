"""Boosted trees on the errors of a ridge regression."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pyomo_csg.learn.distributions.features import (
    feature_spread,
    scale_features,
    standard_spread,
)
from pyomo_csg.learn.distributions.forecasts.forecast import choose_by_column
from pyomo_csg.learn.distributions.forecasts.forest import (
    LEAF,
    MOST_ROWS,
    feature_share,
    main_axes,
)
from pyomo_csg.learn.distributions.forecasts.ridge import Ridge, restore_ridge
from pyomo_csg.learn.distributions.forecasts.trees import (
    Trees,
    restore_trees,
    trees_from_sklearn,
)
from pyomo_csg.learn.distributions.stored_arrays import (
    Arrays,
    StoredArrays,
    damage,
    with_prefix,
)

_MOST_AT_ONCE = 4_000_000  # numbers that are summed in one step
_STEPS, _RATE, _DEPTH = 60, 0.12, 3
_SAMPLE = 2 / 3  # of the units, for each tree


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


def boost_ridge(
    ridge: Ridge,
    features: np.ndarray,
    outcomes: np.ndarray,
    units: np.ndarray,
    folds: np.ndarray,
    seed: int,
) -> Boosted:
    """Fit boosted trees to the errors of a ridge regression out of fold.

    ``folds`` (m,) numbers each row's fold. Each column has the number of trees with the
    least squared error out of fold, which may be zero.
    """
    errors = outcomes - ridge.out_of_fold
    squares = np.zeros((_STEPS + 1, outcomes.shape[1]))
    fits = []
    for k in range(folds.max() + 1):
        mine, others = folds == k, np.flatnonzero(folds != k)
        _, inside = np.unique(units[others], return_inverse=True)
        fits.append(_boost(features[others], errors[others], inside, seed))
        squares += _squares_by_step(*fits[-1], features[mine], errors[mine])
    steps = choose_by_column(squares)
    out_of_fold = ridge.out_of_fold.copy()
    for k, (trees, values) in enumerate(fits):
        mine = folds == k
        out_of_fold[mine] += sum_leaves(
            trees, _first_steps(trees, values, steps), features[mine]
        )
    trees, values = _boost(features, errors, units, seed)
    return Boosted(ridge, trees, _first_steps(trees, values, steps), out_of_fold)


def _squares_by_step(
    trees: Trees, values: np.ndarray, features: np.ndarray, errors: np.ndarray
) -> np.ndarray:
    """Return the squared errors (steps + 1, p) after 0, 1, ... trees."""
    left, squares = errors, [(errors**2).sum(axis=0)]
    for leaves in trees.leaves(features).T:
        left = left - values[leaves]
        squares.append((left**2).sum(axis=0))
    return np.stack(squares)


def _first_steps(trees: Trees, values: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Return the values (nodes, p), zero from tree ``steps`` (p,) on."""
    tree = np.searchsorted(trees.roots, np.arange(len(values)), side="right") - 1
    return np.where(tree[:, None] < steps, values, 0.0)


def _boost(
    features: np.ndarray, targets: np.ndarray, units: np.ndarray, seed: int
) -> tuple[Trees, np.ndarray]:
    """Return boosted trees for all columns together, and the values (nodes, p) they add."""
    from sklearn.tree import DecisionTreeRegressor  # not needed once it is restored

    rng = np.random.default_rng(seed)
    center, spread = features.mean(axis=0), feature_spread(features)
    scaled = scale_features(features, center, spread).astype(np.float32)
    left = targets.copy()
    unit, axes = standard_spread(targets), main_axes(targets / standard_spread(targets))
    share, count = feature_share(features.shape[1], False), int(units.max()) + 1
    size = max(1, min(int(_SAMPLE * count), count * MOST_ROWS // len(units)))
    fitted, values = [], []
    for _ in range(_STEPS):
        rows = np.flatnonzero((rng.permutation(count) < size)[units])
        tree = DecisionTreeRegressor(
            max_depth=_DEPTH,
            min_samples_leaf=2 * LEAF,
            max_features=share,
            random_state=int(rng.integers(2**31)),
        ).fit(scaled[rows], (left[rows] / unit) @ axes, check_input=False)
        leaves = tree.tree_.apply(scaled)
        added = _RATE * _group_means(leaves[rows], left[rows], tree.tree_.node_count)
        left -= added[leaves]
        fitted.append(tree)
        values.append(added)
    return trees_from_sklearn(fitted, center, spread), np.concatenate(values)


def _group_means(groups: np.ndarray, values: np.ndarray, count: int) -> np.ndarray:
    """Return the mean (count, p) of values (m, p) over each group; 0 where it is empty."""
    sizes = np.maximum(np.bincount(groups, minlength=count), 1)
    from scipy.sparse import csr_array

    members = csr_array(
        (1 / sizes[groups], (groups, np.arange(len(groups)))), (count, len(groups))
    )
    return members @ values
