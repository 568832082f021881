"""A decision every morning: boxes for a kiosk, whose stock carries over from day to day.

Every morning a kiosk beside a bike-sharing station orders lunch boxes for two groups of
riders. Then the riders come. Half of the boxes that are left can be sold the next day. So
every day begins with another stock, and the program is another one every day.

The demand is real: rides of casual and registered riders in Washington, 2011, which the
package ISLP (James et al., 2023) carries. What is known in the morning is a table as people
have it: a date, a weekday as text, the weather at four in the morning, with gaps where
nothing was measured, and yesterday's demand.
"""

import importlib.util
from pathlib import Path

import pandas as pd
import pyomo.environ as pyo

import pyomo_csg as csg

BUYERS = {"casual": 0.1, "registered": 0.05}  # riders who buy a box
ORDER, HOLD, LOSE = 3.0, 0.2, 6.0  # dollars a box
MOST = 400.0  # boxes
FIRST, REFIT = 240, 40  # days of history before the first decision; days between fits


def build():
    """Return the model of one day, annotated."""
    m = pyo.ConcreteModel("kiosk")
    m.riders = pyo.Set(initialize=list(BUYERS))
    m.demand = pyo.Param(
        m.riders, within=pyo.NonNegativeReals, initialize=50, mutable=True
    )
    m.stock0 = pyo.Param(
        m.riders, within=pyo.NonNegativeReals, initialize=0, mutable=True
    )
    m.order = pyo.Var(m.riders, bounds=(0, MOST))
    m.left = pyo.Var(m.riders, within=pyo.NonNegativeReals)
    m.lost = pyo.Var(m.riders, within=pyo.NonNegativeReals)

    @m.Constraint(m.riders)
    def flow(m, r):
        return m.left[r] - m.lost[r] == m.stock0[r] + m.order[r] - m.demand[r]

    @m.Expression(m.riders)
    def fresh(m, r):  # tomorrow's stock
        return 0.5 * m.left[r]

    m.cost = pyo.Objective(
        expr=sum(
            ORDER * m.order[r] + HOLD * m.left[r] + LOSE * m.lost[r] for r in m.riders
        )
    )
    csg.annotate(
        m,
        first_stage_variables=m.order,
        uncertain_params=m.demand,
        known_params=m.stock0,
    )
    return m


def days():
    """Return one row a day, in time order: what is known in the morning, and the demand."""
    spec = importlib.util.find_spec("ISLP")
    if spec is None:
        raise SystemExit("the demand comes with ISLP: pip install --no-deps ISLP")
    hours = pd.read_csv(Path(spec.origin).parent / "data" / "Bikeshare.csv")
    hours["date"] = pd.Timestamp("2010-12-31") + pd.to_timedelta(hours["day"], "D")
    demand = pd.DataFrame(
        {
            f"demand[{rider}]": share * hours.groupby("date")[rider].sum()
            for rider, share in BUYERS.items()
        }
    )
    at_four = hours[hours["hr"] == 4].set_index("date")
    morning = at_four[["temp", "hum", "weathersit"]].reindex(demand.index)
    yesterday = demand.shift(1)
    yesterday.columns = [f"yesterday {rider}" for rider in BUYERS]
    table = pd.concat([morning, yesterday, demand], axis=1).iloc[1:]
    table.insert(0, "date", table.index)
    table.insert(1, "weekday", table.index.day_name())
    return table.reset_index(drop=True)


def policies(model, quick):
    """Return functions from past rows to policies, by name."""
    known = {f"stock0[{rider}]": (0.0, 80.0) for rider in BUYERS}
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
        [(model.stock0, model.fresh)],
        warmup=FIRST,
        refit=REFIT,
    )
    print(found)
    path = options.folder / "inventory.png"
    found.plot().savefig(path, dpi=100)
    print("Picture:", path.resolve())


if __name__ == "__main__":
    main()
