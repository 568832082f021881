"""Mixtures of conditional distributions, with shares by the energy score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pyomo_csg.learn.distributions.features import evenly_spaced, standard_spread
from pyomo_csg.learn.distributions.stored_arrays import (
    Arrays,
    StoredArrays,
    damage,
    store_parts,
)

if TYPE_CHECKING:
    from pyomo_csg.learn.distributions.conditional import ConditionalDistribution

_MOST_ROWS, _FEWEST_ROWS, _DRAWS = 400, 50, 24
_WORK = 3e8  # numbers that are compared
_LEAST = 0.05  # share, below which a part is left out
_STEPS = 3000


@dataclass(frozen=True, eq=False)
class Mixture:
    """A distribution that is each of its parts with a probability, ``shares`` (parts,)."""

    name: str
    parts: Sequence[ConditionalDistribution]
    shares: np.ndarray

    @property
    def feature_count(self) -> int | None:
        """The number of features of a context, or None if it does not matter."""
        return max(
            (f for f in (part.feature_count for part in self.parts) if f is not None),
            default=None,
        )

    @property
    def column_count(self) -> int:
        """The number of outcome columns p."""
        return self.parts[0].column_count

    def outcomes(
        self, contexts: np.ndarray
    ) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Return, per context, the outcomes (k, p) of all parts, and weights (k,)."""
        found = [part.outcomes(contexts) for part in self.parts]
        points = [
            np.concatenate(mine) for mine in zip(*(f[0] for f in found), strict=True)
        ]
        weights = [
            np.concatenate([s * w for s, w in zip(self.shares, mine, strict=True)])
            for mine in zip(*(f[1] for f in found), strict=True)
        ]
        return points, weights

    def sample(
        self, contexts: np.ndarray, count: int, rng: np.random.Generator
    ) -> np.ndarray:
        """Return outcomes (n, count, p) drawn for each context."""
        drawn = [part.sample(contexts, count, rng) for part in self.parts]
        return self._choose(drawn, rng)

    def sample_fitted(
        self, rows: np.ndarray, count: int, rng: np.random.Generator
    ) -> np.ndarray:
        """Return outcomes (B, count, p) drawn for rows of the history, as the parts do."""
        drawn = [part.sample_fitted(rows, count, rng) for part in self.parts]
        return self._choose(drawn, rng)

    def _choose(self, drawn: list[np.ndarray], rng: np.random.Generator) -> np.ndarray:
        n, count, _ = drawn[0].shape
        which = rng.choice(len(drawn), size=(n, count), p=self.shares)
        return np.choose(which[..., None], drawn) if len(drawn) > 1 else drawn[0]

    def to_arrays(self) -> tuple[dict[str, Any], Arrays]:
        """Return a JSON description, and the arrays."""
        parts, arrays = store_parts(self.parts)
        description = {"kind": "mixture", "name": self.name, "parts": parts}
        return description, {"shares": self.shares, **arrays}


def restore_mixture(
    stored: StoredArrays, name: str, parts: Sequence[ConditionalDistribution]
) -> Mixture:
    """Return the mixture of some parts that was stored."""
    sizes = {(part.feature_count, part.column_count) for part in parts}
    features = {f for f, _ in sizes} - {None}
    if len(features) > 1 or len({p for _, p in sizes}) > 1:
        raise damage("the parts of a mixture have different sizes")
    return Mixture(name, parts, stored.shares("shares", len(parts)))


def mix(
    name: str,
    parts: Sequence[ConditionalDistribution],
    outcomes: np.ndarray,
    seed: int,
) -> Mixture:
    """Return the mixture with the least energy score on the history, out of fold."""
    unit, k = standard_spread(outcomes), len(parts)
    affordable = int(_WORK / ((k * _DRAWS) ** 2 * outcomes.shape[1]))
    tried = int(np.clip(affordable, _FEWEST_ROWS, _MOST_ROWS))
    rows = evenly_spaced(len(outcomes), tried)
    rng = np.random.default_rng(seed)
    drawn = np.stack([part.sample_fitted(rows, _DRAWS, rng) for part in parts], axis=1)
    shares = _least_energy(*_mean_distances(drawn / unit, outcomes[rows] / unit))
    used = np.flatnonzero(shares >= _LEAST).tolist()
    return Mixture(name, [parts[i] for i in used], shares[used] / shares[used].sum())


def _mean_distances(
    drawn: np.ndarray, outcomes: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return mean distances of draws (n, k, c, p) to outcomes (n, p) and to each other.

    The first is (k,), the second (k, k), without those of a draw to itself.
    """
    from scipy.spatial.distance import cdist  # not needed to decide

    _, k, c, p = drawn.shape
    apart = np.linalg.norm(drawn - outcomes[:, None, None], axis=3).mean(axis=(0, 2))
    among = np.zeros((k, k))
    for mine in drawn.reshape(-1, k * c, p):
        among += cdist(mine, mine).reshape(k, c, k, c).mean(axis=(1, 3))
    among /= len(drawn)
    among[np.diag_indices(k)] *= c / (c - 1)
    return apart, among


def _least_energy(apart: np.ndarray, among: np.ndarray) -> np.ndarray:
    """Return shares s >= 0 of sum 1 that minimize ``apart @ s - s @ among @ s / 2``."""
    shares = np.full(len(apart), 1 / len(apart))
    rate = 2.0 / max(float(apart.max()), np.finfo(float).tiny)
    for _ in range(_STEPS):
        slope = apart - among @ shares
        shares = shares * np.exp(-rate * (slope - slope.min()))
        shares /= shares.sum()
    return shares
