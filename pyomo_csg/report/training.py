"""The losses of a fit as curves: one for each time that a stage ran."""

from __future__ import annotations

from typing import Any

import pandas as pd

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
