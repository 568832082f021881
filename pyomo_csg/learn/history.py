"""The pairs to learn from, checked once at the door: contexts and what then happened."""

from __future__ import annotations

import hashlib
import logging
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd

from pyomo_csg.errors import shortlist
from pyomo_csg.learn.columns import Side, describe_type
from pyomo_csg.stages.inputs import find_invalid
from pyomo_csg.stages.two_stage import TwoStageModel
from pyomo_csg.validation import Problems

_log = logging.getLogger(__name__)

_LEAST_PAIRS = 2

_NO_CONTEXT = (
    "there are no context columns; give at least one (a constant one will do: add a "
    "column of zeros if there is nothing to know)"
)


@dataclass(frozen=True, eq=False)
class History:
    """Pairs of a context and the outcome that followed it, all of them numbers.

    Attributes
    ----------
    contexts : array (n, d) or (n, W, d)
        The latter are panels: W steps, one after another, of d numbers.
    outcomes : array (n, p)
        Columns are in the order of ``TwoStageModel.uncertain_params``.
    context_names : tuple of str, or None
        Names of the d numbers, where they came in a DataFrame.
    """

    contexts: np.ndarray
    outcomes: np.ndarray
    context_names: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return len(self.outcomes)

    @property
    def has_panels(self) -> bool:
        """Whether a context is a panel (W, d) and not a vector (d,)."""
        return self.contexts.ndim == 3

    def fingerprint(self) -> str:
        """Return what tells this history from another: SHA-256 of shapes and numbers."""
        digest = hashlib.sha256()
        for array in (self.contexts, self.outcomes):
            digest.update(repr(array.shape).encode())
            digest.update(np.ascontiguousarray(array, dtype="<f8").tobytes())
        return digest.hexdigest()


def read_history(two_stage: TwoStageModel, data: Any, context: Any = None) -> History:
    """Return pairs as arrays, or raise one DataError that lists all that is off.

    Rows without a label and columns without a name are counted from 0.

    Parameters
    ----------
    two_stage : TwoStageModel
    data : (contexts, outcomes) or DataFrame
        Contexts are an array (n, d), (n, W, d), or (n,) for a single number, or a
        DataFrame. Outcomes are an array (n, p), or (n,) where p is 1, or a DataFrame
        with a column for each uncertain number, by its Pyomo name, in any order. One
        DataFrame has these columns beside those of the contexts.
    context : str or list of str, optional
        The DataFrame's columns that are the context. By default, all that are not
        outcomes.

    Raises
    ------
    DataError

    Examples
    --------
    >>> import pandas as pd
    >>> import pyomo_csg as csg
    >>> from models import newsvendor
    >>> frame = pd.DataFrame({"demand": [15.0, 14.8], "rain": [False, True]})
    >>> history = read_history(csg.TwoStageModel(newsvendor.build()), frame)
    >>> history.context_names, history.contexts.tolist(), history.outcomes.tolist()
    (('rain',), [[0.0], [1.0]], [[15.0], [14.8]])
    """
    problems = Problems(f"The data does not fit '{two_stage.model.name}'")
    names = [param.name for param in two_stage.uncertain_params]
    contexts, outcomes = _sides(data, names, context, problems)
    if contexts is not None:
        contexts.refuse_infinite()
    if outcomes is not None:
        _refuse_outcomes(two_stage, outcomes)
    if contexts is not None and outcomes is not None:
        _refuse_rows(contexts, outcomes, problems)
    problems.raise_any()
    assert contexts is not None and outcomes is not None
    _tell_constants(contexts)
    return History(contexts.stacked(), outcomes.stacked(), contexts.names)


def read_contexts(
    contexts_like: Any, shape: tuple[int, ...], names: tuple[str, ...] | None
) -> tuple[np.ndarray, bool]:
    """Return contexts as an array (n, \\*shape), and whether it was a single one.

    Parameters
    ----------
    contexts_like : array, mapping, Series or DataFrame
        One context of that shape (a number will do for (1,)), or an array (n, \\*shape)
        of many. Where there are names: a mapping or a Series is one, a DataFrame is
        many, and what is not a context in them is left aside.
    shape : tuple of int
        (d,) or (W, d), as in the history.
    names : tuple of str, or None
        ``History.context_names``.

    Raises
    ------
    DataError

    Examples
    --------
    >>> read_contexts({"rain": 1, "price": 2.5}, (2,), ("price", "rain"))
    (array([[2.5, 1. ]]), True)
    """
    problems = Problems("The context does not fit those that were learned from")
    one = names is not None and isinstance(contexts_like, Mapping | pd.Series)
    if one:
        contexts_like = _row(contexts_like)
    if names is not None and isinstance(contexts_like, pd.DataFrame):
        rows = None if one else contexts_like.index
        side: Side | None = _named_side(
            "contexts", contexts_like, names, rows, problems
        )
    else:
        side, one = _shaped_side(contexts_like, shape, names, problems)
    if side is not None:
        if not side.count:
            side.refuse("none were given; give at least one")
        side.refuse_infinite()
    problems.raise_any()
    assert side is not None
    return side.stacked(), one


