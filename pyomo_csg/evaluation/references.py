"""What costs are compared with: the best that is known of each case."""

from __future__ import annotations

import numpy as np
import pandas as pd

FULL_PROGRAM, GIVEN, POLICY = "full program", "given", "policy "
TIE = 1e-9  # relative; costs that are closer are the same
_KEYS = ["trial", "case"]


def relative(difference: pd.Series, value: pd.Series) -> pd.Series:
    """Return differences over the sizes of values: 0 where there is no difference."""
    return (difference / value.abs()).mask(difference == 0, 0.0)


def proven_gap(reference: pd.DataFrame) -> pd.Series:
    """Return by how much, relatively, values may be above the optimum at most."""
    value = reference["value"]
    return relative((value - reference["bound"]).clip(lower=0.0), value)


def best_known(reference: pd.DataFrame, records: pd.DataFrame) -> pd.DataFrame:
    """Return the reference with no value above the cost of a policy's decision.

    A policy can beat a full program that was not closed; ``source`` tells which did.
    """
    costs = records["cost"].dropna()
    if costs.empty:
        return reference
    groups, value = costs.groupby(_KEYS, sort=False), reference["value"]
    least = groups.min().reindex(reference.index)
    winner = groups.idxmin().reindex(reference.index)
    beaten = least.notna() & ~(least >= value - TIE * value.abs())
    source = reference["source"].copy()
    source[beaten] = [f"{POLICY}{policy}" for _, _, policy in winner[beaten]]
    return reference.assign(value=np.fmin(value, least), source=source)


def combined(references: list[pd.DataFrame]) -> pd.DataFrame:
    """Return references as one: of a case that several have, the best of each."""
    table = pd.concat(references)
    ranked = table.sort_values("value", kind="stable")
    best = ranked.groupby(_KEYS, sort=False).first()
    bound = table.groupby(_KEYS, sort=False)["bound"].max()
    return best.assign(bound=bound).reindex(table.index.unique())
