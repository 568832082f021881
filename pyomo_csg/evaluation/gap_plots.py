"""Cumulative distributions of gaps or costs, one curve per policy."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pyomo_csg.plotting import new_figure, save_figure, sound_axes
from pyomo_csg.validation import Problems

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_STYLES = ("-", "--", ":", "-.")
_COLORS = 10  # of matplotlib's cycle, before the line style changes


def plot_gaps(
    gaps: pd.DataFrame,
    counts: pd.Series,
    path: str | os.PathLike[str] | None,
    ax: Any,
    floor: float,
) -> Axes:
    """Plot the distribution of each policy's gaps, on a logarithmic scale.

    ``counts`` has the number of cases of each policy. Cases without a gap keep its curve
    below 1.
    """
    problems = Problems("Cannot draw")
    problems.check_positive(floor=floor)
    problems.raise_any()
    low = int((gaps <= floor).to_numpy().sum())
    label = r"$\log_{10}$ of the optimality gap"
    if low:
        label += f" ({low} gaps of at most {floor:g} shown at {floor:g})"
    return _plot(np.log10(gaps.clip(lower=floor)), label, counts, path, ax)


def plot_costs(
    costs: pd.DataFrame,
    counts: pd.Series,
    path: str | os.PathLike[str] | None,
    ax: Any,
) -> Axes:
    """Plot the distribution of each policy's costs."""
    return _plot(costs, "cost", counts, path, ax)


def _plot(
    values: pd.DataFrame,
    label: str,
    counts: pd.Series,
    path: str | os.PathLike[str] | None,
    ax: Any,
) -> Axes:
    ax = sound_axes(ax, lambda: new_figure(6.4, 4.2).add_subplot())
    for number, policy in enumerate(values.columns):
        found = np.sort(values[policy].dropna().to_numpy())
        x = np.concatenate([found[:1], found])
        style = _STYLES[number // _COLORS % len(_STYLES)]
        fraction = np.arange(len(x)) / counts[policy]
        ax.step(x, fraction, where="post", linestyle=style, label=policy)
    ax.set_xlabel(label)
    ax.set_ylabel("fraction of cases")
    ax.set_ylim(0, 1.02)
    ax.grid(alpha=0.3)
    ax.legend(fontsize="small")
    if path is not None:
        save_figure(ax.figure, path, dpi=150)
    return ax
