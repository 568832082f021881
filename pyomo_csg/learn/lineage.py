"""The lineage of a policy: from which data it was made, when, and by which version."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any

from pyomo_csg.learn.package_versions import package_versions
from pyomo_csg.learn.tables.history import History

MAX_ENTRIES = 1000  # kept; a policy that is updated every day takes years to get there
LINEAGE = {  # the fields of an entry
    "made": str,
    "when": str,
    "new_rows": int,
    "rows": int,
    "data": str,
    "history": str,
    "version": str,
}
_SHOWN = 5  # updates


def lineage_entry(made: str, new: History, history: History) -> dict[str, Any]:
    """Return the record of a fit or an update that read new rows.

    ``history`` is all that the policy then learned from. The time is that of the clock,
    or ``SOURCE_DATE_EPOCH``, which makes files the same to the last bit.
    """
    return {
        "made": made,
        "when": _now().strftime("%Y-%m-%dT%H:%M:%SZ"),
        "new_rows": len(new),
        "rows": len(history),
        "data": new.fingerprint(),
        "history": history.fingerprint(),
        "version": package_versions()["pyomo-csg"],
    }


def describe_lineage(lineage: Sequence[dict[str, Any]]) -> list[str]:
    """Return a line for the first entry and for each of the last ones.

    >>> describe_lineage([{"made": "fit", "when": "2030-01-01T06:00:00Z", "new_rows": 90,
    ...     "rows": 90, "data": "0123456789abcdef"}])
    ['2030-01-01T06:00:00Z  fit of 90 rows, data 01234567']
    """
    shown = [*lineage[:1], *lineage[1:][-_SHOWN:]]
    lines = []
    for entry in shown:
        rows = f"{entry['made']} of {entry['new_rows']} rows"
        if entry["rows"] != entry["new_rows"]:
            rows += f", {entry['rows']} in all"
        lines.append(f"{entry['when']}  {rows}, data {entry['data'][:8]}")
    if (left_out := len(lineage) - len(shown)) > 0:
        lines.insert(1, f"... {left_out} updates ...")
    return lines


def _now() -> datetime:
    stated = os.environ.get("SOURCE_DATE_EPOCH", "")
    if stated.isdecimal():
        return datetime.fromtimestamp(int(stated), timezone.utc)
    return datetime.now(timezone.utc)
