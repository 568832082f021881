"""Scenarios, outcomes, weights and decisions, checked once at the door."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from pyomo_csg.errors import DataError, shortlist

if TYPE_CHECKING:
    from pyomo_csg.stages.two_stage import TwoStageModel

_MOST_PROBLEMS = 10
_WEIGHT_TOLERANCE = 1e-6
_INTEGER_TOLERANCE = 1e-5


class Doors:
    """Lets several checks speak before anything is refused.

    Parameters
    ----------
    subject : str
        What the one error is about.
    """

    def __init__(self, subject: str):
        self._subject = subject
        self._problems: list[str] = []

    def check(self, argument: str, function: Callable[..., Any], *args: Any) -> Any:
        """Return what the function does, or keep its problems and return None."""
        try:
            return function(*args)
        except DataError as error:
            self._problems += [f"{argument}: {problem}" for problem in error.problems]
            return None

    def close(self) -> None:
        """Raise all that was found as one DataError."""
        if self._problems:
            raise DataError(self._subject, self._problems)


def scenario_array(two_stage: TwoStageModel, scenarios: Any) -> np.ndarray:
    """Return scenarios as an array (K, p), or raise a DataError that lists what is off.

    Parameters
    ----------
    two_stage : TwoStageModel
    scenarios : array (K, p) or DataFrame
        A DataFrame has one column for each uncertain number, by its Pyomo name, in any
        order.
    """
    names = [p.name for p in two_stage.uncertain_params]
    subject = f"The scenarios do not fit '{two_stage.model.name}'"
    if hasattr(scenarios, "columns"):
        columns = {str(column): column for column in scenarios.columns}
        _refuse_unknown(columns, names, subject, "column")
        scenarios = scenarios[[columns[name] for name in names]]
    array = _floats(scenarios, subject)
    if array.ndim != 2 or array.shape[1] != len(names) or not len(array):
        hint = "; use scenarios.reshape(-1, 1)" if array.ndim == len(names) == 1 else ""
        _refuse(
            subject,
            f"an array of shape {array.shape} was given; expected (K, {len(names)}): a "
            f"row for each scenario, a column for each of {shortlist(names)}{hint}",
        )
    _refuse_values(two_stage, array, subject)
    return array


def outcome_vector(two_stage: TwoStageModel, outcome: Any) -> np.ndarray:
    """Return one outcome as an array (p,): from an array, a mapping or a Series."""
    subject = f"The outcome does not fit '{two_stage.model.name}'"
    vector = _vector(outcome, two_stage.uncertain_params, subject)
    _refuse_values(two_stage, vector[None, :], subject)
    return vector


def decision_vector(two_stage: TwoStageModel, decision: Any) -> np.ndarray:
    """Return one decision as an array (s,), whole where a variable is integer."""
    subject = f"The decision does not fit '{two_stage.model.name}'"
    variables = two_stage.first_stage_variables
    vector = _vector(decision, variables, subject)
    problems = [
        f"'{v.name}' is {x}; give a finite number"
        for v, x in zip(variables, vector, strict=True)
        if not np.isfinite(x)
    ]
    for position, v in enumerate(variables):
        if v.is_continuous() or not np.isfinite(vector[position]):
            continue
        whole = round(vector[position])
        if abs(vector[position] - whole) > _INTEGER_TOLERANCE:
            problems.append(f"'{v.name}' is {vector[position]:g}, but it is integer")
        vector[position] = whole
    _refuse(subject, *problems)
    return vector


def weight_vector(weights: Any, scenarios: np.ndarray | None) -> np.ndarray | None:
    """Return the weights of K scenarios: checked, summing to 1; None means 1/K each."""
    if scenarios is None:  # they were refused themselves
        return None
    count = len(scenarios)
    if weights is None:
        return np.full(count, 1 / count)
    subject = "The weights do not fit the scenarios"
    vector = _floats(weights, subject)
    if vector.shape != (count,):
        _refuse(subject, f"shape {vector.shape} was given; expected ({count},)")
    problems = [
        f"weight {k} is {w}; a weight is a number from 0 to 1"
        for k, w in enumerate(vector, start=1)
        if not (np.isfinite(w) and w >= 0)
    ]
    total = vector.sum()
    if not problems and abs(total - 1) > _WEIGHT_TOLERANCE:
        problems.append(f"they sum to {total:g}; divide them by their sum")
    _refuse(subject, *problems)
    return vector / total


def _vector(values: Any, components: list[Any], subject: str) -> np.ndarray:
    names = [c.name for c in components]
    if hasattr(values, "to_dict") and not hasattr(values, "columns"):
        values = values.to_dict()  # a Series
    if isinstance(values, Mapping):
        named = {str(key): value for key, value in values.items()}
        _refuse_unknown(named, names, subject, "name")
        values = [named[name] for name in names]
    vector = _floats(values, subject)
    if vector.shape != (len(names),):
        _refuse(
            subject,
            f"an array of shape {vector.shape} was given; expected ({len(names)},): a "
            f"number for each of {shortlist(names)}",
        )
    return vector


def _floats(values: Any, subject: str) -> np.ndarray:
    if values is None:
        _refuse(subject, "not given")
    try:
        if np.asarray(values).dtype.kind in "US":
            raise ValueError("there is text among them")
        return np.array(values, dtype=float)
    except (TypeError, ValueError) as error:
        raise DataError(subject, [f"not all are numbers: {error}"]) from None


def _refuse_unknown(
    given: Mapping[str, Any], names: list[str], subject: str, what: str
) -> None:
    problems = []
    if missing := [name for name in names if name not in given]:
        problems.append(f"no {what} for {shortlist(missing)}; add it")
    if unknown := [name for name in given if name not in names]:
        problems.append(
            f"the {what} {shortlist(unknown)} is not among {shortlist(names)}; drop it"
        )
    _refuse(subject, *problems)


def _refuse_values(two_stage: TwoStageModel, array: np.ndarray, subject: str) -> None:
    """Refuse what is not finite or lies outside its Param's domain."""
    problems = []
    for column, param in zip(array.T, two_stage.uncertain_params, strict=True):
        domain = param.parent_component().domain
        validated = param.parent_component()._validate is not None
        for row, x in enumerate(column.tolist(), start=1):
            if not np.isfinite(x):
                found = f"is {x}; give a finite number"
            elif x not in domain:
                found = f"is {x:g}, outside its domain {domain.name}"
            elif validated and not _is_valid(param, x):
                found = f"is {x:g}, which the Param's validate= refuses"
            else:
                continue
            place = f" in scenario {row}" if len(array) > 1 else ""
            problems.append(f"'{param.name}'{place} {found}")
    _refuse(subject, *problems)


def _is_valid(param: Any, x: float) -> bool:
    try:
        param.parent_component()._validate_value(param.index(), x, data=param)
    except ValueError:
        return False
    return True


def _refuse(subject: str, *found: str) -> None:
    problems = list(found)
    more = len(problems) - _MOST_PROBLEMS
    if more > 0:
        problems[_MOST_PROBLEMS:] = [f"... and {more} more"]
    if problems:
        raise DataError(subject, problems)
