"""Ridge regression on features, their squares and products, with penalties by folds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pyomo_csg.learn.distributions.features import (
    context_features,
    feature_spread,
    scale_features,
    standard_spread,
)
from pyomo_csg.learn.distributions.forecasts.forecast import choose_by_column
from pyomo_csg.learn.distributions.stored_arrays import Arrays, StoredArrays, damage

_PENALTIES = np.logspace(-6, 3, 19)  # per row, on features with a variance of about 1
_MOST_PRODUCTS = 300  # features, from which on only squares are added
_TERMS = ("linear", "squares", "products")


@dataclass(frozen=True, eq=False)
class Ridge:
    """A linear function of expanded features: ``offset + expanded @ slopes``.

    Features are limited to the range of the history if they are squared or multiplied,
    since such a function cannot be trusted beyond it.
    """

    terms: str
    center: np.ndarray
    spread: np.ndarray
    low: np.ndarray
    high: np.ndarray
    offset: np.ndarray
    slopes: np.ndarray
    out_of_fold: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))

    @property
    def feature_count(self) -> int:
        """The number of features f of a context."""
        return len(self.center)

    @property
    def column_count(self) -> int:
        """The number of outcome columns p."""
        return len(self.offset)

    def predict(self, contexts: np.ndarray) -> np.ndarray:
        """Return predictions (n, p)."""
        scaled = scale_features(context_features(contexts), self.center, self.spread)
        if self.terms != "linear":
            scaled = np.minimum(np.maximum(scaled, self.low), self.high)
        return self.offset + _expand_features(scaled, self.terms) @ self.slopes

    def to_arrays(self) -> tuple[dict[str, Any], Arrays]:
        """Return a JSON description, and the arrays."""
        names = "center", "spread", "low", "high", "offset", "slopes"
        arrays = {name: getattr(self, name) for name in names}
        return {"kind": "ridge", "terms": self.terms}, arrays


def restore_ridge(stored: StoredArrays) -> Ridge:
    """Return the ridge regression that was stored."""
    terms = stored.text("terms")
    if terms not in _TERMS:
        raise damage(f"'terms' is {terms!r:.40}, not one of {_TERMS}")
    center = stored.numbers("center", None)
    f, offset = len(center), stored.numbers("offset", None)
    columns = _expand_features(np.zeros((1, f)), terms).shape[1]
    return Ridge(
        terms,
        center,
        stored.positive("spread", f),
        stored.numbers("low", f),
        stored.numbers("high", f),
        offset,
        stored.numbers("slopes", columns, len(offset)),
    )


def fit_ridge(
    features: np.ndarray, outcomes: np.ndarray, folds: np.ndarray, quadratic: bool
) -> Ridge:
    """Fit features (m, f) to outcomes (m, p); ``folds`` (m,) numbers each row's fold.

    The penalty of each column is the one with the least squared error out of fold, where
    the mean over all columns, which is less noisy, has half of the weight.
    """
    center, spread = features.mean(axis=0), feature_spread(features)
    scaled = scale_features(features, center, spread)
    terms = "linear" if not quadratic else _quadratic_terms(scaled)
    expanded = _expand_features(scaled, terms)
    middle, unit = expanded.mean(axis=0), standard_spread(expanded)
    if terms == "linear":
        middle, unit = np.zeros_like(middle), np.ones_like(unit)
    values, basis = _row_space((expanded - middle) / unit)
    moments = _Moments.of(values, outcomes)
    parts = [np.flatnonzero(folds == k) for k in range(folds.max() + 1)]
    solutions = [
        moments.without(values[part], outcomes[part]).decompose() for part in parts
    ]
    penalties = _best_penalties(values, outcomes, parts, solutions)
    out_of_fold = np.empty_like(outcomes)
    for part, solution in zip(parts, solutions, strict=True):
        out_of_fold[part] = solution.predict(values[part], penalties)
    whole = moments.decompose()
    slopes = basis @ whole.slopes(penalties) / unit[:, None]
    return Ridge(
        terms,
        center,
        spread,
        scaled.min(axis=0),
        scaled.max(axis=0),
        whole.outcome_mean - (whole.mean @ whole.slopes(penalties)) - middle @ slopes,
        slopes,
        out_of_fold,
    )


def _quadratic_terms(scaled: np.ndarray) -> str:
    f = scaled.shape[1]
    return "products" if f * (f + 3) // 2 <= _MOST_PRODUCTS else "squares"


def _expand_features(scaled: np.ndarray, terms: str) -> np.ndarray:
    """Return features (n, f), followed by their squares or products if ``terms`` says so."""
    if terms == "linear":
        return scaled
    if terms == "squares":
        return np.hstack([scaled, scaled**2])
    first, second = np.triu_indices(scaled.shape[1])
    return np.hstack([scaled, scaled[:, first] * scaled[:, second]])


def _row_space(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return coordinates (m, r) of the rows and a basis (f, r), with r at most m."""
    m, f = values.shape
    if f <= m:
        return values, np.eye(f)
    left, sizes, right = np.linalg.svd(values, full_matrices=False)
    return left * sizes, right.T


