"""How long a fit and a decision take, and where the time goes. Run on an idle machine.

Run: python -m tests.benchmarks.fitting [part ...]
"""

import sys
import time

import numpy as np
import torch

import pyomo_csg as csg
from models import cep1
from pyomo_csg.learn.candidates.fold_distributions import FoldDistributions
from pyomo_csg.learn.config import FitConfig
from pyomo_csg.learn.methods.direct import Direct
from pyomo_csg.learn.methods.dynamic import train_dynamic
from pyomo_csg.learn.methods.mmd import train_mmd
from pyomo_csg.learn.methods.static import GRID, train_static
from pyomo_csg.learn.networks.initialization import new_body, unconstrained_outcomes
from pyomo_csg.learn.progress import TrainingLog
from pyomo_csg.learn.selection.fits import NetworkFit
from pyomo_csg.learn.selection.folds import make_folds
from pyomo_csg.learn.selection.scoring import observed_costs
from pyomo_csg.learn.tables.history import read_history
from pyomo_csg.learn.task import Task
from tests.benchmarks.clock import Clock
from tests.benchmarks.real_size.problems import PROBLEMS


def fit(workers=2):
    """Time an auto fit of CEP1 at K=5."""
    start = time.perf_counter()
    csg.fit(cep1.build(), cep1.sample(500, 1), workers=workers, progress=False)
    seconds = time.perf_counter() - start
    print(f"CEP1 auto fit, K=5, n=500, {workers} workers: {seconds:.1f} s")


def workers(names=("lp", "facility_location")):
    """Time fits with one and two workers by the same plan, in turn: threads, then Dask.

    Takes about ten minutes on an idle machine.
    """
    from distributed import Client

    with Client(n_workers=2, threads_per_worker=1, dashboard_address=None) as client:
        ways = {
            "one worker": {},
            "two threads": {"workers": 2},
            "Dask": {"workers": 2, "executor": client.get_executor()},
        }
        for name in names:
            _time_fits(name, ways)


def _time_fits(name, ways):
    """Print the seconds of fits of a model of real size, each twice, and their ratios."""
    problem = PROBLEMS[name]
    model, history = problem.build(), problem.history(0)
    plan = csg.plan(model, history, scenarios=problem.scenarios)
    best = dict.fromkeys(ways, np.inf)
    for way in (*ways, *ways):
        start = time.perf_counter()
        csg.fit(
            model,
            history,
            scenarios=problem.scenarios,
            plan=plan,
            progress=False,
            seconds=None,
            **ways[way],
        )
        best[way] = min(best[way], time.perf_counter() - start)
    one = best["one worker"]
    for way, seconds in best.items():
        print(f"{name}, {way}: {seconds:.1f} s, {one / seconds:.2f}x", flush=True)


def profile(workers=2):
    """Print the shares of the CPU time of that fit in HiGHS, torch and ourselves."""
    with Clock() as clock:
        csg.fit(cep1.build(), cep1.sample(500, 1), workers=workers, progress=False)
    print(f"CEP1 auto fit, K=5, n=500, {workers} workers: {clock.total:.1f} CPU s")
    for name, seconds in clock.seconds.items():
        print(f"  {name:24}{seconds:7.1f} s {seconds / clock.total:6.1%}")


def decide(repeats=400):
    """Time decisions one by one beside the time inside run()."""
    policy = csg.fit(
        cep1.build(), cep1.sample(500, 1), method="mmd", scenarios=5, progress=False
    )
    contexts, _ = cep1.sample(repeats + 20, 2)
    for x in contexts[:20]:
        policy.decide(x)
    totals, runs = [], []
    for x in contexts[20:]:
        before = policy.oracle.stats.solver_seconds
        start = time.perf_counter()
        policy.decide(x)
        totals.append(time.perf_counter() - start)
        runs.append(policy.oracle.stats.solver_seconds - before)
    total, run = np.median(totals), np.median(runs)
    print(f"policy.decide, CEP1 K=5: {1e6 * total:.0f} us, run() {1e6 * run:.0f} us")
    print(f"  ratio {total / run:.2f}")


def lambdas(repeats=2):
    """Time many lambdas beside one, least CPU: MMD networks, static and dynamic PCSG."""
    oracle = csg.Oracle(cep1.build())
    history = read_history(oracle.two_stage, cep1.sample(500, 1))
    task = Task(oracle, history, 5, FitConfig(), 0, TrainingLog())
    rows, config = np.arange(500), task.config
    body = new_body(task, "mlp", unconstrained_outcomes(task, rows), task.rng("body"))
    grid = np.geomspace(1e1, 1e4, 8)
    ways = {
        "mmd": lambda n: train_mmd(task, [body] * n, [rows] * n, None, "mmd"),
        "static": lambda n: train_static(
            task, [body] * n, grid[:n], [rows] * n, "static"
        ),
        "dynamic": lambda n: train_dynamic(
            task,
            [body] * n,
            grid[:n],
            [rows] * n,
            "dynamic",
            config.rounds,
            config.buffer,
        ),
    }
    for name, train in ways.items():
        least = {1: np.inf, len(GRID): np.inf, 8: np.inf}
        for count in (*least,) * repeats:
            start = time.process_time()
            train(count)
            least[count] = min(least[count], time.process_time() - start)
        one, *many = least
        for count in many:
            print(
                f"{count} lambdas over one, {name}: {least[count] / least[one]:.2f} "
                f"({least[count]:.1f} s, {least[one]:.1f} s)"
            )


def starts(count=4):
    """Print how networks from several starts differ in cost on held-out rows of CEP1."""
    oracle = csg.Oracle(cep1.build())
    history = read_history(oracle.two_stage, cep1.sample(500, 1))
    task = Task(oracle, history, 5, FitConfig(), 0, TrainingLog())
    task.warm_up_oracle()
    folds = make_folds(task, 5)
    rows, held_out = folds.rows * count, folds.held_out * count
    forests = FoldDistributions(task, folds, ("forest weights",))
    forests_by_row = forests.samplers("forest weights") * count
    rngs = [np.random.default_rng(number) for number in range(len(rows))]
    bodies = [
        new_body(task, "mlp", unconstrained_outcomes(task, mine), rng)
        for mine, rng in zip(rows, rngs, strict=True)
    ]
    mmd = train_mmd(task, bodies, rows, held_out, "mmd")
    direct = Direct(task, forests_by_row, regularization=0.03).train(
        mmd, rows, "direct"
    )
    for name, found in {"mmd": mmd, "direct": direct}.items():
        held_out_costs = [
            observed_costs(task, NetworkFit(body, task.head), held)
            for body, held in zip(found, held_out, strict=True)
        ]
        costs = np.concatenate(held_out_costs).reshape(count, -1)
        doubt = (costs - costs[0]).std(axis=1) / np.sqrt(costs.shape[1])
        print(f"{name}, {count} starts: costs {costs.mean(axis=1).round()}")
        print(f"  standard errors of differences from the first {doubt.round()}")


PARTS = {
    "fit": fit,
    "workers": workers,
    "profile": profile,
    "decide": decide,
    "lambdas": lambdas,
    "starts": starts,
}

if __name__ == "__main__":
    torch.set_num_threads(1)
    for part in sys.argv[1:] or PARTS:
        PARTS[part]()
