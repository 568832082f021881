"""The newsvendor in closed form: whatever he believes, he orders its critical quantile."""

import numpy as np
import pyomo.environ as pyo

import pyomo_csg as csg
from models import newsvendor


def build(level):
    """Return a newsvendor with this critical level."""
    return newsvendor.build(price=1 / (1 - level), salvage=0.0, budget=1e3)


def order(demands, weights, level):
    """Return the least demand up to which there is the level of all weight."""
    demands, weights = np.ravel(demands), np.ravel(weights)
    first = np.argsort(demands)
    passed = weights[first].cumsum() >= level
    return demands[first][passed.argmax()]


def pairs(n=60, seed=0, d=2):
    """Return contexts (n, d) and demands (n, 1) that grow with the first number."""
    rng = np.random.default_rng(seed)
    contexts = rng.normal(size=(n, d))
    noise = np.exp(0.5 * contexts[:, :1]) * rng.normal(size=(n, 1))
    return contexts, np.maximum(20 + 5 * contexts[:, :1] + noise, 0)


def of_two(n=60, seed=0):
    """Return a model of two demands, with contexts (n, 2) and demands (n, 2) for it."""
    m = pyo.ConcreteModel("two papers")
    m.demand = pyo.Param(
        [1, 2], within=pyo.NonNegativeReals, initialize=1, mutable=True
    )
    m.order = pyo.Var([1, 2], bounds=(0, 1e3))
    m.sold = pyo.Var([1, 2], within=pyo.NonNegativeReals)
    m.market = pyo.Constraint([1, 2], rule=lambda m, i: m.sold[i] <= m.demand[i])
    m.stock = pyo.Constraint([1, 2], rule=lambda m, i: m.sold[i] <= m.order[i])
    m.cost = pyo.Objective(expr=sum(m.order[i] - 3 * m.sold[i] for i in (1, 2)))
    csg.annotate(m, first_stage_variables=m.order, uncertain_params=m.demand)
    contexts, demands = pairs(n, seed)
    _, others = pairs(n, seed + 1)
    return m, (contexts, np.hstack([demands, 3 * others + contexts[:, 1:]]))
