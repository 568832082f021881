"""APL1P of Infanger (1992): expand two generators to serve three demands."""

from itertools import product

import numpy as np
import pyomo.environ as pyo

import pyomo_csg as csg

GENERATORS, DEMANDS = range(1, 3), range(1, 4)
CAPACITY_COST = (4.0, 2.5)
LEAST_CAPACITY = 1000
OPERATING_COST = ((4.3, 2.0, 0.5), (8.7, 4.0, 1.0))
UNSERVED_COST = 10

AVAILABILITY = (
    {1.0: 0.2, 0.9: 0.3, 0.5: 0.4, 0.1: 0.1},
    {1.0: 0.1, 0.9: 0.2, 0.7: 0.5, 0.1: 0.1, 0.0: 0.1},
)
DEMAND = {900: 0.15, 1000: 0.45, 1100: 0.25, 1200: 0.15}


def build():
    """Return the annotated model; availability is a coefficient, demand a right-hand side."""
    m = pyo.ConcreteModel("apl1p")
    m.generators = pyo.Set(initialize=GENERATORS)
    m.demands = pyo.Set(initialize=DEMANDS)
    m.availability = pyo.Param(
        m.generators, within=pyo.UnitInterval, initialize=1, mutable=True
    )
    m.demand = pyo.Param(
        m.demands, within=pyo.NonNegativeReals, initialize=1000, mutable=True
    )

    m.capacity = pyo.Var(m.generators, bounds=(LEAST_CAPACITY, None))
    m.operated = pyo.Var(m.generators, m.demands, within=pyo.NonNegativeReals)
    m.unserved = pyo.Var(m.demands, within=pyo.NonNegativeReals)

    @m.Constraint(m.generators)
    def available(m, g):
        operated = sum(m.operated[g, d] for d in m.demands)
        return operated <= m.availability[g] * m.capacity[g]

    @m.Constraint(m.demands)
    def served(m, d):
        operated = sum(m.operated[g, d] for g in m.generators)
        return operated + m.unserved[d] >= m.demand[d]

    @m.Objective()
    def cost(m):
        return (
            sum(CAPACITY_COST[g - 1] * m.capacity[g] for g in m.generators)
            + sum(
                OPERATING_COST[g - 1][d - 1] * m.operated[g, d]
                for g in m.generators
                for d in m.demands
            )
            + UNSERVED_COST * sum(m.unserved.values())
        )

    csg.annotate(
        m,
        first_stage_variables=m.capacity,
        uncertain_params=[m.availability, m.demand],
    )
    return m


def scenarios():
    """Return all 1280 outcomes (1280, 5) and their probabilities."""
    numbers = [*AVAILABILITY, DEMAND, DEMAND, DEMAND]
    outcomes = np.array(list(product(*numbers)), dtype=float)
    weights = [np.prod(p) for p in product(*(n.values() for n in numbers))]
    return outcomes, np.array(weights)
