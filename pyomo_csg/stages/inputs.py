"""Scenarios, outcomes, weights and decisions, checked once at the door."""

from __future__ import annotations

import math
import reprlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from decimal import Decimal
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from pyomo.core.base.set import Any as Any_

from pyomo_csg.errors import DataError, shortlist
from pyomo_csg.validation import Problems

if TYPE_CHECKING:
    from pyomo_csg.stages.two_stage import TwoStageModel

_MOST_PROBLEMS = 10
_WEIGHT_TOLERANCE = 1e-6
_INTEGER_TOLERANCE = 1e-5
_INFINITE = 1e20  # to HiGHS, Gurobi and CPLEX alike


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
    array = _floats(_in_order(scenarios, names, subject), subject)
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
        f"'{v.name}' is {x:g}{fault}"
        for v, x in zip(variables, vector, strict=True)
        if (fault := _size_fault(x))
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


def count_axes(values: Any) -> int:
    """Return how many axes an array has; 0 for what is no array."""
    try:
        return np.ndim(values)
    except (TypeError, ValueError, RuntimeError):
        return 0


def float_array(argument: str, values: Any, subject: str) -> np.ndarray:
    """Return an argument as an array of floats, or raise a DataError that names it."""
    problems = Problems(subject)
    array = problems.check(argument, _floats, values, subject)
    problems.raise_any()
    return array


def _floats(values: Any, subject: str) -> np.ndarray:
    """Return a copy as floats; numpy would make them of text, dates and more, too."""
    if values is None:
        _refuse(subject, "not given; give an array of numbers")
    try:
        if isinstance(values, np.ma.MaskedArray):
            values = np.ma.filled(values.astype(float), np.nan)
        array = np.asarray(values)
        stranger = _stranger(array)
        floats = np.array([]) if stranger else array.astype(float)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        stranger = str(error)
    if stranger:
        found = f"not all are numbers: {stranger}; give an array of numbers"
        raise DataError(subject, [found])
    return floats


def _stranger(array: np.ndarray) -> str:
    """Say what an array holds that is no number; nothing if all are."""
    if array.dtype.kind in "US":
        return "there is text among them"
    if array.dtype.kind not in "biufO":
        return f"they are of type {array.dtype}"
    for value in array.flat if array.dtype == object else ():
        if not isinstance(value, Real | Decimal | np.bool_):
            return f"{reprlib.repr(value)} is among them"
    return ""


def _in_order(values: Any, names: list[str], subject: str) -> Any:
    """Return a DataFrame's columns in the order of names; whatever else as it is."""
    if not hasattr(values, "columns"):
        return values
    found = [str(column) for column in values.columns]
    _refuse_unknown(found, names, subject, "column")
    if twice := [name for name, times in Counter(found).items() if times > 1]:
        called = f"more than one column is called {shortlist(twice)}"
        _refuse(subject, f"{called}; rename or drop one")
    return values.iloc[:, [found.index(name) for name in names]]


def _refuse_unknown(
    given: Collection[str], names: list[str], subject: str, what: str
) -> None:
    problems = []
    if missing := [name for name in names if name not in given]:
        problems.append(f"no {what} for {shortlist(missing)}; add it")
    if unknown := [name for name in given if name not in names]:
        problems.append(
            f"the {what} {shortlist(unknown)} is not among {shortlist(names)}; drop it"
        )
    _refuse(subject, *problems)


def scenario_batch(two_stage: TwoStageModel, scenarios: Any) -> np.ndarray:
    """Return scenarios as an array (n, K, p); one set of them (K, p) is a batch of one."""
    subject = f"The scenarios do not fit '{two_stage.model.name}'"
    if count_axes(scenarios) == 2:
        return scenario_array(two_stage, scenarios)[None]
    names = [p.name for p in two_stage.uncertain_params]
    array = _floats(scenarios, subject)
    if array.ndim != 3 or array.shape[2] != len(names) or not array.size:
        _refuse(
            subject,
            f"an array of shape {array.shape} was given; expected (n, K, {len(names)}): "
            f"cases, scenarios, and a column for each of {shortlist(names)}",
        )
    _refuse_values(two_stage, array, subject)
    return array


def weight_batch(weights: Any, scenarios: np.ndarray | None) -> np.ndarray | None:
    """Return weights (n, K) for scenarios (n, K, p); rows are shared where they can be."""
    if scenarios is None:
        return None
    cases, count, _ = scenarios.shape
    if weights is None or count_axes(weights) == 1:
        shared: Any = weight_vector(weights, scenarios[0])
        return np.broadcast_to(shared, (cases, count))
    subject = "The weights do not fit the scenarios"
    array = _floats(weights, subject)
    if array.shape != (cases, count):
        _refuse(subject, f"shape {array.shape} was given; expected ({cases}, {count})")
    totals = array.sum(axis=1)
    bad = ~np.isfinite(array).all(axis=1) | (array < 0).any(axis=1)
    _refuse(
        subject,
        *(
            f"case {i}: {array[i]} sums to {totals[i]:g}; weights are numbers from 0 to 1 "
            "that sum to 1"
            for i in np.flatnonzero(bad | ~(np.abs(totals - 1) <= _WEIGHT_TOLERANCE))
        ),
    )
    return array / totals[:, None]


