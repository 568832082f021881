"""The commands: each takes the parsed arguments and returns an exit code."""

from __future__ import annotations

import shlex
import shutil
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from pyomo.core.base.block import BlockData

from pyomo_csg.cli.parser import PROGRAM
from pyomo_csg.cli.user_files import (
    FIELD,
    check_output_path,
    find_remembered,
    read_table,
    remember,
    write_table,
)
from pyomo_csg.decisions.number_formats import round_like, two_digits
from pyomo_csg.errors import DataError, ModelError, ProblemsError, SolveError, shortlist
from pyomo_csg.interop.model_files import load_model
from pyomo_csg.interop.smps import ENDINGS, SmpsProblem, is_smps_file, read_smps
from pyomo_csg.learn.lineage import describe_lineage
from pyomo_csg.learn.tables.columns import ENCODINGS
from pyomo_csg.learn.tables.history import read_history
from pyomo_csg.solve import Oracle
from pyomo_csg.stages import TwoStageModel
from pyomo_csg.stages.annotation import KNOWN, UNCERTAIN, read_annotation
from pyomo_csg.validation import Problems

if TYPE_CHECKING:
    from pyomo_csg.evaluation.comparison import Comparison
    from pyomo_csg.policy.policy import Policy

DRIFT = 3  # exit code
_NUMBERS = "give numbers, as the policy was fitted to"
_DEMO_SETTINGS = ("--set", "folds=3", "--set", "starts=2")  # for a fast demo
_ZERO = 1e-9  # decisions up to this size are not printed; solvers return such residues


def check(args: Namespace) -> int:
    """Print a model's stages, solve it with its own data, and check a table."""
    check_output_path(args.lp, args.model, args.data)
    errors = _ErrorList(f"Problems with '{args.model}'")
    model = two_stage = None
    with errors.collect():
        model = _load_model(args, args.model)
        two_stage = TwoStageModel(model)
        print(two_stage)
    if two_stage is not None:
        with errors.collect():
            print(f"\n  solved with its own data: {_own_value(args, two_stage):.6g}")
    if args.data is not None:
        with errors.collect():
            _check_table(args, two_stage or _annotated_params(model))
    errors.raise_any()
    return 0


class _ErrorList:
    """Collects errors, so that later checks run although earlier ones failed."""

    def __init__(self, subject: str):
        self._subject = subject
        self._errors: list[ProblemsError] = []

    @contextmanager
    def collect(self) -> Iterator[None]:
        """Record an error that lists problems, and continue after the block."""
        try:
            yield
        except ProblemsError as error:
            self._errors.append(error)

    def raise_any(self) -> None:
        """Raise the recorded errors: a single one unchanged, several as one."""
        if len(self._errors) == 1:
            raise self._errors[0]
        if self._errors:
            problems = [
                f"{e.subject}: {one}" for e in self._errors for one in e.problems
            ]
            raise ModelError(self._subject, problems) from self._errors[0]


@dataclass(frozen=True)
class _AnnotatedParams:
    """The annotated Params of a model with problems, to check a table against."""

    model: BlockData
    uncertain_params: list[Any]
    known_params: list[Any]


def _annotated_params(model: BlockData | None) -> _AnnotatedParams | None:
    params = None if model is None else read_annotation(model, UNCERTAIN)
    if model is None or not params:
        return None
    known = read_annotation(model, KNOWN) or []
    return _AnnotatedParams(model, list(params), list(known))


def _check_table(args: Namespace, two_stage: Any) -> None:
    table = _read_history_table(args)
    if two_stage is not None:
        history = read_history(two_stage, table, args.context, _preprocess(args))
        names = ", ".join(history.context_names or ())
        print(f"  {len(history)} pairs in '{args.data}', context: {names}")


def _read_history_table(args: Namespace) -> pd.DataFrame:
    """Return the table of pairs without the columns to ignore."""
    table = read_table(args.data)
    if missing := [name for name in args.ignore if name not in table]:
        found = f"there is no column {shortlist(missing)} to ignore"
        known = shortlist(list(map(str, table.columns)))
        raise DataError(f"Cannot use '{args.data}'", [f"{found}; it has {known}"])
    return table.drop(columns=args.ignore)


def _preprocess(args: Namespace) -> Any:
    """Return what happens to columns that are not numbers."""
    return "auto" if args.holidays is None else {"holidays": args.holidays}


