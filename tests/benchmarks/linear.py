"""What a linear Task-Net of bounded weights costs in decisions: the guarantees' price.

Mean gap to the full program, over that of the expected value, with 'direct'.

Run: python -m tests.benchmarks.linear [newsvendor cep1] [trials=3]
"""

import sys

import numpy as np

import pyomo_csg as csg
from models import cep1, newsvendor

PROBLEMS = {"newsvendor": newsvendor, "cep1": cep1}
NETWORKS = {
    "MLP": None,
    "bound 4": csg.Linear(4.0),
    "'linear', bound 2": "linear",
    "bound 1": csg.Linear(1.0),
    "constant": "constant",
}
COUNTS = (1, 5)


def ratios(problem, trial, count):
    """Return the mean gaps of all networks' policies over that of the expected value."""
    model, history = problem.build(), problem.sample(500, 17 * trial + 1, trial)
    contexts, _ = problem.sample(200, 1_000_000 + trial, trial)
    cases = [csg.Case(x, *problem.conditional(x, trial)) for x in contexts]
    known = csg.baselines.ExpectedValue(
        model,
        history,
        forecast=lambda xs: np.array([_mean(problem, x, trial) for x in xs]),
    )
    policies = {
        name: csg.fit(
            model,
            history,
            scenarios=count,
            method="direct",
            network=network,
            progress=False,
        )
        for name, network in NETWORKS.items()
    }
    found = csg.evaluate({"EV": known, **policies}, cases, progress=False)
    return found.ratios("EV", ["mean"])["mean"].drop("EV").to_numpy()


def _mean(problem, x, trial):
    outcomes, weights = problem.conditional(x, trial)
    return weights @ outcomes


def main(arguments):
    """Print the table."""
    options = dict(a.split("=") for a in arguments if "=" in a)
    names = [a for a in arguments if "=" not in a] or ["newsvendor", "cep1"]
    print(f"| problem | K | {' | '.join(NETWORKS)} |")
    print("| --- | --- |" + " --- |" * len(NETWORKS))
    for name in names:
        for count in COUNTS:
            trials = range(int(options.get("trials", 3)))
            found = np.mean([ratios(PROBLEMS[name], t, count) for t in trials], axis=0)
            cells = " | ".join(f"{value:.3f}" for value in found)
            print(f"| {name} | {count} | {cells} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
