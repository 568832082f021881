"""The newsvendor: buy papers now, sell up to the demand, salvage the rest.

The paper's section 5.1. A context is two standard normal numbers; an untrained network
turns it into 200 equally likely demands, of mean 15.1 and standard deviation 0.25 in all.
"""

from functools import partial

import numpy as np
import pyomo.environ as pyo

import pyomo_csg as csg

from .random_network import random_network, sample_pairs


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


def conditional(x, generator=0):
    """Return the 200 possible demands (200, 1) in a context (2,), and their weights."""
    demands = random_network(2, 200, 15.1, 0.25, generator)(x)
    return demands[:, None], np.full(200, 1 / 200)


def sample(n, seed, generator=0):
    """Draw n pairs: contexts (n, 2) and demands (n, 1)."""
    return sample_pairs(
        n,
        seed,
        lambda rng, size: rng.standard_normal((size, 2)),
        partial(conditional, generator=generator),
    )
