"""What a linear Task-Net of bounded weights costs in decisions: the guarantees' price.

Mean gap to the full program, over that of the expected value, with 'direct'.

Run: python -m tests.benchmarks.linear [newsvendor cep1] [trials=3]
"""

import sys

import numpy as np

import pyomo_csg as csg
from tests.benchmarks.cases import Cases

NETWORKS = {
    "MLP": None,
    "linear": "linear",
    "bound 4": csg.Linear(4.0),
    "bound 2": csg.Linear(2.0),
    "bound 1": csg.Linear(1.0),
    "constant": "constant",
}
COUNTS = (1, 5)


def ratio(cases, network, count):
    """Return the mean gap of a policy over that of the expected value."""
    policy = csg.fit(
        cases.model,
        cases.problem.history(cases.trial),
        scenarios=count,
        method="direct",
        network=network,
        progress=False,
    )
    gaps = cases.gaps(policy.decide(cases.contexts, progress=False).to_numpy())
    return gaps.mean() / cases.gaps(cases.mean_decisions()).mean()


def main(arguments):
    """Print the table."""
    options = dict(a.split("=") for a in arguments if "=" in a)
    names = [a for a in arguments if "=" not in a] or ["newsvendor", "cep1"]
    print(f"| problem | K | {' | '.join(NETWORKS)} |")
    print("| --- | --- |" + " --- |" * len(NETWORKS))
    for name in names:
        trials = [Cases(name, t) for t in range(int(options.get("trials", 3)))]
        for count in COUNTS:
            found = [
                np.mean([ratio(cases, network, count) for cases in trials])
                for network in NETWORKS.values()
            ]
            cells = " | ".join(f"{value:.3f}" for value in found)
            print(f"| {name} | {count} | {cells} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
