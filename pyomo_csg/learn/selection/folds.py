"""Which rows a network learns from, and which it is judged on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from sklearn.model_selection import KFold

from pyomo_csg.learn.history import History
from pyomo_csg.learn.task import Task


def duplicate_groups(history: History) -> np.ndarray:
    """Return a number (n,) for each row, from 0 in order, that copies have in common.

    Copies are equal pairs whose context never comes with another outcome. Where it does,
    as contexts that have few values do, equal pairs are draws that happen to agree, and
    to hold out all of them would hide an outcome from who learns.
    """
    contexts = _numbered(history.contexts.reshape(len(history), -1))
    pairs = _numbered(np.column_stack([contexts, history.outcomes]))
    outcomes = pd.Series(pairs).groupby(contexts).transform("nunique").to_numpy()
    alone = len(history) + np.arange(len(history))
    return pd.factorize(np.where(outcomes == 1, pairs, alone))[0]


def _numbered(rows: np.ndarray) -> np.ndarray:
    """Return a number for each of some rows (n, d), the same for equal ones."""
    plain = rows + 0.0  # so that -0.0 is 0.0
    return pd.factorize(np.array([row.tobytes() for row in plain], dtype=object))[0]


_HOLDOUT, _PARTS = 0.2, 5


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


def make_folds(task: Task) -> Folds:
    """Return the parts for cross-validation, with one more for the fit on all rows.

    Rows are dealt out at random, or as stretches of time where they are panels, which
    overlap, or the settings say that they are a series. Unless the settings say how many
    parts there are, integer models and panels, whose fits are slow, have the last fifth
    held out once.
    """
    numbers = row_groups(task)
    units = np.arange(numbers.max() + 1)
    if uses_one_holdout(task):
        n = len(units)
        cut = max(1, n - max(1, round(_HOLDOUT * n)))
        held_out = [units[cut:]]
    else:
        shuffled = task.config.rows == "independent" and not task.history.has_panels
        seed = int(task.rng("folds").integers(2**31)) if shuffled else None
        count = min(task.config.folds or _PARTS, len(units))
        parts = KFold(count, shuffle=shuffled, random_state=seed).split(units)
        held_out = [held for _, held in parts]
    return make_folds_from(held_out, numbers)


def uses_one_holdout(task: Task) -> bool:
    """Say whether candidates are judged on one part of the history only."""
    slow = task.history.has_panels or task.has_integers
    return slow and task.config.folds is None


def make_folds_from(held_out: Sequence[np.ndarray], numbers: np.ndarray) -> Folds:
    """Return the parts that hold out some of the rows' numbers (n,), and one that has all."""
    away = [np.isin(numbers, held) for held in held_out]
    everything = np.arange(len(numbers))
    return Folds(
        [*(everything[~held] for held in away), everything],
        [*(everything[held] for held in away), everything[:0]],
    )


def row_groups(task: Task) -> np.ndarray:
    """Return a number (n,) for each row, from 0 in order; copies are held out together.

    In time a row that comes again is news, and a history of one pair has to be split, too.
    """
    everything = np.arange(len(task.history))
    if task.history.has_panels or task.config.rows == "series":
        return everything
    numbers = duplicate_groups(task.history)
    return numbers if numbers.max() else everything
