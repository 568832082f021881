"""The map from unconstrained numbers to outcomes within the Params' domains, in NumPy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import expit

Function = Callable[[np.ndarray], np.ndarray]

_MARGIN = 0.01  # as in networks.domains
_LEAST_WIDTH = 1e-300


def domain_map(
    lower: np.ndarray, upper: np.ndarray, center: np.ndarray, spread: np.ndarray
) -> Function:
    """Return the function of arrays (..., p) that ``networks.domains.Omega`` is in torch.

    An interval is mapped by a scaled sigmoid, a one-sided bound by a softplus, an
    unbounded domain linearly.
    """
    low, high = np.isfinite(lower), np.isfinite(upper)
    least = np.where(low, lower, center - spread)
    most = np.where(high, upper, np.maximum(center, least) + spread)
    with np.errstate(all="ignore"):  # numbers of a hostile file may overflow
        width = np.maximum(most - least, _LEAST_WIDTH)
        share = np.clip((center - least) / width, _MARGIN, 1 - _MARGIN)
        shift, gain = (
            np.log(share / (1 - share)),
            spread / (width * share * (1 - share)),
        )
        lower_shift = _softplus_inverse((center - least) / spread)
        upper_shift = _softplus_inverse((most - center) / spread)

    def above(free: np.ndarray) -> np.ndarray:
        return least + spread * _softplus(free + lower_shift)

    def below(free: np.ndarray) -> np.ndarray:
        return most - spread * _softplus(upper_shift - free)

    def between(free: np.ndarray) -> np.ndarray:
        part = least + (most - least) * expit(shift + gain * free)
        return np.minimum(np.maximum(part, least), most)

    def anywhere(free: np.ndarray) -> np.ndarray:
        return center + spread * free

    kinds = (
        (low & ~high, above),
        (high & ~low, below),
        (low & high, between),
        (~low & ~high, anywhere),
    )
    (_, first), *others = (kind for kind in kinds if kind[0].any())

    def outcomes(free: np.ndarray) -> np.ndarray:
        outcome = first(free)
        for where, function in others:
            outcome = np.where(where, function(free), outcome)
        return outcome

    return outcomes


def _softplus(values: np.ndarray) -> np.ndarray:
    """Return torch's softplus, which is the identity from 20 on."""
    return np.maximum(values, np.log1p(np.exp(np.minimum(values, 20.0))))


def _softplus_inverse(values: np.ndarray) -> np.ndarray:
    values = np.maximum(values, _MARGIN)
    return values + np.log(-np.expm1(-values))