def _own_value(args: Namespace, two_stage: TwoStageModel) -> float:
    """Return the optimal value with the Params' values in the model."""
    own = np.array([[[param.value for param in two_stage.uncertain_params]]])
    oracle = Oracle(
        two_stage.model, args.solver, workers=args.workers, options=_options(args)
    )
    try:
        return oracle.solve(own).value[0]
    except SolveError as error:
        remedy = "--lp own.lp writes the program to a file"
        if args.lp is not None:
            error.write(args.lp)
            remedy = f"the program is in '{args.lp}'"
        subject = f"'{two_stage.model.name}' cannot be solved with its own data"
        raise ModelError(subject, [f"{_describe_failure(error)}; {remedy}"]) from error


def _describe_failure(error: SolveError) -> str:
    if error.status == "infeasible":
        return "no solution is feasible with the values of its Params"
    detail = f" ({error.detail})" if error.detail else ""
    return f"it is {error.status}{detail}"


@contextmanager
def _text_column_remedy(remedy: str) -> Iterator[None]:
    """Replace the remedies for text columns, which name Python code, by one for here."""
    try:
        yield
    except DataError as error:
        problems = list(error.problems)
        for python_remedy in sorted(ENCODINGS.values(), key=len, reverse=True):
            problems = [one.replace(python_remedy, remedy) for one in problems]
        raise DataError(error.subject, problems) from error


def solve(args: Namespace) -> int:
    """Print the optimal value of a problem in SMPS files, the time and the decision."""
    subject = f"Cannot solve '{args.model}'"
    if not is_smps_file(args.model):
        known = ", ".join(sum(ENDINGS.values(), ()))
        found = f"it is not an SMPS file; give one that ends in {known}"
        raise DataError(subject, [found])
    problems = Problems(subject)
    problems.check_counts(scenarios=args.scenarios)
    problems.check_seed(args.seed)
    problems.raise_any()
    problem = read_smps(args.model)
    scenarios, weights, origin = _smps_scenarios(problem, args.scenarios, args.seed)
    oracle = Oracle(
        problem.model, args.solver, workers=args.workers, options=_options(args)
    )
    start = time.perf_counter()
    solution = oracle.solve(scenarios, weights)
    seconds = time.perf_counter() - start
    print(f"'{problem.name}', {oracle.two_stage.sense}, {origin}")
    print(f"  value    {solution.value:.10g}")
    print(f"  time     {seconds:.2f} s")
    print("  decision (variables that are 0 are not shown)")
    variables = oracle.two_stage.first_stage_variables
    for variable, number in zip(variables, solution.decision.tolist(), strict=True):
        if abs(number) > _ZERO:
            print(f"    {variable.name:24} {number:.6g}")
    return 0


def _smps_scenarios(problem: SmpsProblem, most: int, seed: int) -> tuple[Any, Any, str]:
    """Return all scenarios with weights, or a sample; and which of the two it is."""
    count = problem.scenario_count
    if count is not None and count <= most:
        values, weights = problem.scenarios(most)
        return values, weights, f"all {count} scenarios"
    return problem.sample(most, seed), None, f"{most} scenarios drawn with seed {seed}"


def fit(args: Namespace) -> int:
    """Fit a policy to a table, save it, and print its summary."""
    check_output_path(args.out, args.model, args.data)
    model, history = _load_model(args, args.model), _read_history_table(args)
    from pyomo_csg.policy import fit as policy_fit  # takes seconds: after the files

    policy = policy_fit.fit(
        model,
        history,
        scenarios=args.scenarios,
        method=args.method,
        regularization=args.regularization,
        context=args.context,
        known=None if args.known is None else dict(args.known),
        preprocess=_preprocess(args),
        network=args.network,
        config=dict(args.settings),
        seed=args.seed,
        solver=args.solver,
        options=_options(args),
        workers=args.workers,
        seconds=args.seconds,
        checkpoint=args.checkpoint,
        progress=_shows_progress(args),
    )
    if (model_file := remember(args.model)) is not None:
        policy.learned.summary[FIELD] = model_file
    policy.save(args.out)
    print(policy.report())
    print(f"Written to '{args.out}'")
    return 0


