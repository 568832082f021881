"""Folds of cross-validation, with duplicate rows kept together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from sklearn.model_selection import KFold, train_test_split

from pyomo_csg.learn.tables.history import History
from pyomo_csg.learn.task import Task

HELD_OUT_SHARE = 0.2  # of the rows, without cross-validation


def duplicate_groups(history: History) -> np.ndarray:
    """Return the group number (n,) of each row, from 0; duplicate rows share a group.

    Duplicates would leak between folds, so they are kept together. If a context occurs
    with different outcomes, as discrete contexts do, equal rows are independent draws
    and are not grouped.
    """
    contexts = _number_rows(history.contexts.reshape(len(history), -1))
    pairs = _number_rows(np.column_stack([contexts, history.outcomes]))
    outcomes = pd.Series(pairs).groupby(contexts).transform("nunique").to_numpy()
    alone = len(history) + np.arange(len(history))
    return pd.factorize(np.where(outcomes == 1, pairs, alone))[0]


def _number_rows(rows: np.ndarray) -> np.ndarray:
    """Return a number for each row (n, d), the same for equal rows."""
    rows = rows + 0.0  # turns -0.0 into 0.0
    return pd.factorize(np.array([row.tobytes() for row in rows], dtype=object))[0]


@dataclass(frozen=True)
class Folds:
    """Training and held-out rows of each fold; the last fold trains on all rows."""

    rows: list[np.ndarray]
    held_out: list[np.ndarray]

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def with_held_out(self) -> Folds:
        """The folds that hold out rows."""
        return Folds(self.rows[:-1], self.held_out[:-1])

    @property
    def all_rows(self) -> Folds:
        """The fold that trains on all rows; these may have been left out."""
        rows = np.unique(np.concatenate([*self.rows, *self.held_out]))
        return Folds([rows], [rows[:0]])


def make_folds(task: Task, count: int) -> Folds:
    """Return ``count`` folds for cross-validation, and one more for the fit on all rows.

    Rows are shuffled, except for panels and series, which are split into blocks of time.
    With one fold, the last fifth of the rows is held out.
    """
    numbers = row_groups(task)
    units = np.arange(numbers.max() + 1)
    if count == 1:
        n = len(units)
        cut = max(1, n - max(1, round(HELD_OUT_SHARE * n)))
        return make_folds_from([units[cut:]], numbers)
    shuffled = task.config.rows == "independent" and not task.history.has_panels
    seed = int(task.rng("folds").integers(2**31)) if shuffled else None
    parts = KFold(min(count, len(units)), shuffle=shuffled, random_state=seed)
    return make_folds_from([held for _, held in parts.split(units)], numbers)


def holdout_folds(task: Task) -> Folds:
    """Return a fold that holds out a fifth of the rows, and one that trains on all.

    The fifth is drawn at random, except for panels and series, of which it is the last.
    """
    groups = row_groups(task)
    in_time = task.history.has_panels or task.config.rows == "series"
    seed = None if in_time else int(task.rng("holdout").integers(2**31))
    _, held = train_test_split(
        np.arange(groups.max() + 1),
        test_size=HELD_OUT_SHARE,
        shuffle=not in_time,
        random_state=seed,
    )
    return make_folds_from([held], groups)


def make_folds_from(held_out: Sequence[np.ndarray], numbers: np.ndarray) -> Folds:
    """Return folds that hold out groups, given each row's group, and one with all rows."""
    away = [np.isin(numbers, held) for held in held_out]
    everything = np.arange(len(numbers))
    return Folds(
        [*(everything[~held] for held in away), everything],
        [*(everything[held] for held in away), everything[:0]],
    )


def row_groups(task: Task) -> np.ndarray:
    """Return the group number (n,) of each row, from 0; a fold holds out whole groups.

    Duplicates in a series carry information and are not grouped; a history of duplicates
    only must still be split.
    """
    everything = np.arange(len(task.history))
    if task.history.has_panels or task.config.rows == "series":
        return everything
    numbers = duplicate_groups(task.history)
    return numbers if numbers.max() else everything
