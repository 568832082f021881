"""Production with uncertain yields: set up lines and run them, then sell what is good.

Ten products on three lines. The first stage has 63 variables, 30 of them binary: setups,
hours, and overtime. A line's yield of a product is uncertain, so that 30 of the 40
uncertain numbers are coefficients of first-stage variables; the rest are demands.
"""

from functools import lru_cache

import numpy as np
import pyomo.environ as pyo

import pyomo_csg as csg

LINES, PRODUCTS, COVARIATES = 3, 10, 8
HOURS, MOST_OVERTIME, OVERTIME_COST = 24, 12, 90
DOCK, EXTRA_FREIGHT = 700, 6


def build(lines=LINES, products=PRODUCTS, generator=0):
    """Return the annotated model, with rates and prices drawn from a seed."""
    data = _plant(lines, products, generator)
    m = pyo.ConcreteModel("production")
    m.lines = pyo.RangeSet(lines)
    m.products = pyo.RangeSet(products)
    m.jobs = m.lines * m.products
    m.yields = pyo.Param(
        m.jobs, within=pyo.NonNegativeReals, initialize=0.8, mutable=True
    )
    m.demand = pyo.Param(
        m.products, within=pyo.NonNegativeReals, initialize=60, mutable=True
    )

    m.line = pyo.Block(m.lines)
    for k in m.lines:
        _plan(m.line[k], k, data)

    m.market = pyo.Block()
    m.market.sold = pyo.Var(m.products, within=pyo.NonNegativeReals)
    m.market.downgraded = pyo.Var(m.products, within=pyo.NonNegativeReals)
    m.market.surplus = pyo.Var(m.products, within=pyo.NonNegativeReals)
    m.market.lost = pyo.Var(m.products, within=pyo.NonNegativeReals)
    m.market.extra_freight = pyo.Var(within=pyo.NonNegativeReals)

    @m.Expression(m.products)
    def good(m, i):
        """Units of a product that pass the inspection."""
        rate = data["rate"]
        return sum(
            m.yields[k, i] * rate[k - 1, i - 1] * m.line[k].hours[i] for k in m.lines
        )

    @m.market.Constraint(m.products)
    def stock(b, i):
        return b.sold[i] + b.downgraded[i] + b.surplus[i] == m.good[i]

    @m.market.Constraint(m.products)
    def orders(b, i):
        better = b.downgraded[i - 1] if i > 1 else 0
        return b.sold[i] + better + b.lost[i] == m.demand[i]

    @m.market.Constraint()
    def dock(b):
        shipped = sum(b.sold[i] + b.downgraded[i] for i in m.products)
        return shipped <= DOCK + b.extra_freight

    m.market.no_lower_grade = pyo.Constraint(expr=m.market.downgraded[products] == 0)

    @m.market.Expression()
    def revenue(b):
        price, lost, salvage = data["price"], data["lost"], data["salvage"]
        income = sum(
            price[i - 1] * b.sold[i]
            + salvage[i - 1] * b.surplus[i]
            - lost[i - 1] * b.lost[i]
            for i in m.products
        )
        lower = sum(
            0.9 * price[i] * b.downgraded[i] for i in m.products if i < products
        )
        return income + lower - EXTRA_FREIGHT * b.extra_freight

    m.planning_cost = pyo.Expression(expr=sum(m.line[k].cost for k in m.lines))
    m.profit = pyo.Objective(
        expr=m.market.revenue - m.planning_cost, sense=pyo.maximize
    )

    csg.annotate(
        m,
        first_stage_variables=[
            m.line[:].setup[:],
            m.line[:].hours[:],
            m.line[:].overtime,
        ],
        uncertain_params=[m.yields, m.demand],
    )
    return m


def _plan(b, k, data):
    """Write one line's plan: which products it is set up for, and their hours."""
    products = b.model().products
    b.setup = pyo.Var(products, within=pyo.Binary)
    b.hours = pyo.Var(products, within=pyo.NonNegativeReals)
    b.overtime = pyo.Var(bounds=(0, MOST_OVERTIME))
    setup_hours, setup_cost = data["setup_hours"][k - 1], data["setup_cost"][k - 1]

    @b.Constraint(products)
    def only_if_set_up(b, i):
        return b.hours[i] <= (HOURS + MOST_OVERTIME) * b.setup[i]

    @b.Constraint()
    def day(b):
        busy = sum(b.hours[i] + setup_hours[i - 1] * b.setup[i] for i in products)
        return busy <= HOURS + b.overtime

    @b.Expression()
    def cost(b):
        setups = sum(setup_cost[i - 1] * b.setup[i] for i in products)
        running = sum(data["hourly"][k - 1] * b.hours[i] for i in products)
        return setups + running + OVERTIME_COST * b.overtime


def sample(n, seed, generator=0):
    """Draw n pairs: contexts (n, 8), and yields (line by line) then demands (n, 40)."""
    rng = np.random.default_rng(seed)
    contexts = rng.standard_normal((n, COVARIATES))
    return contexts, _outcomes(contexts, rng, generator)


def sample_given(x, n, seed, generator=0):
    """Draw n outcomes (n, 40) of the true conditional distribution in a context (8,)."""
    rows = np.tile(np.asarray(x, dtype=float), (n, 1))
    return _outcomes(rows, np.random.default_rng(seed), generator)


def _outcomes(contexts, rng, generator):
    """Draw yields between 0 and 1, and demands above 0.

    The first four numbers of the context are about the plant, the others about the
    market. A line has good and bad days for all its products; a market has them, too.
    """
    world, n = _world(generator), len(contexts)
    logits = world["level"] + contexts[:, :4] @ world["plant"]
    logits = logits.reshape(n, LINES, PRODUCTS)
    logits += 0.5 * rng.standard_normal((n, LINES, 1))
    logits += 0.3 * rng.standard_normal((n, LINES, PRODUCTS))
    yields = 1 / (1 + np.exp(-logits))

    trend = np.tanh(contexts[:, 4:] @ world["market"])
    noise = 0.15 * rng.standard_normal((n, 1))
    noise = noise + 0.2 * rng.standard_normal((n, PRODUCTS))
    demands = world["demand"] * np.exp(0.5 * trend + noise)
    return np.hstack([yields.reshape(n, -1), demands])


@lru_cache(maxsize=64)
def _plant(lines, products, generator):
    """Return rates, prices and costs by line and product."""
    rng = np.random.default_rng([generator, lines, products])
    price = np.sort(rng.uniform(18, 45, products))[::-1]
    return {
        "rate": rng.uniform(8, 18, (lines, products)),
        "price": price,
        "salvage": 0.2 * price,
        "lost": 0.3 * price,
        "setup_hours": rng.uniform(0.3, 1.0, (lines, products)),
        "setup_cost": rng.uniform(60, 160, (lines, products)),
        "hourly": rng.uniform(40, 60, lines),
    }


@lru_cache(maxsize=64)
def _world(generator):
    """Return the coefficients of yields and demands."""
    rng = np.random.default_rng([generator, 1])
    return {
        "level": rng.uniform(0.9, 2.0, LINES * PRODUCTS),
        "plant": rng.normal(0, 0.35, (4, LINES * PRODUCTS)),
        "market": rng.normal(0, 0.5, (4, PRODUCTS)),
        "demand": rng.uniform(45, 95, PRODUCTS),
    }