_Sides = tuple[Side | None, Side | None]


def _sides(data: Any, names: list[str], context: Any, problems: Problems) -> _Sides:
    if isinstance(data, pd.DataFrame):
        others = [name for name in map(str, data.columns) if name not in names]
        return (
            _frame_contexts(data, _chosen(context, others), names, problems),
            _named_side("outcomes", data, names, data.index, problems),
        )
    if isinstance(data, tuple) and len(data) == 2:
        contexts, outcomes = data
        return (
            _contexts(contexts, context, names, problems),
            _outcomes(outcomes, names, problems),
        )
    problems.add_for("data", _what_data_may_be(data, names))
    return None, None


def _what_data_may_be(data: Any, names: list[str]) -> str:
    given = describe_type(data)
    if isinstance(data, tuple):
        given += f" of {len(data)}"
    return (
        f"{given} was given; expected a pair, which is the tuple (contexts, outcomes) of "
        f"arrays (n, d) or (n, W, d) and (n, {len(names)}), or a pandas DataFrame with a "
        f"column for each of {shortlist(names)} and columns for the context"
    )


def _chosen(context: Any, default: list[str]) -> list[str]:
    """Return the names of the context's columns, each once."""
    if context is None:
        return list(dict.fromkeys(default))
    if not pd.api.types.is_list_like(context):
        context = [context]
    if isinstance(context, set | frozenset):  # has no order of its own
        context = sorted(context, key=str)
    return list(dict.fromkeys(map(str, context)))


def _frame_contexts(
    frame: pd.DataFrame, chosen: list[str], outcomes: list[str], problems: Problems
) -> Side:
    if not chosen:
        problems.add_for("contexts", _NO_CONTEXT)
    if both := [name for name in chosen if name in outcomes]:
        problems.add_for(
            "contexts",
            f"{shortlist(both)} is an outcome; drop it from the contexts, or rename it "
            "if it holds what was known before",
        )
    known = [name for name in chosen if name not in outcomes]
    return _named_side("contexts", frame, known, frame.index, problems)


def _named_side(
    role: str, frame: pd.DataFrame, names: Sequence[str], rows: Any, problems: Problems
) -> Side:
    """Return the columns of these names; refuse those missing or there twice."""
    side = Side(role, rows, problems)
    side.names = tuple(names)
    found = [str(column) for column in frame.columns]
    if missing := [name for name in names if name not in found]:
        among = f" among {shortlist(found)}" if found else ""
        side.refuse(f"no column for {shortlist(missing)}{among}; add it or rename one")
    times = Counter(found)
    if twice := [name for name in names if times[name] > 1]:
        side.refuse(
            f"more than one column is called {shortlist(twice)}; rename or drop one"
        )
    for name in names:
        if times[name] == 1:
            side.add(_called(role, name), frame.iloc[:, found.index(name)])
    return side


def _contexts(
    values: Any, context: Any, outcomes: list[str], problems: Problems
) -> Side | None:
    """Return the contexts of a pair."""
    if isinstance(values, pd.Series) and values.name is not None:
        values = values.to_frame()
    if isinstance(values, pd.DataFrame):
        chosen = _chosen(context, [str(column) for column in values.columns])
        return _frame_contexts(values, chosen, outcomes, problems)
    if context is not None:
        problems.add_for(
            "context",
            "it names columns of a DataFrame, which contexts are not; drop it",
        )
    expected = "expected (n, d), or (n, W, d) for panels of W steps"
    array = _array("contexts", values, expected, problems)
    if array is None:
        return None
    if array.ndim > 3:
        problems.add_for("contexts", _misshapen(array, expected))
        return None
    if array.ndim == 1:
        array = array[:, None]
    if 0 in array.shape[1:]:
        problems.add_for("contexts", f"shape {array.shape} was given: {_NO_CONTEXT}")
        return None
    labels = [_called("contexts", j) for j in range(array.shape[-1])]
    return _array_side("contexts", array, labels, _rows(values, array), problems)


def _outcomes(values: Any, names: list[str], problems: Problems) -> Side | None:
    """Return the outcomes of a pair."""
    if isinstance(values, pd.DataFrame):
        unknown = [name for name in map(str, values.columns) if name not in names]
        if unknown:
            problems.add_for(
                "outcomes",
                f"the column {shortlist(unknown)} is not among {shortlist(names)}; drop "
                "it",
            )
        return _named_side("outcomes", values, names, values.index, problems)
    expected = f"expected (n, {len(names)}): a column for each of {shortlist(names)}"
    array = _array("outcomes", values, expected, problems)
    if array is None:
        return None
    if array.ndim == len(names) == 1:
        array = array[:, None]
    if array.ndim != 2 or array.shape[1] != len(names):
        problems.add_for("outcomes", _misshapen(array, expected))
        return None
    labels = [_called("outcomes", name) for name in names]
    return _array_side("outcomes", array, labels, _rows(values, array), problems)