def outcome_batch(
    two_stage: TwoStageModel, outcomes: Any, scenarios: np.ndarray | None = None
) -> np.ndarray:
    """Return outcomes (n, p), as many as there are cases of scenarios."""
    array = scenario_array(two_stage, outcomes)
    if scenarios is not None and len(array) != len(scenarios):
        _refuse("outcomes", f"{len(array)} were given for {len(scenarios)} cases")
    return array


def decision_batch(
    two_stage: TwoStageModel, decisions: Any, outcomes: np.ndarray | None
) -> np.ndarray | None:
    """Return decisions (n, s): one (s,) is repeated for every outcome."""
    if outcomes is None:
        return None
    subject = f"The decisions do not fit '{two_stage.model.name}'"
    names = [v.name for v in two_stage.first_stage_variables]
    array = _floats(_in_order(decisions, names, subject), subject)
    if array.shape == (len(names),):
        array = np.tile(array, (len(outcomes), 1))
    if array.shape != (len(outcomes), len(names)):
        _refuse(
            subject,
            f"an array of shape {array.shape} was given; expected ({len(names)},) or "
            f"({len(outcomes)}, {len(names)}): a number for each of {shortlist(names)}",
        )
    _refuse(
        subject,
        *(
            f"'{names[j]}' in case {i} is {array[i, j]:g}{_size_fault(array[i, j])}"
            for i, j in np.argwhere(~(np.abs(array) < _INFINITE))
        ),
    )
    return _rounded(two_stage, array, subject)


def _rounded(two_stage: TwoStageModel, array: np.ndarray, subject: str) -> np.ndarray:
    """Return decisions with integers whole; refuse those that are not near one."""
    problems = []
    for j, v in enumerate(two_stage.first_stage_variables):
        column = array[:, j]
        if v.fixed:
            off = np.abs(column - v.value) > _INTEGER_TOLERANCE
            found = f"but it is fixed at {v.value:g}"
        elif not v.is_continuous():
            off = np.abs(column - np.round(column)) > _INTEGER_TOLERANCE
            found = "but it is integer"
            array[:, j] = np.where(off, column, np.round(column))
        else:
            continue
        problems += [
            f"'{v.name}' in case {i} is {column[i]:g}, {found}"
            for i in np.flatnonzero(off)
        ]
    _refuse(subject, *problems)
    return array


def find_invalid(
    param: Any, column: np.ndarray
) -> Iterator[tuple[tuple[int, ...], str]]:
    """Yield where a number does not suit its Param, and the words that say how so.

    Parameters
    ----------
    param : ParamData
    column : array
        Numbers for it, of any shape.
    """
    component = param.parent_component()
    for place in map(tuple, np.argwhere(_suspect(column, component))):
        x = float(column[place])
        if fault := _size_fault(x):
            yield place, fault
        elif x not in component.domain:
            yield place, f", outside its domain {component.domain.name}"
        elif component._validate is not None and not _is_valid(param, x):
            yield place, ", which the Param's validate= refuses"


def _size_fault(x: float) -> str:
    """Say why a number is none for a solver; nothing if it is one."""
    if not np.isfinite(x):
        return "; give a finite number"
    if abs(x) >= _INFINITE:
        return ", which solvers take as infinite; give it in a larger unit"
    return ""


def _refuse_values(two_stage: TwoStageModel, array: np.ndarray, subject: str) -> None:
    """Refuse what is not finite or lies outside its Param's domain."""
    problems = []
    for j, param in enumerate(two_stage.uncertain_params):
        column = array[..., j]
        for place, fault in find_invalid(param, column):
            where = _place(place, array)
            problems.append(f"'{param.name}'{where} is {column[place]:g}{fault}")
    _refuse(subject, *problems)


def valid_interval(component: Any) -> tuple[float, float]:
    """Return between which numbers all suit a Param, without a closer look.

    NaN, which nothing is between, where its domain is not an interval or it has a rule
    of its own.
    """
    domain = component.domain
    low, high, step = domain.get_interval()
    if component._validate is not None or (step != 0 and domain is not Any_):
        return np.nan, np.nan
    sides = (-np.inf, low), (np.inf, high)
    # Where a side itself is in the domain, the next number beyond it is the limit.
    low, high = (
        away if side is None else math.nextafter(side, away) if side in domain else side
        for away, side in sides
    )
    return max(low, -_INFINITE), min(high, _INFINITE)


def _suspect(column: np.ndarray, component: Any) -> np.ndarray:
    """Mark what needs a closer look: all but the inside of an interval."""
    low, high = valid_interval(component)
    return ~((column > low) & (column < high))


def _place(place: tuple[int, ...], array: np.ndarray) -> str:
    words = ("case", "scenario") if len(place) == 2 else ("scenario",)
    if len(place) == 1 and len(array) == 1:
        return ""
    first = {"case": 0, "scenario": 1}
    return " in " + ", ".join(
        f"{word} {k + first[word]}" for word, k in zip(words, place, strict=True)
    )


def _is_valid(param: Any, x: float) -> bool:
    try:
        param.parent_component()._validate_value(param.index(), x, data=param)
    except ValueError:
        return False
    return True


def _refuse(subject: str, *found: str) -> None:
    problems = Problems(subject, limit=_MOST_PROBLEMS)
    problems.add(*found)
    problems.raise_any()
