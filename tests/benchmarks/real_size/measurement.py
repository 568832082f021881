"""One problem in a process: fit it, then compare decisions with the baselines'."""

import json
import resource
import time

import numpy as np
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import pyomo_csg as csg
from pyomo_csg.learn.selection.plan import Plan
from tests.benchmarks.real_size.problems import GROWTH, PROBLEMS

# Counts that do not depend on the size, so that growth is that of the work itself.
SAME_COUNTS = {
    "kinds": ("empirical", "forest weights", "ridge"),
    "folds": 1,
    "scored_rows": 10,
    "programs": 40,
    "draws": 4,
    "integer_programs": 0,
    "one_scenario_programs": 0,
    "sets": 16,
    "compared": 6,
    "labels": 0,
    "loss_kind": "optimistic",
    "rehearses": False,
    "has_gradient": True,
    "program_seconds": 0.0,
    "seconds": None,
}
PROGRAM_SECONDS = 60.0  # the limit of a baseline's program; its incumbent is used
RIDGES = np.geomspace(1e-2, 1e4, 13)


def measure(key, path):
    """Write a fit's row as JSON, then again as decisions are compared.

    Parameters
    ----------
    key : dict
        What identifies the row: see ``row_store.py``.
    path : path
        Of the row; a process that is ended leaves what it found so far.
    """
    problem = find_problem(key)
    history, model = problem.history(key["seed"]), problem.build()
    policy, row = _fit(model, history, key)
    row = {**key, "status": "fitted", **row}
    _write(path, row)
    if key["fresh"]:
        for costs, notes in _compare(problem, model, history, policy, key):
            row |= {"notes": notes, **_differences(costs)}
            _write(path, row)
        _write(path, {**row, "status": "done"})


def _write(path, row):
    """Replace the row at once, since this process may be ended at any time."""
    new = path.with_suffix(".new")
    new.write_text(json.dumps(row))
    new.replace(path)


def find_problem(key):
    """Return the problem of a row, of the row's size."""
    if key["growth"]:
        _, of_size = GROWTH[key["growth"]]
        return of_size(key["size"])
    return PROBLEMS[key["problem"]]


def _fit(model, history, key):
    """Return the policy, and what the fit took."""
    contexts, outcomes = (part[: key["rows"]] for part in history)
    options = {name: key[name] for name in ("seconds", "method") if key[name]}
    if key["growth"] and not key["method"]:
        options["plan"] = Plan(scenarios=key["scenarios"], **SAME_COUNTS)
    fit = csg.fit  # which imports torch, outside of the time
    before = _cpu_seconds()
    start = time.perf_counter()
    policy = fit(
        model,
        (contexts, outcomes),
        scenarios=key["scenarios"],
        workers=key["workers"],
        seed=key["seed"],
        progress=False,
        **options,
    )
    wall = time.perf_counter() - start
    summary = policy.learned.summary
    candidates = summary.get("candidates") or []
    return policy, {
        "wall": wall,
        "cpu": _cpu_seconds() - before,
        "peak_mb": _peak_megabytes(),
        "candidates": [one["name"] for one in candidates],
        "chosen": summary.get("chosen"),
        "confidence": summary.get("confidence"),
        "cut_short": summary.get("cut_short"),
    }


def _cpu_seconds():
    """Return the CPU seconds of this process and of the workers that have ended."""
    usage = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in usage)


def _peak_megabytes():
    """Return the peak resident memory of this process, or of a worker if larger."""
    who = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
    return max(resource.getrusage(one).ru_maxrss for one in who) / 1024


def _baselines(problem, key):
    """Return functions by name that make a baseline from an oracle and a history."""
    known, count = csg.baselines, key["scenarios"]

    def ridge():
        return make_pipeline(StandardScaler(), RidgeCV(RIDGES))

    def forest():
        return RandomForestRegressor(200, min_samples_leaf=5, random_state=key["seed"])

    makers = {
        "saa": lambda *on: known.SampleAverage(*on, scenarios=problem.saa),
        "ev_ridge": lambda *on: known.ExpectedValue(*on, forecast=ridge()),
        "ev_forest": lambda *on: known.ExpectedValue(*on, forecast=forest()),
        "residuals_k": lambda *on: known.Residuals(
            *on, forecast=ridge(), scenarios=count
        ),
        "forest_k": lambda *on: known.ForestWeighted(*on, scenarios=count),
    }
    if problem.full or key["full"]:
        makers |= {
            "residuals_all": lambda *on: known.Residuals(*on, forecast=ridge()),
            "forest_all": lambda *on: known.ForestWeighted(*on),
        }
    return makers


def _compare(problem, model, history, policy, key):
    """Yield costs (fresh,) by policy, and their seconds and troubles, as they come."""
    history = tuple(part[: key["rows"]] for part in history)
    fresh = problem.fresh(key["fresh"], key["seed"])
    oracle = csg.Oracle(model, options={"time_limit": PROGRAM_SECONDS})
    costs, notes = {}, {}
    makers = {"ours": lambda *_: policy, **_baselines(problem, key)}
    for name, make in makers.items():
        try:
            costs[name], notes[name] = _costs(
                oracle, lambda make=make: make(oracle, history), fresh
            )
        except (csg.CsgError, MemoryError) as error:
            notes[name] = {"error": str(error)[:200]}
        yield costs, notes


def _costs(oracle, make, fresh):
    """Return the cost of each decision, minus the profit of a model that is maximized."""
    contexts, outcomes = fresh
    start = time.process_time()
    policy = make()
    made = time.process_time()
    decisions = policy.decide(contexts, on_error="record", progress=False)
    decided = time.process_time()
    values = oracle.cost(
        decisions.to_numpy(float), outcomes, on_error="record", progress=False
    )
    notes = {
        "fit_cpu": made - start,
        "decide_cpu": (decided - made) / len(contexts),
        "unsolved": int(np.isnan(values).sum()),
    }
    return values, notes


def _differences(costs):
    """Return our mean cost, and each baseline's minus ours with its standard error.

    Rows that any of the two could not solve are left out of their difference.
    """
    if "ours" not in costs:
        return {}
    ours, found = costs["ours"], {}
    for name in [name for name in costs if name != "ours"]:
        apart = costs[name] - ours
        apart = apart[np.isfinite(apart)]
        error = apart.std(ddof=1) / np.sqrt(len(apart)) if len(apart) > 1 else np.nan
        found[name] = [float(apart.mean()) if len(apart) else np.nan, float(error)]
    return {"cost": float(np.nanmean(ours)), "above_ours": found}
