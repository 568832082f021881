"""Held-out pairs of context and outcome, and the costs of decisions on them."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyomo_csg.decisions.decider import Decider
from pyomo_csg.errors import DataError
from pyomo_csg.evaluation.comparison import pairs_for
from pyomo_csg.learn.history import History


def read_pairs(policy: Decider, data: Any) -> History:
    """Return data as arrays, or raise a DataError if they do not fit the policy."""
    check_decider("policy", policy)
    return pairs_for(policy, data)


def check_decider(argument: str, policy: Any) -> None:
    """Raise a DataError if an argument is neither a policy nor a baseline."""
    if not isinstance(policy, Decider):
        found = f"{argument} is a {type(policy).__name__}"
        remedy = "give a csg.Policy or a baseline"
        raise DataError("There is no policy to evaluate", [f"{found}; {remedy}"])


def split_halves(pairs: History, seed: int) -> tuple[History, np.ndarray]:
    """Return half of the pairs, and the rows of the other half.

    The split is random; panels are split by time.
    """
    order = np.arange(len(pairs))
    if not pairs.has_panels:
        order = np.random.default_rng(seed).permutation(order)
    middle = len(order) // 2
    return select_pairs(pairs, order[:middle]), order[middle:]


def select_pairs(pairs: History, rows: np.ndarray) -> History:
    """Return some rows of the pairs."""
    return History(pairs.contexts[rows], pairs.outcomes[rows], pairs.context_names)


def decision_costs(
    policy: Decider, pairs: History, model_of: Decider | None = None
) -> np.ndarray:
    """Return the costs (n,) of a policy's decisions, in another's model if given."""
    owner = model_of or policy
    names = [v.name for v in owner.two_stage.first_stage_variables]
    decisions = policy.decide(pairs.contexts, progress=False)[names].to_numpy()
    return owner.oracle.cost(decisions, pairs.outcomes, progress=False)
