"""A day of dispatch with quadratic costs: degenerate, and its hours are independent recourse.

A plant that is not planned for cannot be reduced: both bounds of that column are active.
"""

import numpy as np
import pyomo.environ as pyo

import pyomo_csg as csg

LINEAR, QUADRATIC = (12, 18, 25, 40), (0.004, 0.01, 0.02, 0.05)
CAPACITY, RAMP = (300, 250, 200, 150), (40, 60, 90, 150)


def build(hours=24):
    """Return the annotated model; the demand of each hour is uncertain."""
    m = pyo.ConcreteModel("dispatch")
    m.H, m.G = pyo.RangeSet(0, hours - 1), pyo.RangeSet(0, 3)
    m.demand = pyo.Param(m.H, initialize=500, mutable=True)
    m.plan = pyo.Var(m.G, m.H, bounds=lambda m, g, h: (0, CAPACITY[g]))
    m.up = pyo.Var(m.G, m.H, within=pyo.NonNegativeReals)
    m.down = pyo.Var(m.G, m.H, within=pyo.NonNegativeReals)
    m.shed = pyo.Var(m.H, within=pyo.NonNegativeReals)
    m.spill = pyo.Var(m.H, within=pyo.NonNegativeReals)

    def ramp(m, g, h):
        if h == 0:
            return pyo.Constraint.Skip
        return (-RAMP[g], m.plan[g, h] - m.plan[g, h - 1], RAMP[g])

    m.ramp = pyo.Constraint(m.G, m.H, rule=ramp)
    m.most = pyo.Constraint(
        m.G,
        m.H,
        rule=lambda m, g, h: m.plan[g, h] + m.up[g, h] - m.down[g, h] <= CAPACITY[g],
    )
    m.least = pyo.Constraint(
        m.G, m.H, rule=lambda m, g, h: m.plan[g, h] - m.down[g, h] >= 0
    )
    m.balance = pyo.Constraint(
        m.H,
        rule=lambda m, h: (
            sum(m.plan[g, h] + m.up[g, h] - m.down[g, h] for g in m.G)
            + m.shed[h]
            - m.spill[h]
            == m.demand[h]
        ),
    )
    plants = sum(
        LINEAR[g] * (m.plan[g, h] + 1.6 * m.up[g, h] - 0.5 * m.down[g, h])
        + QUADRATIC[g] * (m.plan[g, h] ** 2 + 2 * m.up[g, h] ** 2)
        for g in m.G
        for h in m.H
    )
    m.cost = pyo.Objective(
        expr=plants + sum(500 * m.shed[h] + 5 * m.spill[h] for h in m.H)
    )
    csg.annotate(m, first_stage_variables=m.plan, uncertain_params=m.demand)
    return m


def demands(rng, *shape, hours=24):
    """Draw the demands (*shape, hours) of days."""
    clock = (np.arange(hours) - 8) / hours * 2 * np.pi
    level, noise = rng.normal(0, 25, (*shape, 1)), rng.normal(0, 9, (*shape, hours))
    return np.maximum(480 + 160 * np.sin(clock) + level + noise.cumsum(axis=-1), 0.0)
