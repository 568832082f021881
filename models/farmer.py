"""The farmer of Birge and Louveaux: plant now, harvest by the weather."""

import numpy as np
import pyomo.environ as pyo

import pyomo_csg as csg

PLANTING_COST = {"wheat": 150, "corn": 230, "beets": 260}
YIELD = {"wheat": 2.5, "corn": 3.0, "beets": 20.0}
SELLING_PRICE = {"wheat": 170, "corn": 150, "beets": 36}
PURCHASE_PRICE = {"wheat": 238, "corn": 210}
CATTLE_FEED = {"wheat": 200, "corn": 240}
SURPLUS_PRICE = 10
QUOTA = 6000
LAND = 500


def build():
    """Return the annotated model; the yields are coefficients of the acres."""
    m = pyo.ConcreteModel("farmer")
    m.crops = pyo.Set(initialize=list(YIELD))
    m.feeds = pyo.Set(initialize=list(CATTLE_FEED))
    m.crop_yield = pyo.Param(
        m.crops, within=pyo.NonNegativeReals, initialize=YIELD, mutable=True
    )

    m.acres = pyo.Var(m.crops, within=pyo.NonNegativeReals)
    m.sold = pyo.Var(m.crops, within=pyo.NonNegativeReals)
    m.bought = pyo.Var(m.feeds, within=pyo.NonNegativeReals)
    m.surplus_beets = pyo.Var(within=pyo.NonNegativeReals)

    m.land = pyo.Constraint(expr=sum(m.acres.values()) <= LAND)
    m.quota = pyo.Constraint(expr=m.sold["beets"] <= QUOTA)

    @m.Constraint(m.feeds)
    def cattle(m, crop):
        harvest = m.crop_yield[crop] * m.acres[crop]
        return harvest + m.bought[crop] - m.sold[crop] >= CATTLE_FEED[crop]

    @m.Constraint()
    def beets(m):
        harvest = m.crop_yield["beets"] * m.acres["beets"]
        return m.sold["beets"] + m.surplus_beets <= harvest

    @m.Objective()
    def cost(m):
        return (
            sum(PLANTING_COST[c] * m.acres[c] for c in m.crops)
            + sum(PURCHASE_PRICE[c] * m.bought[c] for c in m.feeds)
            - sum(SELLING_PRICE[c] * m.sold[c] for c in m.crops)
            - SURPLUS_PRICE * m.surplus_beets
        )

    csg.annotate(m, first_stage_variables=m.acres, uncertain_params=m.crop_yield)
    return m


def scenarios(n=3, seed=0):
    """Return yields (n, 3): the book's bad, average and good year, then random ones."""
    average = np.array(list(YIELD.values()))
    years = np.array([0.8, 1.0, 1.2])
    extra = np.random.default_rng(seed).uniform(0.7, 1.3, max(0, n - 3))
    return np.concatenate([years, extra])[:n, None] * average
