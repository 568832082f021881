"""How much sooner a policy decides than the full program is solved, in one run.

Run: python -m tests.benchmarks.speedup [method]
"""

import sys
import time

import numpy as np
import torch

import pyomo_csg as csg
from models import cvar_portfolio, mnv

# Name, model, pairs to learn from, contexts, gap of the full program, numbers of scenarios,
# and by what full programs are solved; HiGHS alone takes minutes for one of MNV.
TREE, ALONE = ("our tree", "highs"), ("HiGHS alone", "appsi_highs")
PROBLEMS = (
    ("cvar", cvar_portfolio, cvar_portfolio.history, 30, 1e-4, (10, 40), (TREE, ALONE)),
    ("mnv", mnv, lambda: mnv.sample(300, 1), 4, 1e-3, (10,), (TREE,)),
)


def seconds(function, *arguments, **options):
    """Return how long a call takes."""
    start = time.perf_counter()
    function(*arguments, **options)
    return time.perf_counter() - start


def compare(name, module, pairs, contexts, gap, counts, solvers, method):
    """Time decisions and full programs for the same contexts in turn; means of each."""
    history = tuple(part[:1247] for part in pairs())
    asked = module.sample(contexts, 7)[0]
    cases = [module.conditional(x) for x in asked]
    oracles = {
        way: csg.Oracle(module.build(), solver, options={"mip_rel_gap": gap})
        for way, solver in solvers
    }
    quietly = {"on_error": "record", "progress": False}
    for oracle in oracles.values():  # the first program builds what others change
        oracle.solve(*cases[0], **quietly)
    for count in counts:
        policy = csg.fit(
            module.build(), history, scenarios=count, method=method, progress=False
        )
        decisions, programs = [], {way: [] for way in oracles}
        for x, case in zip(asked, cases, strict=True):
            decisions.append(seconds(policy.decide, x))
            for way, oracle in oracles.items():
                programs[way].append(seconds(oracle.solve, *case, **quietly))
        decision = np.mean(decisions)
        for way, times in programs.items():
            program = np.mean(times)
            print(
                f"{name} K={count}, {method}: a decision {1e3 * decision:.1f} ms, the full "
                f"program by {way} {program:.3f} s, {program / decision:.0f} times as long"
            )


if __name__ == "__main__":
    torch.set_num_threads(1)
    for problem in PROBLEMS:
        compare(*problem, method=sys.argv[1] if sys.argv[1:] else "mmd")
