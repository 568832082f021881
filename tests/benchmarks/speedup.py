"""How much sooner a policy decides than what solves on many outcomes does, in one run.

Run: python -m tests.benchmarks.speedup [method] [problem]
"""

import sys
import time

import numpy as np
import torch

import pyomo_csg as csg
from models import cvar_portfolio, mnv


def full_program(solver):
    """Return a way to decide: on a context's whole law."""

    def make(model, history, options):
        oracle = csg.Oracle(model, solver, options=options)
        return lambda x, law: oracle.solve(*law, on_error="record", progress=False)

    return make


def forest(model, history, options):
    """Return a way to decide: on all outcomes of the history, weighted by a forest."""
    baseline = csg.baselines.ForestWeighted(model, history, options=options)
    return lambda x, law: baseline.decide(x)


TREE = {"the full program by our tree": full_program("highs")}
OTHERS = {
    "the full program by HiGHS alone": full_program("appsi_highs"),
    "forest-weighted SAA": forest,
}
# Model, pairs to learn from, contexts, gap of large programs, numbers of scenarios, and
# what is beside them; for one context of MNV the others take minutes.
PROBLEMS = {
    "cvar": (
        *(cvar_portfolio, cvar_portfolio.history, 30, 1e-4, (10, 40)),
        {**TREE, **OTHERS},
    ),
    "mnv": (mnv, lambda: mnv.sample(300, 1), 4, 1e-3, (10,), TREE),
}


def seconds(function, *arguments):
    """Return how long a call takes."""
    start = time.perf_counter()
    function(*arguments)
    return time.perf_counter() - start


def compare(name, method, module, pairs, contexts, gap, counts, ways):
    """Time decisions for the same contexts in turn; means of each way."""
    history = tuple(part[:1247] for part in pairs())
    cases = [(x, module.conditional(x)) for x in module.sample(contexts, 7)[0]]
    others = {
        way: make(module.build(), history, {"mip_rel_gap": gap})
        for way, make in ways.items()
    }
    for decide in others.values():  # the first program builds what others change
        decide(*cases[0])
    for count in counts:
        policy = csg.fit(
            module.build(), history, scenarios=count, method=method, progress=False
        )
        policy.decide(cases[0][0])  # as above
        ours, theirs = [], {way: [] for way in others}
        for x, law in cases:
            ours.append(seconds(policy.decide, x))
            for way, decide in others.items():
                theirs[way].append(seconds(decide, x, law))
        print(
            f"{name} K={count}, {method}: a decision takes {1e3 * np.mean(ours):.1f} ms"
        )
        for way, times in theirs.items():
            ratio = np.mean(times) / np.mean(ours)
            print(
                f"  {way} {np.mean(times):.3f} s, {ratio:.1f} times as long", flush=True
            )


if __name__ == "__main__":
    torch.set_num_threads(1)
    method, *names = sys.argv[1:] or ["mmd"]
    for name in names or PROBLEMS:
        compare(name, method, *PROBLEMS[name])
