"""All results of an experiment in one small file, from which another machine goes on."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import pandas as pd
from store import Store

from pyomo_csg.storage import write_atomically

COSTS, NOTES = "costs.csv", "notes.json"
DIGITS = dict.fromkeys(("cost", "value", "bound"), "{:.10g}".format)
SECONDS = ("seconds", "solve_seconds", "solver_seconds", "full_seconds")
DIGITS |= dict.fromkeys(SECONDS, "{:.3g}".format)
DATE = (1980, 1, 1, 0, 0, 0)  # so that the same results make the same file


def pack(store: Store, path: Path) -> None:
    """Write all that is there: costs with ten digits, seconds with three."""
    rows = {name: _table(file) for name, file in store.results()}
    if not rows:
        return
    notes = {name: store.note(name) for name in rows}
    costs = pd.concat([table.assign(row=name) for name, table in rows.items()])
    costs = costs.drop(columns="gap", errors="ignore")  # computed from the costs
    for column, shown in DIGITS.items():
        costs[column] = [shown(float(text)) if text else "" for text in costs[column]]
    parts = {COSTS: costs.to_csv(index=False), NOTES: json.dumps(notes, indent=1)}
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as file:
        for name, text in parts.items():
            file.writestr(zipfile.ZipInfo(name, DATE), text, zipfile.ZIP_LZMA)
    write_atomically(path, content.getvalue())


def unpack(path: Path, store: Store) -> int:
    """Put results into a store where it has none; return how many."""
    if not path.exists():
        return 0
    with zipfile.ZipFile(path) as file:
        notes = json.loads(file.read(NOTES))
        costs = _table(io.BytesIO(file.read(COSTS)))
    missing = set(notes) - {name for name, _ in store.results()}
    for name, table in costs[costs["row"].isin(missing)].groupby("row"):
        store.put(str(name), table.drop(columns="row").to_csv(index=False), notes[name])
    return len(missing)


def _table(file: Path | io.BytesIO) -> pd.DataFrame:
    return pd.read_csv(file, dtype=str, keep_default_na=False)
