"""How long decisions take, beside the full program."""

from __future__ import annotations

import pandas as pd

from pyomo_csg.evaluation.bootstrap import Statistic, computed

_PARTS = {
    "seconds": "decision",
    "scenarios": "scenarios",
    "solve_seconds": "solve",
    "solver_seconds": "solver",
    "full": "full program",
}


def timed(
    records: pd.DataFrame, full_seconds: pd.Series, statistic: Statistic
) -> pd.DataFrame:
    """Return statistics of the seconds of each policy, and its speed-up.

    Parameters
    ----------
    records : DataFrame
        By trial, case and policy.
    full_seconds : Series
        Of the full program, by trial and case.
    """
    table = records.join(full_seconds.rename("full"), on=["trial", "case"])
    table["scenarios"] = table["seconds"] - table["solve_seconds"]
    decided = table.loc[table["seconds"].notna(), list(_PARTS)]
    rows = {
        policy: computed(statistic, part.to_numpy())
        for policy, part in decided.groupby("policy", sort=False)
    }
    found = pd.DataFrame.from_dict(rows, orient="index", columns=list(_PARTS.values()))
    found["speed-up"] = found["full program"] / found["decision"]
    return found.reindex(records.index.unique("policy"))
