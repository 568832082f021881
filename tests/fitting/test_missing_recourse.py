"""Models whose decisions may have no recourse: the fit says so, by count and remedy."""

import logging

import numpy as np
import pandas as pd
import pyomo.environ as pyo

import pyomo_csg as csg


def plant():
    """A capacity that must cover the demand, with no way out."""
    m = pyo.ConcreteModel("plant")
    m.demand = pyo.Param(initialize=10.0, mutable=True)
    m.capacity, m.output = pyo.Var(bounds=(0, 100)), pyo.Var(bounds=(0, None))
    m.limit = pyo.Constraint(expr=m.output <= m.capacity)
    m.balance = pyo.Constraint(expr=m.output == m.demand)
    m.cost = pyo.Objective(expr=5 * m.capacity + m.output)
    csg.annotate(m, first_stage_variables=m.capacity, uncertain_params=m.demand)
    return m


def history(n=60):
    rng = np.random.default_rng(3)
    x = rng.uniform(0, 10, n)
    return pd.DataFrame({"x": x, "demand": 20 + 2 * x + rng.normal(0, 2, n)})


def fit(**options):
    method = csg.methods.Auto(candidates=["sample average", "ridge residuals"])
    return csg.fit(plant(), history(), method=method, progress=False, **options)


def test_the_report_counts_rows_without_recourse(caplog):
    with caplog.at_level(logging.WARNING, logger="pyomo_csg"):
        policy = fit(scenarios=1)
    chosen = policy.learned.summary["chosen"]
    rows = {row["name"]: row for row in policy.learned.summary["candidates"]}
    failed = rows[chosen]["unsolved"]
    # One scenario is about the median, so about half of the days need more.
    assert 0.2 * 60 < failed < 0.8 * 60
    report = policy.report()
    assert "rows not solved" in report
    found = f"on {failed} of 60 held-out rows"
    assert found in report and found in caplog.text
    assert "unmet demand" in report


def test_a_report_without_failures_does_not_mention_them():
    m = plant()
    m.output.setub(None)
    m.shortage = pyo.Var(bounds=(0, None))
    m.balance.set_value(m.output + m.shortage == m.demand)
    m.cost.expr = 5 * m.capacity + m.output + 50 * m.shortage
    method = csg.methods.Auto(candidates=["sample average", "ridge residuals"])
    policy = csg.fit(m, history(), scenarios=1, method=method, progress=False)
    assert "not solved" not in policy.report()
