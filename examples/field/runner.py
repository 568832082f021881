"""Run candidates on a problem, stage by stage, and store their rows."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
from candidates import ALL, CLAIRVOYANT, Candidate
from problem import Problem
from stored_rows import Store
from threadpoolctl import threadpool_limits

import pyomo_csg as csg


class Timed:
    """A policy whose decisions are timed in CPU seconds, with one thread."""

    def __init__(self, policy: Any):
        self.policy, self.seconds = policy, list[float]()

    def decide(self, context: Any) -> Any:
        """Return the policy's decision."""
        with threadpool_limits(1):
            start = time.process_time()
            decision = self.policy.decide(context)
            self.seconds.append(time.process_time() - start)
        return decision


def run_candidate(problem: Problem, candidate: Candidate, seed: int) -> dict[str, Any]:
    """Return a row: what each decision of the roll costs, and the times."""
    model = problem.build()
    costs: list[float] = []
    decided: list[float] = []
    fitted, chosen = 0.0, []
    for stage in problem.stages():
        start = time.process_time()
        policy = candidate.fit(model, (stage.contexts, stage.outcomes), seed)
        fitted += time.process_time() - start
        timed = Timed(policy)
        evaluation = csg.evaluate(
            {candidate.name: timed},
            stage.cases,
            reference=None,
            model=model,
            progress=False,
        )
        costs += evaluation.costs[candidate.name].tolist()
        decided += timed.seconds
        chosen.append(getattr(policy, "method", candidate.method))
    return {
        "problem": problem.name,
        "method": candidate.method,
        "scenarios": candidate.scenarios,
        "seed": seed,
        "mean": float(f"{np.mean(costs):.8g}"),
        "decide_ms": round(1000 * float(np.median(decided)), 3),
        "fit_seconds": round(fitted / len(chosen), 3),
        "chosen": chosen,
        "version": csg.__version__,
        "costs": [float(f"{cost:.7g}") for cost in costs],
    }


def run_clairvoyant(problem: Problem) -> dict[str, Any]:
    """Return a row: the least that could be paid if the outcome were known."""
    model, costs = problem.build(), []
    oracle = csg.Oracle(model)
    for stage in problem.stages():
        for case in stage.cases:
            best = oracle.solve(case.outcomes.to_numpy(float)[:, None])
            values = oracle.two_stage.sense * np.atleast_1d(best.value)
            costs.append(float(np.asarray(case.weights) @ values))
    return {
        "problem": problem.name,
        "method": CLAIRVOYANT,
        "scenarios": ALL,
        "seed": 0,
        "mean": float(f"{np.mean(costs):.8g}"),
        "costs": [float(f"{cost:.7g}") for cost in costs],
    }


def run_problem(
    problem: Problem, candidates: list[Candidate], seeds: list[int], folder: Path
) -> None:
    """Run what is not stored yet, one row after the other."""
    store = Store(folder, problem.name)
    store.open(problem.facts())
    stored = store.rows()
    if (CLAIRVOYANT, ALL, 0) not in stored:
        store.add(run_clairvoyant(problem))
    for candidate in candidates:
        for seed in seeds:
            if (candidate.method, str(candidate.scenarios), seed) in stored:
                continue
            start = time.process_time()
            row = run_candidate(problem, candidate, seed)
            store.add(row)
            print(
                f"{problem.name:14}{candidate.name:22}seed {seed}"
                f"{row['mean']:14,.3f}  {row['decide_ms']:9.2f} ms a decision"
                f"{row['fit_seconds']:9.2f} s a fit"
                f"{time.process_time() - start:8.1f} s in all",
                flush=True,
            )
