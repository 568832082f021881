"""What pays when integer models are trained on: labels, gaps, starts, gradients.

Run: python -m tests.benchmarks.integer_training [labels gaps starts gradients] [name ...]
"""

import sys
import time
from dataclasses import replace

import numpy as np
import torch

import pyomo_csg as csg
from models import cvar_portfolio, facility_location, mnv, sslp, unit_commitment
from pyomo_csg.learn.candidates.fold_distributions import FoldDistributions
from pyomo_csg.learn.config import FitConfig
from pyomo_csg.learn.methods.direct import train_direct
from pyomo_csg.learn.methods.mmd import train_mmd
from pyomo_csg.learn.networks.initialization import new_bodies
from pyomo_csg.learn.progress import TrainingLog
from pyomo_csg.learn.selection.folds import make_folds_from
from pyomo_csg.learn.selection.plan import steps_and_batch
from pyomo_csg.learn.tables.history import read_history
from pyomo_csg.learn.task import Task
from pyomo_csg.learn.trainer import sample_schedule
from pyomo_csg.solve.compile.assembly import Layout, evaluate
from pyomo_csg.solve.compile.compiler import compile_model
from pyomo_csg.solve.engine import SolveContext
from pyomo_csg.solve.mip.integer_solver import IntegerSolver
from pyomo_csg.solve.mip.mip_program import MipProgram
from tests.benchmarks.integer_programs import staffing
from tests.benchmarks.oracle import cpu, heading, row

K = 5
GAP = 0.005
# Scenarios between 0 and 1 leave sslp without a decision, so it cannot be trained on.
UNTRAINABLE = ("sslp_5_25",)
MOVE = 0.02  # of a standard deviation: how far scenarios move in a training step
SECONDS = 10.0  # CPU seconds for each way of training
STARTED = 3  # programs that HiGHS solves three times


def _small_commitment():
    hours = 12
    x, y = unit_commitment.sample(300, 1)
    return (
        unit_commitment.build(tuple(unit_commitment.UNITS)[:3], hours),
        x,
        y[:, :hours],
    )


def _zoo(module, n=300, **options):
    return module.build(**options), *module.sample(n, 1)


def _presences(servers=5, clients=25, n=300):
    rng = np.random.default_rng(1)
    contexts = rng.standard_normal((n, 5))
    slopes = np.random.default_rng(0).normal(0, 1, (5, clients))
    there = rng.uniform(size=(n, clients)) < 1 / (1 + np.exp(-contexts @ slopes))
    return sslp.build(servers, clients), contexts, there.astype(float)


def _calls():
    rng = np.random.default_rng(1)
    level = rng.normal(0, 0.3, (300, 1))
    shape = 55 + 35 * np.sin(np.arange(16) / 16 * np.pi * 2.2 - 0.6)
    return staffing(), level, rng.poisson(shape * np.exp(level)).astype(float)


def _returns():
    contexts, outcomes = cvar_portfolio.history()
    return cvar_portfolio.build(), contexts[:300, -1], outcomes[:300]


# Model, contexts and outcomes of a history; the number of programs.
CASES = {
    "unit commitment, 3 x 12 h": (_small_commitment, 12),
    "facility_location": (lambda: _zoo(facility_location), 20),
    "mnv": (lambda: _zoo(mnv), 12),
    "sslp_5_25": (_presences, 6),
    "cvar_portfolio": (_returns, 20),
    "staffing, general integers": (_calls, 10),
}


def labels(names):
    """The search among optimal decisions: what it costs and what it tells."""
    heading(
        f"Labels with and without the search among ties, K = {K}",
        *("model", "programs", "CPU s without", "with", "ratio"),
        *("labels that differ", "by, mean and largest, of a standard deviation"),
    )
    for name in names:
        oracle, zetas, outcomes = _programs(name)
        _losses(oracle, zetas[:1], outcomes, "optimistic")  # builds the programs
        slow, exact = cpu(_losses, oracle, zetas, outcomes, "optimistic")
        fast, plain = cpu(_losses, oracle, zetas, outcomes, "recourse")
        apart = np.abs(plain - exact) / exact.std()
        n = len(zetas)
        row(
            *(name, n, f"{fast / n:.3g}", f"{slow / n:.3g}", f"{slow / fast:.2f}"),
            *(f"{(apart > 1e-6).mean():.0%}", f"{apart.mean():.2g}, {apart.max():.2g}"),
        )