@dataclass(frozen=True, eq=False)
class _Moments:
    """Sums over rows, from which those of some rows can be subtracted."""

    count: int
    value_sum: np.ndarray
    outcome_sum: np.ndarray
    gram: np.ndarray
    cross: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray, outcomes: np.ndarray) -> _Moments:
        """Return the sums over rows of values (m, r) and outcomes (m, p)."""
        sums = values.sum(axis=0), outcomes.sum(axis=0)
        return cls(len(values), *sums, values.T @ values, values.T @ outcomes)

    def without(self, values: np.ndarray, outcomes: np.ndarray) -> _Moments:
        """Return the sums over all other rows."""
        less = _Moments.of(values, outcomes)
        return _Moments(
            self.count - less.count,
            self.value_sum - less.value_sum,
            self.outcome_sum - less.outcome_sum,
            self.gram - less.gram,
            self.cross - less.cross,
        )

    def decompose(self) -> _Decomposed:
        """Return the eigenvectors of the covariance, with which any penalty is quick."""
        count = max(self.count, 1)
        mean, outcome_mean = self.value_sum / count, self.outcome_sum / count
        gram = self.gram - count * np.outer(mean, mean)
        cross = self.cross - count * np.outer(mean, outcome_mean)
        sizes, vectors = np.linalg.eigh(gram)
        return _Decomposed(
            count,
            mean,
            outcome_mean,
            np.maximum(sizes, 0.0),
            vectors,
            vectors.T @ cross,
        )


@dataclass(frozen=True, eq=False)
class _Decomposed:
    count: int
    mean: np.ndarray
    outcome_mean: np.ndarray
    sizes: np.ndarray
    vectors: np.ndarray
    projected: np.ndarray

    def weights(self, penalties: Any) -> np.ndarray:
        """Return slopes (r, p) in the basis of the eigenvectors."""
        return self.projected / (self.sizes[:, None] + self.count * penalties)

    def slopes(self, penalties: Any) -> np.ndarray:
        """Return slopes (r, p)."""
        return self.vectors @ self.weights(penalties)

    def predict(self, values: np.ndarray, penalties: Any) -> np.ndarray:
        """Return predictions (n, p)."""
        return self.outcome_mean + (values - self.mean) @ self.slopes(penalties)


def _best_penalties(
    values: np.ndarray,
    outcomes: np.ndarray,
    parts: list[np.ndarray],
    solutions: list[_Decomposed],
) -> np.ndarray:
    """Return the penalty (p,) of each column."""
    squares = np.zeros((len(_PENALTIES), outcomes.shape[1]))
    for part, solution in zip(parts, solutions, strict=True):
        rotated = (values[part] - solution.mean) @ solution.vectors
        errors = outcomes[part] - solution.outcome_mean
        for i, penalty in enumerate(_PENALTIES):
            left = errors - rotated @ solution.weights(penalty)
            squares[i] += (left**2).sum(axis=0)
    return _PENALTIES[choose_by_column(squares)]
