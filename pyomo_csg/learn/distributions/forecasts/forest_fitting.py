"""Fits forests with scikit-learn's decision trees."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyomo_csg.learn.distributions.features import (
    feature_spread,
    scale_features,
    standard_spread,
)
from pyomo_csg.learn.distributions.forecasts.forest import Forest
from pyomo_csg.learn.distributions.forecasts.trees import (
    MOST_LEVELS,
    trees_from_sklearn,
)

LEAF = 5
MOST_ROWS = 3000  # that one tree sees
_MOST_TARGETS = 8  # columns that trees are split by; more are first projected
_MOST_TREES, _FEWEST_TREES = 200, 40
_WORK = 3e8  # numbers that all splits of a forest may look at


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
    All columns count alike.
    """
    # Imported here, for restored forests do without scikit-learn.
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
    """Return how many trees, given how many features a split looks at, are affordable."""
    rows = min(m, MOST_ROWS)
    work = rows * np.log2(rows + 2) * features * (targets + 4)
    return int(np.clip(_WORK / work, _FEWEST_TREES, _MOST_TREES))


def _samples(units: np.ndarray, trees: int, rng: np.random.Generator) -> np.ndarray:
    """Return how often each unit is in each tree's sample, (trees, units).

    Each unit is left out of some sample. Of a long history a sample is a part.
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
