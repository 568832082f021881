"""CEP1 of Higle and Sen (1996): expand the capacity of machines, then make parts.

Data of the paper's supplement. Its production cost of part 2 on machine 2 is 2.3 where
the original instance has 2.4; the optimum over the original 216 scenarios is the same.
"""

from functools import partial
from itertools import product

import numpy as np
import pyomo.environ as pyo

import pyomo_csg as csg

from .random_network import random_network, sample_pairs

PARTS, MACHINES = range(1, 4), range(1, 5)
CAPACITY_COST = (2.5, 3.75, 5.0, 3.0)
HOURS = (500, 500, 500, 500)
UTILIZATION_LIMIT = (2000, 2000, 3000, 3000)
MAINTENANCE = (0.08, 0.04, 0.03, 0.01)
MAINTENANCE_LIMIT = 100
SHORTFALL_COST = (400, 400, 400)
RATE = ((0.6, 0.6, 0.9, 0.8), (0.1, 0.9, 0.6, 0.8), (0.05, 0.2, 0.5, 0.8))
PRODUCTION_COST = ((2.6, 3.4, 3.4, 2.5), (1.5, 2.3, 2.0, 3.6), (4.0, 3.8, 3.5, 3.2))


def build():
    """Return the annotated model."""
    m = pyo.ConcreteModel("cep1")
    m.parts, m.machines = pyo.Set(initialize=PARTS), pyo.Set(initialize=MACHINES)
    m.demand = pyo.Param(
        m.parts, within=pyo.NonNegativeReals, initialize=1500, mutable=True
    )

    m.added = pyo.Var(m.machines, within=pyo.NonNegativeReals)
    m.operated = pyo.Var(m.machines, bounds=lambda m, j: (0, UTILIZATION_LIMIT[j - 1]))
    m.produced = pyo.Var(m.parts, m.machines, within=pyo.NonNegativeReals)
    m.shortfall = pyo.Var(m.parts, within=pyo.NonNegativeReals)

    @m.Constraint(m.machines)
    def capacity(m, j):
        return m.operated[j] - m.added[j] <= HOURS[j - 1]

    @m.Constraint()
    def maintenance(m):
        hours = sum(MAINTENANCE[j - 1] * m.operated[j] for j in m.machines)
        return hours <= MAINTENANCE_LIMIT

    @m.Constraint(m.parts)
    def supply(m, i):
        made = sum(RATE[i - 1][j - 1] * m.produced[i, j] for j in m.machines)
        return made + m.shortfall[i] >= m.demand[i]

    @m.Constraint(m.machines)
    def utilization(m, j):
        return sum(m.produced[i, j] for i in m.parts) <= m.operated[j]

    @m.Objective()
    def cost(m):
        return (
            sum(CAPACITY_COST[j - 1] * m.added[j] for j in m.machines)
            + sum(
                PRODUCTION_COST[i - 1][j - 1] * m.produced[i, j]
                for i in m.parts
                for j in m.machines
            )
            + sum(SHORTFALL_COST[i - 1] * m.shortfall[i] for i in m.parts)
        )

    csg.annotate(
        m, first_stage_variables=[m.added, m.operated], uncertain_params=m.demand
    )
    return m


def higle_sen_scenarios():
    """Return the 216 equally likely demands (216, 3) of the original instance."""
    return np.array(list(product(range(0, 3001, 600), repeat=3)), dtype=float)


def conditional(x, generator=0, scaling="pooled"):
    """Return the 216 possible demands (216, 3) in a context (4,), and their weights.

    An untrained network gives six demands for each part. The parts are independent. The
    paper scales the outputs "such that the demands expectation and standard deviation are
    1500 and 1024.7", which can be read in two ways:

    - ``'pooled'``: all 18 outputs together have this mean and standard deviation. Parts
      then differ: their means run from about 1,100 to 2,200.
    - ``'part'``: the six outputs of each part have them.

    Negative demands become 0 after that.
    """
    groups = {"pooled": 1, "part": 3}[scaling]
    support = random_network(4, 18, 1500.0, 1024.7, generator, groups)(x).reshape(6, 3)
    return np.array(list(product(*support.T))), np.full(216, 1 / 216)


def sample(n, seed, generator=0, scaling="pooled"):
    """Draw n pairs: contexts (n, 4) and demands (n, 3)."""
    return sample_pairs(
        n,
        seed,
        lambda rng, size: rng.standard_normal((size, 4)),
        partial(conditional, generator=generator, scaling=scaling),
    )
