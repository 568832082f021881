"""How fast the oracle is, beside appsi, Gurobi and a HiGHS loop, as ratios in one run.

Times are CPU milliseconds of this process, the two sides interleaved case by case or
repeat by repeat. Gurobi's time is that inside its own solver, without Pyomo's part.

Run: python -m tests.benchmarks.oracle [part ...], where the parts on public instances need a
folder: recourse=FOLDER batches=FOLDER
"""

import statistics
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import highspy
import numpy as np

import pyomo_csg as csg
from models import cep1, cvar_portfolio, mnv, newsvendor, sslp
from pyomo_csg.solve.compile.assembly import RecourseLayout, evaluate
from pyomo_csg.solve.compile.compiler import compile_model
from pyomo_csg.solve.engine import SolveContext
from pyomo_csg.solve.lp.highs_program import HighsProgram
from pyomo_csg.solve.pyomo_solvers.pyomo_engine import PyomoSolver
from pyomo_csg.solve.qp.kkt_solver import KktSolver
from tests.benchmarks.clock import CALLS, OURS, RUN, Clock
from tests.solve.qp import dispatch


def pairs(model, n, k, seed=0, noise=0.02):
    """Draw scenarios (n, k, p) as a generator would give them, and outcomes (n, p)."""
    rng = np.random.default_rng(seed)
    contexts, outcomes = model.sample(n, seed)
    scenarios = []
    for x in contexts:
        support, weights = model.conditional(x)
        drawn = support[rng.choice(len(support), k, p=weights)]
        scenarios.append(drawn * (1 + noise * rng.uniform(-1, 1, drawn.shape)))
    return np.array(scenarios), outcomes


def cpu(function, *arguments, **more):
    """Return the CPU seconds of a call, and its answer."""
    start = time.process_time()
    answer = function(*arguments, **more)
    return time.process_time() - start, answer


def row(*cells):
    """Print a row of a table."""
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def heading(title, *columns):
    """Print a table's head."""
    print(f"\n### {title}\n")
    row(*columns)
    row(*("---" for _ in columns))


def against_appsi():
    """l_opt over appsi persistent, and all of our time over that inside run().

    Ours needs fewer and smaller programs than zeta-SAA and Opt-Search as they stand, so
    that its time is also put beside what HiGHS takes for those two.
    """
    heading(
        "l_opt beside appsi persistent, CPU ms a label",
        *("model", "K", "labels", "ours", "appsi", "ratio"),
        *("total / run()", "total / appsi's run()", "apart"),
    )
    sizes = [(newsvendor, (1, 5, 10), 300), (cep1, (1, 5, 10), 300)]
    sizes += [(cvar_portfolio, (1, 3, 5, 10, 20), 60), (cvar_portfolio, (40,), 20)]
    for module, counts, n in sizes:
        for k in counts:
            beside_appsi(module, k, n)


def beside_appsi(module, k, n, blocks=6):
    """Print a row: the same labels by both, in interleaved blocks.

    The share of run() is that of these blocks, which are small batches.
    """
    model = module.build()
    zetas, omegas = pairs(module, n + 10, k)
    ours, theirs = csg.Oracle(model), PyomoSolver(model, "appsi_highs", {"threads": 1})
    weights = np.full(k, 1 / k)
    ours.loss(zetas[n:], omegas[n:], progress=False)
    theirs.loss(zetas[-1], weights, omegas[-1])
    before = ours.stats.solver_seconds, ours.stats.total_seconds
    plain = -theirs.stats.solver_seconds
    mine = other = worst = 0.0
    for part in np.array_split(np.arange(n), blocks):
        seconds, losses = cpu(ours.loss, zetas[part], omegas[part], progress=False)
        mine += seconds
        for i, loss in zip(part, losses, strict=True):
            seconds, reference = cpu(theirs.loss, zetas[i], weights, omegas[i])
            other += seconds
            worst = max(worst, abs(loss - reference) / max(1e-3, abs(reference)))
    inside = ours.stats.solver_seconds - before[0]
    total = ours.stats.total_seconds - before[1]
    plain += theirs.stats.solver_seconds
    row(
        module.__name__.split(".")[-1],
        k,
        n,
        f"{1e3 * mine / n:.3f}",
        f"{1e3 * other / n:.2f}",
        f"{other / mine:.1f}x",
        f"{total / inside:.2f}",
        f"{total / plain:.2f}",
        f"{worst:.0e}",
    )


