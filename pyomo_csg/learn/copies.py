"""Rows that come twice: held out and learned from at once, they flatter."""

from __future__ import annotations

import numpy as np
import pandas as pd

from pyomo_csg.learn.history import History


def copies_in(history: History) -> np.ndarray:
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
