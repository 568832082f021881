"""The commands: each takes its arguments and returns an exit code."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from pyomo.core.base.block import BlockData

from pyomo_csg.cli.model_file import load_model
from pyomo_csg.cli.table_files import check_output_path, read_table, write_table
from pyomo_csg.errors import DataError, ModelError, ProblemsError, SolveError, shortlist
from pyomo_csg.learn.columns import ENCODINGS
from pyomo_csg.learn.history import read_history
from pyomo_csg.solve import Oracle
from pyomo_csg.stages import TwoStageModel
from pyomo_csg.stages.annotation import UNCERTAIN, read_annotation

if TYPE_CHECKING:
    from pyomo_csg.evaluation.comparison import Comparison
    from pyomo_csg.policy.policy import Policy


class Findings:
    """Errors that are noted, so that what does not depend on them is looked at, too."""

    def __init__(self, subject: str):
        self._subject = subject
        self._errors: list[ProblemsError] = []

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Note an error that lists problems, and go on after the block."""
        try:
            yield
        except ProblemsError as error:
            self._errors.append(error)

    def close(self) -> None:
        """Raise what was noted: a single error itself, several as one."""
        if len(self._errors) == 1:
            raise self._errors[0]
        if self._errors:
            problems = [
                f"{e.subject}: {one}" for e in self._errors for one in e.problems
            ]
            raise ModelError(self._subject, problems) from self._errors[0]


_LEAVE_OUT = "leave it out: name the other columns by --context"
_NUMBERS = "give numbers, as the policy learned from"
_PROFITS = "the model is maximised, and profits count as negative costs\n"


@contextmanager
def _of_text(here: str) -> Iterator[None]:
    """Say of a column that is not made of numbers what there is to do here."""
    try:
        yield
    except DataError as error:
        problems = list(error.problems)
        for remedy in sorted(ENCODINGS.values(), key=len, reverse=True):
            problems = [one.replace(remedy, here) for one in problems]
        raise DataError(error.subject, problems) from error


def check(given: Any) -> int:
    """Show a model's stages, solve it once, and look at the data if there is some."""
    check_output_path(given.lp, given.model, given.data)
    findings = Findings(f"Problems with '{given.model}'")
    model = two_stage = None
    with findings.noted():
        model = _model(given, given.model)
        two_stage = TwoStageModel(model)
        print(two_stage)
    if two_stage is not None:
        with findings.noted():
            print(f"\n  solved at its own data: {_own_value(given, two_stage):.6g}")
    if given.data is not None:
        with findings.noted(), _of_text(_LEAVE_OUT):
            _check_table(given, two_stage or _Marked.of(model))
    findings.close()
    return 0


def _check_table(given: Any, two_stage: Any) -> None:
    table = read_table(given.data)
    if two_stage is not None:
        history = read_history(two_stage, table, given.context)
        names = ", ".join(history.context_names or ())
        print(f"  {len(history)} pairs in '{given.data}', by context: {names}")


@dataclass(frozen=True)
class _Marked:
    """What a table is held against where the model is not sound: its marked Params."""

    model: BlockData
    uncertain_params: list[Any]

    @classmethod
    def of(cls, model: BlockData | None) -> _Marked | None:
        params = None if model is None else read_annotation(model, UNCERTAIN)
        return cls(model, params) if params else None


@_of_text(_LEAVE_OUT)
def fit(given: Any) -> int:
    """Learn a policy, save it, and say what was learned."""
    from pyomo_csg.policy import fit as fitting

    check_output_path(given.out, given.model, given.data)
    policy = fitting.fit(
        _model(given, given.model),
        read_table(given.data),
        scenarios=given.scenarios,
        method=given.method,
        regularization=given.regularization,
        context=given.context,
        network=given.network,
        config=dict(given.settings),
        seed=given.seed,
        solver=given.solver,
        options=_options(given),
        workers=given.workers,
        seconds=given.seconds,
        checkpoint=given.checkpoint,
        progress=_progress(given),
    )
    policy.save(given.out)
    print(policy.report())
    print(f"Written to '{given.out}'")
    return 0


@_of_text(_NUMBERS)
def decide(given: Any) -> int:
    """Write a table of decisions; 1 if some context has none."""
    check_output_path(given.out, given.data, *_read_for(given, given.policy))
    policy, contexts = _policy(given, given.policy), read_table(given.data)
    decisions = policy.decide(contexts, on_error="record", progress=_progress(given))
    if both := [name for name in contexts if name in decisions]:
        found = f"it has a column {shortlist(both)}, as decisions have; rename it"
        raise DataError(f"'{given.data}' cannot be decided for", [found])
    write_table(given.out, pd.concat([contexts, decisions], axis=1))
    if given.out is not None:
        _tell_written(given.out)
    return int(decisions.isna().any(axis=None))


