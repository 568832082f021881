"""Pictures of a policy, one by one, on matplotlib's axes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from pyomo_csg.decisions.learned_decider import LearnedDecider
from pyomo_csg.errors import DataError
from pyomo_csg.evaluation.comparison import pairs_for
from pyomo_csg.learn.history import read_contexts
from pyomo_csg.plotting import sound_axes
from pyomo_csg.report.contexts import near_outcomes

_POINTS = 200


def training_curves(history: pd.DataFrame) -> list[dict[str, Any]]:
    """Return stages with their runs, in the order in which they began.

    A stage that ran several times, as in searches, has as many runs. Stages that only
    label are left out.

    Parameters
    ----------
    history : DataFrame
        ``Policy.history``.

    Returns
    -------
    list of dict
        ``stage`` and ``runs``: each a dict of lists ``step``, ``loss`` and, where some
        rows were held out, ``held_out``.

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
        {"stage": stage, "runs": _runs(rows)}
        for stage, rows in seen.groupby("stage", sort=False)
    ]


def _runs(rows: pd.DataFrame) -> list[dict[str, list[float]]]:
    """Split where the steps begin again."""
    number = (rows["step"].diff() <= 0).cumsum()
    return [_thinned(run) for _, run in rows.groupby(number)]


def _thinned(run: pd.DataFrame) -> dict[str, list[float]]:
    step = max(1, -(-len(run) // _POINTS))
    kept = run.iloc[::-step][::-1]  # with the last, which tells how it ended
    columns = ["step", "loss"]
    if "held_out" in kept and kept["held_out"].notna().all():
        columns.append("held_out")
    return {name: kept[name].tolist() for name in columns}


_AREA = 60.0  # of a scenario's marker, where all weigh the same


def plot_scenarios(
    policy: LearnedDecider, x: Any, data: Any = None, ax: Any = None
) -> Any:
    """Draw the scenarios of a context; see :meth:`pyomo_csg.Policy.plot_scenarios`."""
    contexts, one = read_contexts(x, policy.context_shape, policy.context_names)
    if not one:
        found = f"{len(contexts)} contexts were given; give one"
        raise DataError("Cannot draw scenarios", [found])
    names = [p.name for p in policy.two_stage.uncertain_params]
    scenarios, weights = policy.scenarios(contexts[0]), policy.weights(contexts[0])
    ax = sound_axes(ax)
    places = np.arange(len(names))
    if data is not None:
        near = near_outcomes(policy, contexts[0], pairs_for(policy, data))
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
    """Draw the losses of the fit; see :meth:`pyomo_csg.Policy.plot_training`."""
    curves = training_curves(policy.history)
    if not curves:
        found = "the losses of its training were not kept"
        raise DataError("Cannot draw the training", [found])
    ax = sound_axes(ax)
    for number, stage in enumerate(curves):
        for run in stage["runs"]:
            label = f"{stage['stage']}, to {run['loss'][-1]:.4g}"
            _plot_run(ax, run, f"C{number % 10}", label)
    ax.set(xlabel="step", ylabel="loss, from the least (0) to the most (1) of its run")
    ax.legend()
    return ax


def _plot_run(ax: Any, run: dict[str, list[float]], color: str, label: str) -> None:
    """Draw a run's losses as shares of their range: stages have units of their own."""
    seen = np.concatenate([run["loss"], run.get("held_out", [])])
    low, room = seen.min(), np.ptp(seen) or 1.0
    for name, style, words in (
        ("loss", "-", label),
        ("held_out", "--", "_held out"),  # which a legend leaves out
    ):
        if name in run:
            height = (np.asarray(run[name]) - low) / room
            ax.plot(run["step"], height, style, color=color, label=words)
