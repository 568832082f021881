"""How good decisions are: gaps to the full program, over the gap of the expected value.

Every gap is kept in ``.benchmarks/``; a run that was stopped goes on where it was.

Run: python -m tests.benchmarks.decisions [problem ...] [trials=5] [methods=auto,mmd] [counts=1,5]
     python -m tests.benchmarks.decisions table
"""

import sys
import time

import numpy as np

import pyomo_csg as csg
from models import cvar_portfolio
from tests.benchmarks.cases import PROBLEMS, STORE, Cases

COUNTS = {
    "newsvendor": (1, 2, 5),
    "cep1": (1, 2, 5),
    "mnv": (1, 3, 5, 10),
    "cvar": (1, 3, 5, 10, 20, 40),
}
FITTED = {
    "newsvendor": ("auto", "mmd", "static", "dynamic"),
    "cep1": ("auto", "mmd", "static", "dynamic"),
    "mnv": ("auto", "mmd"),
    "cvar": ("given", "auto", "mmd"),
}


def rivals(cases):
    """Yield the names and decisions (n, s) of those that need no fit of ours."""
    history = cases.problem.history(cases.trial)

    def decisions(rival, **options):
        policy = rival(cases.model, history, **options)
        return policy.decide(cases.contexts, progress=False).to_numpy()

    yield "EV", cases.mean_decisions
    yield "SAA", lambda: decisions(csg.baselines.SampleAverage)
    if cases.name == "mnv":
        return
    yield "forest SAA", lambda: decisions(csg.baselines.ForestWeighted)
    if cases.name == "newsvendor":
        regression, level = csg.baselines.QuantileRegression, 0.05 / 0.95
        yield "quantile regression", lambda: decisions(regression, level=level)


def fitted(cases, method, count):
    """Return a policy's decisions (n, s), and how long its fit took."""
    network, name = None, method
    if method == "given":
        law = cvar_portfolio.law(cases.trial)
        network, name = csg.LocationScale(law.mean, law.scale), "auto"
    start = time.perf_counter()
    policy = csg.fit(
        cases.model,
        cases.problem.history(cases.trial),
        scenarios=count,
        method=name,
        network=network,
        workers=2,
        progress=False,
    )
    seconds = time.perf_counter() - start
    return policy.decide(cases.contexts, progress=False).to_numpy(), seconds, policy


def file_of(name, trial, method, count):
    """Return where the gaps of a method are kept."""
    return STORE / f"{name}-{trial}-gaps-{method.replace(' ', '-')}-{count}.csv"


def run(name, trial, methods, counts):
    """Compute what is missing for a trial."""
    cases = Cases(name, trial)
    for rival, decide in rivals(cases):
        path = file_of(name, trial, rival, 0)
        if not path.exists():
            np.savetxt(path, cases.gaps(decide()))
    for method in methods or FITTED[name]:
        for count in counts or COUNTS[name]:
            path = file_of(name, trial, method, count)
            if path.exists():
                continue
            decisions, seconds, policy = fitted(cases, method, count)
            gaps = cases.gaps(decisions)
            np.savetxt(path, gaps)
            ev = np.loadtxt(file_of(name, trial, "EV", 0))
            ratio = np.median(gaps) / np.median(ev), gaps.mean() / ev.mean()
            chosen = policy.learned.summary.get("chosen")
            print(
                f"{name} {trial} {method} K={count}: {ratio[0]:.4f} {ratio[1]:.4f} "
                f"{chosen}, {seconds:.0f} s",
                flush=True,
            )


def table():
    """Print, over all trials that are there, ratios to the gap of the expected value."""
    print("| problem | trials | method | K | median | mean | 90th percentile |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name in PROBLEMS:
        rows = [("EV", 0), ("SAA", 0), ("forest SAA", 0), ("quantile regression", 0)]
        rows += [(m, k) for m in ("given", *FITTED[name]) for k in COUNTS[name]]
        for method, count in dict.fromkeys(rows):
            found = [
                (
                    np.loadtxt(file_of(name, t, method, count)),
                    np.loadtxt(file_of(name, t, "EV", 0)),
                )
                for t in range(100)
                if file_of(name, t, method, count).exists()
            ]
            if found:
                print(_row(name, method, count, found))


def _row(name, method, count, found):
    cells = []
    for statistic in (np.median, np.mean, lambda gaps: np.quantile(gaps, 0.9)):
        ours = np.mean([statistic(gaps) for gaps, _ in found])
        cells.append(f"{ours / np.mean([statistic(ev) for _, ev in found]):.4f}")
    return f"| {name} | {len(found)} | {method} | {count or ''} | {' | '.join(cells)} |"


def main(arguments):
    """Run what was asked for."""
    if arguments == ["table"]:
        table()
        return
    options = dict(a.split("=") for a in arguments if "=" in a)
    names = [a for a in arguments if "=" not in a] or list(PROBLEMS)
    methods = options["methods"].split(",") if "methods" in options else None
    counts = [int(k) for k in options.get("counts", "").split(",") if k]
    for trial in range(int(options.get("trials", 5))):
        for name in names:
            run(name, trial, methods, counts)
    table()


if __name__ == "__main__":
    main(sys.argv[1:])