def _shaped_side(
    values: Any,
    shape: tuple[int, ...],
    names: tuple[str, ...] | None,
    problems: Problems,
) -> tuple[Side | None, bool]:
    """Return one context or many by the shape of the array, and whether it is one."""
    sizes = ", ".join(map(str, shape))
    one_shape = f"({sizes},)" if len(shape) == 1 else f"({sizes})"
    expected = f"expected {one_shape} for one context or (n, {sizes}) for many"
    if shape == (1,) and isinstance(values, Real):
        values = [values]
    array = _array("contexts", values, expected, problems)
    if array is None:
        return None, False
    one = array.shape == shape
    array = array[None] if one else array
    rows = None if one else range(len(array))
    if array.shape[1:] != shape:
        hint = (
            "; use reshape(-1, 1) on many" if array.ndim == 1 and shape == (1,) else ""
        )
        problems.add_for("contexts", _misshapen(array, expected) + hint)
        return None, False
    labels = [_called("contexts", name) for name in names or range(shape[-1])]
    return _array_side("contexts", array, labels, rows, problems), one


def _row(values: Any) -> pd.DataFrame:
    """Return a mapping or a Series as a DataFrame of one row."""
    items = list(values.items())
    row = np.empty((1, len(items)), dtype=object)
    for j, (_, value) in enumerate(items):
        row[0, j] = value
    return pd.DataFrame(row, columns=[str(key) for key, _ in items])


def _array(
    role: str, values: Any, expected: str, problems: Problems
) -> np.ndarray | None:
    """Return values as an array, of objects where they may not all be numbers."""
    try:
        if isinstance(values, np.ma.MaskedArray):
            values = np.ma.filled(values.astype(float), np.nan)
        array = np.asarray(values)
        if array.dtype.kind in "USV":  # numbers beside text have become text too
            array = np.asarray(values, dtype=object)
    except (TypeError, ValueError, RuntimeError) as error:
        problems.add_for(role, f"they are not an array of numbers: {error}; {expected}")
        return None
    if array.ndim == 0:
        problems.add_for(role, f"{describe_type(values)} was given; {expected}")
        return None
    return array


def _array_side(
    role: str, array: np.ndarray, labels: list[str], rows: Any, problems: Problems
) -> Side:
    side = Side(role, rows, problems)
    for j, label in enumerate(labels):
        side.add(label, array[..., j])
    return side


def _misshapen(array: np.ndarray, expected: str) -> str:
    return f"an array of shape {array.shape} was given; {expected}"


def _rows(values: Any, array: np.ndarray) -> Any:
    return values.index if isinstance(values, pd.Series) else range(len(array))


def _called(role: str, name: str | int) -> str:
    quoted = f"'{name}'" if isinstance(name, str) else str(name)
    return f"column {quoted}" if role == "contexts" else quoted


def _refuse_outcomes(two_stage: TwoStageModel, side: Side) -> None:
    """Refuse what is not finite or lies outside its Param's domain."""
    side.refuse_all(
        problem
        for param in two_stage.uncertain_params
        for problem in _outcome_problems(param, side)
    )


def _outcome_problems(param: Any, side: Side) -> Iterator[str]:
    label = _called(side.role, param.name)
    column = side.columns.get(label)
    if column is None:  # it was refused itself
        return
    places = defaultdict(list)
    for place, fault in find_invalid(param, column):
        places[fault].append(place)
    for fault, found in places.items():
        yield f"{label} is {side.listed(column, found)}{fault}"


def _refuse_rows(contexts: Side, outcomes: Side, problems: Problems) -> None:
    if contexts.count != outcomes.count:
        problems.add_for(
            "data",
            f"contexts have {contexts.count} rows and outcomes have {outcomes.count}; "
            "give an outcome for each context",
        )
    elif contexts.count < _LEAST_PAIRS:
        found = "there is only 1 pair" if contexts.count else "it is empty"
        problems.add_for(
            "data",
            f"{found}; give at least {_LEAST_PAIRS} pairs, and learning wants tens",
        )
    elif _is_shuffled(contexts.rows, outcomes.rows):
        problems.add_for(
            "data",
            "contexts and outcomes have the same row labels in another order; align them, "
            "e.g. outcomes.loc[contexts.index]",
        )


def _is_shuffled(one: Any, other: Any) -> bool:
    """Whether the labels are the same but their order is not."""
    if not (isinstance(one, pd.Index) and isinstance(other, pd.Index)):
        return False
    return not one.equals(other) and set(one) == set(other)


def _tell_constants(contexts: Side) -> None:
    for label, column in contexts.columns.items():
        if (column == column.flat[0]).all():
            _log.info("context %s is constant and tells nothing", label)
