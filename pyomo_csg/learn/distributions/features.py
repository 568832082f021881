"""Features of contexts, in standard units."""

from __future__ import annotations

import numpy as np

_LARGEST = 1e30  # within the range of the 32-bit numbers that trees compare


def standard_spread(values: np.ndarray) -> np.ndarray:
    """Return the standard deviation over all axes but the last; 1 where it is zero."""
    axes = tuple(range(values.ndim - 1))
    spread = values.std(axis=axes)
    size = np.abs(values).max(axis=axes, initial=0.0)
    return np.where(spread > 1e-12 * np.maximum(size, 1e-300), spread, 1.0)


def context_features(contexts: np.ndarray) -> np.ndarray:
    """Return features (n, f): contexts, or mean, spread and last row of panels."""
    if contexts.ndim == 2:
        return contexts
    return np.hstack([contexts.mean(1), contexts.std(1), contexts[:, -1]])


def feature_spread(features: np.ndarray) -> np.ndarray:
    """Return the unit (f,) of each feature: its standard deviation.

    A feature of two values has half their distance as its unit, however rare one of them
    is: in standard deviations, the dummy of a rare event would be a huge number.
    """
    low, high = features.min(axis=0), features.max(axis=0)
    has_two = ((features == low) | (features == high)).all(axis=0) & (low < high)
    return np.where(has_two, (high - low) / 2, standard_spread(features))


def scale_features(
    features: np.ndarray, center: np.ndarray, spread: np.ndarray
) -> np.ndarray:
    """Return features in units of their spread, within the range of 32-bit numbers."""
    scaled = (features - center) / spread
    return np.minimum(np.maximum(scaled, -_LARGEST), _LARGEST)


def evenly_spaced(n: int, count: int) -> np.ndarray:
    """Return at most ``count`` of the numbers 0 to n - 1, evenly spaced."""
    return np.linspace(0, n - 1, min(n, count)).round().astype(int)
