"""Roll forward in time: learn from the past, decide, observe. Used by the examples."""

import argparse
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd

import pyomo_csg as csg

matplotlib.use("Agg")
from matplotlib import pyplot as plt

BASELINES = {
    "forecast": csg.baselines.ExpectedValue,
    "SAA": csg.baselines.SampleAverage,
    "forest-weighted SAA": csg.baselines.ForestWeighted,
}


def _folder(name):
    path = Path(name)
    path.mkdir(parents=True, exist_ok=True)
    return path


def parser(about):
    """Return a parser of the options of all examples."""
    found = argparse.ArgumentParser(description=about)
    found.add_argument("--quick", action="store_true", help="run in seconds")
    found.add_argument(
        "--folder", type=_folder, default=Path(), help="where to write files"
    )
    return found


def roll(model, contexts, outcomes, first, every, lag=0, **options):
    """Decide for all rows from ``first`` on, by policies fitted to the rows before.

    Parameters
    ----------
    contexts, outcomes : arrays or DataFrames
        In time order.
    first : int
        The first row that is decided for.
    every : int
        Number of decisions between fits; each fit uses all rows until then.
    lag : int
        Number of outcomes not yet observed when a decision is made.
    options
        For csg.fit.

    Returns
    -------
    costs : DataFrame
        One column per policy, one row per decision.
    decisions : dict of str to DataFrame
    """
    ways = {"pyomo_csg": lambda m, past: csg.fit(m, past, progress=False, **options)}
    ways |= BASELINES
    made = {name: [] for name in ways}
    for now in range(first, len(outcomes), every):
        seen, ahead = now - lag, contexts[now : now + every]
        past = contexts[:seen], outcomes[:seen]
        for name, learn in ways.items():
            policy = learn(model, past)
            made[name].append(policy.decide(ahead, progress=False))
        print(
            f"Learned from {seen} pairs, decided for the next {len(ahead)}.", flush=True
        )
    decisions = {
        name: pd.concat(parts, ignore_index=True) for name, parts in made.items()
    }
    oracle, came = csg.Oracle(model), outcomes[first:]
    costs = {
        name: oracle.cost(mine.to_numpy(), came, progress=False)
        for name, mine in decisions.items()
    }
    return pd.DataFrame(costs), decisions


def table(costs, what, decimals):
    """Return the mean cost of each policy, and its paired difference from ours.

    Standard errors assume that decisions are independent.
    """
    ours = costs["pyomo_csg"]
    lines = [f"{what:32}{'mean':>12}{'above pyomo_csg':>18}{'standard error':>17}"]
    for name, theirs in costs.items():
        line = f"{name:32}{theirs.mean():12,.{decimals}f}"
        if name != "pyomo_csg":
            apart = theirs - ours
            error = apart.std() / np.sqrt(len(apart))
            line += f"{apart.mean():18,.{decimals}f}{error:17,.{decimals}f}"
        lines.append(line)
    least = costs.mean().idxmin()
    return "\n".join([*lines, f"Cheapest over {len(costs)} decisions: {least}."])


def picture(costs, when, path, title, label):
    """Draw the savings of each policy over the context-free decision, over time.

    When is an Index with a name.
    """
    figure, axes = plt.subplots(figsize=(9, 4.5), layout="constrained")
    for name in costs:
        saved = (costs["SAA"] - costs[name]).cumsum()
        wide = 2.5 if name == "pyomo_csg" else 1.5
        axes.plot(when, saved, label=name, linewidth=wide)
    axes.set(title=title, xlabel=when.name, ylabel=label)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    figure.savefig(path, dpi=120)
    plt.close(figure)
    print("Picture:", path.resolve())
