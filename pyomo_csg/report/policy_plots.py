"""What the page and the plots of a policy show: contexts, scenarios, training curves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np
import pandas as pd
from sklearn.cluster import KMeans
from sklearn.neighbors import NearestNeighbors
from threadpoolctl import threadpool_limits

from pyomo_csg.decisions.decider import LearnedDecider
from pyomo_csg.errors import DataError
from pyomo_csg.evaluation.comparison import read_pairs
from pyomo_csg.learn.tables.history import History
from pyomo_csg.plotting import axes_or_new
from pyomo_csg.report.shapes import PROFILE, group_by_shape

_EXAMPLES = 6
_MIN_NEIGHBORS, _MAX_NEIGHBORS = 10, 60  # in between, a tenth of the pairs
_NAMED = 3  # columns in the name of a context
_MAX_POINTS = 200  # of a training curve
_AREA = 60.0  # of the marker of a scenario with an average weight


Run = dict[
    str, list[float]
]  # the columns step, loss and, if rows were held out, held_out


class StageCurves(TypedDict):
    """The losses of a training stage, one run for each time that it was trained."""

    stage: str
    runs: list[Run]


def training_curves(history: pd.DataFrame) -> list[StageCurves]:
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


def _split_runs(rows: pd.DataFrame) -> list[Run]:
    """Split a stage where its steps start again."""
    number = (rows["step"].diff() <= 0).cumsum()
    return [_thin_run(run) for _, run in rows.groupby(number)]


def _thin_run(run: pd.DataFrame) -> Run:
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
    contexts, one = policy.read_contexts(x)
    if not one:
        found = f"x holds {len(contexts)} contexts; give one"
        raise DataError("Cannot draw scenarios", [found])
    names = [p.name for p in policy.two_stage.uncertain_params]
    scenarios, weights = policy.scenarios(contexts[0]), policy.weights(contexts[0])
    ax = axes_or_new(ax)
    first, *others = group_by_shape(names)
    if first["shape"] == PROFILE and not others:
        near = None
        if data is not None:
            near = nearby_outcomes(policy, contexts[0], read_pairs(policy, data))
        return _plot_profile(ax, first, scenarios, near)
    places = np.arange(len(names))
    if data is not None:
        near = nearby_outcomes(policy, contexts[0], read_pairs(policy, data))
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


def _plot_profile(
    ax: Any, group: dict[str, Any], scenarios: np.ndarray, near: np.ndarray | None
) -> Any:
    """Plot scenarios over an ordered index, on the fan of nearby outcomes."""
    index = np.array(group["columns"], dtype=float)
    if near is not None:
        for low, high in ((0.0, 1.0), (0.1, 0.9)):
            ends = np.quantile(near[:, group["members"]], [low, high], axis=0)
            words = f"{high - low:.0%} of the outcomes after {len(near)} near contexts"
            ax.fill_between(index, *ends, color="0.6", alpha=0.3, lw=0, label=words)
    lines = ax.plot(
        index, scenarios[:, group["members"]].T, color="tab:blue", alpha=0.7
    )
    lines[0].set_label(f"{len(scenarios)} scenarios")
    ax.set(xlabel="index", ylabel=group["name"])
    ax.legend()
    return ax


def plot_training(policy: LearnedDecider, ax: Any = None) -> Any:
    """Plot the training losses; see :meth:`pyomo_csg.Policy.plot_training`."""
    curves = training_curves(policy.history)
    if not curves:
        found = "the policy has no record of its training losses"
        raise DataError("Cannot draw the training", [found])
    ax = axes_or_new(ax)
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


def _plot_run(ax: Any, run: Run, color: str, label: str) -> None:
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


@dataclass(frozen=True, eq=False)
class ContextExample:
    """A context to show: its name, its values, and nearby outcomes (m, p) if there are data."""

    name: str
    context: np.ndarray
    near: np.ndarray | None = None


def example_contexts(
    policy: LearnedDecider, pairs: History | None
) -> list[ContextExample]:
    """Return a few different contexts: typical ones of the pairs, or around the mean."""
    if pairs is None:
        return _contexts_around_mean(policy)
    return [
        ContextExample(_describe(policy, x), x, nearby_outcomes(policy, x, pairs))
        for x in _typical_contexts(policy, pairs.contexts)
    ]


def nearby_outcomes(
    policy: LearnedDecider, context: np.ndarray, pairs: History
) -> np.ndarray:
    """Return the outcomes (m, p) after the nearest tenth of contexts, 10 to 60 of them.

    Distances are Euclidean, in standard deviations of the training contexts.
    """
    count = max(_MIN_NEIGHBORS, min(_MAX_NEIGHBORS, len(pairs) // 10))
    nearest = NearestNeighbors(n_neighbors=min(len(pairs), count))
    nearest.fit(_standardize(policy, pairs.contexts))
    point = _standardize(policy, context[None])
    (rows,) = nearest.kneighbors(point, return_distance=False)
    return pairs.outcomes[rows]


def _typical_contexts(policy: LearnedDecider, contexts: np.ndarray) -> np.ndarray:
    """Return the contexts nearest to cluster centers, in sorted order."""
    distinct = np.unique(contexts, axis=0)
    if len(distinct) <= _EXAMPLES:
        return distinct
    points = _standardize(policy, distinct)
    # With more threads the order of summation, and so the choice, could change.
    with threadpool_limits(1):
        clusters = KMeans(_EXAMPLES, n_init=4, random_state=0).fit(points)
    nearest = NearestNeighbors(n_neighbors=1).fit(points)
    rows = nearest.kneighbors(clusters.cluster_centers_, return_distance=False)
    return distinct[np.unique(rows)]


def _contexts_around_mean(policy: LearnedDecider) -> list[ContextExample]:
    center, spread = _context_scale(policy)
    mean = np.broadcast_to(center, policy.context_shape)
    found = [ContextExample("the mean context", np.array(mean))]
    for j, name in enumerate(_column_names(policy)[: _EXAMPLES // 2]):
        for sign, word in ((-1, "below"), (1, "above")):
            moved = np.array(mean)
            moved[..., j] += sign * spread[j]
            found.append(ContextExample(f"{name} one standard deviation {word}", moved))
    return found[:_EXAMPLES]


def _describe(policy: LearnedDecider, context: np.ndarray) -> str:
    """Return the first values of a context by name; for a panel, those of its last step."""
    last = context if context.ndim == 1 else context[-1]
    words = [
        f"{name} {value:.4g}"
        for name, value in zip(_column_names(policy)[:_NAMED], last, strict=False)
    ]
    words += ["…"] * (len(last) > _NAMED)
    return ("" if context.ndim == 1 else "last step: ") + ", ".join(words)


def _column_names(policy: LearnedDecider) -> list[str]:
    return list(
        policy.context_names or (f"x{j + 1}" for j in range(policy.context_shape[-1]))
    )


def _standardize(policy: LearnedDecider, contexts: np.ndarray) -> np.ndarray:
    center, spread = _context_scale(policy)
    return ((contexts - center) / spread).reshape(len(contexts), -1)


def _context_scale(policy: LearnedDecider) -> tuple[np.ndarray, np.ndarray]:
    generator = policy.learned.generator
    return generator.center, generator.spread
