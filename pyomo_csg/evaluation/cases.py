"""csg.Case, and the validation of the arguments of csg.evaluate."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
from pyomo.core.base.block import BlockData

from pyomo_csg.errors import DataError, shortlist
from pyomo_csg.learn.tables.column_names import column_label, match_columns
from pyomo_csg.learn.tables.columns import is_frame
from pyomo_csg.learn.tables.date_encoding import date_name, with_date_column
from pyomo_csg.learn.tables.history import read_history
from pyomo_csg.learn.tables.known_columns import known_of_contexts
from pyomo_csg.stages import TwoStageModel
from pyomo_csg.stages.inputs import scenario_array, weight_vector
from pyomo_csg.validation import Problems

FULL = "2sp"
_SUBJECT = "Cannot evaluate"
_ROW = "csg row"  # a column that stands for the context


@dataclass(frozen=True, eq=False)
class Case:
    """A context with the conditional distribution of its outcomes.

    Attributes
    ----------
    context : array, mapping or Series
        One context, as the policies accept it.
    outcomes : array (M, p) or DataFrame
        The possible outcomes.
    weights : array (M,), optional
        Their probabilities, which sum to 1. Default: 1/M.
    known : array (r,), mapping or Series, optional
        The numbers of the known Params. Default: those among the context, by name.

    Examples
    --------
    >>> case = Case([0.5, -1.0], outcomes=[[10.0], [14.0], [30.0]])
    >>> case.weights
    array([0.33333333, 0.33333333, 0.33333333])
    """

    context: Any
    outcomes: Any
    weights: Any = None
    known: Any = None

    def __post_init__(self) -> None:
        count = len(self.outcomes) if hasattr(self.outcomes, "__len__") else 0
        if self.weights is None and count:
            object.__setattr__(self, "weights", np.full(count, 1 / count))

    @property
    def numbers(self) -> np.ndarray:
        """The known numbers (1, r) of a case that was read; none if there are none."""
        return np.zeros((1, 0)) if self.known is None else self.known

    def digest(self) -> str:
        """Return a digest of the distribution and the known numbers."""
        parts = self.outcomes, self.weights, self.numbers
        numbers = (np.asarray(part, float) for part in parts)
        content = b"".join(array.tobytes() for array in numbers)
        return hashlib.sha256(content).hexdigest()[:16]


def are_rows(cases: Any) -> bool:
    """Whether cases are rows of a history: a DataFrame, or a pair of tables."""
    return is_frame(cases) or (
        isinstance(cases, tuple)
        and len(cases) == 2
        and not any(isinstance(part, Case) for part in cases)
    )


def cases_of_rows(two_stage: TwoStageModel, data: Any) -> list[Case]:
    """Return each row as a case with its observed outcome.

    The contexts of a table keep their names and cells: each policy finds its columns, and
    turns them into numbers as it learned to.
    """
    table = data if is_frame(data) else data[0]
    contexts: Iterable[Any]
    if is_frame(table):
        names = [
            one.name for one in (*two_stage.uncertain_params, *two_stage.known_params)
        ]
        alone = table.assign(**{_ROW: 0.0})
        rows = alone if table is data else (alone, *data[1:])
        history = read_history(two_stage, rows, [_ROW], None)
        table = match_columns(with_date_column(table, date_name(table)), names)
        columns = [column_label(column) for column in table.columns]
        cells = [table.iloc[:, j].tolist() for j in range(len(columns))]
        contexts = (
            dict(zip(columns, row, strict=True)) for row in zip(*cells, strict=True)
        )
    else:
        history = read_history(two_stage, data)
        contexts = history.contexts
    outcomes = history.outcomes[:, None]
    parts = zip(contexts, outcomes, history.known, strict=True)
    return [Case(x, w, known=k) for x, w, k in parts]


def select_model(policies: Any, model: BlockData | None) -> BlockData:
    """Return the model to evaluate with: the given one, or that of the first policy."""
    if not isinstance(policies, Mapping) or not policies:
        found = f"policies: {policies!r:.80} was given; give a dict from name to policy"
        raise DataError(_SUBJECT, [found])
    if model is not None:
        return model
    for policy in policies.values():
        if hasattr(policy, "two_stage"):
            return policy.two_stage.model
    raise DataError(_SUBJECT, ["model: no policy has one; give it as model="])


def check_options(tolerance: Any, trial: Any) -> None:
    """Raise a DataError unless tolerance is a number from 0 up and trial a name."""
    problems = Problems(_SUBJECT)
    problems.check_nonnegative(tolerance=tolerance)
    if not isinstance(trial, Real | str):
        problems.add(f"trial is {trial!r:.80}; give a number or a text")
    problems.raise_any()


def read_cases(
    two_stage: TwoStageModel, policies: Mapping[str, Any], cases: Any, reference: Any
) -> tuple[list[Case], np.ndarray | None]:
    """Return the cases as arrays, and the given reference values (n,), if any.

    Outcomes of weight 0 are dropped. One DataError lists everything that is wrong with
    the policies, the cases and the reference.
    """
    problems = Problems(_SUBJECT)
    for name, policy in policies.items():
        problems.add_for(f"policies[{name!r}]", *_policy_problems(two_stage, policy))
    listed = list(cases) if isinstance(cases, Iterable) else []
    if not listed:
        found = (
            "none were given"
            if isinstance(cases, Iterable)
            else f"a {type(cases).__name__} was given"
        )
        remedy = "give a list of csg.Case, or held-out rows as in csg.fit"
        problems.add_for("cases", f"{found}; {remedy}")
    read = [_read_case(problems, two_stage, i, case) for i, case in enumerate(listed)]
    values = problems.check("reference", _read_values, reference, len(listed))
    problems.raise_any()
    return [case for case in read if case is not None], values


def _policy_problems(two_stage: TwoStageModel, policy: Any) -> Iterator[str]:
    """Yield why a policy cannot be evaluated with this model."""
    if not callable(getattr(policy, "decide", None)):
        yield f"{type(policy).__name__} has no method decide(context)"
        return
    other = getattr(policy, "two_stage", None)
    if other is None:
        return
    for what in ("first_stage_variables", "uncertain_params", "known_params"):
        mine, theirs = (
            [part.name for part in getattr(one.plain, what)]
            for one in (two_stage, other)
        )
        if mine != theirs:
            words = what.replace("_", " ").replace("first stage", "first-stage")
            yield (
                f"it is for another model: its {words} are {shortlist(theirs)}; "
                f"expected {shortlist(mine)}"
            )


def _read_case(
    problems: Problems, two_stage: TwoStageModel, i: int, case: Any
) -> Case | None:
    where = f"cases[{i}]"
    if not isinstance(case, Case):
        problems.add_for(where, f"{type(case).__name__} was given, not a csg.Case")
        return None
    outcomes = problems.check(
        f"{where}.outcomes", scenario_array, two_stage, case.outcomes
    )
    weights = problems.check(f"{where}.weights", weight_vector, case.weights, outcomes)
    known = problems.check(
        f"{where}.known", known_of_contexts, two_stage, case.context, case.known, 1
    )
    if outcomes is None or weights is None or known is None:
        return None
    positive = weights > 0
    return replace(
        case, outcomes=outcomes[positive], weights=weights[positive], known=known
    )


def _read_values(reference: Any, count: int) -> np.ndarray | None:
    """Return the given reference values (n,); None if there are none."""
    if reference is None or (isinstance(reference, str) and reference == FULL):
        return None
    try:
        values = np.array(reference, dtype=float)
    except (TypeError, ValueError):
        values = np.full(0, np.nan)
    if values.shape != (count,) or not np.isfinite(values).all():
        found = (
            f"{reference!r:.80} was given; give '{FULL}', None, or a finite number for "
            f"each of {count} cases"
        )
        raise DataError(_SUBJECT, [found])
    return values
