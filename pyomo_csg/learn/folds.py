"""Which rows a network learns from, and which it is judged on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.model_selection import KFold

from pyomo_csg.learn.task import Task

_HOLDOUT = 0.2


@dataclass(frozen=True)
class Folds:
    """Parts of a history; the last has all rows to learn from and none to be judged on.

    Attributes
    ----------
    rows, held_out : list of int arrays
        In the order of the history.
    """

    rows: list[np.ndarray]
    held_out: list[np.ndarray]

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def judged(self) -> np.ndarray:
        """All rows that some part is judged on, part by part."""
        return np.concatenate(self.held_out)


def folds_of(task: Task) -> Folds:
    """Return the parts for cross-validation, with one more for the fit on all rows.

    Panels overlap in time and integer programs are slow: for them the last fifth is held
    out once. The rows of other histories are dealt out at random, or as stretches of time
    where the settings say that they are a series.
    """
    n = len(task.history)
    everything = np.arange(n)
    count = min(task.config.folds, n)
    if task.history.panels or task.integer:
        cut = max(1, n - max(1, round(_HOLDOUT * n)))
        parts = [(everything[:cut], everything[cut:])]
    else:
        shuffled = task.config.rows == "independent"
        seed = int(task.rng("folds").integers(2**31)) if shuffled else None
        parts = list(
            KFold(count, shuffle=shuffled, random_state=seed).split(everything)
        )
    return Folds(
        [rows for rows, _ in parts] + [everything],
        [held for _, held in parts] + [everything[:0]],
    )
