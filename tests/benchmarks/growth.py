"""How the cost of a label grows, and whether the rule for integer programs pays.

Run: python -m tests.benchmarks.growth [growth branching]
"""

import sys

import numpy as np

import pyomo_csg as csg
from models import cep1, cvar_portfolio, mnv, newsvendor, sslp
from pyomo_csg.solve.compile.assembly import evaluate
from pyomo_csg.solve.compile.compiler import compile_model
from pyomo_csg.solve.engine import SolveContext
from pyomo_csg.solve.mip.integer_solver import IntegerSolver
from tests.benchmarks.oracle import cpu, heading, pairs, row


def growth(path="docs/oracle_growth.png"):
    """Milliseconds a label against K and against the size of a model."""
    heading("Growth with K, CPU ms a label", "model", *COUNTS)
    curves = {}
    for module, n in ((newsvendor, 300), (cep1, 300), (cvar_portfolio, 60)):
        times = []
        for k in COUNTS:
            zetas, omegas = pairs(module, n, k)
            oracle = csg.Oracle(module.build())
            oracle.loss(zetas[:5], omegas[:5], progress=False)
            seconds, _ = cpu(oracle.loss, zetas, omegas, progress=False)
            times.append(1e3 * seconds / n)
        name = module.__name__.split(".")[-1]
        curves[name] = times
        row(name, *(f"{t:.3g}" for t in times))
    heading(
        "Growth with the model: l_opt, exact, at most 60 s for each of its programs",
        *("model", "K", "columns", "labels", "CPU s a label", "within time"),
    )
    sizes = {
        k: [labels_of_sslp(*size, k) for size in ((5, 25), (10, 50), (15, 45))]
        for k in (1, 2)
    }
    _plot(curves, sizes, path)


WAYS = {"the rule": None, "tree": "tree", "HiGHS": "plain"}


def branching(limit=60.0):
    """zeta-SAA of integer models by the rule, by the tree alone and by HiGHS alone."""
    heading(
        "zeta-SAA by the rule, the tree and HiGHS: CPU s a program, at most 60 each",
        *("model", "first-stage integers", "K", "programs", *WAYS, "apart"),
    )
    for name, model, zetas in _integer_cases():
        compiled = compile_model(csg.TwoStageModel(model))
        n, k, _ = zetas.shape
        weights, blocks = np.full((n, k), 1 / k), evaluate(compiled, zetas)
        cells, values = [], []
        for method in WAYS.values():
            strategy = IntegerSolver(
                compiled, k, SolveContext(options={"time_limit": limit}), method
            )
            seconds, solved = cpu(strategy.solve_many, blocks, weights)
            late = len(solved.troubles)
            cells.append(f"{seconds / n:.3g}" + (f" ({late} stopped)" if late else ""))
            proven = ~np.isin(np.arange(n), list(solved.troubles))
            values.append(np.where(proven, solved.values, np.nan))
        apart = np.abs(np.array(values) / values[0] - 1)
        worst = np.nanmax(apart, initial=0.0)
        row(name, int(compiled.first.integer.sum()), k, n, *cells, f"{worst:.0e}")


def _integer_cases():
    """Yield a name, a model and its scenarios (n, K, p)."""
    for module, counts, n in ((cvar_portfolio, (10, 40), 20), (mnv, (1, 3, 10), 5)):
        for k in counts:
            zetas, _ = pairs(module, n, k)
            yield module.__name__.split(".")[-1], module.build(), zetas
    rng = np.random.default_rng(0)
    for assets in (20, 40):
        returns = rng.normal(0, 0.01, (5, 40, 1)) * rng.uniform(0.5, 1.5, assets)
        returns += rng.normal(0, 0.015, (5, 40, assets))
        yield f"cvar, {assets} assets", cvar_portfolio.build(assets, 10), returns
    for servers, clients in ((5, 25), (10, 50), (15, 45)):
        for k in (1, 2):
            zetas = sslp.scenarios(3 * k, clients).reshape(3, k, clients)
            yield f"sslp_{servers}_{clients}", sslp.build(servers, clients), zetas


def labels_of_sslp(servers, clients, k, n=3):
    """Print a row: exact labels of a model whose recourse is binary.

    Returns the number of columns and the CPU milliseconds a label.
    """
    oracle = csg.Oracle(sslp.build(servers, clients), options={"time_limit": 60.0})
    drawn = sslp.scenarios(n * (k + 1), clients).reshape(n, k + 1, clients)
    seconds, losses = cpu(
        oracle.loss, drawn[:, :k], drawn[:, k], progress=False, on_error="record"
    )
    columns = servers + k * (servers * clients + servers)
    solved = np.isfinite(losses).sum()
    name = f"sslp_{servers}_{clients}"
    row(name, k, columns, n, f"{seconds / n:.2f}", f"{solved} of {n}")
    return columns, 1e3 * seconds / n


COUNTS = (1, 2, 5, 10, 20, 40, 80)


def _plot(curves, sizes, path):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    for name, times in curves.items():
        left.loglog(COUNTS, times, marker="o", label=name)
    left.set_xlabel("scenarios K")
    for k, points in sizes.items():
        right.loglog(*zip(*sorted(points), strict=True), marker="o", label=f"K={k}")
    right.set_xlabel("columns of sslp_5_25, 15_45 and 10_50 on K scenarios")
    for axes in (left, right):
        axes.set_ylabel("CPU ms a label")
        axes.grid(True, which="both", alpha=0.3)
        axes.legend()
    figure.savefig(path, dpi=120)


PARTS = {"growth": growth, "branching": branching}

if __name__ == "__main__":
    for part in sys.argv[1:] or PARTS:
        PARTS[part]()
