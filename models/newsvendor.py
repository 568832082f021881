"""The newsvendor: buy papers now, sell up to the demand, salvage the rest.

The paper's section 5.1. A context is two standard normal numbers; an untrained network
turns it into 200 equally likely demands, of mean 15.1 and standard deviation 0.25 in all.
The mean demand hardly depends on the context there: it explains 0.2 to 0.6 % of the
variance. With ``signal=0.3`` it explains 30 %, and mean and standard deviation are the same.
"""

from functools import lru_cache, partial

import numpy as np
import pyomo.environ as pyo

import pyomo_csg as csg

from .random_network import RandomNetwork, random_network, sample_pairs

MEAN, SD, OUTCOMES = 15.1, 0.25, 200
_CALIBRATION = 20_000  # contexts


def build(cost=1.0, price=1.05, salvage=0.1, budget=60.0):
    """Return the annotated model, with the paper's data by default."""
    m = pyo.ConcreteModel("newsvendor")
    m.demand = pyo.Param(within=pyo.NonNegativeReals, initialize=15.1, mutable=True)

    m.order = pyo.Var(bounds=(0, budget))
    m.sold = pyo.Var(within=pyo.NonNegativeReals)
    m.salvaged = pyo.Var(within=pyo.NonNegativeReals)

    m.market = pyo.Constraint(expr=m.sold <= m.demand)
    m.stock = pyo.Constraint(expr=m.sold + m.salvaged <= m.order)
    m.cost = pyo.Objective(expr=cost * m.order - price * m.sold - salvage * m.salvaged)

    csg.annotate(m, first_stage_variables=m.order, uncertain_params=m.demand)
    return m


def conditional(x, generator=0, signal=None):
    """Return the 200 possible demands (200, 1) in a context (2,), and their weights.

    ``signal`` is the share of the variance that the context explains, from 0 to below 1;
    by default that of the paper's untrained network.
    """
    demands = random_network(2, OUTCOMES, MEAN, SD, generator)(x)
    if signal is not None:
        level, spread = _parts(generator)
        around = (demands - demands.mean()) / spread
        level = np.sqrt(signal) * level(x)[0] + np.sqrt(1 - signal) * around
        demands = np.maximum(MEAN + SD * level, 0)
    return demands[:, None], np.full(OUTCOMES, 1 / OUTCOMES)


def sample(n, seed, generator=0, signal=None):
    """Draw n pairs: contexts (n, 2) and demands (n, 1)."""
    return sample_pairs(
        n,
        seed,
        lambda rng, size: rng.standard_normal((size, 2)),
        partial(conditional, generator=generator, signal=signal),
    )


@lru_cache(maxsize=64)
def _parts(generator):
    """Return a network with one output of variance 1, and the sd within contexts."""
    seeds = np.random.SeedSequence([generator, 1])
    raw = RandomNetwork(2, 1, 100.0, 1.0, seeds)  # so high that nothing is cut off
    contexts = np.random.default_rng(seeds.spawn(1)[0]).standard_normal(
        (_CALIBRATION, 2)
    )
    demands = random_network(2, OUTCOMES, MEAN, SD, generator)(contexts)
    spread = np.sqrt(demands.var(axis=1).mean())
    return (lambda x: raw(x) - 100.0), spread
