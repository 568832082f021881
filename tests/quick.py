"""Fits that take a second: few epochs, few steps of what has no setting, small models."""

import numpy as np
import pyomo.environ as pyo

import pyomo_csg as csg
from models import cvar_portfolio, newsvendor
from pyomo_csg.baselines import standard_baselines
from pyomo_csg.learn.candidates import several_starts
from pyomo_csg.learn.distributions import samplers
from pyomo_csg.learn.selection import plan, scoring

METHODS = ["auto", "mmd", "static", "dynamic", "direct"]
QUICK = csg.FitConfig(
    mmd_epochs=4,
    task_epochs=1,
    loss_epochs=6,
    rounds=2,
    folds=2,
    starts=2,
    hidden=(8,),
    recurrent=(6, 8),
)
_LENGTHS = {
    (several_starts, "_CONSTANT_STEPS"): 6,
    (several_starts, "_ATOM_STEPS"): 6,
    (several_starts, "_ATOM_DRAWS"): 4,
    (several_starts, "_CONSTANT_DRAWS"): 4,
    (plan, "_MOST_PROGRAMS"): 24,
    (plan, "_ENOUGH_PROGRAMS"): 24,
    (plan, "_LEAST_PROGRAMS"): 4,
    (plan, "_MOST_INTEGER"): 4,
    (plan, "_MOST_SETS"): 8,
    (plan, "_seconds_each"): lambda run: 1e-4,  # the same plan in every run
    (plan, "KINDS"): ("empirical", "forest weights", "ridge", "mixture"),
    (scoring, "_ROWS"): 8,
    (samplers, "_TREES"): 10,
    (standard_baselines, "_TREES"): 10,
}


def shorten(put=setattr):
    """Make what takes long and has no setting for that short, by setattr's like."""
    for (module, name), value in _LENGTHS.items():
        getattr(module, name)  # one that was renamed would go on at full length
        put(module, name, value)


def fit(data, model=None, **options):
    """Fit a newsvendor, or another model, quickly."""
    options = {"scenarios": 2, "config": QUICK, "progress": False, **options}
    return csg.fit(model or newsvendor.build(), data, **options)


def panels(n=30, seed=0):
    """Return contexts (n, 6, 2) and returns (n, 4) whose scale they tell."""
    rng = np.random.default_rng(seed)
    contexts = rng.normal(size=(n, 6, 2))
    scale = np.exp(contexts[:, :, 0].mean(axis=1, keepdims=True))
    return contexts, 0.01 * scale * rng.normal(size=(n, 4))


def maximized(price=1.05):
    """Return the newsvendor who maximizes a profit."""
    m = newsvendor.build(price=price)
    m.profit = pyo.Objective(expr=-m.cost.expr, sense=pyo.maximize)
    m.del_component(m.cost)
    return m


def portfolio():
    """Return a portfolio of two out of four assets."""
    return cvar_portfolio.build(assets=4, most_held=2)


def ignore_deadlines(put):
    """Let programs ignore deadlines, which are by a clock that a test has replaced."""
    for name in ("solve", "cost", "loss", "loss_gradient"):
        call = getattr(csg.Oracle, name)

        def without(oracle, *args, _call=call, deadline=None, **options):
            return _call(oracle, *args, **options)

        put(csg.Oracle, name, without)
