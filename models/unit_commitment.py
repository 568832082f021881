"""Unit commitment: choose which units run tomorrow, then dispatch them hour by hour.

Five units and 24 hours, with start costs, minimum up times and ramps. The load of each
hour is uncertain; unserved load is shed, unused power is spilled. Days
are consecutive: the load of a day depends on the weather and on past loads.
"""

from functools import lru_cache

import numpy as np
import pyomo.environ as pyo

import pyomo_csg as csg

UNITS = {
    # name: least and most output (MW), ramp (MW/h), cost (per MWh, per hour, per start),
    # minimum hours up, whether it runs at midnight
    "coal": (150, 400, 60, 18.0, 900, 9000, 8, 1),
    "steam": (100, 300, 60, 24.0, 700, 5000, 6, 1),
    "gas": (60, 220, 90, 33.0, 450, 1800, 3, 0),
    "turbine": (25, 130, 130, 52.0, 200, 500, 1, 0),
    "diesel": (10, 80, 80, 75.0, 80, 120, 1, 0),
}
COLUMNS = ("least", "most", "ramp", "fuel", "idle", "start", "up", "initial")
SHED_COST, SPILL_COST = 600, 15
CONTEXT = (
    *("season_sin", "season_cos", "saturday", "sunday", "temperature", "cloud"),
    *("temperature_before", "load_before", "peak_before", "load_week_before"),
)
_WARM_UP = 30


def build(units=tuple(UNITS), hours=24):
    """Return the annotated model of some of the units, for the first hours of a day."""
    m = pyo.ConcreteModel("unit_commitment")
    m.units = pyo.Set(initialize=units)
    m.hours = pyo.RangeSet(hours)
    m.demand = pyo.Param(
        m.hours, within=pyo.NonNegativeReals, initialize=600, mutable=True
    )
    m.unit = pyo.Block(m.units, rule=_unit)

    m.shed = pyo.Var(m.hours, within=pyo.NonNegativeReals)
    m.spilled = pyo.Var(m.hours, within=pyo.NonNegativeReals)

    @m.Constraint(m.hours)
    def balance(m, t):
        made = sum(m.unit[u].output[t] for u in m.units)
        return made + m.shed[t] - m.spilled[t] == m.demand[t]

    m.commitment_cost = pyo.Expression(
        expr=sum(m.unit[u].commitment_cost for u in m.units)
    )
    m.dispatch_cost = pyo.Expression(
        expr=sum(m.unit[u].fuel_cost for u in m.units)
        + SHED_COST * pyo.quicksum(m.shed.values())
        + SPILL_COST * pyo.quicksum(m.spilled.values())
    )
    m.cost = pyo.Objective(expr=m.commitment_cost + m.dispatch_cost)

    csg.annotate(
        m,
        first_stage_variables=[m.unit[:].on[:], m.unit[:].started[:]],
        uncertain_params=m.demand,
    )
    return m


def _unit(b, name):
    """Write one unit: its commitment, and its output between ramps."""
    hours = b.model().hours
    data = dict(zip(COLUMNS, UNITS[name], strict=True))
    b.on = pyo.Var(hours, within=pyo.Binary)
    b.started = pyo.Var(hours, within=pyo.Binary)
    b.output = pyo.Var(hours, within=pyo.NonNegativeReals)

    @b.Expression(hours)
    def before(b, t):
        return data["initial"] if t == hours.first() else b.on[hours.prev(t)]

    @b.Constraint(hours)
    def start(b, t):
        return b.started[t] >= b.on[t] - b.before[t]

    @b.Constraint(hours)
    def up_time(b, t):
        recent = [s for s in hours if t - data["up"] < s <= t]
        return sum(b.started[s] for s in recent) <= b.on[t]

    @b.Constraint(hours)
    def least_output(b, t):
        return b.output[t] >= data["least"] * b.on[t]

    @b.Constraint(hours)
    def most_output(b, t):
        return b.output[t] <= data["most"] * b.on[t]

    @b.Constraint(hours)
    def ramp_up(b, t):
        if t == hours.first():
            return pyo.Constraint.Skip
        rise = b.output[t] - b.output[hours.prev(t)]
        return rise <= data["ramp"] * b.before[t] + data["least"] * b.started[t]

    @b.Constraint(hours)
    def ramp_down(b, t):
        if t == hours.first():
            return pyo.Constraint.Skip
        fall = b.output[hours.prev(t)] - b.output[t]
        stopped = b.before[t] - b.on[t] + b.started[t]
        return fall <= data["ramp"] * b.on[t] + data["least"] * stopped

    b.commitment_cost = pyo.Expression(
        expr=sum(data["idle"] * b.on[t] + data["start"] * b.started[t] for t in hours)
    )
    b.fuel_cost = pyo.Expression(expr=data["fuel"] * sum(b.output.values()))


