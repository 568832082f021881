"""Policies that need no learning, cases by hand, and evaluations out of plain numbers."""

import numpy as np
import pandas as pd

import pyomo_csg as csg
from pyomo_csg.evaluation import Evaluation

COST, PRICE, SALVAGE = 1.0, 1.05, 0.1  # of the newsvendor


class Rule:
    """A policy that is a function from a context to a mapping of names to values."""

    def __init__(self, function):
        self.decide = function


class OnScenarios:
    """A policy that solves on scenarios that a function makes of a context."""

    def __init__(self, model, scenarios, **options):
        self.oracle = csg.Oracle(model, **options)
        self.two_stage = self.oracle.two_stage
        self._scenarios = scenarios

    def decide(self, context):
        found = self.oracle.solve(self._scenarios(context))
        names = [v.name for v in self.two_stage.first_stage_variables]
        return dict(zip(names, found.decision.tolist(), strict=True))


def newsvendor_cases(count=6, seed=0):
    """Return cases of a few demands each, and unequal weights."""
    rng = np.random.default_rng(seed)
    return [
        csg.Case(
            rng.normal(size=2),
            rng.uniform(5, 25, (m, 1)).round(1),
            rng.dirichlet([2] * m),
        )
        for m in rng.integers(3, 8, count)
    ]


def newsvendor_cost(order, case):
    """Return what an order costs in the mean, by hand."""
    demand = np.asarray(case.outcomes)[:, 0]
    sold = np.minimum(order, demand)
    return case.weights @ (COST * order - PRICE * sold - SALVAGE * (order - sold))


def best_order(case):
    """Return the critical quantile of a case's demand."""
    demand = np.asarray(case.outcomes)[:, 0]
    order = np.argsort(demand)
    level = (PRICE - COST) / (PRICE - SALVAGE)
    below = np.cumsum(case.weights[order])
    return demand[order][np.searchsorted(below, level - 1e-12)]


def make_evaluation(costs, values=None, bounds=None, trials=None, seconds=1.0):
    """Return an evaluation of costs {policy: (n,)} and values (n,)."""
    n = len(next(iter(costs.values())))
    trials = [0] * n if trials is None else trials
    places = [sum(t == trials[i] for t in trials[:i]) for i in range(n)]
    rows = {
        (trials[i], places[i], policy): {
            "cost": float(numbers[i]),
            "seconds": seconds,
            "solve_seconds": 0.75 * seconds,
            "solver_seconds": 0.5 * seconds,
            "failure": "infeasible" if np.isnan(numbers[i]) else "",
        }
        for policy, numbers in costs.items()
        for i in range(n)
    }
    keys = pd.MultiIndex.from_tuples(rows, names=["trial", "case", "policy"])
    records = pd.DataFrame(list(rows.values()), index=keys)
    has_values = values is not None
    reference = pd.DataFrame(
        {
            "value": np.array(values, float) if has_values else np.full(n, np.nan),
            "bound": np.full(n, np.nan) if bounds is None else np.array(bounds, float),
            "seconds": 60.0,
            "status": "optimal" if has_values else "",
            "source": "full program" if has_values else "",
            "digest": [f"{i:04d}" for i in range(n)],
        },
        index=pd.MultiIndex.from_arrays([trials, places], names=["trial", "case"]),
    )
    return Evaluation(records, reference)
