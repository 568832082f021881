"""Linear programs of any size, and a newsvendor with many context columns."""

import numpy as np
import pyomo.environ as pyo

import pyomo_csg as csg
from models import newsvendor

SHORTFALL_COST, EXPANSION_COST = 20.0, 1.0
MEAN_DEMAND, COVARIATES = 10.0, 8


def build_network(first, columns, rows, numbers, seed=0):
    """Return an LP: expand plants, then serve uncertain demands by shared resources.

    Parameters
    ----------
    first : int
        First-stage variables, the plants. Each has some of the resources.
    columns : int
        Recourse variables: a shortfall for each demand, the others activities, each
        of
    rows : int
        Recourse constraints: one for each demand, the others resources.
    numbers : int
        Uncertain demands.
    """
    rng = np.random.default_rng([seed, first, columns, rows, numbers])
    activities, resources = columns - numbers, rows - numbers
    served = np.arange(activities) % numbers
    region = served * resources // numbers  # where a demand's resources begin
    near = max(3, 2 * resources // numbers)
    used = (region[:, None] + rng.integers(near, size=(activities, 3))) % resources
    rates = rng.uniform(0.5, 1.5, (activities, 3))
    cost = rng.uniform(0.5, 4, activities)
    plant_of = np.arange(resources) % first
    need = 0.5 * 3 * MEAN_DEMAND * numbers / resources
    spare = rng.uniform(0, 1, resources) * need

    m = pyo.ConcreteModel("network")
    m.demand = pyo.Param(
        range(numbers), within=pyo.NonNegativeReals, initialize=10, mutable=True
    )
    m.expansion = pyo.Var(range(first), bounds=(0, 20 * need))
    m.activity = pyo.Var(range(activities), within=pyo.NonNegativeReals)
    m.shortfall = pyo.Var(range(numbers), within=pyo.NonNegativeReals)

    users = [[] for _ in range(resources)]
    for a in range(activities):
        for r, rate in zip(used[a], rates[a], strict=True):
            users[r].append(rate * m.activity[a])
    servers = [[] for _ in range(numbers)]
    for a in range(activities):
        servers[served[a]].append(m.activity[a])

    @m.Constraint(range(resources))
    def capacity(m, r):
        added = m.expansion[plant_of[r]]
        return pyo.quicksum(users[r]) - added <= spare[r]

    @m.Constraint(range(numbers))
    def service(m, j):
        return pyo.quicksum(servers[j]) + m.shortfall[j] >= m.demand[j]

    plants = EXPANSION_COST * resources / first
    m.cost = pyo.Objective(
        expr=plants * pyo.quicksum(m.expansion.values())
        + pyo.quicksum(cost[a] * m.activity[a] for a in range(activities))
        + SHORTFALL_COST * pyo.quicksum(m.shortfall.values())
    )
    csg.annotate(m, first_stage_variables=m.expansion, uncertain_params=m.demand)
    return m


def sample_network(n, seed, numbers, world=0):
    """Draw n contexts (n, 8) and demands (n, numbers) with a shock in common."""
    draw, rng = np.random.default_rng([world, numbers]), np.random.default_rng(seed)
    slopes = draw.normal(0, 0.5, (COVARIATES, 1))
    slopes = slopes + draw.normal(0, 0.3, (COVARIATES, numbers))
    contexts = rng.standard_normal((n, COVARIATES))
    shock = 0.2 * rng.standard_normal((n, 1))
    shock = shock + 0.25 * rng.standard_normal((n, numbers))
    trend = 0.6 * np.tanh(contexts @ slopes)
    return contexts, MEAN_DEMAND * np.exp(trend + shock)


def build_newsvendor():
    """Return the newsvendor of a critical level of one half."""
    return newsvendor.build(price=1.9, budget=200.0)


def sample_newsvendor(n, seed, columns):
    """Draw n contexts (n, columns), of which at most five matter, and demands (n, 1)."""
    rng = np.random.default_rng(seed)
    contexts = rng.standard_normal((n, columns))
    known = contexts[:, :5]
    mean = 50 + 6 * known.sum(axis=1) + 5 * np.abs(known[:, 0])
    noise = np.exp(0.3 * known[:, -1]) * rng.gamma(4, 1.5, n)
    return contexts, np.maximum(mean + noise, 0)[:, None]