def sample(n, seed, generator=0):
    """Draw n days in a row: contexts (n, 10), named by CONTEXT, and loads (n, 24)."""
    rng = np.random.default_rng(seed)
    total = _WARM_UP + n
    day = rng.integers(7 * 52) + np.arange(total)
    warmth, cloud = _weather(rng, day)
    contexts, loads = np.empty((total, len(CONTEXT))), np.empty((total, 24))
    for t in range(total):
        past = loads[t - 1] if t else np.full(24, 640.0)
        week = loads[t - 7] if t >= 7 else np.full(24, 640.0)
        angle = 2 * np.pi * day[t] / 365
        contexts[t] = (
            *(np.sin(angle), np.cos(angle), day[t] % 7 == 5, day[t] % 7 == 6),
            *(warmth[t], cloud[t], warmth[max(t - 1, 0)]),
            *(past.mean(), past.max(), week.mean()),
        )
        loads[t] = _loads(contexts[t : t + 1], rng, generator)[0]
    return contexts[_WARM_UP:], loads[_WARM_UP:]


def sample_given(x, n, seed, generator=0):
    """Draw n loads (n, 24) of the true conditional distribution in a context (10,)."""
    rows = np.tile(np.asarray(x, dtype=float), (n, 1))
    return _loads(rows, np.random.default_rng(seed), generator)


def _weather(rng, day):
    """Return each day's temperature and cloud cover, which change slowly."""
    normal = 13 - 11 * np.cos(2 * np.pi * (day - 20) / 365)
    shocks = rng.standard_normal((len(day), 2))
    for t in range(1, len(day)):
        shocks[t] = 0.7 * shocks[t - 1] + np.sqrt(1 - 0.7**2) * shocks[t]
    return normal + 4 * shocks[:, 0], 1 / (1 + np.exp(-1.5 * shocks[:, 1]))


def _loads(contexts, rng, generator):
    """Draw the load of each hour for each context.

    Errors of the day and of the hours grow with the distance from a mild temperature.
    Solar power behind the meter is uncertain on half-clouded days. On one day in ten the
    evening peak is higher.
    """
    world = _world(generator)
    season, saturday, sunday, warmth, cloud, _, before, _, week = contexts[:, 1:].T
    cold, heat = np.maximum(16 - warmth, 0), np.maximum(warmth - 21, 0)
    level = 272 + 0.35 * before + 0.2 * week + 12 * season
    level -= 55 * saturday + 80 * sunday
    n = len(contexts)
    hours = np.outer(level, world["profile"])
    hours += np.outer(cold, world["heating"]) + np.outer(heat, world["cooling"])
    clear = 1 - cloud + 0.8 * cloud * (1 - cloud) * rng.standard_normal(n)
    hours -= np.outer(np.clip(clear, 0, 1), world["solar"])

    spread = 12 + 1.2 * (cold + heat)
    noise = rng.standard_normal((n, 24))
    for t in range(1, 24):
        noise[:, t] = 0.85 * noise[:, t - 1] + np.sqrt(1 - 0.85**2) * noise[:, t]
    hours += spread[:, None] * (noise + 1.2 * rng.standard_normal((n, 1)))
    surge = rng.exponential(70, n) * (rng.random(n) < 0.1)
    hours += np.outer(surge, world["evening"])
    return np.maximum(hours, 0)


@lru_cache(maxsize=64)
def _world(generator):
    """Return the coefficients of the load, by hour (24,)."""
    rng = np.random.default_rng(generator)
    hour = np.arange(24)

    def bump(center, width):
        return np.exp(-(((hour - center) / width) ** 2))

    morning, evening = rng.uniform(7, 9.5), rng.uniform(17.5, 20)
    profile = 0.75 + rng.uniform(0.2, 0.35) * bump(morning, 2.5)
    profile += rng.uniform(0.35, 0.5) * bump(evening, 3.5) + 0.25 * bump(13, 5)
    return {
        "profile": profile / profile.mean(),
        "heating": rng.uniform(2, 3.5) * (0.6 + 0.4 * bump(evening, 4)),
        "cooling": rng.uniform(4, 7) * (0.3 + 0.7 * bump(15, 4)),
        "solar": rng.uniform(70, 110) * bump(12.5, 3.2),
        "evening": bump(evening, 3),
    }
