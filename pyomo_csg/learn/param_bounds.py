"""The bounds of the uncertain Params' domains."""

from __future__ import annotations

import numpy as np

from pyomo_csg.stages import TwoStageModel

_INSET = 1e-6  # of open bounds, in standard deviations


def domain_bounds(
    two_stage: TwoStageModel, spread: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the bounds (p,) of the Params' domains; open bounds are moved inward."""
    lower, upper = np.full(len(spread), -np.inf), np.full(len(spread), np.inf)
    for j, param in enumerate(two_stage.uncertain_params):
        domain = param.parent_component().domain
        low, high, _ = domain.get_interval()
        if low is not None:
            lower[j] = low if low in domain else low + _INSET * spread[j]
        if high is not None:
            upper[j] = high if high in domain else high - _INSET * spread[j]
    return lower, upper
