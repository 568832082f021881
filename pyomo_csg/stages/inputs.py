"""Scenarios, outcomes, weights and decisions as arrays, validated at the public call."""

from __future__ import annotations

import math
import reprlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from decimal import Decimal
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from pyomo.core.base.param import _ImplicitAny
from pyomo.core.base.set import Any as AnyDomain

from pyomo_csg.errors import DataError, shortlist
from pyomo_csg.validation import Problems

if TYPE_CHECKING:
    from pyomo_csg.stages.two_stage import TwoStageModel

_MAX_PROBLEMS = 10  # listed for one argument
_WEIGHT_TOLERANCE = 1e-6  # of their sum: weights may be rounded; they are normalized
_INTEGER_TOLERANCE = 1e-5  # solvers return integers to about 1e-6
INFINITY = 1e20  # HiGHS, Gurobi and CPLEX treat this and more as infinite
_BAD_WEIGHTS = "The weights do not fit the scenarios"


def scenario_array(two_stage: TwoStageModel, scenarios: Any) -> np.ndarray:
    """Return scenarios as an array (K, p); columns of a DataFrame may be in any order."""
    names = _names(two_stage.uncertain_params)
    subject = f"The scenarios do not fit '{two_stage.model.name}'"
    array = _data(_select_columns(scenarios, names, subject), subject)
    if array.ndim != 2 or array.shape[1] != len(names) or not len(array):
        hint = "; use scenarios.reshape(-1, 1)" if array.ndim == len(names) == 1 else ""
        expected = f"(K, {len(names)}): a row for each scenario, a column for each of "
        _raise_shape(subject, array, f"{expected}{shortlist(names)}{hint}")
    check_domains(two_stage.uncertain_params, array, subject)
    return array


def scenario_batch(two_stage: TwoStageModel, scenarios: Any) -> np.ndarray:
    """Return scenarios as an array (n, K, p); an array (K, p) is a batch of one."""
    if count_axes(scenarios) == 2:
        return scenario_array(two_stage, scenarios)[None]
    names = _names(two_stage.uncertain_params)
    subject = f"The scenarios do not fit '{two_stage.model.name}'"
    array = _data(scenarios, subject)
    if array.ndim != 3 or array.shape[2] != len(names) or not array.size:
        expected = f"(n, K, {len(names)}): cases, scenarios, and a column for each of "
        _raise_shape(subject, array, f"{expected}{shortlist(names)}")
    check_domains(two_stage.uncertain_params, array, subject)
    return array


def outcome_vector(two_stage: TwoStageModel, outcome: Any) -> np.ndarray:
    """Return one outcome as an array (p,), from an array, a mapping or a Series."""
    subject = f"The outcome does not fit '{two_stage.model.name}'"
    names = _names(two_stage.uncertain_params)
    vector = _vector(outcome, names, subject, _data)
    check_domains(two_stage.uncertain_params, vector[None, :], subject)
    return vector


def outcome_batch(
    two_stage: TwoStageModel, outcomes: Any, scenarios: np.ndarray | None = None
) -> np.ndarray:
    """Return outcomes as an array (n, p), one for each case of scenarios (n, K, p)."""
    array = scenario_array(two_stage, outcomes)
    if scenarios is not None and len(array) != len(scenarios):
        found = f"{len(array)} were given for {len(scenarios)} cases"
        raise DataError("outcomes", [found])
    return array


def known_batch(
    two_stage: TwoStageModel, known: Any, cases: int | None = None
) -> np.ndarray:
    """Return known numbers as an array (n, r); without any, the values in the model.

    A vector, a mapping or a Series of single numbers applies to every case. With
    ``cases=None``, the array has a row for each that was given.
    """
    params = two_stage.known_params
    names, subject = (
        _names(params),
        f"The known data does not fit '{two_stage.model.name}'",
    )
    if known is not None and not names:
        found = "the model has none; name its Params by csg.annotate(known_params=...)"
        raise DataError(subject, [found])
    if known is None:
        array = np.array([[float(param.value) for param in params]])
    elif isinstance(known, Mapping) or _is_series(known):
        array = _named_rows(known, names, subject)
    else:
        array = _data(_select_columns(known, names, subject), subject)
    if array.ndim == 1 and len(array) == len(names):
        array = array[None]
    if array.ndim != 2 or array.shape[1] != len(names):
        expected = f"({len(names)},) or (n, {len(names)}): a number for each of "
        _raise_shape(subject, array, f"{expected}{shortlist(names)}")
    check_domains(params, array, subject, "case")
    if cases is None or len(array) == cases:
        return array
    if len(array) != 1:
        found = f"{len(array)} rows were given for {cases} cases; give one for each"
        raise DataError(subject, [found])
    return np.tile(array, (cases, 1))


