"""Small instances of the larger models have the optimum of their matrices."""

import numpy as np
import pytest

import pyomo_csg as csg
from models import facility_location, production, resource_allocation, unit_commitment
from tests.models.direct_program import DirectProgram

TIGHT = {"mip_rel_gap": 0.0}


def optimum(model, scenarios):
    """Return the value of the oracle's program on equally weighted scenarios."""
    return csg.Oracle(model, options=TIGHT).solve(scenarios, progress=False).value


def unit_commitment_value(units, hours, scenarios):
    """Return the optimum, with ramps that know a unit's state and its last start."""
    p, share = DirectProgram(), 1 / len(scenarios)
    for u in units:
        least, most, ramp, fuel, idle, start, up, initial = unit_commitment.UNITS[u]
        for t in range(hours):
            p.column(("on", u, t), idle, 1, True)
            p.column(("start", u, t), start, 1, True)
            change = {("start", u, t): 1, ("on", u, t): -1}
            if t:
                change["on", u, t - 1] = 1
            p.row(change, lower=0 if t else -initial)
            recent = {("start", u, s): 1 for s in range(max(0, t - up + 1), t + 1)}
            p.row({**recent, ("on", u, t): -1}, upper=0)
        for k in range(len(scenarios)):
            for t in range(hours):
                made = p.column(("made", u, t, k), share * fuel)
                p.row({made: 1, ("on", u, t): -least}, lower=0)
                p.row({made: 1, ("on", u, t): -most}, upper=0)
                if t:
                    before, now = ("on", u, t - 1), ("on", u, t)
                    rise = {made: 1, ("made", u, t - 1, k): -1}
                    p.row({**rise, before: -ramp, ("start", u, t): -least}, upper=0)
                    fall = {made: -1, ("made", u, t - 1, k): 1}
                    off = {before: -least, ("start", u, t): -least}
                    p.row({**fall, **off, now: least - ramp}, upper=0)
    for k, loads in enumerate(scenarios):
        for t in range(hours):
            p.column(("shed", t, k), share * unit_commitment.SHED_COST)
            p.column(("spilled", t, k), share * unit_commitment.SPILL_COST)
            made = {("made", u, t, k): 1 for u in units}
            p.row({**made, ("shed", t, k): 1, ("spilled", t, k): -1}, *[loads[t]] * 2)
    return p.solve()


@pytest.mark.parametrize("units", [("gas", "turbine"), ("coal", "diesel")])
def test_unit_commitment(units):
    hours, scenarios = 7, np.random.default_rng(1).uniform(40, 420, (3, 7))
    model = unit_commitment.build(units, hours)
    expected = unit_commitment_value(units, hours, scenarios)
    assert optimum(model, scenarios) == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("generator", [0, 3])
def test_facility_location(generator):
    sites, customers = 4, 5
    data = facility_location._map(sites, customers, generator)
    scenarios = np.random.default_rng(generator).uniform(10, 250, (3, customers))
    p, share = DirectProgram(), 1 / 3
    for i in range(sites):
        p.column(("open", i), data["fixed"][i], 1, True)
        p.column(("size", i), data["sized"][i])
        p.row({("size", i): 1, ("open", i): -facility_location.LARGEST}, upper=0)
    for k, demand in enumerate(scenarios):
        for j in range(customers):
            p.column(("lost", j, k), share * facility_location.LOST_COST)
            for i in range(sites):
                p.column(("ship", i, j, k), share * data["freight"][i, j])
            shipped = {("ship", i, j, k): 1 for i in range(sites)}
            p.row({**shipped, ("lost", j, k): 1}, lower=demand[j])
        for i in range(sites):
            shipped = {("ship", i, j, k): 1 for j in range(customers)}
            p.row({**shipped, ("size", i): -1}, upper=0)
    model = facility_location.build(sites, customers, generator)
    assert optimum(model, scenarios) == pytest.approx(p.solve(), rel=1e-7)


@pytest.mark.parametrize("generator", [0, 3])
def test_production(generator):
    lines, products = 2, 4
    data = production._plant(lines, products, generator)
    rng = np.random.default_rng(generator)
    yields = rng.uniform(0.3, 1, (3, lines, products))
    demands = rng.uniform(40, 220, (3, products))
    p, share, longest = DirectProgram(), 1 / 3, 24 + 12
    for line in range(lines):
        p.column(("over", line), production.OVERTIME_COST, 12)
        day = {("over", line): -1}
        for i in range(products):
            p.column(("setup", line, i), data["setup_cost"][line, i], 1, True)
            p.column(("hours", line, i), data["hourly"][line])
            p.row({("hours", line, i): 1, ("setup", line, i): -longest}, upper=0)
            day["hours", line, i] = 1
            day["setup", line, i] = data["setup_hours"][line, i]
        p.row(day, upper=24)
    for k in range(3):
        p.column(("freight", k), share * production.EXTRA_FREIGHT)
        dock = {("freight", k): -1}
        for i in range(products):
            price = data["price"]
            p.column(("sold", i, k), -share * price[i])
            p.column(("surplus", i, k), -share * data["salvage"][i])
            p.column(("lost", i, k), share * data["lost"][i])
            last = i == products - 1
            lower_price = 0 if last else 0.9 * price[i + 1]
            p.column(("down", i, k), -share * lower_price, 0 if last else np.inf)
            dock["sold", i, k] = dock["down", i, k] = 1
            made = {
                ("hours", n, i): -yields[k, n, i] * data["rate"][n, i]
                for n in range(lines)
            }
            uses = {(use, i, k): 1 for use in ("sold", "down", "surplus")}
            p.row({**made, **uses}, 0, 0)
            served = {("sold", i, k): 1, ("lost", i, k): 1}
            if i:
                served["down", i - 1, k] = 1
            p.row(served, demands[k, i], demands[k, i])
        p.row(dock, upper=production.DOCK)
    scenarios = np.hstack([yields.reshape(3, -1), demands])
    model = production.build(lines, products, generator)
    assert optimum(model, scenarios) == pytest.approx(-p.solve(), rel=1e-7)


@pytest.mark.parametrize("generator", [0, 3])
def test_resource_allocation(generator):
    resources, customers = 4, 6
    data = resource_allocation._instance(resources, customers, generator)
    scenarios = np.random.default_rng(generator).uniform(20, 100, (3, customers))
    p, share = DirectProgram(), 1 / 3
    for i in range(resources):
        p.column(("order", i), data["cost"][i])
    for k, demand in enumerate(scenarios):
        for j in range(customers):
            p.column(("unmet", j, k), share * data["penalty"][j])
            service = {("unmet", j, k): 1}
            for i in range(resources):
                # No link is a rate of zero.
                service[p.column(("serve", i, j, k))] = data["rate"][i, j]
            p.row(service, lower=demand[j])
        for i in range(resources):
            used = {("serve", i, j, k): 1 for j in range(customers)}
            p.row({**used, ("order", i): -data["usable"][i]}, upper=0)
    model = resource_allocation.build(resources, customers, generator)
    assert optimum(model, scenarios) == pytest.approx(p.solve(), rel=1e-7)
