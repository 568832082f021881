"""Capacity expansion on your own data: a CSV file in, decisions out.

    python examples/capacity.py                          # on a sample, which is written, too
    python examples/capacity.py history.csv today.csv    # on yours

A history has the columns demand[1], demand[2] and demand[3], by the names that the model
gives them; all other columns are the context. The second file has the contexts to decide for.
"""

import sys
from pathlib import Path

import pandas as pd
from rolling import parser, picture, roll, table

import pyomo_csg as csg
from pyomo_csg.zoo import cep1

DEMANDS = [f"demand[{part}]" for part in cep1.PARTS]
INDICATORS = ["orders", "prices", "stocks", "mood"]


def write_sample(folder, history, today):
    """Write a made-up history of four indicators, and three days to decide for."""
    for name, rows, seed in ((history, 600, 1), (today, 3, 2)):
        contexts, demands = cep1.sample(rows, seed)
        table = pd.DataFrame(contexts, columns=INDICATORS)
        if name == history:
            table[DEMANDS] = demands
        table.round(3).to_csv(folder / name, index=False)
    return folder / history, folder / today


def read(path, needed):
    """Return a table, or end with a line that says which columns it lacks."""
    table = pd.read_csv(path)
    if missing := [name for name in needed if name not in table]:
        sys.exit(f"{path}: no column {', '.join(missing)} among {', '.join(table)}")
    return table


def main():
    given = parser(__doc__.splitlines()[0])
    given.add_argument(
        "history", nargs="?", type=Path, help="CSV: contexts and demands"
    )
    given.add_argument(
        "today", nargs="?", type=Path, help="CSV: contexts to decide for"
    )
    given = given.parse_args()
    paths = given.history, given.today
    if given.history is None:
        paths = write_sample(given.folder, "capacity_history.csv", "capacity_today.csv")
    history = read(paths[0], DEMANDS)
    known = history.columns.drop(DEMANDS)
    today = None if paths[1] is None else read(paths[1], known)
    options = {"scenarios": 5, "config": csg.FitConfig(folds=3, starts=2)}
    if given.quick:
        history = history[:80]
        options = {"scenarios": 2, "method": "mmd", "config": {"mmd_epochs": 2}}
    model = cep1.build()

    # Would it have paid? Learn from the first four fifths, decide for the last.
    contexts, demands = history.drop(columns=DEMANDS), history[DEMANDS]
    first = 4 * len(history) // 5
    costs, _ = roll(model, contexts, demands, first, len(history), **options)
    print("\n" + table(costs, "Cost of a plan", 0))
    picture(
        costs,
        pd.RangeIndex(len(costs), name="row held out"),
        given.folder / "capacity.png",
        "Capacity expansion: saved over the context-free decision",
        "cost",
    )

    # Then learn from all of it, and decide.
    if today is None:
        return
    policy = csg.fit(model, history, progress=False, **options)
    decisions = policy.decide(today)
    decisions.to_csv(given.folder / "capacity_decisions.csv", index=False)
    print("\n" + decisions.round(1).to_string())
    print("Decisions:", (given.folder / "capacity_decisions.csv").resolve())


if __name__ == "__main__":
    main()