def shares():
    """Where a label's CPU time goes: no program can be quicker than HiGHS's own calls."""
    heading(
        "Where a label's time goes, CPU us a label, least of 7 runs",
        *("model", "K", "labels at once", "run()", "other calls", "ours"),
        *("total / run()", "with no time of ours"),
    )
    for module, k, n in (
        (cep1, 5, 300),
        (cep1, 10, 300),
        (cvar_portfolio, 1, 300),
        (cvar_portfolio, 10, 300),
        (cvar_portfolio, 40, 60),
    ):
        zetas, omegas = pairs(module, n + 10, k)
        clocks = []
        for _ in range(7):
            oracle = csg.Oracle(module.build())
            oracle.loss(zetas[n:], omegas[n:], progress=False)
            with Clock() as clock:
                oracle.loss(zetas[:n], omegas[:n], progress=False)
            clocks.append(clock)
        least = min(clocks, key=lambda clock: clock.total)
        run, calls, ours = (least.seconds[where] for where in (RUN, CALLS, OURS))
        row(
            module.__name__.split(".")[-1],
            *(k, n),
            *(f"{1e6 * seconds / n:.0f}" for seconds in (run, calls, ours)),
            *(f"{seconds / run:.2f}" for seconds in (least.total, run + calls)),
        )


def against_gurobi():
    """MNV labels beside Gurobi's own solver, one thread each."""
    heading(
        "MNV: l_opt beside Gurobi, CPU ms a label",
        *("K", "labels", "ours", "Gurobi", "ours / Gurobi", "apart"),
    )
    model = mnv.build()
    for k, n in ((1, 20), (3, 20), (5, 12), (10, 6)):
        zetas, omegas = pairs(mnv, n + 1, k, noise=0.0)
        ours = csg.Oracle(model)
        theirs = PyomoSolver(model, "appsi_gurobi", {"Threads": 1})
        weights = np.full(k, 1 / k)
        ours.loss(zetas[n:], omegas[n:], progress=False)
        theirs.loss(zetas[n], weights, omegas[n])
        mine = other = worst = 0.0
        for i in range(n):
            seconds, (loss,) = cpu(
                ours.loss, zetas[i : i + 1], omegas[i : i + 1], progress=False
            )
            mine += seconds
            before = theirs.stats.solver_seconds
            reference = theirs.loss(zetas[i], weights, omegas[i])
            other += theirs.stats.solver_seconds - before
            worst = max(worst, abs(loss - reference) / abs(reference))
        row(
            k,
            n,
            f"{1e3 * mine / n:.0f}",
            f"{1e3 * other / n:.0f}",
            f"{mine / other:.2f}",
            f"{worst:.0e}",
        )


def full_mnv():
    """The full MNV program on the 80 scenarios of a context, to a gap of 0.1 %."""
    heading("MNV on 80 scenarios, to a gap of 0.1 %", "context", "CPU s", "value")
    contexts, _ = mnv.sample(3, 0)
    for i, x in enumerate(contexts):
        oracle = csg.Oracle(mnv.build(), options={"mip_rel_gap": 1e-3})
        seconds, solution = cpu(oracle.solve, mnv.conditional(x)[0])
        row(i, f"{seconds:.1f}", f"{solution.value:.3f}")


