"""Section 5.3: a portfolio on five-minute returns. A trial is a simulated market.

Pairs come in time order: the first 1247 to learn from, the last 312 to decide for.
"""

import numpy as np
from experiment import EVALUATION_SEED, Experiment

import pyomo_csg as csg
from pyomo_csg.zoo import cvar_portfolio

LATER = 312


def sample(n, seed, generator=0):
    """Return the first n pairs, or n contexts spread over the later ones."""
    contexts, outcomes = cvar_portfolio.history(generator)
    if seed < EVALUATION_SEED:
        return contexts[:n], outcomes[:n]
    chosen = len(contexts) - LATER + np.linspace(0, LATER - 1, n).astype(int)
    return contexts[chosen], outcomes[chosen]


def location_scale(trial):
    """Return the true location and scale of the returns."""
    fitted = cvar_portfolio.fit_returns_model(trial)
    return csg.LocationScale(fitted.mean, fitted.scale)


EXPERIMENT = Experiment(
    "cvar",
    cvar_portfolio.build,
    sample,
    cvar_portfolio.conditional,
    pairs=1247,
    contexts=LATER,
    trials=1,
    counts=(1, 3, 5, 10, 20, 40),
    penalties=tuple(80.0 * 2**i for i in range(8)),
    options={"mip_rel_gap": 1e-4},
    location_scale=location_scale,
    quickly={
        "pairs": 600,
        "contexts": 20,
        "counts": (5,),
        "penalties": (2560.0,),
        "rounds": 2,
    },
)
