"""More pairs than happened, where there are few: contexts between those that were seen.

A network that sees the same few hundred contexts again and again learns them by heart. In
between, the estimated law says what may happen.
"""

from __future__ import annotations

import numpy as np
from sklearn.neighbors import NearestNeighbors

from pyomo_csg.learn.folds import Folds
from pyomo_csg.learn.law import Law
from pyomo_csg.learn.omega import spread_of
from pyomo_csg.learn.task import Task

_ENOUGH = 1500  # pairs, with which none are added
_MOST = 4  # added for each that happened
_NEAR = 5


def enlarged(task: Task, folds: Folds) -> tuple[Task, Folds, list[Law]]:
    """Return the task and the folds with pairs added, and each part's law.

    A part's own pairs alone tell what is added to it, and its law. Added rows come after
    those of the history, and are in no part's ``held_out``.
    """
    rng, history = task.rng("enlarged"), task.history
    added = [
        between(history.contexts[rows], _wanted(len(rows)), task.rng("between"))
        for rows in folds.rows
    ]
    ends = len(history) + np.cumsum([len(some) for some in added])
    fresh = [np.arange(end - len(x), end) for x, end in zip(added, ends, strict=True)]
    contexts = np.concatenate([history.contexts, *added])
    seed = int(rng.integers(2**31))
    laws = [
        Law(history.contexts[rows], history.outcomes[rows], contexts, seed)
        for rows in task.journal.each("law", folds.rows, "part")
    ]
    drawn = [
        law.draw(rows, 1, rng)[:, 0] for law, rows in zip(laws, fresh, strict=True)
    ]
    larger = task.with_pairs(contexts[len(history) :], np.concatenate(drawn))
    rows = [np.concatenate(both) for both in zip(folds.rows, fresh, strict=True)]
    return larger, Folds(rows, folds.held_out), laws


def _wanted(pairs: int) -> int:
    return max(0, min(_ENOUGH - pairs, _MOST * pairs))


def between(contexts: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Return contexts (count, d), each somewhere between one that was seen and a near one.

    None where there is no other context.
    """
    if count == 0 or len(contexts) < 2:
        return contexts[:0]
    near = min(_NEAR, len(contexts) - 1)
    search = NearestNeighbors(n_neighbors=near).fit(contexts / spread_of(contexts))
    found = search.kneighbors(return_distance=False)
    one = rng.integers(len(contexts), size=count)
    other = found[one, rng.integers(near, size=count)]
    share = rng.random((count, 1))
    return contexts[one] + share * (contexts[other] - contexts[one])
