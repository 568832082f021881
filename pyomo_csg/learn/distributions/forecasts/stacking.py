"""Weighted means of forecasts, with weights by their errors out of fold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pyomo_csg.learn.distributions.forecasts.forecast import Forecast
from pyomo_csg.learn.distributions.stored_arrays import (
    Arrays,
    StoredArrays,
    damage,
    store_parts,
)

_LEAST = 0.02  # weight, below which a part is left out
_SHRINKAGE = 0.02


@dataclass(frozen=True, eq=False)
class Stacked:
    """The mean of some forecasts by the weights (parts, p) of each column."""

    parts: Sequence[Forecast]
    weights: np.ndarray
    out_of_fold: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))

    @property
    def feature_count(self) -> int:
        """The number of features f of a context."""
        return self.parts[0].feature_count

    @property
    def column_count(self) -> int:
        """The number of outcome columns p."""
        return self.weights.shape[1]

    def predict(self, contexts: np.ndarray) -> np.ndarray:
        """Return predictions (n, p)."""
        predictions = [part.predict(contexts) for part in self.parts]
        return np.einsum("knp,kp->np", np.stack(predictions), self.weights)

    def to_arrays(self) -> tuple[dict[str, Any], Arrays]:
        """Return a JSON description, and the arrays."""
        parts, arrays = store_parts(self.parts)
        return {"kind": "stacked", "parts": parts}, {"weights": self.weights, **arrays}


def restore_stacked(stored: StoredArrays, parts: Sequence[Forecast]) -> Stacked:
    """Return the stacked forecast of some parts that was stored."""
    weights = stored.shares("weights", len(parts), None)
    for part in parts:
        if (part.feature_count, part.column_count) != (
            parts[0].feature_count,
            weights.shape[1],
        ):
            raise damage("the parts of a stacked forecast have different sizes")
    return Stacked(parts, weights)


def stack(
    parts: Sequence[Forecast], outcomes: np.ndarray, folds: np.ndarray
) -> Stacked:
    """Return the forecasts weighted by column; ``folds`` (m,) numbers each row's fold.

    Predictions out of fold use weights from the other folds.
    """
    predictions = np.stack([part.out_of_fold for part in parts])
    errors = predictions - outcomes
    products = np.stack(
        [_products(errors[:, folds == k]) for k in range(folds.max() + 1)]
    )
    total = products.sum(axis=0)
    out_of_fold = np.empty_like(outcomes)
    for k, mine in enumerate(products):
        rows = folds == k
        weights = _simplex_weights(total - mine)
        out_of_fold[rows] = np.einsum("knp,kp->np", predictions[:, rows], weights)
    weights = _simplex_weights(total)
    used = weights.max(axis=1) > 0
    return Stacked(
        [part for part, is_used in zip(parts, used, strict=True) if is_used],
        weights[used],
        out_of_fold,
    )


def _products(errors: np.ndarray) -> np.ndarray:
    """Return sums of products of errors (parts, m, p) over the rows, (p, parts, parts)."""
    return np.einsum("imp,jmp->pij", errors, errors, optimize=True)


def _simplex_weights(products: np.ndarray) -> np.ndarray:
    """Return weights (parts, p) with the least squared error of a column and of all columns."""
    sizes = np.diagonal(products, axis1=1, axis2=2).min(axis=1)
    relative = products / np.maximum(sizes, np.finfo(float).tiny)[:, None, None]
    common = np.minimum(relative, 1e6).mean(axis=0)
    weights = np.stack([_least_weights(one + common) for one in relative], axis=1)
    weights[weights < _LEAST] = 0.0
    return weights / weights.sum(axis=0)


def _least_weights(products: np.ndarray) -> np.ndarray:
    """Return the weights w (parts,) of sum 1 that minimize w' products w."""
    from scipy.optimize import nnls  # not needed to decide

    k = len(products)
    steady = products + _SHRINKAGE * np.diag(products).min() * np.eye(k)
    sizes, vectors = np.linalg.eigh(steady)
    root = np.sqrt(np.maximum(sizes, 0.0))[:, None] * vectors.T
    heavy = 1e3 * max(float(np.abs(root).max()), np.finfo(float).tiny)
    found, _ = nnls(np.vstack([root, np.full(k, heavy)]), np.append(np.zeros(k), heavy))
    total = found.sum()
    return found / total if total > 0 else np.full(k, 1 / k)
