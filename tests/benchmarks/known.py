"""What known data costs: a solve with five known numbers over one without any.

CPU seconds, in turns and within one run. 'one' solves case by case, as decisions are
made; 'batch' solves all in one call, again and again, from their last bases. 'same' has
the same numbers in every case, so that both sides solve the same programs.

Run: python -m tests.benchmarks.known [cases=400] [rounds=9]
"""

import sys
import time
from functools import partial

import numpy as np
import pyomo.environ as pyo

import pyomo_csg as csg

SITES, COUNT = 20, 5
PLACES = {
    "right-hand sides": ("stock", "stock", "stock", "stock", "budget"),
    "costs": ("tariff", "tariff", "price", "price", "price"),
    "all places": ("stock", "budget", "room", "tariff", "price"),
}


def build(places, numbers=None):
    """Return a plant model with five numbers: known, or set to a row of them."""
    m = pyo.ConcreteModel("plants")
    sites = range(SITES)
    m.demand = pyo.Param(
        sites, mutable=True, initialize=10.0, within=pyo.NonNegativeReals
    )
    m.known = pyo.Param(
        range(len(places)), mutable=True, initialize=1.0, within=pyo.NonNegativeReals
    )
    if numbers is not None:
        for j, number in enumerate(numbers):
            m.known[j] = number

    def at(place, site):
        """Return the number of a place at a site, 1 if none stands there."""
        found = [j for j, name in enumerate(places) if name == place]
        return m.known[found[site % len(found)]] if found else 1.0

    m.order = pyo.Var(sites, bounds=lambda m, i: (0, 30 * at("room", i)))
    m.sold = pyo.Var(sites, within=pyo.NonNegativeReals)
    m.bought = pyo.Var(sites, within=pyo.NonNegativeReals)
    m.plan = pyo.Constraint(expr=sum(m.order.values()) <= 9 * SITES * at("budget", 0))
    m.supply = pyo.Constraint(
        sites, rule=lambda m, i: m.sold[i] <= m.order[i] + at("stock", i)
    )
    m.serve = pyo.Constraint(
        sites, rule=lambda m, i: m.sold[i] + m.bought[i] >= m.demand[i]
    )
    m.cost = pyo.Objective(
        expr=sum(
            at("tariff", i) * m.order[i]
            + 0.1 * m.sold[i]
            + 3 * at("price", i) * m.bought[i]
            for i in sites
        )
    )
    marks = {"known_params": m.known} if numbers is None else {}
    csg.annotate(m, first_stage_variables=m.order, uncertain_params=m.demand, **marks)
    return m


def seconds(call):
    """Return the CPU seconds of a call."""
    start = time.process_time()
    call()
    return time.process_time() - start


def ratios(places, cases, rounds):
    """Return CPU seconds with known numbers over those without, by how they are solved."""
    rng = np.random.default_rng(0)
    zetas = rng.gamma(4.0, 3.0, (cases, COUNT, SITES))
    known = rng.uniform(0.8, 1.2, (cases, len(places)))
    rows = {"without": None, "same": np.tile(known[:1], (cases, 1)), "differing": known}

    def new_oracle(side):
        return csg.Oracle(build(places, known[0] if side == "without" else None))

    def one_by_one(oracle, numbers):
        for i in range(cases):
            row = None if numbers is None else numbers[i]
            oracle.solve(zetas[i : i + 1], known=row, progress=False)

    def batch(oracle, numbers):
        oracle.solve(zetas, known=numbers, progress=False)

    # Each call has an oracle of its own: the last bases of another would mislead it.
    calls = {
        f"{how.__name__}, {side}": partial(how, new_oracle(side), numbers)
        for how in (one_by_one, batch)
        for side, numbers in rows.items()
    }
    times = {name: [] for name in calls}
    for _ in range(rounds + 1):
        for name, call in calls.items():
            times[name].append(seconds(call))
    found = {name: np.array(each[1:]) for name, each in times.items()}
    return {
        name: float(np.median(each / found[f"{name.split(',')[0]}, without"]))
        for name, each in found.items()
        if "without" not in name
    }


def main(arguments):
    """Print the table."""
    options = {name: int(n) for name, n in (a.split("=") for a in arguments)}
    print("| known numbers in | one, same | one, differing | batch, same | differing |")
    print("| --- | --- | --- | --- | --- |")
    for name, places in PLACES.items():
        found = ratios(places, options.get("cases", 400), options.get("rounds", 9))
        cells = " | ".join(f"{value:.2f}" for value in found.values())
        print(f"| {name} | {cells} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
