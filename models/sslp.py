"""Stochastic server location (Ntaimo and Sen, 2005): seeded m_n instances.

Locate servers among m sites, then assign the present ones of n clients to servers.
Binary in both stages.
"""

import numpy as np
import pyomo.environ as pyo

import pyomo_csg as csg

OVERFLOW_COST = 1000


def build(servers=5, clients=25, seed=0, most=None):
    """Return the annotated model of a random instance, with at most `most` servers.

    Costs of a server are 40 to 80, demands 0 to 25 for each client and server, revenue
    one per unit. The total capacity is one and a half times the average total demand. A
    client is present (1) or absent (0). Its assignment is binary, so a scenario with a
    fractional presence is infeasible.
    """
    rng = np.random.default_rng(seed)
    sites, people = range(1, servers + 1), range(1, clients + 1)
    location_cost = dict(
        zip(sites, rng.integers(40, 81, servers).tolist(), strict=True)
    )
    load = rng.integers(0, 26, (servers, clients)).tolist()
    capacity = 1.5 * sum(map(sum, load)) / servers**2

    m = pyo.ConcreteModel(f"sslp_{servers}_{clients}")
    m.sites, m.clients = pyo.Set(initialize=sites), pyo.Set(initialize=people)
    m.present = pyo.Param(
        m.clients, within=pyo.UnitInterval, initialize=1, mutable=True
    )

    m.located = pyo.Var(m.sites, within=pyo.Binary)
    m.assigned = pyo.Var(m.sites, m.clients, within=pyo.Binary)
    m.overflow = pyo.Var(m.sites, within=pyo.NonNegativeReals)

    m.most = pyo.Constraint(expr=sum(m.located.values()) <= (most or servers))

    @m.Constraint(m.sites)
    def capacity_limit(m, i):
        used = sum(load[i - 1][j - 1] * m.assigned[i, j] for j in m.clients)
        return used - m.overflow[i] <= capacity * m.located[i]

    @m.Constraint(m.clients)
    def served(m, j):
        return sum(m.assigned[i, j] for i in m.sites) == m.present[j]

    @m.Objective()
    def cost(m):
        return (
            sum(location_cost[i] * m.located[i] for i in m.sites)
            - sum(
                load[i - 1][j - 1] * m.assigned[i, j]
                for i in m.sites
                for j in m.clients
            )
            + OVERFLOW_COST * sum(m.overflow.values())
        )

    csg.annotate(m, first_stage_variables=m.located, uncertain_params=m.present)
    return m


def scenarios(n, clients=25, seed=0):
    """Return presences (n, clients): each client with probability one half."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, 2, (n, clients)).astype(float)
