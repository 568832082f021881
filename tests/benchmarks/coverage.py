"""How often certificates hold: whole ones, on samples of many pairs whose means are known.

A policy and its two usual baselines decide for a population of pairs; samples of it are
drawn with replacement, so that the true means are the population's.

Run: python -m tests.benchmarks.coverage [newsvendor cep1 mnv]
"""

import sys

import numpy as np

import pyomo_csg as csg
from models import cep1, mnv, newsvendor
from pyomo_csg.evaluation.comparison import default_baselines, policy_costs
from pyomo_csg.guarantees import mean_interval
from pyomo_csg.learn.tables.history import History

POPULATIONS = {
    "newsvendor": (newsvendor, 5000),
    "cep1": (cep1, 5000),
    "mnv": (mnv, 500),
}
REPEATS, DELTA, SIZES = 1000, 0.05, (50, 100, 200, 500)


def population(name):
    """Return what a certificate takes means of, a row each: see the report below."""
    module, count = POPULATIONS[name]
    history = module.sample(200, seed=1)
    pairs = History(*module.sample(count, seed=2))
    policy = csg.fit(module.build(), history, scenarios=2, method="mmd", progress=False)
    costs = policy_costs(policy, pairs)
    known = policy.oracle.solve(pairs.outcomes[:, None], progress=False).value
    gaps = costs - int(policy.two_stage.sense) * known
    baselines = default_baselines(policy, History(*history)).values()
    return np.stack([costs, gaps, *(policy_costs(r, pairs) - costs for r in baselines)])


def shares(rows, size, width, seed=0):
    """Return how often all bounds held, and how often the bound of the cost did."""
    rng, truth = np.random.default_rng(seed), rows.mean(axis=1)
    share = DELTA / (2 * len(rows) - 2)
    widths = [width, width, *[None if width is None else 2 * width] * (len(rows) - 2)]
    together, cost = 0, 0
    for _ in range(REPEATS):
        drawn = rows[:, rng.integers(rows.shape[1], size=size)]
        found = [
            mean_interval(values, share, apart)
            for values, apart in zip(drawn, widths, strict=True)
        ]
        upper = np.array([one.upper for one in found]) >= truth
        lower = np.array([one.lower for one in found]) <= truth
        together += upper.all() and lower[2:].all()
        cost += mean_interval(drawn[0], DELTA, width).upper >= truth[0]
    return together / REPEATS, cost / REPEATS


def main(names):
    """Print the table."""
    print("| problem | skewness | pairs | all bounds | cost alone | with a range |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name in names or POPULATIONS:
        rows = population(name)
        apart = rows - rows.mean(axis=1, keepdims=True)
        skewness = (apart**3).mean(axis=1) / rows.std(axis=1) ** 3
        for size in SIZES:
            free, cost = shares(rows, size, None)
            bounded, _ = shares(rows, size, float(np.ptp(rows, axis=1).max()))
            shown = " ".join(f"{s:.1f}" for s in skewness)
            print(
                f"| {name} | {shown} | {size} | {free} | {cost} | {bounded} |",
                flush=True,
            )


if __name__ == "__main__":
    main(sys.argv[1:])
