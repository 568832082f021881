"""The fraction of cases with at most a gap, as in the paper's figures."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pandas as pd

from pyomo_csg.errors import DataError
from pyomo_csg.options import positive_problems
from pyomo_csg.plotting import new_figure, save_figure, sound_axes

_STYLES = ("-", "--", ":", "-.")
_COLOURS = 10  # of matplotlib's cycle, until styles tell more


def draw_cdf(
    gaps: pd.DataFrame,
    counts: pd.Series,
    path: str | os.PathLike[str] | None,
    ax: Any,
    floor: float,
) -> Any:
    """Draw the distribution of the gaps' logarithms for each column.

    Parameters
    ----------
    counts : Series
        How many cases each policy was judged on; those without a gap keep its curve
        below 1.
    """
    if problems := positive_problems(floor=floor):
        raise DataError("Cannot draw", problems)
    ax = sound_axes(ax, lambda: new_figure(6.4, 4.2).add_subplot())
    for place, policy in enumerate(gaps.columns):
        found = np.sort(gaps[policy].dropna().to_numpy())
        logs = np.log10(np.maximum(found, floor))
        x = np.concatenate([logs[:1], logs])
        style = _STYLES[place // _COLOURS % len(_STYLES)]
        fraction = np.arange(len(x)) / counts[policy]
        ax.step(x, fraction, where="post", linestyle=style, label=policy)
    low = int((gaps <= floor).to_numpy().sum())
    ax.set_xlabel(_label(low, floor))
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