def costs():
    """cost() on CEP1, 216 outcomes x 200 decisions, beside a plain warm highspy loop.

    The first call of an oracle compiles nothing, since the oracle is built before, but learns
    the bases. All answers are certified; those of the loop are not.
    """
    model = cep1.build()
    rng = np.random.default_rng(0)
    decisions = np.column_stack(
        [rng.uniform(0, 1500, (200, 4)), rng.uniform(0, 500, (200, 4))]
    )
    ys = np.repeat(decisions, 216, axis=0)
    omegas = np.tile(cep1.higle_sen_scenarios(), (200, 1))
    first, second, loop = [], [], []
    for _ in range(5):
        oracle = csg.Oracle(model)
        for seconds in (first, second):
            taken, answers = cpu(oracle.cost, ys, omegas, progress=False)
            seconds.append(taken / len(ys))
        taken, reference = plain_loop(model, ys[:4000], omegas[:4000])
        loop.append(taken / 4000)
    apart = np.abs(answers[:4000] / reference - 1).max()
    heading(
        "cost(): CEP1, 43,200 evaluations, CPU us each, medians of 5",
        *("call", "ours", "plain loop", "ratio", "apart"),
    )
    other = statistics.median(loop)
    for name, seconds in (("first", first), ("second", second)):
        mine = statistics.median(seconds)
        numbers = f"{1e6 * mine:.2f}", f"{1e6 * other:.1f}", f"{other / mine:.0f}x"
        row(name, *numbers, f"{apart:.0e}")


def recourse(folder="", names=("20term", "ssn"), decisions=20, outcomes=60):
    """cost() on public instances beside a plain warm highspy loop over the same programs."""
    heading(
        "cost() on SMPS instances, CPU ms an evaluation, medians of 3",
        *("instance", "evaluations", "ours", "plain loop", "ours / plain", "apart"),
    )
    for name in names:
        problem = csg.read_smps(Path(folder) / name)
        oracle = csg.Oracle(problem.model)
        some = problem.sample(decisions * 3, seed=0).reshape(decisions, 3, -1)
        ys = np.repeat(oracle.solve(some, progress=False).decision, outcomes, axis=0)
        omegas = np.tile(problem.sample(outcomes, seed=1), (decisions, 1))
        ours, plain = [], []
        for _ in range(3):
            fresh = csg.Oracle(problem.model)
            seconds, answers = cpu(fresh.cost, ys, omegas, progress=False)
            ours.append(seconds)
            seconds, reference = plain_loop(problem.model, ys, omegas)
            plain.append(seconds)
        mine, other = (1e3 * statistics.median(s) / len(ys) for s in (ours, plain))
        apart = np.abs(answers - reference).max() / max(1, np.abs(reference).max())
        cells = f"{mine:.2f}", f"{other:.2f}", f"{mine / other:.2f}", f"{apart:.0e}"
        row(name, len(ys), *cells)


def plain_loop(model, ys, omegas):
    """Return CPU seconds and costs of one warm HiGHS object whose row sides change."""
    compiled = compile_model(csg.TwoStageModel(model))
    layout, blocks = RecourseLayout(compiled), evaluate(compiled, omegas)
    stack = layout.stack(blocks, layout.shift(blocks, ys))
    solver = highspy.Highs()
    lean = {"output_flag": False, "threads": 1, "presolve": "off"}
    for option, value in lean.items():
        solver.setOptionValue(option, value)
    loader = HighsProgram(layout, SolveContext(options=lean))
    loader.load(stack[0])
    solver.passModel(loader.highs.getLp())
    rows, costs = np.arange(layout.rows, dtype=np.int32), np.empty(len(ys))
    start = time.process_time()
    for i in range(len(ys)):
        sides = stack.row_lower[i], stack.row_upper[i]
        solver.changeRowsBounds(layout.rows, rows, *sides)
        solver.run()
        costs[i] = solver.getObjectiveValue()
    seconds = time.process_time() - start
    n1, first = layout.n1, compiled.first_cost
    fixed = ys @ first.linear.constant[:n1] + first.constant.constant[0]
    fixed = fixed + (ys * blocks.cost[:, :n1]).sum(axis=1) + blocks.constant[:, 0]
    return seconds, costs + fixed


