"""Numbers as cells of a table, and tables as text."""

from __future__ import annotations

import numpy as np
import pandas as pd

ROUNDING = 1e-9  # per cent, or relative


def shown(number: float, digits: int = 3) -> str:
    """Return a number as text; a dash if there is none, 0 if it is rounding."""
    if np.isnan(number):
        return "-"
    return f"{0 if abs(number) < ROUNDING else number:.{digits}g}"


def beside(ours: float, paper: float) -> str:
    """Return our number and, in brackets, the paper's, if it has one."""
    return shown(ours) if np.isnan(paper) else f"{shown(ours)} ({shown(paper)})"


def markdown(table: pd.DataFrame) -> str:
    """Return a table of text in Markdown; names of rows come first, if they have any."""
    named = not isinstance(table.index, pd.RangeIndex)
    shown = table.reset_index(names="") if named else table
    rows = [shown.columns, ["---"] * shown.shape[1], *shown.astype(str).to_numpy()]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
