"""Resource allocation of Kannan, Bayraksan and Luedtke: order resources, then serve.

From section 4 and appendix G of "Data-driven sample average approximation with covariate
information". Twenty resources are ordered to serve thirty customer types. Demands depend
on powers of three covariates; a linear forecast is right for the power 1 only. Costs and
rates are drawn from a seed in the pattern of the published ones: a more expensive resource
serves all its customers faster, and each resource serves three in five.
"""

from functools import lru_cache

import numpy as np
import pyomo.environ as pyo

import pyomo_csg as csg

RESOURCES, CUSTOMERS, PREDICTIVE = 20, 30, 3
MOST_COVARIATES = 200


def build(resources=RESOURCES, customers=CUSTOMERS, generator=0):
    """Return the annotated model."""
    data = _instance(resources, customers, generator)
    m = pyo.ConcreteModel("resource_allocation")
    m.resources = pyo.RangeSet(resources)
    m.customers = pyo.RangeSet(customers)
    m.links = pyo.Set(
        dimen=2,
        initialize=[
            (i, j)
            for i in m.resources
            for j in m.customers
            if data["rate"][i - 1, j - 1] > 0
        ],
    )
    m.cost_of_order = pyo.Param(
        m.resources, initialize=lambda m, i: data["cost"][i - 1]
    )
    m.usable = pyo.Param(m.resources, initialize=lambda m, i: data["usable"][i - 1])
    m.rate = pyo.Param(m.links, initialize=lambda m, i, j: data["rate"][i - 1, j - 1])
    m.penalty = pyo.Param(m.customers, initialize=lambda m, j: data["penalty"][j - 1])
    m.demand = pyo.Param(
        m.customers, within=pyo.NonNegativeReals, initialize=60, mutable=True
    )

    m.ordered = pyo.Var(m.resources, within=pyo.NonNegativeReals)
    m.allocated = pyo.Var(m.links, within=pyo.NonNegativeReals)
    m.unmet = pyo.Var(m.customers, within=pyo.NonNegativeReals)

    @m.Constraint(m.resources)
    def available(m, i):
        used = pyo.quicksum(m.allocated[i, j] for k, j in m.links if k == i)
        return used <= m.usable[i] * m.ordered[i]

    @m.Constraint(m.customers)
    def served(m, j):
        service = pyo.quicksum(
            m.rate[i, j] * m.allocated[i, j] for i, k in m.links if k == j
        )
        return service + m.unmet[j] >= m.demand[j]

    m.cost = pyo.Objective(
        expr=pyo.sum_product(m.cost_of_order, m.ordered)
        + pyo.sum_product(m.penalty, m.unmet)
    )
    csg.annotate(m, first_stage_variables=m.ordered, uncertain_params=m.demand)
    return m


def sample(
    n, seed, generator=0, *, degree=1.0, covariates=PREDICTIVE, noise=5.0, spread=1
):
    """Draw n pairs: contexts (n, covariates) and demands (n, 30).

    Parameters
    ----------
    n, seed, generator : int
        The generator is the seed of the demand's coefficients.
    degree : float
        The power of a covariate in the demands: 0.5, 1 or 2 in the paper.
    covariates : int
        3 to 200, of which the first three matter.
    noise : float
        The standard deviation of the errors.
    spread : int
        The level of heteroscedasticity: 1 (none), 2 or 3.
    """
    rng = np.random.default_rng(seed)
    root = _covariate_root(generator)[:covariates, :covariates]
    contexts = np.abs(rng.standard_normal((n, covariates)) @ root.T)
    return contexts, _demands(contexts, rng, generator, degree, noise, spread)


def sample_given(x, n, seed, generator=0, *, degree=1.0, noise=5.0, spread=1):
    """Draw n demands (n, 30) of the true conditional distribution in a context."""
    rows = np.tile(np.asarray(x, dtype=float), (n, 1))
    rng = np.random.default_rng(seed)
    return _demands(rows, rng, generator, degree, noise, spread)


def _demands(contexts, rng, generator, degree, noise, spread):
    """Draw demands; the rare ones below 0 become 0."""
    intercept, slopes, exponents, medians = _demand_model(generator, spread)
    known = contexts[:, :PREDICTIVE]
    errors = rng.normal(0, noise, (len(contexts), CUSTOMERS))
    variance = np.exp(np.log1p(known) @ exponents) / medians
    return np.maximum(
        intercept + known**degree @ slopes + np.sqrt(variance) * errors, 0
    )


@lru_cache(maxsize=64)
def _instance(resources, customers, generator):
    """Return the costs, usable shares, rates and penalties."""
    rng = np.random.default_rng([generator, resources, customers])
    cost = np.maximum(rng.normal(1, 0.17, resources), 0.5)
    speed = np.maximum(rng.normal(1, 0.15, customers), 0.5)
    linked = rng.random((resources, customers)) < 0.6
    linked[rng.integers(resources, size=customers), np.arange(customers)] = True
    return {
        "cost": cost,
        "usable": rng.uniform(0.9, 1, resources),
        "rate": np.where(linked, cost[:, None] + speed, 0.0),
        "penalty": rng.lognormal(0.5, 0.05, customers) * cost.max(),
    }


@lru_cache(maxsize=64)
def _demand_model(generator, spread):
    """Return the intercepts, slopes, and exponents of the variance with its medians."""
    rng = np.random.default_rng([generator, 1])
    intercept = 50 + 5 * rng.standard_normal(CUSTOMERS)
    slopes = np.array([[10.0], [5.0], [2.0]])
    slopes = slopes + rng.uniform(-4, 4, (PREDICTIVE, CUSTOMERS))
    exponents = 2 * (spread - 1) ** 2 * rng.random((PREDICTIVE, CUSTOMERS))
    root = _covariate_root(generator)[:PREDICTIVE, :PREDICTIVE]
    drawn = np.abs(rng.standard_normal((12_000, PREDICTIVE)) @ root.T)
    medians = np.median(np.exp(np.log1p(drawn) @ exponents), axis=0)
    return intercept, slopes, exponents, medians


@lru_cache(maxsize=64)
def _covariate_root(generator):
    """Return the Cholesky factor of a random correlation matrix (200, 200).

    By the vine method of Lewandowski, Kurowicka and Joe (2009), with partial
    correlations of the distribution Beta(2, 2), scaled to -1..1.
    """
    rng = np.random.default_rng([generator, 2])
    size = MOST_COVARIATES
    partial = 2 * rng.beta(2, 2, (size, size)) - 1
    root = np.zeros((size, size))
    left = np.ones(size)
    for k in range(size):
        root[k, k] = left[k]
        root[k + 1 :, k] = partial[k + 1 :, k] * left[k + 1 :]
        left[k + 1 :] *= np.sqrt(1 - partial[k + 1 :, k] ** 2)
    correlation = root @ root.T
    order = rng.permutation(size)
    return np.linalg.cholesky(correlation[np.ix_(order, order)] + 1e-9 * np.eye(size))
