"""A portfolio of few assets that trades its mean return against its tail risk.

The paper's section 5.3, with CVaR as Krokhmal, Palmquist and Uryasev (2002) model it.
A context is the last session of five-minute returns; the market is simulated, and its
conditional distribution is fitted to its history as in the paper. To use real prices,
see `models.prices`.
"""

from functools import lru_cache

import numpy as np
import pyomo.environ as pyo

import pyomo_csg as csg

from . import market, returns_model
from .prices import windows


def build(assets=10, most_held=5, risk_aversion=10.0, level=0.9):
    """Return the annotated model, with the paper's data by default.

    Parameters
    ----------
    assets : int
        The number of assets to choose from.
    most_held : int
        The largest number of assets in a portfolio.
    risk_aversion : float
        The weight of CVaR against the mean return.
    level : float
        The level of the value at risk, in (0, 1).
    """
    m = pyo.ConcreteModel("cvar_portfolio")
    m.assets = pyo.RangeSet(assets)
    m.returns = pyo.Param(m.assets, within=pyo.Reals, initialize=0, mutable=True)

    m.holding = pyo.Var(m.assets, within=pyo.NonNegativeReals)
    m.value_at_risk = pyo.Var()
    m.held = pyo.Var(m.assets, within=pyo.Binary)
    m.excess = pyo.Var(within=pyo.NonNegativeReals)

    gain = sum(m.returns[i] * m.holding[i] for i in m.assets)
    m.invested = pyo.Constraint(expr=sum(m.holding.values()) == 1)
    m.most = pyo.Constraint(expr=sum(m.held.values()) <= most_held)
    m.tail = pyo.Constraint(expr=m.excess >= -gain - m.value_at_risk)

    @m.Constraint(m.assets)
    def only_held(m, i):
        return m.holding[i] <= m.held[i]

    cvar = m.value_at_risk + m.excess / (1 - level)
    m.cost = pyo.Objective(expr=-gain + risk_aversion * cvar)

    csg.annotate(
        m,
        first_stage_variables=[m.holding, m.value_at_risk, m.held],
        uncertain_params=m.returns,
    )
    return m


def history(generator=0):
    """Return the contexts (1559, 78, 18) and next returns (1559, 10) of a market.

    Rows are in time order. `generator` is the seed of the market.
    """
    return windows(market.simulate(generator))


@lru_cache(maxsize=16)
def fit_returns_model(generator=0):
    """Return the :class:`~models.returns_model.ReturnsModel` of a market; cached."""
    return returns_model.fit(*history(generator), seed=generator)


def conditional(x, generator=0):
    """Return the 1559 possible returns (1559, 10) in a context, and their weights."""
    return fit_returns_model(generator).conditional(x)


def sample(n, seed, generator=0):
    """Draw n pairs: contexts (n, 78, 18) of the history and next returns (n, 10)."""
    rng = np.random.default_rng(seed)
    contexts, _ = history(generator)
    drawn, position = np.unique(
        rng.integers(len(contexts), size=n), return_inverse=True
    )
    fitted = fit_returns_model(generator)
    mean, scale = fitted.mean(contexts[drawn]), fitted.scale(contexts[drawn])
    noise = rng.choice(fitted.residuals, n)
    return contexts[drawn[position]], mean[position] + scale[position] * noise
