"""How wide a kernel is that has a width: by the distances that it will see."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.spatial.distance import pdist

from pyomo_csg.learn.config import FitConfig
from pyomo_csg.learn.kernels import METRICS
from pyomo_csg.learn.omega import spread_of
from pyomo_csg.options import is_one_of

_MOST = 300  # outcomes: pairs of them are many more


def with_bandwidth(config: FitConfig, outcomes: np.ndarray) -> FitConfig:
    """Return settings whose bandwidth is a number, if their kernel has one.

    Parameters
    ----------
    config : FitConfig
    outcomes : array (n, p)
        Of the history.
    """
    if config.bandwidth is not None or not is_one_of(config.kernel, tuple(METRICS)):
        return config
    unit = 1.0 if config.units == "raw" else spread_of(outcomes)
    metric = METRICS[str(config.kernel)]
    return replace(config, bandwidth=median_distance(outcomes / unit, metric))


def median_distance(points: np.ndarray, metric: str) -> float:
    """Return the median distance of points (n, p) that differ; 1 where none do.

    Of a long history every so many points are looked at, and the last digits are dropped,
    so that another machine finds the same.
    """
    step = -(-len(points) // _MOST)
    apart = pdist(points[::step], metric)
    apart = apart[apart > 0]
    return float(f"{np.median(apart):.6g}") if len(apart) else 1.0
