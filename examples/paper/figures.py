"""The paper's figures: gaps, the newsvendor's scenarios, and a loss that is flat."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import numpy as np
from experiment import Experiment
from matplotlib import pyplot as plt
from methods import QUICK, Fitting, Unit
from sklearn.neural_network import MLPRegressor
from sklearn.preprocessing import StandardScaler
from store import Store

import pyomo_csg as csg
from pyomo_csg.zoo import cvar_portfolio

SHOWN = (*QUICK, "given")
STEPS = 41


def cdf(
    experiment: Experiment, store: Store, units: list[Unit], trials: range, path: Path
) -> None:
    """Draw how gaps are distributed: a column for each K, a row for each lambda."""
    counts = experiment.counts
    penalties = [p for p in experiment.penalties if any(u.penalty == p for u in units)]
    down = penalties or [None]
    size = (4.0 * len(counts), 3.2 * len(down))
    fig, panels = plt.subplots(
        len(down), len(counts), figsize=size, sharey=True, squeeze=False
    )
    for row, penalty in zip(panels, down, strict=True):
        for axes, count in zip(row, counts, strict=True):
            some = _shown(units, count, penalty)
            found = store.evaluation(some, trials)
            if found is None:
                continue
            found.plot_cdf(ax=axes)
            colors = {str(u): f"C{SHOWN.index(u.method)}" for u in some}
            for line in axes.get_lines():
                line.set_color(colors[line.get_label()])
            title = "" if penalty is None else f", lambda = {penalty}"
            axes.set(title=f"K = {count}{title}", xlabel="log10 of the gap")
            axes.legend(fontsize="x-small")
    fig.suptitle(f"{experiment.name}: fraction of contexts with at most this gap")
    fig.tight_layout()
    fig.savefig(path, dpi=80)
    plt.close(fig)


def _shown(units: list[Unit], count: int, penalty: float | str | None) -> list[Unit]:
    """Return what a panel shows: each method with this K and this lambda, if it has them."""
    return [
        unit
        for unit in units
        if unit.method in SHOWN
        and unit.scenarios in (None, count)
        and unit.penalty in (None, penalty)
        and not unit.is_doubled
    ]


def newsvendor_scenarios(experiment: Experiment, path: Path, workers: int) -> None:
    """Draw the single scenario of each method over the distributions of six contexts."""
    trial = experiment.first
    fitting = Fitting(experiment, trial, workers=workers)
    policies = {
        str(unit): fitting.policy(unit)[0]
        for unit in (
            Unit("mmd", 1),
            Unit("static", 1, 1.0),
            Unit("dynamic", 1, 1.0),
            Unit("auto", 1),
        )
    }
    fig, panels = plt.subplots(2, 3, figsize=(12, 6), layout="constrained")
    for axes, x in zip(
        panels.flat, experiment.evaluation_contexts(trial)[:6], strict=True
    ):
        demands, weights = experiment.conditional(x, generator=trial)
        axes.hist(demands[:, 0], bins=25, color="0.85")
        best = np.quantile(demands, experiment.level, method="inverted_cdf")
        axes.axvline(best, color="black", label="best order y*")
        mean = weights @ demands[:, 0]
        axes.axvline(mean, color="black", ls=":", label="E[demand | x]")
        for number, (name, policy) in enumerate(policies.items()):
            at = policy.scenarios(x)[0, 0]
            axes.axvline(at, color=f"C{number}", ls="--", label=name)
        axes.set(yticks=[], xlabel="demand")
    fig.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=6)
    fig.suptitle("Newsvendor: one scenario of each method over six contexts' demands")
    fig.savefig(path, dpi=120)
    plt.close(fig)


def landscape(path: Path) -> None:
    """Draw the loss of one scenario over two of its numbers, and a network's view."""
    first, second, losses = _losses()
    points = np.column_stack([first.ravel(), second.ravel()])
    scaler = StandardScaler().fit(points)
    network = MLPRegressor(
        hidden_layer_sizes=(32, 32),
        alpha=1e-3,
        max_iter=3000,
        random_state=0,
        learning_rate_init=1e-2,
    )
    spread = losses.std()
    network.fit(scaler.transform(points), (losses.ravel() - losses.mean()) / spread)
    smooth = network.predict(scaler.transform(points)) * spread + losses.mean()
    fig = plt.figure(figsize=(11, 4.6))
    for place, (surface, title) in enumerate(
        (
            (losses, "The loss of a scenario: flat, with cliffs"),
            (smooth.reshape(losses.shape), "A network's approximation: it slopes"),
        ),
        start=1,
    ):
        axes = fig.add_subplot(1, 2, place, projection="3d")
        axes.plot_surface(1e4 * first, 1e4 * second, 1e4 * surface, cmap="viridis")
        axes.set(
            xlabel="return of asset 1, bp", ylabel="return of asset 2, bp", title=title
        )
        axes.set_zlabel("loss, bp")
    fig.tight_layout()
    fig.savefig(path, dpi=120)
    plt.close(fig)


def _losses() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a grid of two returns and the expected loss of deciding on each."""
    model = cvar_portfolio.build(most_held=10)
    x = cvar_portfolio.history(0)[0][-1]
    outcomes, _ = cvar_portfolio.conditional(x, generator=0)
    outcomes = outcomes[:: len(outcomes) // 100]
    middle = outcomes.mean(axis=0)
    reach = 2 * outcomes.std(axis=0)
    first, second = np.meshgrid(
        *(
            np.linspace(middle[i] - reach[i], middle[i] + reach[i], STEPS)
            for i in (0, 1)
        )
    )
    scenarios = np.tile(middle, (first.size, 1, 1))
    scenarios[:, 0, 0], scenarios[:, 0, 1] = first.ravel(), second.ravel()
    oracle = csg.Oracle(model)
    decisions = oracle.solve(scenarios, progress=False).decision
    costs = [oracle.cost(y, outcomes, progress=False).mean() for y in decisions]
    return first, second, np.reshape(costs, first.shape)
