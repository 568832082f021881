"""A line for each row: its gaps, how sure they are, and how long it takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import reported
from cells import beside, shown
from methods import Unit
from store import Store
from tables import FAILED

import pyomo_csg as csg

EV = str(Unit("EV"))
COUNTS = ["scenarios", "trials", "contexts"]
COLUMNS = (
    *("method", "scenarios", "penalty", "kernel", "trials", "contexts"),
    *("median", "median_low", "median_high", "mean", "mean_low", "mean_high", "q90"),
    *("ratio_median", "ratio_mean", "ratio_q90", "fit_seconds", "decision_seconds"),
    *("ratio_median_low", "ratio_median_high", "ratio_mean_low", "ratio_mean_high"),
    "speed_up",
)


def numbers(store: Store, units: list[Unit], trials: range) -> pd.DataFrame:
    """Return gaps, their ratios to those of the expected value, and seconds.

    Intervals are of 95 %, by bootstrap over the trials that a row has; over contexts, if
    it has one only. ``contexts`` are those of all its trials; seconds to decide are means
    over them. A row whose fits all failed has no trials.
    """
    found = store.evaluation(units, trials)
    known = {} if found is None else _statistics(found).to_dict("index")
    rows = []
    for unit in units:
        fits = store.seconds(unit, trials)
        if not fits and not store.failures(unit, trials):
            continue
        known_seconds = [stages["fit"] for stages in fits if stages]
        rows.append(
            {
                "method": unit.method,
                "scenarios": unit.scenarios,
                "penalty": unit.penalty_text,
                "kernel": unit.kernel,
                "trials": len(fits),
                "contexts": 0,
                "fit_seconds": np.median(known_seconds) if known_seconds else np.nan,
                **known.get(str(unit), {}),
            }
        )
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    return table.astype(dict.fromkeys(COUNTS, "Int64"))


def lines(problem: str, table: pd.DataFrame) -> pd.DataFrame:
    """Return these numbers as text, with the paper's speed-up at the same K."""
    return pd.DataFrame([_line(problem, row) for row in table.to_dict("records")])


def _line(problem: str, row: dict[str, Any]) -> dict[str, str]:
    count = None if pd.isna(row["scenarios"]) else int(row["scenarios"])
    speed_up = beside(row["speed_up"], reported.speed_up(problem, count))
    paper = reported.percent(
        problem, row["method"], row["penalty"], count, "median_gap"
    )
    return {
        "method": f"{row['method']} {row['penalty']} {row['kernel']}".strip(),
        "K": str(count or ""),
        "trials": str(row["trials"]),
        "median, %": beside(100 * row["median"], paper) if row["trials"] else FAILED,
        "mean, %": shown(100 * row["mean"]),
        "90th, %": shown(100 * row["q90"]),
        "mean / EV": _with_interval(row, "ratio_mean"),
        "fit, s": shown(row["fit_seconds"]),
        "decision, ms": shown(1e3 * row["decision_seconds"]),
        "speed-up over 2SP": speed_up,
    }


def _with_interval(row: dict[str, Any], name: str) -> str:
    low, high = (shown(row[f"{name}_{end}"]) for end in ("low", "high"))
    return f"{shown(row[name])} [{low}, {high}]"


def _statistics(found: csg.Evaluation) -> pd.DataFrame:
    timing = found.timing("mean")
    parts = [
        found.records.groupby("policy").size().rename("contexts"),
        *(getattr(found, name)() for name in ("median", "mean")),
        found.quantile(0.9).rename("q90"),
        timing["decision"].rename("decision_seconds"),
        timing["speed-up"].rename("speed_up"),
        *_intervals(found),
    ]
    if EV in found.policies:
        ratios = found.ratios(EV).rename(columns={"90 %": "q90"})
        parts += [ratios.add_prefix("ratio_"), *_intervals(found, EV, "ratio_")]
    return pd.concat(parts, axis=1)


def _intervals(
    found: csg.Evaluation, to: str | None = None, prefix: str = ""
) -> list[pd.DataFrame]:
    return [
        found.interval(name, to=to).add_prefix(f"{prefix}{name}_")
        for name in ("median", "mean")
    ]
