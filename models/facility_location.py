"""Facility location: open sites and size them, then ship to customers.

Ten sites with a fixed cost and a cost per unit of size; twenty customers. Unserved
demand is lost at a penalty. Demands depend on the economy of a region, by the context.
"""

from functools import lru_cache

import numpy as np
import pyomo.environ as pyo

import pyomo_csg as csg

SITES, CUSTOMERS, COVARIATES = 10, 20, 5
LARGEST = 400
LOST_COST = 42


def build(sites=SITES, customers=CUSTOMERS, generator=0):
    """Return the annotated model, with places and costs drawn from a seed."""
    data = _map(sites, customers, generator)
    m = pyo.ConcreteModel("facility_location")
    m.sites = pyo.RangeSet(sites)
    m.customers = pyo.RangeSet(customers)
    m.demand = pyo.Param(
        m.customers, within=pyo.NonNegativeReals, initialize=40, mutable=True
    )

    m.open = pyo.Var(m.sites, within=pyo.Binary)
    m.size = pyo.Var(m.sites, within=pyo.NonNegativeReals)

    @m.Constraint(m.sites)
    def sized_if_open(m, i):
        return m.size[i] <= LARGEST * m.open[i]

    m.transport = pyo.Block()
    m.transport.shipped = pyo.Var(m.sites, m.customers, within=pyo.NonNegativeReals)
    m.transport.lost = pyo.Var(m.customers, within=pyo.NonNegativeReals)

    @m.transport.Constraint(m.sites)
    def supply(b, i):
        return pyo.quicksum(b.shipped[i, :]) <= m.size[i]

    @m.transport.Constraint(m.customers)
    def served(b, j):
        return pyo.quicksum(b.shipped[:, j]) + b.lost[j] >= m.demand[j]

    m.building_cost = pyo.Expression(
        expr=sum(
            data["fixed"][i - 1] * m.open[i] + data["sized"][i - 1] * m.size[i]
            for i in m.sites
        )
    )

    @m.transport.Expression()
    def cost(b):
        freight = sum(
            data["freight"][i - 1, j - 1] * b.shipped[i, j]
            for i in m.sites
            for j in m.customers
        )
        return freight + LOST_COST * sum(b.lost.values())

    m.cost = pyo.Objective(expr=m.building_cost + m.transport.cost)

    csg.annotate(m, first_stage_variables=[m.open, m.size], uncertain_params=m.demand)
    return m


def sample(n, seed, generator=0):
    """Draw n pairs: contexts (n, 5), standard normal, and demands (n, 20)."""
    rng = np.random.default_rng(seed)
    contexts = rng.standard_normal((n, COVARIATES))
    return contexts, _demands(contexts, rng, generator)


def sample_given(x, n, seed, generator=0):
    """Draw n demands (n, 20) of the true conditional distribution in a context (5,)."""
    rows = np.tile(np.asarray(x, dtype=float), (n, 1))
    return _demands(rows, np.random.default_rng(seed), generator)


def _demands(contexts, rng, generator):
    """Draw demands: a nonlinear mean of the context, times log-normal noise.

    Each of two regions has a shock that all its customers share. Its size grows with the
    last number of the context.
    """
    world = _economy(generator)
    bent = contexts @ world["slopes"] + 0.4 * np.abs(contexts @ world["kinks"])
    mean = world["base"] * np.exp(0.5 * np.tanh(bent))
    shocks = rng.standard_normal((len(contexts), 2))[:, world["region"]]
    alone = rng.standard_normal((len(contexts), CUSTOMERS))
    sd = 0.15 + 0.2 / (1 + np.exp(-contexts[:, -1:]))
    noise = sd * (0.7 * shocks + np.sqrt(1 - 0.7**2) * alone)
    return mean * np.exp(noise - sd**2 / 2)


@lru_cache(maxsize=64)
def _map(sites, customers, generator):
    """Return the costs of sites, and of freight by distance."""
    rng = np.random.default_rng([generator, sites, customers])
    here, there = rng.random((sites, 1, 2)), rng.random((1, customers, 2))
    return {
        "fixed": rng.uniform(500, 900, sites),
        "sized": rng.uniform(6, 9, sites),
        "freight": 1 + 12 * np.linalg.norm(here - there, axis=2),
    }


@lru_cache(maxsize=64)
def _economy(generator):
    """Return the coefficients of the customers' demands."""
    rng = np.random.default_rng([generator, 1])
    region = rng.permutation(np.arange(CUSTOMERS) % 2)
    common = rng.normal(0, 0.5, (COVARIATES, 2))[:, region]
    return {
        "base": rng.uniform(20, 70, CUSTOMERS),
        "slopes": common + rng.normal(0, 0.3, (COVARIATES, CUSTOMERS)),
        "kinks": rng.normal(0, 0.6, (COVARIATES, CUSTOMERS)),
        "region": region,
    }
