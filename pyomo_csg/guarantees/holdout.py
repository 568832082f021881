"""Held-out pairs for a policy: checked, split, decided for and charged."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from pyomo_csg.decisions.decider import Decider
from pyomo_csg.errors import DataError
from pyomo_csg.learn.history import History, read_history


def pairs_of(policy: Decider, data: Any) -> History:
    """Return pairs as arrays, if they are like those that the policy was learned from.

    Parameters
    ----------
    policy : Decider
    data : (contexts, outcomes) or DataFrame
        As in :func:`pyomo_csg.fit`; of a DataFrame, the columns that the policy knows.

    Raises
    ------
    DataError
    """
    refuse_stranger("policy", policy)
    named = policy.context_names is not None and _has_names(data)
    found = read_history(
        policy.two_stage, data, list(policy.context_names or ()) if named else None
    )
    shape = found.contexts.shape[1:]
    if shape != policy.context_shape:
        subject = f"The data does not fit '{policy.two_stage.model.name}'"
        known = f"the policy was learned from contexts of shape {policy.context_shape}"
        raise DataError(subject, [f"contexts are of shape {shape}; {known}"])
    return found


def refuse_stranger(argument: str, policy: Any) -> None:
    """Refuse what does not decide as policies do."""
    if not isinstance(policy, Decider):
        found = f"{argument} is a {type(policy).__name__}; give a csg.Policy"
        raise DataError("There is nothing to judge", [f"{found} or a rival of it"])


def halves(pairs: History, seed: int) -> tuple[History, np.ndarray]:
    """Return half of the pairs, and which are the others.

    Halves are taken at random; of panels, the earlier and the later.
    """
    order = np.arange(len(pairs))
    if not pairs.has_panels:
        order = np.random.default_rng(seed).permutation(order)
    middle = len(order) // 2
    return take(pairs, order[:middle]), order[middle:]


def take(pairs: History, rows: np.ndarray) -> History:
    """Return some of the pairs."""
    return History(pairs.contexts[rows], pairs.outcomes[rows], pairs.context_names)


def costs_of(
    policy: Decider, pairs: History, judge: Decider | None = None
) -> np.ndarray:
    """Return what a policy's decisions cost (n,) on pairs, in another's model if given."""
    judge = judge or policy
    names = [v.name for v in judge.two_stage.first_stage_variables]
    decisions = policy.decide(pairs.contexts, progress=False)[names].to_numpy()
    return judge.oracle.cost(decisions, pairs.outcomes, progress=False)


def _has_names(data: Any) -> bool:
    contexts = data[0] if isinstance(data, tuple) and len(data) == 2 else data
    return isinstance(contexts, pd.DataFrame)
