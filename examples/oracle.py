"""Label a thousand pairs of scenarios and outcome on CEP1. Run: python examples/oracle.py"""

import numpy as np

import pyomo_csg as csg
from pyomo_csg.zoo import cep1

oracle = csg.Oracle(cep1.build(), workers=2)
print(oracle.two_stage, "\n")

# A context makes 216 demands possible; draw five of them as if they were generated.
contexts, outcomes = cep1.sample(1000, seed=0)
rng = np.random.default_rng(0)
scenarios = np.array([rng.choice(cep1.conditional(x)[0], 5) for x in contexts])

losses = oracle.loss(scenarios, outcomes)
print(f"Deciding on 5 drawn demands costs {losses.mean():,.0f} on average")

means = np.array([[cep1.conditional(x)[0].mean(axis=0)] for x in contexts])
forecast = oracle.loss(means, outcomes)
print(f"Deciding on the mean demand costs {forecast.mean():,.0f}\n")

stats = oracle.stats
print(
    f"{stats.solves} programs, {stats.iterations} pivots, {stats.cache_hits} cache hits"
)
print(
    f"{stats.certified} decisions were certified to be unique and needed no search; "
    f"{1e3 * stats.total_seconds / 2000:.2f} ms a label"
)