def gaps(names):
    """Programs with a gap: what it saves and what their decisions cost more."""
    heading(
        f"zeta-SAA with a gap of {GAP:.1%}, K = {K}",
        *("model", "programs", "CPU s exact", "with the gap", "times as fast"),
        "decisions cost more, % of the mean cost",
    )
    for name in names:
        oracle, zetas, outcomes = _programs(name)
        slow, exact = cpu(_solve, oracle, zetas)
        fast, near = cpu(_solve, oracle, zetas, mip_gap=GAP)
        n, m = len(zetas), min(40, len(outcomes))
        costs = [
            oracle.cost(
                np.repeat(found.decision, m, axis=0),
                np.tile(outcomes[:m], (n, 1)),
                progress=False,
            ).reshape(n, m)
            for found in (exact, near)
        ]
        apart = (costs[1] - costs[0]).mean(axis=1)
        size = abs(costs[0].mean()) / 100
        error = apart.std(ddof=1) / np.sqrt(n)
        row(
            *(name, n, f"{slow / n:.3g}", f"{fast / n:.3g}", f"{slow / fast:.2f}"),
            f"{apart.mean() / size:+.3f} +- {error / size:.3f}",
        )


def starts(names):
    """Programs whose scenarios moved a little, from the last incumbent and without it.

    HiGHS solves the whole program. The third way fixes the first-stage integers on which
    the relaxation and the last incumbent agree: a neighborhood, not exact.
    """
    heading(
        f"HiGHS from the last incumbent, and around it, K = {K}",
        *("model", "programs", "CPU s by the rule", "HiGHS", "from the incumbent"),
        *("around it", "around it costs more, %"),
    )
    for name in _trainable(names):
        oracle, zetas, outcomes = _programs(name)
        compiled = compile_model(oracle.two_stage)
        layout = Layout(compiled, K)
        context = SolveContext(options={"mip_rel_gap": 1e-4})
        rng = np.random.default_rng(0)
        before = zetas[:STARTED]
        now = before + MOVE * outcomes.std(axis=0) * rng.standard_normal(before.shape)
        now = np.clip(now, outcomes.min(axis=0), outcomes.max(axis=0))
        n = len(now)
        weights = np.full((n, K), 1 / K)
        blocks, old = evaluate(compiled, now), evaluate(compiled, before)
        rule = IntegerSolver(compiled, K, context)
        ours, _ = cpu(rule.solve_many, blocks, weights)
        program = MipProgram(layout, context)
        relaxed = layout.integer.copy()
        first = np.zeros_like(relaxed)
        first[: layout.n1] = relaxed[: layout.n1]
        seconds, values = np.zeros(3), np.empty((3, n))
        for i in range(n):
            last = program.minimize(layout.arrays(old[i], weights[i]))
            arrays = layout.arrays(blocks[i], weights[i])
            begin = _with_recourse(program, arrays, last, first)
            used, x = cpu(program.minimize, arrays)
            seconds[0] += used
            values[0, i] = arrays.value(x)
            used, x = cpu(program.minimize, arrays, begin)
            seconds[1] += used
            values[1, i] = arrays.value(x)
            used, x = cpu(_around, program, rule, arrays, begin, first)
            seconds[2] += used
            values[2, i] = arrays.value(x)
        worse = 100 * np.mean(values[2] / values[0] - 1) * np.sign(values[0].mean())
        row(name, n, *(f"{s / n:.3g}" for s in (ours, *seconds)), f"{worse:.3f}")


def _with_recourse(program, arrays, last, first):
    """Return the last decision with its best recourse in a new program."""
    lower, upper = arrays.column_lower.copy(), arrays.column_upper.copy()
    lower[first] = upper[first] = np.round(last[first])
    return program.minimize(replace(arrays, column_lower=lower, column_upper=upper))


def _around(program, rule, arrays, incumbent, first):
    """Return the best point whose first-stage integers are those on which two agree."""
    relaxation = rule._tree._relaxation
    relaxation.solve(arrays)
    agreed = first & (np.abs(relaxation.point() - incumbent) < 1e-6)
    lower, upper = arrays.column_lower.copy(), arrays.column_upper.copy()
    lower[agreed] = upper[agreed] = np.round(incumbent[agreed])
    near = replace(arrays, column_lower=lower, column_upper=upper)
    return program.minimize(near, incumbent)


