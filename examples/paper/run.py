"""The paper's four experiments, with every baseline in the same table.

    python examples/paper/run.py newsvendor --quick
    python examples/paper/run.py cep1 --trials 5 --methods auto mmd static
    python examples/paper/run.py all --quick

Results are kept in ``results/``, a file a row and trial: the same command goes on where
it was stopped, also within a long fit. Tables and figures are made of all that is there
with as many contexts and pairs, and beside them goes an archive of it: where ``--out`` has
one, as ``docs/results`` does, its rows need not be fitted again.
"""

from __future__ import annotations

import argparse
import importlib
import logging
from dataclasses import replace
from pathlib import Path

import figures
import torch
from archive import pack, unpack
from experiment import Experiment
from methods import METHODS, QUICK, Fitting, Unit, units
from page import report
from search import DRAWS, searched_settings
from store import Store
from tqdm import tqdm

import pyomo_csg as csg

logger = logging.getLogger("paper")

QUICK_DRAWS = 3

PROBLEMS = {
    "newsvendor": ("newsvendor", "EXPERIMENT"),
    "newsvendor-signal": ("newsvendor", "SIGNAL"),
    "cep1": ("cep1", "EXPERIMENT"),
    "cep1-part": ("cep1", "BY_PART"),
    "cvar": ("cvar", "EXPERIMENT"),
    "mnv": ("mnv", "EXPERIMENT"),
}


def run(experiment: Experiment, methods, store: Store, workers: int) -> None:
    """Fit and evaluate whatever is missing."""
    rows = list(units(experiment, methods))
    todo = [
        (trial, unit)
        for trial in experiment.numbers
        for unit in rows
        if not store.has(unit, trial)
    ]
    with tqdm(total=len(todo), desc=experiment.name, unit=" policy") as bar:
        for trial in sorted({trial for trial, _ in todo}):
            bar.set_postfix_str(f"trial {trial}, cases")
            fitting = Fitting(experiment, trial, workers)
            cases = experiment.cases(trial)
            for unit in [unit for t, unit in todo if t == trial]:
                bar.set_postfix_str(f"trial {trial}, {unit}")
                fit_and_evaluate(
                    experiment, fitting, cases, unit, trial, store, workers
                )
                bar.update()


def fit_and_evaluate(
    experiment: Experiment,
    fitting: Fitting,
    cases: list[csg.Case],
    unit: Unit,
    trial: int,
    store: Store,
    workers: int,
) -> None:
    """Fit a policy, evaluate it, and store the results."""
    try:
        policy, seconds = fitting.policy(unit, store.checkpoint(unit, trial))
    except csg.CsgError as error:
        logger.error(
            "%s, trial %d: %s was not fitted: %s", store.folder.name, trial, unit, error
        )
        store.keep_failure(unit, trial, str(error))
        return
    evaluation = csg.evaluate(
        {str(unit): policy},
        cases,
        options=experiment.options,
        cache=store.folder / "full",
        workers=workers,
        trial=trial,
        progress=False,
    )
    summary = getattr(getattr(policy, "learned", None), "summary", {})
    store.keep(unit, trial, evaluation, seconds, summary.get("loss_net_errors"))


def chosen(arguments, name: str) -> Experiment:
    """Return an experiment as the command line wants it."""
    module, attribute = PROBLEMS[name]
    experiment = getattr(importlib.import_module(module), attribute)
    experiment = experiment.quick() if arguments.quick else experiment
    asked = {
        "protocol": arguments.protocol,
        "first": arguments.first,
        "trials": arguments.trials,
        "contexts": arguments.contexts,
        "counts": tuple(arguments.scenarios or ()) or None,
        "penalties": tuple(map(_penalty, arguments.penalties or ())) or None,
    }
    return replace(experiment, **{k: v for k, v in asked.items() if v is not None})


def _penalty(text: str) -> float | str:
    return text if text.endswith("x") else float(text)


def parser() -> argparse.ArgumentParser:
    """Return what reads the command line."""
    found = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    found.add_argument("problem", choices=(*PROBLEMS, "all"))
    found.add_argument("--quick", action="store_true", help="less of everything")
    found.add_argument(
        "--protocol",
        choices=("defaults", "paper"),
        help="'paper': settings by a random search on a development history",
    )
    found.add_argument("--trials", type=int)
    found.add_argument(
        "--first",
        type=int,
        help="number of the first trial; 0 to 9 are for development",
    )
    found.add_argument("--contexts", type=int, help="to decide for in a trial")
    found.add_argument("--scenarios", type=int, nargs="+", help="numbers K")
    found.add_argument("--penalties", nargs="+", help="lambdas, such as 10 or 0.1x")
    found.add_argument("--methods", nargs="+", choices=METHODS)
    found.add_argument("--workers", type=int, default=2)
    found.add_argument("--results", type=Path, default=Path("results"))
    found.add_argument("--out", type=Path, help="where tables and figures go")
    found.add_argument(
        "--run",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="fit what is missing; else only show what is there",
    )
    found.add_argument(
        "--illustrate",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="draw the newsvendor's scenarios and the loss's landscape, too",
    )
    return found


def main() -> None:
    arguments = parser().parse_args()
    torch.set_num_threads(1)
    logging.basicConfig(level=logging.WARNING)
    methods = tuple(arguments.methods or (QUICK if arguments.quick else METHODS))
    out = arguments.out or arguments.results
    for name in [*PROBLEMS] if arguments.problem == "all" else (arguments.problem,):
        experiment = chosen(arguments, name)
        kind, ending = ("quick", "_quick") if arguments.quick else ("full", "")
        if experiment.protocol == "paper":
            settings = out / f"{name}{ending}_settings.json"
            draws = QUICK_DRAWS if arguments.quick else DRAWS
            found = searched_settings(experiment, settings, draws)
            experiment = replace(experiment, searched=found)
            kind, ending = f"{kind}-paper", f"{ending}_paper"
        store = Store(arguments.results / kind / name, experiment)
        kept = out / f"{name}{ending}.zip"
        if count := unpack(kept, store):
            print(f"{name}: {count} results are taken from {kept}")
        if not arguments.run:
            store.show_stored_code()
        else:
            run(experiment, methods, store, arguments.workers)
        print(report(experiment, methods, store, out, name + ending))
        pack(store, kept)
        if name == "newsvendor" and arguments.illustrate:
            picture = out / f"newsvendor_scenarios{ending}.png"
            figures.newsvendor_scenarios(experiment, picture, arguments.workers)
        if name == "cvar" and arguments.illustrate:
            figures.landscape(out / "landscape.png")


if __name__ == "__main__":
    main()
