"""The paper's tables beside ours."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from experiment import Experiment
from methods import Unit
from store import Store

PUBLISHED = Path(__file__).parent / "published"
PAPER = ("EV", "mmd", "static", "dynamic")
EV = Unit("EV")
RATIOS = {"median": "median", "mean": "mean", "90 %": "90th percentile"}
TIMES = {
    "mmd": "MMD training",
    "decisions": "surrogate solutions",
    "full": "2SP solve",
    "labels": "loss evaluation",
    "loss_net": "Loss-Net training",
    "static": "static training",
    "dynamic": "dynamic training",
}


def published(name: str, kind: str = "") -> pd.DataFrame | None:
    """Return a table of the paper, if it has one for that experiment."""
    path = PUBLISHED / f"{name}{kind}.csv"
    return pd.read_csv(path, dtype={"penalty": str}) if path.exists() else None


def medians(
    experiment: Experiment, store: Store, units: list[Unit], trials: range
) -> pd.DataFrame:
    """Return median gaps in per cent, ours and the paper's in brackets, by K."""
    found = store.evaluation(units, trials)
    ours = {} if found is None else (100 * found.median()).to_dict()
    return _beside(experiment, units, ours, "median_gap")


def wins(
    experiment: Experiment, store: Store, units: list[Unit], trials: range
) -> pd.DataFrame:
    """Return in how many per cent of the cases a method of the paper has least cost."""
    shares = {}
    rivals = [unit for unit in units if unit.method in PAPER]
    columns = []
    for count in experiment.counts:
        some = [u for u in rivals if u.scenarios in (None, count)]
        found = store.evaluation(some, trials)
        if found is None or found.policies == [str(EV)]:
            continue
        shares = (100 * found.wins()).to_dict()
        table = _beside(experiment, some, shares, "wins", (count,))
        columns.append(table.filter(like=f"K={count}"))
    return pd.concat(columns, axis=1) if columns else pd.DataFrame()


def summary(
    experiment: Experiment, store: Store, units: list[Unit], trials: range
) -> pd.DataFrame:
    """Return for every row its gaps over those of the expected value, and its speed."""
    found = store.evaluation(units, trials)
    if found is None or str(EV) not in found.gaps:
        return pd.DataFrame()
    timing, ratios = found.timing(), found.ratios(str(EV))
    rows = []
    for unit in units:
        name = str(unit)
        if name not in found.gaps:
            continue
        fits = [s["fit"] for s in store.seconds(unit, trials)]
        rows.append(
            {
                "method": " ".join(name.split(" K=")[:1]),
                "K": unit.scenarios or "",
                "trials": len(fits),
                **{
                    what: f"{ratios.loc[name, key]:.4f}" for key, what in RATIOS.items()
                },
                "fit, s": f"{np.median(fits):.3g}",
                "decision, ms": f"{1e3 * timing.loc[name, 'decision']:.3g}",
                "speed-up over 2SP": f"{timing.loc[name, 'speed-up']:.3g}",
            }
        )
    return pd.DataFrame(rows)


def times(
    experiment: Experiment, store: Store, units: list[Unit], trials: range
) -> pd.DataFrame:
    """Return seconds in the paper's columns, ours and the paper's in brackets, by K."""
    theirs = published(experiment.name, "_times")
    rows = {}
    for count in experiment.counts:
        ours = _seconds(store, count, units, trials)
        paper = (
            {} if theirs is None else theirs.set_index("scenarios").loc[count].to_dict()
        )
        rows[f"K={count}"] = {
            label: _cell(ours.get(key), paper.get(key)) for key, label in TIMES.items()
        }
    return pd.DataFrame(rows).T


def markdown(table: pd.DataFrame) -> str:
    """Return a table of text in Markdown; names of rows come first, if they have any."""
    named = not isinstance(table.index, pd.RangeIndex)
    shown = table.reset_index(names="") if named else table
    rows = [shown.columns, ["---"] * shown.shape[1], *shown.astype(str).to_numpy()]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _beside(
    experiment: Experiment,
    units: list[Unit],
    ours: dict[str, float],
    column: str,
    counts: tuple[int, ...] | None = None,
) -> pd.DataFrame:
    theirs = published(experiment.name)
    rows: dict[str, dict[str, str]] = {}
    for count in counts or experiment.counts:
        for unit in units:
            if unit.scenarios in (None, count):
                paper = _theirs(theirs, unit, count, column)
                row = rows.setdefault(str(unit).split(" K=")[0], {})
                row[f"K={count}"] = _cell(ours.get(str(unit)), paper)
    return pd.DataFrame(rows).T.fillna("")


def _theirs(
    table: pd.DataFrame | None, unit: Unit, count: int, column: str
) -> float | None:
    """Return a number of the paper in per cent."""
    if table is None or unit.method not in PAPER:
        return None
    mine = (table.method == unit.method) & (table.scenarios == count)
    if unit.penalty is not None:
        given = unit.penalty
        text = given if isinstance(given, str) else f"{given:g}"
        mine &= table.penalty == text
    found = table.loc[mine, column]
    return 100 * float(found.iloc[0]) if len(found) else None


def _cell(ours: float | None, paper: float | None) -> str:
    shown = "-" if ours is None or np.isnan(ours) else f"{ours:.3g}"
    return shown if paper is None else f"{shown} ({paper:.3g})"


def _seconds(
    store: Store, count: int, units: list[Unit], trials: range
) -> dict[str, float]:
    """Return seconds of stages, medians over lambdas and trials."""
    found: dict[str, list[float]] = {}
    for unit in units:
        if unit.scenarios != count:
            continue
        for stages in store.seconds(unit, trials):
            for key, value in _stages(unit.method, stages).items():
                found.setdefault(key, []).append(value)
    mmd = [u for u in units if u.method == "mmd" and u.scenarios == count]
    evaluation = store.evaluation(mmd, trials)
    if evaluation is not None:
        cases = len(evaluation.gaps) / max(1, len(store.seconds(mmd[0], trials)))
        timing = evaluation.timing().loc[str(mmd[0])]
        found["decisions"] = [cases * timing["decision"]]
        found["full"] = [cases * timing["full program"]]
    return {key: float(np.median(values)) for key, values in found.items()}


def _stages(method: str, stages: dict[str, float]) -> dict[str, float]:
    if method == "mmd":
        return {"mmd": stages["fit"]}
    if method == "static":
        return {
            "labels": stages.get("static labels", np.nan),
            "loss_net": stages.get("static Loss-Net", np.nan),
            "static": stages.get("static Task-Net", np.nan),
        }
    if method == "dynamic":
        return {
            "dynamic": sum(
                s for name, s in stages.items() if name.startswith("dynamic")
            )
        }
    return {}
