"""Section 5.2: capacity planning. Its lambdas are relative to the MMD loss."""

from dataclasses import replace
from functools import partial

from experiment import Experiment

from pyomo_csg.zoo import cep1

EXPERIMENT = Experiment(
    "cep1",
    cep1.build,
    cep1.sample,
    cep1.conditional,
    pairs=500,
    contexts=200,
    trials=20,
    counts=(1, 2, 5),
    penalties=("0.01x", "0.1x", "1x", "10x"),
    quickly={
        "counts": (1, 5),
        "penalties": ("0.01x",),
        "config": {"folds": 3, "starts": 2},
    },
)

# The other reading of the paper's scaling: each part has mean 1500 and sd 1024.7.
BY_PART = replace(
    EXPERIMENT,
    name="cep1-part",
    sample=partial(cep1.sample, scaling="part"),
    conditional=partial(cep1.conditional, scaling="part"),
)
