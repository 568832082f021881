"""Fit models of real size by the default call, each in a process, and compare.

Run: python -m tests.benchmarks.real_size NAME [NAME ...] [--seconds S] [--workers W]
     [--rows N] [--scenarios K] [--method M] [--seed S] [--fresh 40] [--full] [--out FILE]
     python -m tests.benchmarks.real_size --growth rows [--method M] [--largest SIZE]

Growth is that of fits by one plan, whose counts do not depend on the size. With --out, rows
are appended as JSON lines, and those that are in the file are skipped.
"""

import argparse
from pathlib import Path

import numpy as np

from tests.benchmarks.real_size.problems import GROWTH, PROBLEMS
from tests.benchmarks.real_size.row_store import RowStore


def main(arguments=None):
    """Print a row for each problem, or the exponents of growth."""
    options = _parse(arguments)
    store = RowStore(options.out, options.timeout, options.memory)
    if options.growth:
        growth(options.growth, options, store)
        return
    for name in options.names or PROBLEMS:
        _print_row(store.find_or_run(_key(options, problem=name)))


def growth(name, options, store):
    """Print what fits of growing size take, and the slopes of a log-log fit."""
    sizes, _ = GROWTH[name]
    rows = []
    for size in sizes:
        if options.largest is None or size <= options.largest:
            key = _key(options, growth=name, size=size)
            rows.append(store.find_or_run({**key, "fresh": 0}))
            _print_row(rows[-1])
    done = [row for row in rows if "wall" in row]
    if len(done) < 2:
        return
    at = np.log([row["size"] for row in done])
    for quantity in ("cpu", "wall", "peak_mb"):
        values = [row[quantity] for row in done]
        slope, _ = np.polyfit(at, np.log(values), 1)
        steepest = np.max(np.diff(np.log(values)) / np.diff(at))
        print(f"{name}: {quantity} ~ size^{slope:.2f}, steepest step {steepest:.2f}")


def _key(options, problem=None, growth=None, size=None):
    """Return what identifies a row."""
    found = PROBLEMS[problem] if problem else GROWTH[growth][1](size)
    return {
        "problem": problem,
        "growth": growth,
        "size": size,
        "rows": min(options.rows or found.rows, found.rows),
        "scenarios": options.scenarios or found.scenarios,
        "seconds": options.seconds,
        "workers": options.workers,
        "method": options.method,
        "seed": options.seed,
        "fresh": options.fresh,
        "full": options.full,
    }


def _print_row(row):
    name = row["problem"] or f"{row['growth']} = {row['size']}"
    print(f"{name}, n={row['rows']}, K={row['scenarios']}: {row['status']}", end="")
    if "wall" not in row:
        print(flush=True)
        return
    scored = len(row["candidates"])
    cut = f", cut short in {row['cut_short']}" if row["cut_short"] else ""
    print(
        f"; {row['wall']:.1f} s, {row['cpu']:.1f} CPU s, {row['peak_mb']:.0f} MB; "
        f"{scored} scored, chosen {row['chosen']}{cut}"
    )
    if "cost" in row:
        seconds = row["notes"]["ours"]["decide_cpu"]
        print(
            f"  cost {row['cost']:.6g}, {1e3 * seconds:.3g} CPU ms a decision; above:"
        )
        for other, (mean, error) in row["above_ours"].items():
            seconds = row["notes"][other]["decide_cpu"]
            print(
                f"    {other:14}{mean:+12.4g} +- {error:<10.3g}{1e3 * seconds:8.3g} ms"
            )
        for other, note in row["notes"].items():
            if trouble := note.get("error") or note.get("unsolved"):
                print(f"    {other}: {trouble} (error, or rows unsolved)")
    print(end="", flush=True)


def _parse(arguments):
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.real_size")
    parser.add_argument("names", nargs="*", choices=[[], *PROBLEMS], metavar="NAME")
    parser.add_argument("--growth", choices=list(GROWTH))
    parser.add_argument("--largest", type=int, help="the largest size of --growth")
    parser.add_argument("--seconds", type=float, help="the budget of the fit")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--scenarios", type=int)
    parser.add_argument("--method", help="default: that of csg.fit")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fresh", type=int, default=40, help="rows to compare on")
    parser.add_argument("--full", action="store_true", help="SAAs on all outcomes, too")
    parser.add_argument("--timeout", type=float, default=3600.0, help="of one row")
    parser.add_argument("--memory", type=float, default=12.0, help="GB of a process")
    parser.add_argument("--out", type=Path, help="a file of JSON lines")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
