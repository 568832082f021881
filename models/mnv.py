"""The multidimensional newsvendor with substitution of Narum et al. (2024).

Choose which products to make and how many; then sell, substitute and salvage. Binary in
both stages, maximized, with the data of the paper's supplement.
"""

from functools import lru_cache, partial

import numpy as np
import pyomo.environ as pyo

import pyomo_csg as csg

from .random_network import sample_pairs

PRODUCTS = range(1, 7)
PRICE = (46.111, 44.691, 46.448, 48.406, 44.476, 44.476)
COST = (18.980, 25.618, 24.163, 26.217, 17.974, 26.418)
SALVAGE = (9.830, 5.094, 5.067, 5.293, 5.723, 7.292)
SUBSTITUTION = (
    (0, 0.087, 0.184, 0.042, 0.088, 0.110),
    (0.137, 0, 0.060, 0.154, 0.178, 0.014),
    (0.182, 0.051, 0, 0.285, 0.290, 0.243),
    (0.091, 0.029, 0.205, 0, 0.037, 0.149),
    (0.010, 0.273, 0.078, 0.199, 0, 0.156),
    (0.164, 0.055, 0.291, 0.233, 0.282, 0),
)
CAPACITY = 70
MOST_PRODUCTS = 3


def build():
    """Return the annotated model."""
    m = pyo.ConcreteModel("mnv")
    m.products = pyo.Set(initialize=PRODUCTS)
    m.pairs = pyo.Set(
        initialize=[(i, j) for i in PRODUCTS for j in PRODUCTS if i != j], dimen=2
    )
    m.demand = pyo.Param(
        m.products, within=pyo.NonNegativeReals, initialize=10, mutable=True
    )

    m.made = pyo.Var(m.products, within=pyo.NonNegativeReals)
    m.chosen = pyo.Var(m.products, within=pyo.Binary)
    m.sold = pyo.Var(m.products, within=pyo.NonNegativeReals)
    m.substituted = pyo.Var(m.pairs, within=pyo.NonNegativeReals)
    m.substitutes = pyo.Var(m.products, within=pyo.NonNegativeReals)
    m.salvaged = pyo.Var(m.products, within=pyo.NonNegativeReals)
    m.sold_out = pyo.Var(m.products, within=pyo.Binary)

    m.capacity = pyo.Constraint(expr=sum(m.made.values()) <= CAPACITY)
    m.range = pyo.Constraint(expr=sum(m.chosen.values()) <= MOST_PRODUCTS)

    @m.Constraint(m.products)
    def eligible(m, i):
        return m.made[i] <= CAPACITY * m.chosen[i]

    @m.Constraint(m.products)
    def market(m, i):
        replaced = sum(m.substituted[j, i] for j in m.products if j != i)
        return m.sold[i] + replaced <= m.demand[i]

    @m.Constraint(m.pairs)
    def willing(m, i, j):
        rate = SUBSTITUTION[i - 1][j - 1]
        return m.substituted[i, j] <= rate * (m.demand[j] - m.sold[j])

    @m.Constraint(m.products)
    def total(m, i):
        return m.substitutes[i] == sum(
            m.substituted[i, j] for j in m.products if j != i
        )

    @m.Constraint(m.products)
    def own_first(m, j):
        return CAPACITY * (m.sold_out[j] - 1) <= m.sold[j] - m.made[j]

    @m.Constraint(m.pairs)
    def only_then(m, i, j):
        return m.substituted[i, j] <= CAPACITY * m.sold_out[j]

    @m.Constraint(m.products)
    def stock(m, i):
        return m.salvaged[i] == m.made[i] - (m.sold[i] + m.substitutes[i])

    @m.Objective(sense=pyo.maximize)
    def profit(m):
        return sum(
            PRICE[i - 1] * (m.sold[i] + m.substitutes[i])
            + SALVAGE[i - 1] * m.salvaged[i]
            - COST[i - 1] * m.made[i]
            for i in m.products
        )

    csg.annotate(m, first_stage_variables=[m.made, m.chosen], uncertain_params=m.demand)
    return m


def conditional(x, generator=0):
    """Return 80 demands (80, 6) drawn for a context (10,), and their weights.

    A product's demand is high, N(15, 2.5), or low, N(5, 5/3), by the sign of a random
    linear map of the context plus noise; negative demands become 0. The same context
    always has the same 80 demands.
    """
    x = np.asarray(x, dtype=float)
    loadings, noise_sd = _demand_states(generator)
    rng = np.random.default_rng([generator, *x.view(np.uint64).tolist()])
    high = x @ loadings.T + noise_sd * rng.standard_normal((80, 6)) > 0
    draws = rng.standard_normal((80, 6))
    demand = np.where(high, 15 + 2.5 * draws, 5 + 5 / 3 * draws)
    return np.maximum(demand, 0), np.full(80, 1 / 80)


def sample(n, seed, generator=0):
    """Draw n pairs: contexts (n, 10) and demands (n, 6)."""
    return sample_pairs(n, seed, _contexts, partial(conditional, generator=generator))


def _covariance():
    place = np.arange(10)
    return 0.8 ** np.abs(place[:, None] - place)


def _contexts(rng, n):
    return rng.multivariate_normal(np.zeros(10), _covariance(), size=n)


@lru_cache(maxsize=64)
def _demand_states(generator):
    """Return the linear map (6, 10) and the standard deviation of the noise.

    The signal-to-noise ratio, of variances over all products, is 0.5.
    """
    loadings = np.random.default_rng(generator).standard_normal((6, 10))
    signal = np.trace(loadings @ _covariance() @ loadings.T) / 6
    return loadings, np.sqrt(signal / 0.5)