def _named_rows(known: Any, names: list[str], subject: str) -> np.ndarray:
    """Return an array (n, r) of the numbers, or the columns, in a mapping or Series."""
    named = {str(name): known[name] for name in dict(known)}
    _check_names(list(named), names, subject, "number")
    problems, columns = Problems(subject), []
    for name in names:
        columns.append(problems.check(f"'{name}'", _data, named[name], subject))
    problems.raise_any()
    try:
        return np.stack(np.broadcast_arrays(*map(np.atleast_1d, columns)), axis=-1)
    except ValueError:
        sizes = ", ".join(
            f"{array.size} of '{name}'"
            for name, array in zip(names, columns, strict=True)
        )
        raise DataError(subject, [f"their lengths differ: {sizes}"]) from None


def decision_vector(two_stage: TwoStageModel, decision: Any) -> np.ndarray:
    """Return one decision as an array (s,), with integer variables rounded."""
    subject = f"The decision does not fit '{two_stage.model.name}'"
    vector = _vector(decision, _names(two_stage.first_stage_variables), subject)
    _raise_any(subject, _round_decisions(two_stage, vector[None, :], is_single=True))
    return vector


def decision_batch(
    two_stage: TwoStageModel, decisions: Any, outcomes: np.ndarray | None
) -> np.ndarray | None:
    """Return decisions as an array (n, s); a single one (s,) applies to every outcome."""
    if outcomes is None:  # invalid, and reported as such
        return None
    names = _names(two_stage.first_stage_variables)
    subject = f"The decisions do not fit '{two_stage.model.name}'"
    array = _floats(_select_columns(decisions, names, subject), subject)
    if array.shape == (len(names),):
        array = np.tile(array, (len(outcomes), 1))
    if array.shape != (len(outcomes), len(names)):
        expected = f"({len(names)},) or ({len(outcomes)}, {len(names)}): a number for "
        _raise_shape(subject, array, f"{expected}each of {shortlist(names)}")
    _raise_any(subject, _round_decisions(two_stage, array))
    return array


def weight_vector(weights: Any, scenarios: np.ndarray | None) -> np.ndarray | None:
    """Return the weights (K,) of scenarios (K, p), summing to 1; 1/K each by default."""
    if scenarios is None:  # invalid, and reported as such
        return None
    count = len(scenarios)
    if weights is None:
        return np.full(count, 1 / count)
    vector = _floats(weights, _BAD_WEIGHTS)
    if vector.shape != (count,):
        found = f"shape {vector.shape} was given; expected ({count},)"
        raise DataError(_BAD_WEIGHTS, [found])
    problems = [
        f"weight {k} is {w}; a weight is a number from 0 to 1"
        for k, w in enumerate(vector, start=1)
        if not (np.isfinite(w) and w >= 0)
    ]
    total = vector.sum()
    if not problems and abs(total - 1) > _WEIGHT_TOLERANCE:
        problems.append(f"they sum to {total:g}; divide them by their sum")
    _raise_any(_BAD_WEIGHTS, problems)
    return vector / total


def weight_batch(weights: Any, scenarios: np.ndarray | None) -> np.ndarray | None:
    """Return weights (n, K) for scenarios (n, K, p); a vector (K,) applies to every case."""
    if scenarios is None:  # invalid, and reported as such
        return None
    cases, count, _ = scenarios.shape
    if weights is None or count_axes(weights) == 1:
        shared: Any = weight_vector(weights, scenarios[0])
        return np.broadcast_to(shared, (cases, count))
    array = _floats(weights, _BAD_WEIGHTS)
    if array.shape != (cases, count):
        found = f"shape {array.shape} was given; expected ({cases}, {count})"
        raise DataError(_BAD_WEIGHTS, [found])
    totals = array.sum(axis=1)
    valid = (np.isfinite(array) & (array >= 0)).all(axis=1)
    valid &= np.abs(totals - 1) <= _WEIGHT_TOLERANCE
    problems = (
        f"case {i}: {array[i]} sums to {totals[i]:g}; weights are numbers from 0 to 1 "
        "that sum to 1"
        for i in np.flatnonzero(~valid)
    )
    _raise_any(_BAD_WEIGHTS, problems)
    return array / totals[:, None]