def gradients(names):
    """Networks trained for the same CPU seconds by the gradients of two programs.

    One is the relaxation. The other is the integer program, with its integers held at the
    incumbent; it may stop at a gap.
    """
    heading(
        f"Networks after {SECONDS:.0f} CPU s of training, K = {K}, mean costs on 60 later rows",
        *("model", "steps (relaxed, integer, with a gap)", "MMD, without training"),
        *("relaxation - MMD", "integer - MMD", "integer with a gap - MMD"),
        "half relaxation, half integer - MMD",
    )
    for name in _trainable(names):
        task, held = _task(name)
        folds = make_folds_from([held], np.arange(len(task.history)))
        rows, training = [folds.rows[0]], folds.with_held_out
        kinds = FoldDistributions(task, training, ("forest weights",))
        samplers = [*kinds.samplers("forest weights")]
        mmd = train_mmd(task, new_bodies(task, "mlp", rows, "mmd"), rows, [held], "mmd")
        ways = {
            "relaxed": [(task.relaxed, 1.0, None)],
            "integer": [(task.oracle, 1.0, None)],
            "gap": [(task.oracle, 1.0, GAP)],
            "both": [(task.relaxed, 0.5, None), (task.oracle, 0.5, None)],
        }
        steps, costs = [], {"mmd": _held_out_costs(task, mmd, held)}
        for way, parts in ways.items():
            bodies = mmd
            for oracle, share, gap in parts:
                bodies, count = _train(
                    task, bodies, rows, samplers, share, oracle=oracle, mip_gap=gap
                )
                if len(parts) == 1:
                    steps.append(count)
            costs[way] = _held_out_costs(task, bodies, held)
        mean = costs["mmd"].mean()
        cells = []
        for way in ways:
            apart = costs[way] - costs["mmd"]
            error = apart.std(ddof=1) / np.sqrt(len(apart))
            cells.append(f"{apart.mean():+.4g} +- {error:.2g}")
        row(name, ", ".join(map(str, steps)), f"{mean:.6g}", *cells)


def _train(task, bodies, rows, samplers, share, **program):
    """Return bodies after as many steps as fit into the time, and the programs solved."""

    def run(programs, stage):
        length = steps_and_batch(programs, 20)
        mine, schedule = sample_schedule(
            rows, *length, task.config.task_rate, task.rng("rows")
        )
        return cpu(
            train_direct,
            *(task, stage, bodies, mine, samplers),
            **program,
            schedule=schedule,
            draws=8,
            regularization=0.03,
        )

    seconds, _ = run(40, "probe")
    programs = int(np.clip(share * SECONDS / (seconds / 40), 40, 6000))
    _, trained = run(programs, "direct")
    return trained, programs


def _held_out_costs(task, bodies, held):
    scenarios, weights = task.generate_scenarios(bodies[0], held)
    decisions = task.solve(scenarios, task.solver_weights(weights)).decision
    return task.cost(decisions, task.history.outcomes[held])


def _task(name):
    """Return the task on a history, and the 60 last rows of it."""
    model, contexts, outcomes = CASES[name][0]()
    oracle = csg.Oracle(model)
    history = read_history(oracle.two_stage, (contexts, outcomes))
    task = Task(oracle, history, K, FitConfig(), 0, TrainingLog())
    return task, np.arange(len(outcomes) - 60, len(outcomes))


def _programs(name):
    """Return an oracle, scenarios (n, K, p) near each other, and outcomes."""
    make, n = CASES[name]
    model, contexts, outcomes = make()
    rng = np.random.default_rng(0)
    far = ((contexts[:, None] - contexts[:n]) / contexts.std(axis=0)) ** 2
    near = np.argsort(far.sum(axis=-1), axis=0)[: 6 * K]  # (30, n)
    picked = [rng.choice(mine, K, replace=False) for mine in near.T]
    oracle = csg.Oracle(model)
    oracle.solve(outcomes[picked[0]], progress=False)  # builds the program
    return oracle, outcomes[np.array(picked)], outcomes


def _trainable(names):
    return [name for name in names if name not in UNTRAINABLE]


def _solve(oracle, zetas, **options):
    return oracle.solve(zetas, fresh=True, progress=False, **options)


def _losses(oracle, zetas, outcomes, kind):
    mine = outcomes[: len(zetas)]
    return oracle.loss(zetas, mine, kind, audit=False, fresh=True, progress=False)


PARTS = {"labels": labels, "gaps": gaps, "starts": starts, "gradients": gradients}

if __name__ == "__main__":
    torch.set_num_threads(1)
    parts = [name for name in sys.argv[1:] if name in PARTS]
    chosen = [name for name in sys.argv[1:] if name in CASES]
    for part in parts or PARTS:
        begun = time.process_time()
        PARTS[part](chosen or CASES)
        print(f"({time.process_time() - begun:.0f} CPU s)", flush=True)
