"""How much sooner a policy decides than the full program is solved, in one run.

Run: python -m tests.benchmarks.speedup [method]
"""

import sys
import time

import numpy as np
import torch

import pyomo_csg as csg
from models import cvar_portfolio, mnv

# Name, model, pairs to learn from, contexts, gap of the full program, numbers of scenarios.
PROBLEMS = (
    ("cvar", cvar_portfolio, cvar_portfolio.history, 30, 1e-4, (10, 40)),
    ("mnv", mnv, lambda: mnv.sample(300, 1), 4, 1e-3, (10,)),
)


def seconds(function, *arguments, **options):
    """Return how long a call takes."""
    start = time.perf_counter()
    function(*arguments, **options)
    return time.perf_counter() - start


def compare(name, module, pairs, contexts, gap, counts, method):
    """Time decisions and full programs for the same contexts in turn; means of each."""
    history = tuple(part[:1247] for part in pairs())
    full = csg.Oracle(module.build(), options={"mip_rel_gap": gap})
    asked = module.sample(contexts, 7)[0]
    cases = [module.conditional(x) for x in asked]
    for count in counts:
        policy = csg.fit(
            module.build(), history, scenarios=count, method=method, progress=False
        )
        times = [
            (
                seconds(policy.decide, x),
                seconds(full.solve, *case, on_error="record", progress=False),
            )
            for x, case in zip(asked, cases, strict=True)
        ]
        decision, program = np.mean(times, axis=0)
        print(
            f"{name} K={count}, {method}: a decision {1e3 * decision:.1f} ms, the full "
            f"program {program:.3f} s, {program / decision:.0f} times as long"
        )


if __name__ == "__main__":
    torch.set_num_threads(1)
    for problem in PROBLEMS:
        compare(*problem, method=sys.argv[1] if sys.argv[1:] else "mmd")