def count_axes(values: Any) -> int:
    """Return the number of axes of an array; 0 for anything else."""
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


def find_invalid(
    param: Any, values: np.ndarray
) -> Iterator[tuple[tuple[int, ...], str]]:
    """Yield the position of each value that a Param cannot have, and the reason."""
    component = param.parent_component()
    low, high = valid_interval(component)
    for place in map(tuple, np.argwhere(~((values > low) & (values < high)))):
        x = float(values[place])
        if reason := _size_problem(x):
            yield place, reason
        elif x not in component.domain:
            yield place, f", outside its domain {component.domain.name}"
        elif component._validate is not None and not _passes_validate(param, x):
            yield place, ", which the Param's validate= refuses"


def valid_interval(component: Any) -> tuple[float, float]:
    """Return an open interval of values that a Param can have.

    Both ends are NaN if every value must be checked: the domain is not an interval, or the
    Param has a validate= function.
    """
    domain = component.domain
    low, high, step = domain.get_interval()
    is_any = isinstance(domain, type(AnyDomain) | _ImplicitAny)  # where none was given
    if component._validate is not None or (step != 0 and not is_any):
        return np.nan, np.nan
    sides = (-np.inf, low), (np.inf, high)
    # An end that the domain contains is inside an interval that is open at the next float.
    low, high = (
        away if side is None else math.nextafter(side, away) if side in domain else side
        for away, side in sides
    )
    return max(low, -INFINITY), min(high, INFINITY)


def _vector(
    values: Any,
    names: list[str],
    subject: str,
    convert: Callable[[Any, str], np.ndarray] | None = None,
) -> np.ndarray:
    """Return an array, mapping or Series as floats in the order of names."""
    if _is_series(values):
        values = values.to_dict()
    if isinstance(values, Mapping):
        named = {str(key): value for key, value in values.items()}
        _check_names(named, names, subject, "name")
        values = [named[name] for name in names]
    vector = (convert or _floats)(values, subject)
    if vector.shape != (len(names),):
        expected = f"({len(names)},): a number for each of {shortlist(names)}"
        _raise_shape(subject, vector, expected)
    return vector


def _is_series(values: Any) -> bool:
    return hasattr(values, "to_dict") and not hasattr(values, "columns")


def _data(values: Any, subject: str) -> np.ndarray:
    """Return scenarios or outcomes as floats; unlike decisions, they are never bools."""
    floats = _floats(values, subject)
    array = np.asarray(values)
    places = np.ndindex(array.shape if array.dtype.kind in "bO" else (0,))
    for place in places:
        if isinstance(array[place], bool | np.bool_):
            where = f" at {list(place)}" if place else ""
            found = f"{bool(array[place])}{where} is a bool"
            raise DataError(subject, [f"{found}; give numbers, or use .astype(float)"])
    return floats


def _floats(values: Any, subject: str) -> np.ndarray:
    """Return a copy as floats; unlike NumPy, refuse text, dates and other objects."""
    if values is None:
        raise DataError(subject, ["not given; give an array of numbers"])
    try:
        if isinstance(values, np.ma.MaskedArray):
            values = np.ma.filled(values.astype(float), np.nan)
        array = np.asarray(values)
        reason = _why_not_numeric(array)
        floats = np.array([]) if reason else array.astype(float)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        reason = str(error)
    if reason:
        found = f"not all are numbers: {reason}; give an array of numbers"
        raise DataError(subject, [found])
    return floats


def _why_not_numeric(array: np.ndarray) -> str:
    """Return what an array holds besides numbers; an empty text if nothing."""
    if array.dtype.kind in "US":
        return "there is text among them"
    if array.dtype.kind not in "biufO":
        return f"they are of type {array.dtype}"
    for value in array.flat if array.dtype == object else ():
        if not isinstance(value, Real | Decimal | np.bool_):
            return f"{reprlib.repr(value)} is among them"
    return ""


