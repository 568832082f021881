"""The page of an experiment: tables with the paper's figures, plots, remarks and files."""

from __future__ import annotations

import platform
import shlex
import sys
from importlib.metadata import version
from pathlib import Path

import figures
import pandas as pd
import reported
import summary
import tables
from cells import markdown
from experiment import Experiment
from methods import Unit, units
from store import Store
from times import times

import pyomo_csg as csg
from pyomo_csg.evaluation.tables import remarks

VERSIONS = ("pyomo", "highspy", "torch", "numpy", "scikit-learn")
PROTOCOLS = {
    "defaults": "All methods have the package's default settings.",
    "paper": "`mmd`, `static` and `dynamic` have the settings that a random search found on "
    "development generator 0, by a holdout of 20 %, as the paper does it. `auto` and the "
    "baselines have their defaults.",
}
KERNEL = (
    "The MMD loss has the kernel k_E of the paper, -||a - b|| / 2 up to terms that do not "
    "depend on the scenarios, in raw units; lambda multiplies this loss."
)
DOUBLED = (
    " Rows with `doubled` have the kernel -||a - b|| instead, which the paper calls "
    "equivalent: its MMD loss is twice as large, so the same lambda weighs twice as much."
)
WINS_IN_PAPER = """## Lowest cost among the paper's methods

In percent of the contexts, in the trials that all rows have. Brackets have the paper's
figures. The head of a column has the number of compared rows, here and in the paper."""
SUMMARY = """## Gaps

The gap of a decision is its cost above the optimum for the true conditional distribution,
relative to that optimum. Brackets have the paper's figures. A table compares rows on the same
trials. Intervals [low, high] are
bootstrap intervals of 95 % over trials, or over contexts if there is one trial. Times of fits
are medians over trials, those of decisions means over contexts; both depend on what else the
machine did."""
LOSS_NETS = """## Loss-Nets

What section 5.5 of the paper explains results with; medians over trials. Errors are mean
absolute errors relative to the mean optimum: on the scenarios that the Loss-Net was trained on
(at home), and on those of the policy. The shift is the distance between the two. VSS is the
mean gap of EV."""
TIMES = """## Times in seconds, in the paper's columns

Training times are medians over trials and lambdas. Solution times are means per context.
Brackets have the paper's figures; its solution times are divided by the number of contexts,
312 (CVaR) or 100 (MNV)."""


def report(
    experiment: Experiment, methods, store: Store, folder: Path, name: str
) -> str:
    """Write and return the tables of all stored results, and draw the figures."""
    folder.mkdir(parents=True, exist_ok=True)
    trials = experiment.numbers
    every = list(units(experiment, methods))
    there = [u for u in every if store.seconds(u, trials) or store.failures(u, trials)]
    rows = [u for u in every if u.method in reported.METHODS or u in there]
    found = store.evaluation(there, trials)
    gaps = {
        f"Trials {', '.join(map(str, some))}": summary.numbers(
            store, [u for u in there if _has_all(store, u, some)], some
        )
        for some in _sets_of_trials(store, there, trials)
    }
    numbers = pd.concat(gaps, names=["on", None]).reset_index("on")
    sections = {
        f"{SUMMARY if head == min(gaps, key=len) else ''}\n\n**{head}**": summary.lines(
            experiment.name, table
        )
        for head, table in gaps.items()
    } | {
        LOSS_NETS: tables.loss_nets(experiment, store, there, trials),
    }
    if len(reported.rows(experiment.name, experiment.counts[0])):
        sections[WINS_IN_PAPER] = tables.wins_in_paper(experiment, store, rows, trials)
    if reported.seconds(experiment.name, experiment.counts[0]):
        sections[TIMES] = times(experiment, store, rows, trials)
    text = [
        f"# {experiment.name}, protocol '{experiment.protocol}'",
        how_it_was_run(experiment, store, there),
    ]
    for head, table in sections.items():
        if len(table):
            text += [head, markdown(table)]
    picture = folder / f"{name}_cdf.png"
    common = [t for t in trials if all(store.has(u, t) for u in there)]
    figures.cdf(experiment, store, there, common or trials, picture)
    text.append(f"![The distribution of gaps]({picture.name})")
    if noted := notes(store, found, every, trials):
        text += ["## Remarks", "\n".join(f"- {note}" for note in noted)]
    page = "\n\n".join(text) + "\n"
    (folder / f"{name}.md").write_text(page)
    numbers.to_csv(folder / f"{name}_summary.csv", index=False)
    if found is not None:
        write_tidy(found, there, folder / f"{name}.csv")
    return page


def _sets_of_trials(
    store: Store, rows: list[Unit], trials: range
) -> list[tuple[int, ...]]:
    """Return the sets of trials that rows have, the smallest first.

    Rows are compared on the same trials only. A row that failed has those of the others.
    """
    found = {tuple(t for t in trials if store.has(unit, t)) for unit in rows}
    return sorted((found - {()}) or {tuple(trials)}, key=len)


def _has_all(store: Store, unit: Unit, trials: tuple[int, ...]) -> bool:
    return all(
        store.has(unit, t) or store.failures(unit, range(t, t + 1)) for t in trials
    )


def notes(
    store: Store, found: csg.Evaluation | None, rows: list[Unit], trials: range
) -> list[str]:
    """Return remarks: how far gaps are proven, what failed and what was left out."""
    failed = [
        f"{unit} was not fitted in trial {trial}: {' '.join(reason.split())}"
        for unit in rows
        for trial, reason in store.failures(unit, trials).items()
    ]
    misfits = store.misfits(rows, trials)
    left_out = f"{misfits} results for other contexts, pairs or settings are left out"
    said = [] if found is None else remarks(found)
    return [*said, *failed, *([left_out] if misfits else [])]


def write_tidy(found: csg.Evaluation, rows: list[Unit], path: Path) -> None:
    """Write all costs, with the parts of a policy's name in separate columns."""
    found.to_csv(path)
    table = pd.read_csv(path, dtype=str, keep_default_na=False)
    parts = {
        str(u): {
            "method": u.method,
            "scenarios": str(u.scenarios or ""),
            "penalty": u.penalty_text,
            "kernel": u.kernel,
        }
        for u in rows
    }
    columns = pd.DataFrame([parts[name] for name in table["policy"]])
    table.join(columns).to_csv(path, index=False)


def how_it_was_run(experiment: Experiment, store: Store, rows: list[Unit]) -> str:
    """Return the command, the code, the versions, the sizes, the seeds and the kernel."""
    versions = ", ".join(f"{name} {version(name)}" for name in VERSIONS)
    command = shlex.join(["python", "examples/paper/run.py", *sys.argv[1:]])
    last, commits = experiment.numbers[-1], store.commits(rows, experiment.numbers)
    text = [
        (
            f"`{command}` made this page, with {versions}, Python "
            f"{platform.python_version()}. Its rows are of commit {', '.join(commits)}."
        ),
        (
            f"Policies are fitted to {experiment.pairs} pairs and evaluated on "
            f"{experiment.contexts} contexts in each of the trials {experiment.first} to "
            f"{last}. Trial t has generator t, pairs with seed 17 t + 1, contexts with seed "
            f"1000000 + t and fits with seed t, so that intervals over trials contain data "
            "and training."
        ),
        PROTOCOLS[experiment.protocol],
        KERNEL + (DOUBLED if experiment.doubled else ""),
    ]
    if experiment.searched:
        found = ", ".join(
            f"{name} {f'{value:.3g}' if isinstance(value, float) else value}"
            for name, value in experiment.searched.items()
        )
        text.append(f"Settings found: {found}.")
    return "\n\n".join(text)