@_text_column_remedy(_NUMBERS)
def decide(args: Namespace) -> int:
    """Write a table of decisions; return 1 if some context has none."""
    check_output_path(args.out, args.data, *_policy_files(args, args.policy))
    policy, contexts = _load_policy(args, args.policy), read_table(args.data)
    decisions = policy.decide(
        contexts, on_error="record", progress=_shows_progress(args)
    )
    if both := [name for name in contexts if name in decisions]:
        found = f"it has a column {shortlist(both)}, which is a first-stage variable"
        raise DataError(f"Cannot decide for '{args.data}'", [f"{found}; rename it"])
    write_table(args.out, pd.concat([contexts, decisions], axis=1))
    _print_written(args.out)
    return int(decisions.isna().any(axis=None))


@_text_column_remedy(_NUMBERS)
def evaluate(args: Namespace) -> int:
    """Print the verdict and mean costs on rows, and write all if there is a path."""
    from pyomo_csg.evaluation.comparison import compare

    read = (one for path in args.policies for one in _policy_files(args, path))
    check_output_path(args.out, args.data, args.history, *read)
    policies = {path: _load_policy(args, path) for path in args.policies}
    history = None if args.history is None else read_table(args.history)
    comparison = compare(
        policies, read_table(args.data), history, progress=_shows_progress(args)
    )
    print(_format_comparison(comparison))
    if args.out is not None:
        write_table(args.out, comparison.values)
        _print_written(args.out)
    return 0


@_text_column_remedy(_NUMBERS)
def report(args: Namespace) -> int:
    """Write the report of a policy."""
    page = args.out or Path(args.policy).with_suffix(".html")
    check_output_path(page, args.data, *_policy_files(args, args.policy))
    data = None if args.data is None else read_table(args.data)
    _load_policy(args, args.policy).report(page, data)
    print(f"Written to '{page}'")
    return 0


@_text_column_remedy(_NUMBERS)
def update(args: Namespace) -> int:
    """Let a policy learn from a table of new rows, save it, and print what it gained."""
    _, model = _policy_files(args, args.policy)
    check_output_path(args.out, args.data, model)
    old = _load_policy(args, args.policy)
    new = old.update(
        read_table(args.data), window=args.window, half_life=args.half_life
    )
    new.save(args.out)
    print(new.compare(old))
    print(*describe_lineage(new.lineage), sep="\n")
    print(f"Written to '{args.out}'")
    return 0


@_text_column_remedy(_NUMBERS)
def monitor(args: Namespace) -> int:
    """Print what has changed since the fit; return 3 on drift, if asked."""
    read = args.data, *_policy_files(args, args.policy)
    check_output_path(args.out, *read)
    check_output_path(args.json, *read)
    policy = _load_policy(args, args.policy)
    found = policy.monitor(read_table(args.data), level=args.level)
    print(found)
    if args.out is not None:
        found.report(args.out)
    if args.json is not None:
        found.to_json(args.json)
    return DRIFT if args.fail_on == "drift" and found.drift else 0


def serve(args: Namespace) -> int:
    """Serve decisions over HTTP until the process ends."""
    from pyomo_csg.serve.server import run_server
    from pyomo_csg.serve.settings import ServeSettings

    _, model = _policy_files(args, args.policy)
    settings = ServeSettings(
        policy=str(Path(args.policy).resolve()),
        model=str(Path(model).resolve()),
        host=args.host,
        port=args.port,
        workers=args.workers,
        solver=args.solver,
        options=dict(args.options),
        first_stage=tuple(args.first_stage or ()),
        uncertain=tuple(args.uncertain or ()),
    )
    print(f"Serving on http://{args.host}:{args.port}, API at /docs", file=sys.stderr)
    run_server(settings)
    return 0


COMMANDS = {
    "check": check,
    "decide": decide,
    "evaluate": evaluate,
    "fit": fit,
    "monitor": monitor,
    "report": report,
    "serve": serve,
    "solve": solve,
    "update": update,
}


def _load_model(args: Namespace, path: str | Path, **names: Any) -> BlockData:
    return load_model(path, args.first_stage or (), args.uncertain or (), **names)


def _load_policy(args: Namespace, path: str) -> Policy:
    from pyomo_csg.policy.policy_file import load, read_stage_names, read_summary

    _, file = _policy_files(args, path)
    if args.model is None and not Path(file).is_file():
        _, why = find_remembered(read_summary(path))
        found = f"there is no '{file}', and {why}; give the policy's model with --model"
        raise DataError(f"'{path}' cannot be used", [found])
    model = _load_model(args, file, default_names=read_stage_names(path))
    return load(
        path, model, solver=args.solver, options=_options(args), workers=args.workers
    )