def batches(folder="", n=600, sizes=(10, 60)):
    """Our time over that in run() on LandS in small batches, and a batch's fixed cost.

    The clock of run() costs time itself, so totals are from runs without it.
    """
    heading(
        "LandS: labels in small batches, CPU us, least of 5 runs",
        *("K", "fresh", *(f"a label, {size} at once" for size in sizes)),
        *(f"total / run(), {size}" for size in sizes),
        "fixed cost of a batch",
    )
    problem = csg.read_smps(Path(folder) / "lands_million")
    for k, fresh in ((5, False), (5, True), (10, False), (10, True)):
        zetas = problem.sample(n * k, seed=0).reshape(n, k, -1)
        omegas = problem.sample(n, seed=1)
        oracle = csg.Oracle(problem.model)

        def label(size, data=(oracle, zetas, omegas, fresh)):
            for part in np.split(np.arange(n), n // size):
                oracle, zetas, omegas, fresh = data
                oracle.loss(zetas[part], omegas[part], fresh=fresh, progress=False)

        totals, runs = [], []
        for size in sizes:
            seconds, clocked = [], []
            for _ in range(5):
                seconds.append(cpu(label, size)[0])
                with Clock() as clock:
                    label(size)
                clocked.append(clock.seconds[RUN])
            totals.append(min(seconds))
            runs.append(min(clocked))
        short, long = (t * s / n for t, s in zip(totals, sizes, strict=True))
        fixed = short - sizes[0] * (long - short) / (sizes[1] - sizes[0])
        labels = (f"{1e6 * total / n:.0f}" for total in totals)
        shares = (f"{t / r:.2f}" for t, r in zip(totals, runs, strict=True))
        row(k, "yes" if fresh else "no", *labels, *shares, f"{1e6 * fixed:.0f}")


def compiling():
    """Compile time beside the time Pyomo takes to write the model's LP file."""
    heading(
        "Compiling, CPU ms",
        *("model", "analysis", "compiling", "LP file", "compiling / LP file", "both"),
    )
    builders = {
        "newsvendor": newsvendor.build,
        "cep1": cep1.build,
        "cvar_portfolio": cvar_portfolio.build,
        "mnv": mnv.build,
        "sslp_5_25": lambda: sslp.build(5, 25),
        "sslp_15_45": lambda: sslp.build(15, 45),
    }
    for name, build in builders.items():
        model = build()
        times = []
        for _ in range(7):
            analysis, two_stage = cpu(csg.TwoStageModel, model)
            compilation, _ = cpu(compile_model, two_stage)
            writing, _ = cpu(_write, model)
            times.append((analysis, compilation, writing))
        analysis, compilation, writing = map(
            statistics.median, zip(*times, strict=True)
        )
        row(
            name,
            *(f"{1e3 * t:.1f}" for t in (analysis, compilation, writing)),
            f"{compilation / writing:.2f}",
            f"{(analysis + compilation) / writing:.2f}",
        )


def _write(model):
    with tempfile.NamedTemporaryFile(suffix=".lp") as file:
        model.write(file.name)


def workers():
    """Two workers beside one, wall time, and what the machine gives two processes."""
    heading(
        "Two workers beside one, wall s, medians of 5",
        *("model", "K", "1", "2", "ratio", "executor= of two processes"),
        "two processes that share nothing",
    )
    for name, k, n in (("cep1", 5, 4000), ("cep1", 10, 3000), ("mnv", 3, 48)):
        one, two, pooled, apart = (
            statistics.median(times)
            for times in zip(*(_workers(name, k, n) for _ in range(5)), strict=True)
        )
        row(
            *(name, k, f"{one:.2f}", f"{two:.2f}"),
            *(f"{one / two:.2f}x", f"{one / pooled:.2f}x", f"{2 * one / apart:.2f}x"),
        )


def _workers(name, k, n):
    """Return wall seconds: one worker, two, a pool's, and two processes with all cases."""
    one, two = (_seconds(name, k, n, workers=count) for count in (1, 2))
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        list(pool.map(_seconds, [name] * 2, [k] * 2, [8] * 2))  # both are awake
        pooled = _seconds(name, k, n, executor=pool, workers=2)
        apart = max(pool.map(_seconds, [name] * 2, [k] * 2, [n] * 2))
    return one, two, pooled, apart


def _seconds(name, k, n, **options):
    """Return the wall seconds of n labels, once the workers are awake."""
    module = {"cep1": cep1, "mnv": mnv}[name]
    zetas, omegas = pairs(module, n, k)
    oracle = csg.Oracle(module.build(), **options)
    for _ in range(2):
        oracle.loss(zetas[:32], omegas[:32], progress=False)
    start = time.perf_counter()
    oracle.loss(zetas, omegas, progress=False)
    return time.perf_counter() - start


def quadratic():
    """Programs of a degenerate quadratic dispatch beside PIQP's own time for them."""
    heading(
        "A quadratic dispatch of 24 hours, CPU ms",
        *("call", "cases", "ours", "PIQP", "ratio", "programs solved"),
    )
    rng = np.random.default_rng(0)
    oracle, n = csg.Oracle(dispatch.build()), 20
    zetas, omegas = dispatch.demands(rng, n, 5), dispatch.demands(rng, 20 * n)
    decisions = np.repeat(oracle.solve(zetas).decision, 20, axis=0)
    whole = _piqp_seconds(lambda: oracle.solve(zetas, progress=False))
    # The first evaluations of a model are solved; later ones find a region.
    recourse = _piqp_seconds(
        lambda: [
            csg.Oracle(dispatch.build()).cost(decisions[:1], one[None])
            for one in omegas[:n]
        ]
    )
    calls = {
        "solve": (lambda: oracle.solve(zetas, progress=False), n, whole),
        "loss": (
            lambda: oracle.loss(zetas, omegas[:n], progress=False),
            n,
            whole + recourse,
        ),
        "loss_gradient": (
            lambda: oracle.loss_gradient(zetas, omegas[:n], progress=False),
            n,
            whole + recourse,
        ),
        "cost": (
            lambda: oracle.cost(decisions, omegas, progress=False),
            len(omegas),
            recourse,
        ),
    }
    for name, (call, cases, piqp_seconds) in calls.items():
        before = oracle.stats.solves
        seconds = min(cpu(call)[0] for _ in range(3)) / cases
        row(
            *(name, cases, f"{1e3 * seconds:.2f}", f"{1e3 * piqp_seconds:.2f}"),
            *(f"{seconds / piqp_seconds:.1f}", (oracle.stats.solves - before) // 3),
        )


def _piqp_seconds(call):
    """Return the mean CPU seconds of PIQP, setup included, a program in a call."""
    spent = []
    original = KktSolver._run_piqp

    def timed(*arguments):
        seconds, answer = cpu(original, *arguments)
        spent.append(seconds)
        return answer

    KktSolver._run_piqp = staticmethod(timed)
    try:
        call()
    finally:
        KktSolver._run_piqp = staticmethod(original)
    return statistics.mean(spent)


PARTS = {
    "appsi": against_appsi,
    "shares": shares,
    "gurobi": against_gurobi,
    "full_mnv": full_mnv,
    "costs": costs,
    "recourse": recourse,
    "batches": batches,
    "compiling": compiling,
    "workers": workers,
    "quadratic": quadratic,
}
NEED_FOLDER = ("recourse", "batches")

if __name__ == "__main__":
    for name in sys.argv[1:] or PARTS:
        part, _, place = name.partition("=")
        if place:
            PARTS[part](place)
        elif part in NEED_FOLDER:
            print(f"\n{part} needs the SMPS instances: give {part}=FOLDER")
        else:
            PARTS[part]()
