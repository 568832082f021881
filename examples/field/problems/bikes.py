"""Bikes and vans of a bike-sharing system, day by day (Capital Bikeshare, 2011).

At six in the morning the operator puts bikes on the street at two groups of stations and
hires vans for two shifts. Commuter stations serve members, park stations casual riders:
the data count rides by kind of rider, which stands for the group of stations. During the
day vans move bikes between the groups; a rider who finds no bike is lost.

Hourly rides and weather come with the package ISLP (James et al., 2023).
"""

import pandas as pd
import pyomo.environ as pyo
from problem import Problem, data_file, lagged, season, weekdays

import pyomo_csg as csg

GROUPS = {"commuter": "registered", "park": "casual"}  # stations: whose rides
PERIODS = {
    "morning": (6, 10),
    "midday": (10, 15),
    "evening": (15, 20),
    "late": (20, 24),
}
SHIFTS = {"day": ("morning", "midday"), "night": ("evening", "late")}
RIDES = {"morning": 2.0, "midday": 2.5, "evening": 2.5, "late": 2.0}  # a bike serves
BIKE, VAN, MOVE = 4.0, 90.0, 1.0  # dollars a bike on the street, a van shift, a move
LOST = {"commuter": 5.0, "park": 8.0}  # dollars a ride
CARRIED = 40  # bikes that a van moves in a period
MOST_BIKES, MOST_VANS = 3000, 10
DAWN = 6


def build() -> pyo.ConcreteModel:
    """Return the model of one day, in rides and dollars."""
    m = pyo.ConcreteModel("bikes")
    m.groups = pyo.Set(initialize=list(GROUPS))
    m.periods = pyo.Set(initialize=list(PERIODS), ordered=True)
    m.rides = pyo.Param(
        m.groups, m.periods, within=pyo.NonNegativeReals, initialize=300, mutable=True
    )
    m.bikes = pyo.Var(m.groups, bounds=(0, MOST_BIKES))
    m.vans = pyo.Var(list(SHIFTS), within=pyo.Integers, bounds=(0, MOST_VANS))

    m.stock = pyo.Var(m.groups, m.periods, within=pyo.NonNegativeReals)
    m.sent = pyo.Var(m.groups, m.periods, within=pyo.NonNegativeReals)
    m.lost = pyo.Var(m.groups, m.periods, within=pyo.NonNegativeReals)

    @m.Constraint(m.groups, m.periods)
    def balance(m, g, t):
        before = m.bikes[g] if t == m.periods.first() else m.stock[g, m.periods.prev(t)]
        received = sum(m.sent[other, t] for other in m.groups if other != g)
        return m.stock[g, t] == before - m.sent[g, t] + received

    @m.Constraint(m.groups, m.periods)
    def at_hand(m, g, t):
        before = m.bikes[g] if t == m.periods.first() else m.stock[g, m.periods.prev(t)]
        return m.sent[g, t] <= before

    @m.Constraint(m.periods)
    def carried(m, t):
        (shift,) = (s for s, periods in SHIFTS.items() if t in periods)
        return sum(m.sent[g, t] for g in m.groups) <= CARRIED * m.vans[shift]

    @m.Constraint(m.groups, m.periods)
    def served(m, g, t):
        return RIDES[t] * m.stock[g, t] + m.lost[g, t] >= m.rides[g, t]

    m.fleet = pyo.Constraint(expr=sum(m.bikes[g] for g in m.groups) <= MOST_BIKES)
    m.cost = pyo.Objective(
        expr=BIKE * sum(m.bikes.values())
        + VAN * sum(m.vans.values())
        + MOVE * sum(m.sent.values())
        + sum(LOST[g] * m.lost[g, t] for g in m.groups for t in m.periods)
    )
    csg.annotate(m, first_stage_variables=[m.bikes, m.vans], uncertain_params=m.rides)
    return m


def load() -> Problem:
    """Return the days from the second week of the year on."""
    hourly = pd.read_csv(data_file("ISLP", "data", "Bikeshare.csv"))
    hourly["date"] = pd.Timestamp("2010-12-31") + pd.to_timedelta(hourly["day"], "D")
    outcomes, rides = {}, {}
    for group, kind in GROUPS.items():
        for period, (start, end) in PERIODS.items():
            inside = hourly[(hourly["hr"] >= start) & (hourly["hr"] < end)]
            total = inside.groupby("date")[kind].sum()
            outcomes[f"rides[{group},{period}]"] = total
            rides[f"{group} {period}"] = total
    days = pd.date_range("2011-01-01", "2011-12-31")
    # An hour without a row is one without rides.
    outcomes = pd.DataFrame(outcomes).reindex(days).fillna(0.0)
    rides = pd.DataFrame(rides).reindex(days).fillna(0.0)

    # Between midnight and dawn, the day's weather and night rides are known.
    night = hourly[hourly["hr"] < DAWN].assign(
        rain=hourly["weathersit"].str.contains("rain|snow").astype(float)
    )
    seen = night.groupby("date")[["temp", "hum", "windspeed", "rain"]].mean()
    seen["night rides"] = night.groupby("date")["bikers"].sum()
    full_day = hourly.groupby("date")[["temp", "hum", "windspeed"]].mean()
    calendar = hourly.groupby("date")[["holiday", "workingday"]].first()
    known = pd.concat(
        [
            lagged(rides, 1, "yesterday"),
            lagged(rides, 7, "a week ago"),
            seen.reindex(days).ffill().add_prefix("tonight "),
            lagged(full_day.reindex(days).ffill(), 1, "yesterday"),
            calendar.reindex(days).fillna(0.0),
            pd.DataFrame(weekdays(days) | season(days), index=days),
        ],
        axis=1,
    )
    return Problem(
        name="bikes",
        title="Bikes and vans of a bike-sharing system, Washington, 2011",
        build=build,
        contexts=known.iloc[7:].astype(float),
        outcomes=outcomes.iloc[7:].astype(float),
        first=178,
        every=60,
        block=7,
        unit="dollars a day",
    )
