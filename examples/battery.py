"""A battery that buys at night, and sells in the evening or keeps its charge for tomorrow.

At night the tariff is known, and the battery charges. The price of the evening becomes
known later: high on cold working days, with rare spikes. Then the battery sells, or keeps
energy at a value for the days to come. The charge that it keeps is tomorrow's known number.
Prices are simulated.
"""

import numpy as np
import pandas as pd
import pyomo.environ as pyo

import pyomo_csg as csg

CAPACITY, POWER, EFFICIENCY = 8.0, 5.0, 0.9  # MWh, MWh a period, one way
WORTH = 45.0  # dollars a MWh that is kept
FIRST, REFIT = 150, 50  # days of history before the first decision; days between fits


def build():
    """Return the model of one day, annotated."""
    m = pyo.ConcreteModel("battery")
    m.price = pyo.Param(within=pyo.NonNegativeReals, initialize=70, mutable=True)
    m.tariff = pyo.Param(within=pyo.NonNegativeReals, initialize=50, mutable=True)
    m.charge0 = pyo.Param(within=pyo.NonNegativeReals, initialize=2, mutable=True)
    m.bought = pyo.Var(bounds=(0, POWER))
    m.sold = pyo.Var(bounds=(0, POWER))
    m.charge = pyo.Var(bounds=(0, CAPACITY))
    m.room = pyo.Constraint(expr=m.charge0 + EFFICIENCY * m.bought <= CAPACITY)
    m.balance = pyo.Constraint(
        expr=m.charge == m.charge0 + EFFICIENCY * m.bought - m.sold / EFFICIENCY
    )
    m.profit = pyo.Objective(
        expr=m.price * m.sold + WORTH * m.charge - m.tariff * m.bought,
        sense=pyo.maximize,
    )
    csg.annotate(
        m,
        first_stage_variables=m.bought,
        uncertain_params=m.price,
        known_params=[m.tariff, m.charge0],
    )
    return m


def days(count=400, seed=0):
    """Return one row a day: the night's tariff, the forecast, and the evening's price."""
    rng = np.random.default_rng(seed)
    dates = pd.date_range("2025-01-01", periods=count)
    cold = 10 * np.cos(2 * np.pi * np.arange(count) / 365) + rng.normal(0, 4, count)
    working = dates.day_of_week.to_numpy() < 5
    tariff = 52 + 0.8 * cold + rng.normal(0, 8, count)
    spike = (rng.random(count) < 0.08 + 0.1 * (cold > 8)) * rng.exponential(120, count)
    price = 55 + 1.2 * cold + 14 * working + rng.normal(0, 25, count) + spike
    return pd.DataFrame(
        {
            "date": dates,
            "weekday": dates.day_name(),
            "temperature": 12 - cold,
            "tariff": tariff.clip(5).round(2),
            "price": price.clip(0).round(2),
        }
    )


def policies(model, quick):
    """Return functions from past rows to policies, by name."""
    known = {"charge0": (0.0, CAPACITY)}
    how = {"known": known, "progress": False}
    fit = {"method": "mmd"} if quick else {"seconds": 60}
    return {
        "EV": lambda past: csg.baselines.ExpectedValue(model, past, known=known),
        "SAA": lambda past: csg.baselines.SampleAverage(model, past, known=known),
        "forest": lambda past: csg.baselines.ForestWeighted(model, past, known=known),
        "pyomo_csg": lambda past: csg.fit(model, past, scenarios=5, **fit, **how),
    }


def main():
    """Roll through the days, print the costs and draw them."""
    from rolling import parser

    options = parser(__doc__.splitlines()[0]).parse_args()
    model, table = build(), days()
    if options.quick:
        table = table.iloc[: FIRST + REFIT]
    found = csg.simulate(
        policies(model, options.quick),
        model,
        table,
        {"charge0": model.charge},
        warmup=FIRST,
        refit=REFIT,
    )
    print(found)
    path = options.folder / "battery.png"
    found.plot().savefig(path, dpi=100)
    print("Picture:", path.resolve())


if __name__ == "__main__":
    main()
