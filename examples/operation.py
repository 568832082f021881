"""A policy at work: report, watch, update. A shop's year in four quarters, with one change.

Run: python examples/operation.py [--folder build]
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
import pyomo.environ as pyo

import pyomo_csg as csg

QUARTER = 90  # days


def build():
    """Return the model of a shop that orders today what it sells tomorrow."""
    m = pyo.ConcreteModel("shop")
    m.demand = pyo.Param(within=pyo.NonNegativeReals, initialize=60, mutable=True)
    m.order = pyo.Var(within=pyo.NonNegativeIntegers, bounds=(0, 500))
    m.sold = pyo.Var(within=pyo.NonNegativeReals)
    m.stock = pyo.Constraint(expr=m.sold <= m.order)
    m.market = pyo.Constraint(expr=m.sold <= m.demand)
    m.profit = pyo.Objective(expr=2.5 * m.sold - m.order, sense=pyo.maximize)
    csg.annotate(m, first_stage_variables=m.order, uncertain_params=m.demand)
    return m


def days(n, seed, level=60.0):
    """Draw days: demand grows with temperature, and varies more with rain."""
    rng = np.random.default_rng(seed)
    warmth, rain = rng.uniform(8, 28, n), rng.uniform(0, 8, n)
    noise = (0.15 + 0.06 * rain) * rng.normal(size=n)
    demand = level * np.exp(0.04 * (warmth - 18) + noise)
    return pd.DataFrame({"temperature": warmth, "rain": rain, "demand": demand}).round(
        2
    )


def main(folder):
    """Fit in the first quarter, watch the next ones, and update when something changed."""
    folder.mkdir(parents=True, exist_ok=True)
    options = {"scenarios": 5, "seconds": 60, "progress": False}
    policy = csg.fit(build(), days(2 * QUARTER, seed=1), **options)
    quarter = days(QUARTER, seed=2)
    print("The policy on a new quarter:")
    print(policy.report(folder / "report.html", quarter).splitlines()[1])

    moved = days(QUARTER, seed=3, level=25.0)  # a competitor has opened
    for name, rows in (("second", quarter), ("third", moved)):
        found = policy.monitor(rows)
        found.report(folder / f"{name}_quarter.html")
        print(f"\nThe {name} quarter: {found.sentences[0]}")

    updated = policy.update(moved, window=QUARTER)
    print("\nAfter an update:", updated.compare(policy))
    later = updated.compare(policy, days(QUARTER, seed=4, level=25.0))
    print("The fourth quarter:", later)
    updated.save(folder / "shop.csg")
    print(f"\nThe pages and the policy are in '{folder}'.")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path("build"))
    main(parser.parse_args().folder)
