"""Conditional distributions of every kind: fitted to a history, or restored from arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from threadpoolctl import threadpool_limits

from pyomo_csg.learn.distributions.forecasts.fitting import FORECASTS, Fits
from pyomo_csg.learn.distributions.forecasts.forest import Forest
from pyomo_csg.learn.distributions.mixture import mix, restore_mixture
from pyomo_csg.learn.distributions.residuals import fit_residuals, restore_residuals
from pyomo_csg.learn.distributions.stored_arrays import Arrays, StoredArrays, damage
from pyomo_csg.learn.distributions.user_distribution import (
    restore_user_distribution,
)
from pyomo_csg.learn.distributions.weighted import (
    Empirical,
    Weighted,
    fit_neighbors,
    restore_weighted,
)

WEIGHTED = ("empirical", "neighbors", "forest weights", "extra trees weights")
KINDS = (*WEIGHTED, *FORECASTS, "mixture")


class ConditionalDistribution(Protocol):
    """The distribution of the outcomes given a context."""

    @property
    def name(self) -> str:
        """What it is called in tables."""

    @property
    def feature_count(self) -> int | None:
        """The number of features of a context, or None if it does not matter."""

    @property
    def column_count(self) -> int:
        """The number of outcome columns p."""

    def outcomes(
        self, contexts: np.ndarray
    ) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Return, per context, points (k, p) and weights (k,) that sum to 1."""

    def sample(
        self, contexts: np.ndarray, count: int, rng: np.random.Generator
    ) -> np.ndarray:
        """Return outcomes (n, count, p) drawn for each context."""

    def sample_fitted(
        self, rows: np.ndarray, count: int, rng: np.random.Generator
    ) -> np.ndarray:
        """Return outcomes (B, count, p) drawn for rows (B,) of the history.

        Draws for a row use neither its outcome nor a model that has seen it. A distribution
        that was restored from arrays cannot do this.
        """

    def to_arrays(self) -> tuple[dict[str, Any], Arrays]:
        """Return a JSON description and arrays, for :func:`restore`."""


def fit_distributions(
    contexts: np.ndarray,
    outcomes: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    seed: int,
    *,
    in_time: bool,
    kinds: Sequence[str] = KINDS,
) -> dict[str, ConditionalDistribution]:
    """Return conditional distributions of some kinds, in the order of ``KINDS``.

    Parameters
    ----------
    contexts : array (m, d), or (m, W, d) for panels
    outcomes : array (m, p)
        With a single row there is only the empirical distribution.
    lower, upper : arrays (p,)
        Bounds of the Params' domains.
    seed : int
    in_time : bool
        Whether rows are in the order of time, so that they are held out in blocks.
    kinds : sequence of str
        The name of a forecast means the forecast plus its errors. A mixture consists of
        the other kinds.

    Notes
    -----
    The time is bounded: with many rows or columns, there are fewer trees on fewer rows,
    splits look at the outcomes' main components, and there is no boosting.
    """
    with threadpool_limits(1, "blas"):  # matrices are small, and threads would spin
        return _fit(Fits(contexts, outcomes, seed, in_time), kinds, (lower, upper))


def _fit(
    fits: Fits, kinds: Sequence[str], bounds: tuple[np.ndarray, np.ndarray]
) -> dict[str, ConditionalDistribution]:
    contexts, outcomes, seed = fits.contexts, fits.outcomes, fits.seed
    kinds = kinds if len(outcomes) > 1 else ("empirical",)
    found: dict[str, ConditionalDistribution] = {}
    left_out = set(FORECASTS) - set(fits.affordable)
    for kind in (one for one in KINDS if one in kinds and one not in left_out):
        if kind == "empirical":
            found[kind] = Empirical(kind, outcomes)
        elif kind == "neighbors":
            found[kind] = Weighted(kind, *fit_neighbors(contexts, outcomes, seed))
        elif kind in WEIGHTED:
            forest = fits.forecast(kind.removesuffix(" weights"))
            assert isinstance(forest, Forest)
            found[kind] = Weighted(kind, forest, outcomes)
        elif kind == "mixture":
            found[kind] = mix(kind, list(found.values()), outcomes, seed)
        else:
            forecast = fits.forecast(kind)
            found[kind] = fit_residuals(
                kind, forecast, contexts, outcomes, bounds, seed, fits.in_time
            )
    return found


def restore(
    description: Any, arrays: Mapping[str, np.ndarray]
) -> ConditionalDistribution:
    """Return a distribution from what ``to_arrays`` gave, equal to the last bit.

    Raises
    ------
    DataError
        If the description and the arrays do not belong together.
    """
    return restore_stored(StoredArrays(description, arrays))


def restore_stored(stored: StoredArrays, depth: int = 0) -> ConditionalDistribution:
    """Return a distribution as :func:`restore` does; a mixture has no mixtures as parts."""
    kind, name = stored.text("kind"), stored.text("name")
    if kind == "user" and not depth:
        return restore_user_distribution(stored)
    if kind == "empirical":
        history = stored.numbers("history", None, None)
        if not len(history):
            raise damage("array 'history' is empty")
        return Empirical(name, history)
    if kind == "weighted":
        return restore_weighted(stored, name)
    if kind == "residuals":
        return restore_residuals(stored, name)
    if kind == "mixture" and not depth:
        parts = [restore_stored(part, 1) for part in stored.parts("parts")]
        return restore_mixture(stored, name, parts)
    raise damage(f"a distribution has kind {kind!r:.40}")
