"""Work that takes minutes, to be stopped."""

import numpy as np
import pyomo.environ as pyo

import pyomo_csg as csg
from models import newsvendor
from pyomo_csg.learn.distributions import samplers as learned_outcomes


def hard(items=60, rows=8, seed=0):
    """Return a model whose program is not closed in minutes, with scenarios, outcomes."""
    rng = np.random.default_rng(seed)
    m = pyo.ConcreteModel("hard")
    weights = rng.integers(100, 1000, (rows, items))
    m.w = pyo.Param(range(rows), mutable=True, initialize=0.0)
    m.take = pyo.Var(range(items), domain=pyo.Binary)
    m.over = pyo.Var(range(rows), bounds=(0, None))
    m.under = pyo.Var(range(rows), bounds=(0, None))
    m.balance = pyo.Constraint(
        range(rows),
        rule=lambda m, i: (
            sum(int(weights[i, j]) * m.take[j] for j in range(items))
            + m.under[i]
            - m.over[i]
            == m.w[i]
        ),
    )
    m.cost = pyo.Objective(expr=sum(m.over.values()) + sum(m.under.values()))
    csg.annotate(m, first_stage_variables=m.take, uncertain_params=m.w)
    half = weights.sum(axis=1) / 2.0
    scenarios = half + rng.integers(-50, 50, (3, rows)) + 0.5
    return m, scenarios, np.tile(half, (4, 1))


def solve_a_hard_program():
    """Solve it in this thread, in labels of a batch."""
    label(workers=1)


def solve_in_threads():
    """Solve four of them in two threads."""
    label(workers=2)


def label(workers):
    """Solve four hard programs."""
    model, scenarios, outcomes = hard()
    oracle = csg.Oracle(model, workers=workers)
    print("working", flush=True)
    oracle.loss(np.tile(scenarios, (4, 1, 1)), outcomes, progress=False)


def train():
    """Train a network for ever."""
    fit(newsvendor.sample(100, seed=0), "mmd", mmd_epochs=10_000_000)


def grow_forests():
    """Grow forests for ever."""
    learned_outcomes._TREES = 1_000_000
    fit(newsvendor.sample(400, seed=0), "direct", mmd_epochs=1)


def fit(pairs, method, **config):
    """Fit with a checkpoint and a file to be written."""
    model = newsvendor.build()
    print("working", flush=True)
    policy = csg.fit(
        model, pairs, method=method, config=config, checkpoint="run", progress=False
    )
    policy.save("policy.csg")
