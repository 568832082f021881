"""Pictures of a policy, one by one, on matplotlib's axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyomo_csg.comparing import pairs_for
from pyomo_csg.errors import DataError
from pyomo_csg.learn.history import context_batch
from pyomo_csg.plotting import sound_axes
from pyomo_csg.policy import Policy
from pyomo_csg.report.contexts import near_outcomes
from pyomo_csg.report.training import training_curves

_AREA = 60.0  # of a scenario's marker, where all weigh the same


def plot_scenarios(policy: Policy, x: Any, data: Any = None, ax: Any = None) -> Any:
    """Draw the scenarios of a context; see :meth:`pyomo_csg.Policy.plot_scenarios`."""
    contexts, one = context_batch(x, policy.context_shape, policy.context_names)
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


def plot_training(policy: Policy, ax: Any = None) -> Any:
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