def _select_columns(values: Any, names: list[str], subject: str) -> Any:
    """Return a DataFrame's columns in the order of names; anything else unchanged."""
    if not hasattr(values, "columns"):
        return values
    found = [str(column) for column in values.columns]
    _check_names(found, names, subject, "column")
    if twice := [name for name, times in Counter(found).items() if times > 1]:
        called = f"more than one column is called {shortlist(twice)}"
        raise DataError(subject, [f"{called}; rename or drop one"])
    return values.iloc[:, [found.index(name) for name in names]]


def _check_names(
    found: Collection[str], names: list[str], subject: str, what: str
) -> None:
    problems = []
    if missing := [name for name in names if name not in found]:
        problems.append(f"no {what} for {shortlist(missing)}; add it")
    if unknown := [name for name in found if name not in names]:
        problems.append(
            f"the {what} {shortlist(unknown)} is not among {shortlist(names)}; drop it"
        )
    _raise_any(subject, problems)


def check_domains(
    params: list[Any], array: np.ndarray, subject: str, row: str = "scenario"
) -> None:
    """Raise if a value of an array (..., params) is not finite or outside its domain.

    Rows are called ``row`` in messages, and are numbered from 1 if they are scenarios.
    """
    first, problems = int(row == "scenario"), []
    for j, param in enumerate(params):
        column = array[..., j]
        for place, reason in find_invalid(param, column):
            if len(place) == 2:
                where = f" in case {place[0]}, scenario {place[1] + 1}"
            else:
                where = f" in {row} {place[0] + first}" if len(array) > 1 else ""
            problems.append(f"'{param.name}'{where} is {column[place]:g}{reason}")
    _raise_any(subject, problems)


def _round_decisions(
    two_stage: TwoStageModel, array: np.ndarray, is_single: bool = False
) -> list[str]:
    """Round integer variables of decisions (n, s) in place; return the problems found.

    A single decision may differ from the value that a variable is fixed at: csg.recourse
    reports that along with broken bounds.
    """
    infinite, rejected = [], []
    are_finite = bool((np.abs(array) < INFINITY).all())
    for j, v in enumerate(two_stage.first_stage_variables):
        if are_finite and not v.fixed and v.is_continuous():
            continue
        column = array[:, j]
        finite = np.abs(column) < INFINITY
        rounded = target = column
        reason = ""
        if v.fixed and not is_single:
            target = np.full(len(column), v.value)
            reason = f"but it is fixed at {v.value:g}"
        elif not v.is_continuous():
            rounded = target = np.round(column)
            reason = "but it is integer"
        off = np.zeros(len(column), bool)
        off[finite] = np.abs(column[finite] - target[finite]) > _INTEGER_TOLERANCE
        for i in np.flatnonzero(off | ~finite):
            where = f"'{v.name}'" + ("" if is_single else f" in case {i}")
            if off[i]:
                rejected.append(f"{where} is {column[i]:g}, {reason}")
            else:
                infinite.append(f"{where} is {column[i]:g}{_size_problem(column[i])}")
        array[:, j] = rounded
    return infinite + rejected


def _size_problem(x: float) -> str:
    """Return why solvers cannot use a number, or an empty text."""
    if not np.isfinite(x):
        return "; give a finite number"
    if abs(x) >= INFINITY:
        return ", which solvers take as infinite; give it in a larger unit"
    return ""


def _passes_validate(param: Any, x: float) -> bool:
    try:
        param.parent_component()._validate_value(param.index(), x, data=param)
    except ValueError:
        return False
    return True


def _names(components: Iterable[Any]) -> list[str]:
    return [component.name for component in components]


def _raise_shape(subject: str, array: np.ndarray, expected: str) -> None:
    found = f"an array of shape {array.shape} was given; expected {expected}"
    raise DataError(subject, [found])


def _raise_any(subject: str, found: Iterable[str]) -> None:
    problems = Problems(subject, limit=_MAX_PROBLEMS)
    problems.add(*found)
    problems.raise_any()
