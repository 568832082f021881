"""Section 5.1: the newsvendor."""

from experiment import Experiment

from pyomo_csg.zoo import newsvendor

EXPERIMENT = Experiment(
    "newsvendor",
    newsvendor.build,
    newsvendor.sample,
    newsvendor.conditional,
    pairs=500,
    contexts=100,
    trials=20,
    counts=(1, 2, 5),
    penalties=(0.1, 1.0, 10.0),
    level=(1.05 - 1.0) / (1.05 - 0.1),
    quickly={
        "counts": (1, 5),
        "penalties": (1.0,),
        "config": {"folds": 3, "starts": 2},
    },
)
