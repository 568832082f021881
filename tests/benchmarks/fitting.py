"""How long a fit and a decision take, and where the time goes. Run on an idle machine.

Run: python -m tests.benchmarks.fitting
"""

import time

import numpy as np
import torch

import pyomo_csg as csg
from models import cep1
from pyomo_csg.learn.bodies import free_outcomes, new_body
from pyomo_csg.learn.config import FitConfig
from pyomo_csg.learn.history import history_of
from pyomo_csg.learn.mmd import train_mmd
from pyomo_csg.learn.progress import Journal
from pyomo_csg.learn.static import train_static
from pyomo_csg.learn.task import Task


def fit_time(workers=2):
    """Time an auto fit of CEP1 at K=5; return the policy."""
    timed = []
    kept = csg.Oracle._run

    def run(self, *arguments, **options):
        start = time.perf_counter()
        try:
            return kept(self, *arguments, **options)
        finally:
            timed.append((time.perf_counter() - start, self.stats))

    csg.Oracle._run = run
    start = time.perf_counter()
    try:
        policy = csg.fit(
            cep1.build(), cep1.sample(500, 1), workers=workers, progress=False
        )
    finally:
        csg.Oracle._run = kept
    wall = time.perf_counter() - start
    inside = sum(seconds for seconds, _ in timed)
    highs = sum(s.solver_seconds for s in {id(s): s for _, s in timed}.values())
    print(f"CEP1 auto fit, K=5, n=500, {workers} workers: {wall:.1f} s")
    print(f"  in the oracle {inside:.1f} s ({inside / wall:.0%})")
    print(f"  in HiGHS's run(), summed over threads, {highs:.1f} s")
    return policy


def decide_time(policy, repeats=400):
    """Time decisions one by one beside the time inside run()."""
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


def lambdas_time():
    """Time eight lambdas beside one, CPU, for MMD networks and for static PCSG."""
    oracle = csg.Oracle(cep1.build())
    history = history_of(oracle.two_stage, cep1.sample(500, 1))
    task = Task(oracle, history, 5, FitConfig(), 0, Journal())
    rows = np.arange(500)
    body = new_body(task, "mlp", free_outcomes(task, rows), task.rng("body"))
    seconds = {}
    for count in (1, 8, 1, 8):
        start = time.process_time()
        train_mmd(task, [body] * count, [rows] * count, None, "mmd")
        middle = time.process_time()
        train_static(task, [body] * count, [1e3] * count, [rows] * count, "static")
        end = time.process_time()
        seconds[count] = middle - start, end - middle
    for name, one, eight in zip(("mmd", "static"), *seconds.values(), strict=True):
        print(f"eight lambdas over one, {name}: {eight / one:.2f}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    decide_time(fit_time())
    lambdas_time()
