"""The fraction of cases with at most a gap, as in the paper's figures, or a cost."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pyomo_csg.errors import DataError
from pyomo_csg.plotting import new_figure, save_figure, sound_axes
from pyomo_csg.validation import positive_problems

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_STYLES = ("-", "--", ":", "-.")
_COLOURS = 10  # of matplotlib's cycle, until styles tell more


def draw_gaps(
    gaps: pd.DataFrame,
    counts: pd.Series,
    path: str | os.PathLike[str] | None,
    ax: Any,
    floor: float,
) -> Axes:
    """Draw the distribution of the gaps' logarithms for each column.

    Parameters
    ----------
    counts : Series
        How many cases each policy was judged on; those without a gap keep its curve
        below 1.
    """
    if problems := positive_problems(floor=floor):
        raise DataError("Cannot draw", problems)
    low = int((gaps <= floor).to_numpy().sum())
    logs = np.log10(gaps.clip(lower=floor))
    return _draw(logs, _label(low, floor), counts, path, ax)


def draw_costs(
    costs: pd.DataFrame,
    counts: pd.Series,
    path: str | os.PathLike[str] | None,
    ax: Any,
) -> Axes:
    """Draw the distribution of the costs for each column, likewise."""
    return _draw(costs, "cost", counts, path, ax)


def _draw(
    values: pd.DataFrame,
    label: str,
    counts: pd.Series,
    path: str | os.PathLike[str] | None,
    ax: Any,
) -> Axes:
    ax = sound_axes(ax, lambda: new_figure(6.4, 4.2).add_subplot())
    for place, policy in enumerate(values.columns):
        found = np.sort(values[policy].dropna().to_numpy())
        x = np.concatenate([found[:1], found])
        style = _STYLES[place // _COLOURS % len(_STYLES)]
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


def _label(low: int, floor: float) -> str:
    label = r"$\log_{10}$ of the optimality gap"
    if not low:
        return label
    return f"{label} ({low} gaps of at most {floor:g} shown at {floor:g})"
