"""Section 5.2: capacity planning. Its lambdas are relative to the MMD loss."""

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
