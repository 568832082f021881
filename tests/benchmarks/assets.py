"""What few assets can do on CVaR: K scenarios lead to at most K of them.

Mean gaps over those of the expected value, market by market: of the best so many assets for
each context, and of one decision for all contexts with so many, by the whole history.

Run: python -m tests.benchmarks.assets
"""

import numpy as np

import pyomo_csg as csg
from models import cvar_portfolio

PAIRS, CONTEXTS, MARKETS = 1247, 60, 5
OPTIONS = {"mip_rel_gap": 1e-4}


def mean_gaps(market):
    """Return the gap of the expected value, and those of few assets by how many."""
    contexts, outcomes = cvar_portfolio.history(market)
    later = PAIRS + np.linspace(0, len(contexts) - PAIRS - 1, CONTEXTS).astype(int)
    laws = [cvar_portfolio.conditional(x, generator=market) for x in contexts[later]]
    full = csg.Oracle(cvar_portfolio.build(), options=OPTIONS)

    def gap(decide):
        found = []
        for law in laws:
            cost = law[1] @ full.cost(decide(*law), law[0], progress=False)
            best = full.solve(*law, progress=False).value
            found.append((cost - best) / abs(best))
        return np.mean(found)

    few = {}
    for most in (1, 3, 5):
        model = cvar_portfolio.build(most_held=most)
        oracle = csg.Oracle(model, options=OPTIONS)
        one = oracle.solve(outcomes[:PAIRS], progress=False).decision
        few[f"best {most}"] = gap(lambda *law, o=oracle: o.solve(*law).decision)
        few[f"the same {most}"] = gap(lambda *law, y=one: y)
    return gap(lambda z, w: full.solve((w @ z)[None]).decision), few


if __name__ == "__main__":
    ratios = []
    for market in range(MARKETS):
        expected, few = mean_gaps(market)
        ratios.append({name: mean / expected for name, mean in few.items()})
        output = {name: round(float(ratio), 4) for name, ratio in ratios[-1].items()}
        print(f"market {market}: {output}", flush=True)
    means = {name: np.mean([one[name] for one in ratios]) for name in ratios[0]}
    print("mean:", {name: round(float(mean), 4) for name, mean in means.items()})
