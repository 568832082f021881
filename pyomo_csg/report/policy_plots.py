"""Training curves, and plots of a policy on matplotlib axes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from pyomo_csg.decisions.decider import LearnedDecider
from pyomo_csg.errors import DataError
from pyomo_csg.evaluation.comparison import pairs_for
from pyomo_csg.learn.context_reader import read_contexts
from pyomo_csg.plotting import sound_axes
from pyomo_csg.report.contexts import nearby_outcomes

_MAX_POINTS = 200  # of a training curve
_AREA = 60.0  # of the marker of a scenario with an average weight


def training_curves(history: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the losses of each training stage, in the order in which the stages began.

    Each stage has one run for every time that it was trained, as in a search: the lists
    ``step``, ``loss`` and, if rows were held out, ``held_out``. Stages that only compute
    labels are left out.

    Examples
    --------
    >>> seen = pd.DataFrame(
    ...     {"stage": ["mmd"] * 3, "step": [1, 2, 1], "loss": [0.5, 0.25, 0.75]}
    ... )
    >>> training_curves(seen)
    [{'stage': 'mmd', 'runs': [{'step': [1, 2], 'loss': [0.5, 0.25]}, {'step': [1], 'loss': [0.75]}]}]
    """
    if not {"stage", "step", "loss"} <= {*history.columns}:
        return []
    seen = history.dropna(subset="loss")
    seen = seen[~seen["stage"].str.endswith("labels")]
    return [
        {"stage": stage, "runs": _split_runs(rows)}
        for stage, rows in seen.groupby("stage", sort=False)
    ]


def _split_runs(rows: pd.DataFrame) -> list[dict[str, list[float]]]:
    """Split a stage where its steps start again."""
    number = (rows["step"].diff() <= 0).cumsum()
    return [_thin_run(run) for _, run in rows.groupby(number)]


def _thin_run(run: pd.DataFrame) -> dict[str, list[float]]:
    """Return a run as lists of at most 200 points, with the last one."""
    step = max(1, -(-len(run) // _MAX_POINTS))
    kept = run.iloc[::-step][::-1]
    columns = ["step", "loss"]
    if "held_out" in kept and kept["held_out"].notna().all():
        columns.append("held_out")
    return {name: kept[name].tolist() for name in columns}


def plot_scenarios(
    policy: LearnedDecider, x: Any, data: Any = None, ax: Any = None
) -> Any:
    """Plot the scenarios of a context; see :meth:`pyomo_csg.Policy.plot_scenarios`."""
    contexts, one = read_contexts(x, policy.context_shape, policy.context_names)
    if not one:
        found = f"x holds {len(contexts)} contexts; give one"
        raise DataError("Cannot draw scenarios", [found])
    names = [p.name for p in policy.two_stage.uncertain_params]
    scenarios, weights = policy.scenarios(contexts[0]), policy.weights(contexts[0])
    ax = sound_axes(ax)
    places = np.arange(len(names))
    if data is not None:
        near = nearby_outcomes(policy, contexts[0], pairs_for(policy, data))
        jitter = np.random.default_rng(0).uniform(-0.2, 0.2, near.shape)
        label = f"outcomes after the {len(near)} nearest contexts"
        ax.scatter(near, places + jitter, s=14, color="0.6", alpha=0.6, label=label)
    if len(names) > 1:
        ax.plot(scenarios.T, places, color="tab:blue", alpha=0.35)
    ax.scatter(
        scenarios,
        np.broadcast_to(places, scenarios.shape),
        s=np.repeat(_AREA * len(weights) * weights, len(names)),
        color="tab:blue",
        zorder=3,
        label=f"{len(scenarios)} scenarios",
    )
    ax.set(yticks=places, yticklabels=names, ylim=(len(names) - 0.5, -0.5))
    ax.set_xlabel("value")
    ax.legend()
    return ax


def plot_training(policy: LearnedDecider, ax: Any = None) -> Any:
    """Plot the training losses; see :meth:`pyomo_csg.Policy.plot_training`."""
    curves = training_curves(policy.history)
    if not curves:
        found = "the policy has no record of its training losses"
        raise DataError("Cannot draw the training", [found])
    ax = sound_axes(ax)
    for number, stage in enumerate(curves):
        for run in stage["runs"]:
            label = f"{stage['stage']}, to {run['loss'][-1]:.4g}"
            _plot_run(ax, run, f"C{number % 10}", label)
    ax.set(
        xlabel="step",
        ylabel="loss, scaled from 0 (smallest) to 1 (largest) in each run",
    )
    ax.legend()
    return ax


def _plot_run(ax: Any, run: dict[str, list[float]], color: str, label: str) -> None:
    """Plot a run's losses scaled to their range, since stages have different units."""
    seen = np.concatenate([run["loss"], run.get("held_out", [])])
    low, room = seen.min(), np.ptp(seen) or 1.0
    for name, style, words in (
        ("loss", "-", label),
        ("held_out", "--", "_held out"),  # the underscore keeps it out of the legend
    ):
        if name in run:
            height = (np.asarray(run[name]) - low) / room
            ax.plot(run["step"], height, style, color=color, label=words)