def _policy_files(args: Namespace, path: str) -> tuple[str, str | Path]:
    """Return the paths of a policy and of its model."""
    if args.model is not None:
        return path, args.model
    from pyomo_csg.policy.policy_file import read_summary

    remembered, _ = find_remembered(read_summary(path))
    return path, remembered or Path(path).with_name("model.py")


def _options(args: Namespace) -> dict[str, Any] | None:
    return dict(args.options) or None


def _print_written(path: str | None) -> None:
    """Print where a table is, on standard error: the output may be piped."""
    if path is not None:
        print(f"Written to '{path}'", file=sys.stderr)


def _shows_progress(args: Namespace) -> bool:
    return sys.stderr.isatty() and not args.quiet


def _format_comparison(comparison: Comparison) -> str:
    """Return the verdict and the table of a comparison as text."""
    table = comparison.table()
    sign, words = 1.0, ("cost", "costs (lower is better)")
    if comparison.maximized:
        sign, words = -1.0, ("profit", "profits (higher is better)")
    first = table.index[0]
    rows = [*table.itertuples()]
    shown = pd.DataFrame(
        {
            f"mean {words[0]}": [
                round_like(sign * row.mean, row.standard_error) for row in rows
            ],
            "+-": [two_digits(row.standard_error) for row in rows],
            "difference": [
                round_like(sign * row.difference, row.difference_error) for row in rows
            ],
            "+- ": [two_digits(row.difference_error) for row in rows],
            "first is better": table["first_better"].map("{:.0%}".format),
        },
        index=table.index,
    )
    shown.iloc[0, 2:] = ""
    if table["unsolved"].any():
        shown["unsolved"] = table["unsolved"]
    return (
        f"{comparison.verdict()}\n\n"
        f"{len(comparison.costs)} rows; {words[1]} with standard errors\n"
        f"difference: from '{first}', row by row\n\n"
        f"{shown.to_string()}"
    )


def demo(args: Namespace, run: Callable[[Sequence[str]], int]) -> int:
    """Write a model and its data to a folder, and run every command on them."""
    folder = Path(args.folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        found = "it exists and is not empty; give another with --folder, or delete it"
        raise DataError(f"Cannot write the demo to '{folder}'", [found])
    folder.mkdir(parents=True, exist_ok=True)
    with as_file(files(__package__) / "assets" / "model.py") as model:
        shutil.copyfile(model, folder / "model.py")
    write_table(folder / "history.csv", history := _days(200, seed=1))
    write_table(folder / "heldout.csv", held_out := _days(500, seed=2))
    write_table(folder / "tomorrow.csv", held_out.drop(columns="demand").head(3))
    for text, command in _steps(folder, len(history), len(held_out)):
        print(f"\n{text}\n\n$ {PROGRAM} {shlex.join(command)}\n", flush=True)
        run(command)
    print(f"\nThe model, its data and all results are in '{folder}'.")
    return 0


def _steps(folder: Path, pairs: int, days: int) -> list[tuple[str, list[str]]]:
    """Return each step's text and command."""
    model, history, held_out, tomorrow = (
        str(folder / name)
        for name in ("model.py", "history.csv", "heldout.csv", "tomorrow.csv")
    )
    policy, page = str(folder / "policy.csg"), str(folder / "report.html")
    return [
        (
            "A newsvendor orders papers today and sells them tomorrow:",
            ["check", model],
        ),
        (
            f"{pairs} days of weather and demand: learn 5 scenarios for a forecast",
            [
                "fit",
                model,
                history,
                "--scenarios",
                "5",
                *_DEMO_SETTINGS,
                "--out",
                policy,
            ],
        ),
        ("How many papers for three forecasts?", ["decide", policy, tomorrow]),
        (
            f"What would the decisions of {days} other days have cost?",
            ["evaluate", policy, held_out],
        ),
        ("And a page to look at:", ["report", policy, held_out, "--out", page]),
    ]


def _days(n: int, seed: int) -> pd.DataFrame:
    """Draw days: demand grows with temperature, and varies more with rain."""
    rng = np.random.default_rng(seed)
    warmth, rain = rng.uniform(8, 28, n), rng.uniform(0, 8, n)
    demand = 60 * np.exp(
        0.04 * (warmth - 18) + (0.15 + 0.06 * rain) * rng.normal(size=n)
    )
    found = {"temperature": warmth, "rain": rain, "demand": demand}
    return pd.DataFrame(found).round(2)