@_of_text(_NUMBERS)
def evaluate(given: Any) -> int:
    """Print mean costs on pairs, and write all costs where that is asked for."""
    from pyomo_csg.evaluation.comparison import compare

    read = (one for path in given.policies for one in _read_for(given, path))
    check_output_path(given.out, given.data, given.history, *read)
    policies = {path: _policy(given, path) for path in given.policies}
    history = None if given.history is None else read_table(given.history)
    compared = compare(
        policies, read_table(given.data), history, progress=_progress(given)
    )
    maximised = next(iter(policies.values())).two_stage.sense < 0
    print(_words(compared, maximised))
    if given.out is not None:
        write_table(given.out, compared.costs)
        _tell_written(given.out)
    return 0


@_of_text(_NUMBERS)
def report(given: Any) -> int:
    """Write a policy's page."""
    page = given.out or Path(given.policy).with_suffix(".html")
    check_output_path(page, given.data, *_read_for(given, given.policy))
    data = None if given.data is None else read_table(given.data)
    _policy(given, given.policy).report(page, data)
    print(f"Written to '{page}'")
    return 0


def _own_value(given: Any, two_stage: TwoStageModel) -> float:
    """Return the optimal value at the values that the Params have in the model."""
    own = np.array([[[param.value for param in two_stage.uncertain_params]]])
    oracle = Oracle(
        two_stage.model,
        given.solver,
        workers=given.workers,
        options=_options(given),
    )
    try:
        return oracle.solve(own).value[0]
    except SolveError as error:
        look = "--lp own.lp writes the program, to look at"
        if given.lp is not None:
            error.write(given.lp)
            look = f"the program is in '{given.lp}'"
        subject = f"'{two_stage.model.name}' cannot be solved at its own data"
        raise ModelError(subject, [f"{_why(error)}; {look}"]) from error


def _why(error: SolveError) -> str:
    if error.status == "infeasible":
        return "there is no feasible solution for the values that its Params have"
    detail = f" ({error.detail})" if error.detail else ""
    return f"it is {error.status}{detail}"


def _model(given: Any, path: str | Path, **names: Any) -> BlockData:
    return load_model(path, given.first_stage or (), given.uncertain or (), **names)


def _policy(given: Any, path: str) -> Policy:
    from pyomo_csg.policy.policy_file import load, read_stage_names

    _, file = _read_for(given, path)
    if given.model is None and not Path(file).is_file():
        found = f"there is no '{file}'; give the policy's model by --model"
        raise DataError(f"'{path}' cannot be used", [found])
    model = _model(given, file, otherwise=read_stage_names(path))
    return load(
        path,
        model,
        solver=given.solver,
        options=_options(given),
        workers=given.workers,
    )


def _read_for(given: Any, path: str) -> tuple[str, str | Path]:
    """Return the files of a policy and of its model."""
    return path, given.model or Path(path).with_name("model.py")


def _options(given: Any) -> dict[str, Any] | None:
    return dict(given.options) or None


def _tell_written(path: str) -> None:
    """Tell where a table is, and leave standard output to what can be piped."""
    print(f"Written to '{path}'", file=sys.stderr)


def _progress(given: Any) -> bool:
    return sys.stderr.isatty() and not given.quiet


def _words(compared: Comparison, maximised: bool) -> str:
    """Return the table of a comparison, for a terminal."""
    table = compared.table()
    first = table.index[0]
    shown = pd.DataFrame(
        {
            "mean cost": table["mean"].map("{:.6g}".format),
            "+-": table["standard_error"].map("{:.2g}".format),
            "difference": table["difference"].map("{:.6g}".format),
            "+- ": table["difference_error"].map("{:.2g}".format),
            "first is better": table["first_better"].map("{:.0%}".format),
        }
    )
    shown.iloc[0, 2:] = ""
    if table["unsolved"].any():
        shown["unsolved"] = table["unsolved"]
    return (
        f"{len(compared.costs)} pairs; costs, lower is better, with standard errors\n"
        f"{_PROFITS * maximised}difference: pair by pair, from '{first}'\n\n{shown.to_string()}"
    )
