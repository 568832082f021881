"""Conditional distributions of every kind: fitted to a history, or restored from arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from pyomo_csg.learn.distributions.forecasts.fitting import FORECASTS, Fits
from pyomo_csg.learn.distributions.forecasts.forest import Forest
from pyomo_csg.learn.distributions.mixture import mix
from pyomo_csg.learn.distributions.residuals import fit_residuals
from pyomo_csg.learn.distributions.stored_arrays import Arrays
from pyomo_csg.learn.distributions.weighted import Empirical, Weighted, fit_neighbors

WEIGHTED = ("empirical", "neighbors", "forest weights", "extra trees weights")
KINDS = (*WEIGHTED, *FORECASTS, "mixture")


class ConditionalDistribution(Protocol):
    """The distribution of the outcomes given a context."""

    @property
    def name(self) -> str:
        """What it is called in tables."""

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

        What is drawn for a row uses neither its outcome nor a model that has seen it.
        A distribution that was restored from arrays cannot do this.
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
        At least two rows.
    lower, upper : arrays (p,)
        Bounds of the Params' domains.
    seed : int
    in_time : bool
        Whether rows are in the order of time, so that they are held out in blocks.
    kinds : sequence of str
        Names of forecasts stand for the forecast plus its errors. A mixture consists of
        the other kinds.

    Notes
    -----
    The time is bounded: with many rows or columns there are fewer trees, each sees some
    rows, and splits look at the outcomes' main components.
    """
    fits = Fits(contexts, outcomes, seed, in_time)
    found: dict[str, ConditionalDistribution] = {}
    for kind in (one for one in KINDS if one in kinds):
        if kind == "empirical":
            found[kind] = Empirical(kind, outcomes)
        elif kind == "neighbors":
            found[kind] = Weighted(kind, *fit_neighbors(contexts, outcomes, seed))
        elif kind.endswith(" weights"):
            forest = fits.forecast(kind.removesuffix(" weights"))
            assert isinstance(forest, Forest)
            found[kind] = Weighted(kind, forest, outcomes)
        elif kind == "mixture":
            found[kind] = mix(kind, list(found.values()), outcomes, seed)
        else:
            found[kind] = fit_residuals(
                kind,
                fits.forecast(kind),
                contexts,
                outcomes,
                (lower, upper),
                seed,
                in_time,
            )
    return found
