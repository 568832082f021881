"""Day-ahead generation capacity on the electricity demand of England and Wales.

Half-hourly demand in megawatts over twelve weeks of 2000, the data of Taylor (2003), comes
with pmdarima. A day ahead, coal is committed and gas is put on reserve; what demand then
exceeds is bought dearly. Run:

    pip install pyomo-csg[examples]
    python examples/electricity.py
"""

import numpy as np
import pandas as pd
import pyomo.environ as pyo
from pmdarima.datasets import load_taylor
from rolling import parser, picture, roll, table

import pyomo_csg as csg

COAL, RESERVE, GAS, BOUGHT = 30.0, 6.0, 45.0, 300.0  # pounds a megawatt-hour
DAY, WEEK = 48, 336  # half-hours
STEP = 4  # half-hours from one decision to the next


def build():
    """Return the model of one half-hour, in gigawatts and thousands of pounds an hour."""
    m = pyo.ConcreteModel("electricity")
    m.demand = pyo.Param(within=pyo.NonNegativeReals, initialize=30, mutable=True)
    m.coal = pyo.Var(bounds=(0, 60))
    m.reserve = pyo.Var(bounds=(0, 20))
    m.gas = pyo.Var(within=pyo.NonNegativeReals)
    m.bought = pyo.Var(within=pyo.NonNegativeReals)
    m.reserved = pyo.Constraint(expr=m.gas <= m.reserve)
    m.served = pyo.Constraint(expr=m.coal + m.gas + m.bought >= m.demand)
    m.cost = pyo.Objective(
        expr=COAL * m.coal + RESERVE * m.reserve + GAS * m.gas + BOUGHT * m.bought
    )
    csg.annotate(
        m, first_stage_variables=[m.coal, m.reserve], uncertain_params=m.demand
    )
    return m


def pairs():
    """Return what is known a day ahead, and the demand that came."""
    demand = load_taylor() / 1000
    moment = np.arange(2 * DAY, len(demand), STEP)
    known = {
        f"demand {DAY + back} half-hours ago": demand[moment - DAY - back]
        for back in range(0, DAY, STEP)
    }
    angle = 2 * np.pi * moment / DAY
    for turns in (1, 2):
        known[f"sine {turns}"] = np.sin(turns * angle)
        known[f"cosine {turns}"] = np.cos(turns * angle)
    weekday = moment // DAY % 7  # 0 is the first day of the data, a Monday
    for day, name in ((0, "Monday"), (5, "Saturday"), (6, "Sunday")):
        known[name] = (weekday == day).astype(float)
    return pd.DataFrame(known), pd.DataFrame({"demand": demand[moment]}), moment


def main():
    given = parser(__doc__.splitlines()[0]).parse_args()
    contexts, outcomes, moment = pairs()
    week = WEEK // STEP
    first = 7 * week
    settings = csg.FitConfig(folds=3, starts=2, rows="series")
    options = {"scenarios": 5, "config": settings}
    if given.quick:
        contexts, outcomes, first = contexts[:96], outcomes[:96], week
        options = {"scenarios": 3, "method": "mmd", "config": {"mmd_epochs": 4}}
    day = DAY // STEP  # of outcomes are still to come when one is decided for
    costs, _ = roll(build(), contexts, outcomes, first, 2 * week, lag=day, **options)

    print("\n" + table(costs, "Thousands of pounds an hour", 1))
    picture(
        STEP / 2 * costs,
        pd.Index(moment[first:][: len(costs)] / DAY, name="day of the data"),
        given.folder / "electricity.png",
        "Electricity of England and Wales: saved over the context-free decision",
        "thousands of pounds",
    )


if __name__ == "__main__":
    main()
