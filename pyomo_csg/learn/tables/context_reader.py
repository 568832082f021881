"""Read the contexts to decide for: numeric arrays at once, anything else cell by cell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from pyomo_csg.learn.tables.column_names import column_label
from pyomo_csg.learn.tables.columns import (
    LARGEST,
    Columns,
    as_array,
    is_frame,
    is_series,
    unreadable,
)
from pyomo_csg.validation import Problems

if TYPE_CHECKING:
    import pandas as pd

_PLAIN = {float, int, *(np.dtype(kind).type for kind in ("f8", "f4", "i8", "i4"))}


def read_contexts(
    values: Any, shape: tuple[int, ...], names: tuple[str, ...] | None
) -> tuple[np.ndarray, bool]:
    """Return contexts as an array (n, \\*shape), and whether a single one was given.

    If the contexts have names, a mapping or a Series is one context and a DataFrame has
    one per row; other columns are ignored. For the shape (1,), a number is one context.

    >>> read_contexts({"rain": 1, "price": 2.5}, (2,), ("price", "rain"))
    (array([[2.5, 1. ]]), True)
    """
    plain = _read_plain(values, shape, names)
    if plain is not None:
        return plain
    problems = Problems("The context does not fit the history")
    columns: Columns | None
    if names is not None and (isinstance(values, Mapping) or is_series(values)):
        columns = Columns.from_frame("contexts", _one_row_frame(values), names, None)
    elif names is not None and is_frame(values):
        columns = Columns.from_frame("contexts", values, names, values.index)
    else:
        columns = problems.check("contexts", _array_contexts, values, shape, names)
    if columns is not None:
        if not len(columns):
            columns.problems.append("none were given; give at least one")
        columns.check_finite()
        problems.add_for(columns.role, *columns.problems)
    problems.raise_any()
    assert columns is not None
    return columns.stack(), columns.rows is None


def _read_plain(
    values: Any, shape: tuple[int, ...], names: tuple[str, ...] | None
) -> tuple[np.ndarray, bool] | None:
    """Return the same as read_contexts, or None unless all cells are plain numbers.

    Checking each cell by its column takes fifty times as long as a small program.
    """
    try:
        found = _plain_array(values, names)
    except (KeyError, OverflowError):  # a column is missing, an integer is too large
        return None
    if found is None or not (np.abs(found) < LARGEST).all():
        return None
    if found.shape == shape:
        return found[None], True
    return (found, False) if found.shape[1:] == shape and len(found) else None


def _plain_array(values: Any, names: tuple[str, ...] | None) -> np.ndarray | None:
    """Return values as a new array of floats, in the order of the names."""
    kind = type(values)
    if kind is np.ndarray:
        is_number = values.dtype.kind in "fiu"
        return np.array(values, float, order="C") if is_number else None
    if kind is list or kind is tuple:
        return _plain_row(values)
    if kind in _PLAIN:
        return np.array([values], float)
    if names is None:
        return None
    if kind is dict:
        return _named_row(values, names)
    if is_series(values):
        labels = values.index.tolist()
        row = dict(zip(labels, values.tolist(), strict=True))
        return _named_row(row, names) if len(row) == len(labels) else None
    return _plain_table(values, names) if is_frame(values) else None


def _named_row(row: dict[Any, Any], names: tuple[str, ...]) -> np.ndarray | None:
    if {*map(type, row)} != {str}:  # another key might be the same as text
        return None
    return _plain_row([row[name] for name in names])


def _plain_row(row: Iterable[Any]) -> np.ndarray | None:
    return np.array(row, float) if {*map(type, row)} <= _PLAIN else None


def _plain_table(table: pd.DataFrame, names: tuple[str, ...]) -> np.ndarray | None:
    columns = table.columns.tolist()
    places = {name: j for j, name in enumerate(columns)}
    if {*map(type, columns)} != {str} or len(places) < len(columns):
        return None
    if columns != list(names):
        table = table.iloc[:, [places[name] for name in names]]
    numbers = table.to_numpy()
    return np.array(numbers, float, order="C") if numbers.dtype.kind in "fiu" else None


def _array_contexts(
    values: Any, shape: tuple[int, ...], names: tuple[str, ...] | None
) -> Columns:
    """Read one context or many, by the shape of the array."""
    sizes = ", ".join(map(str, shape))
    expected = f"expected {shape} for one context or (n, {sizes}) for many"
    if shape == (1,) and isinstance(values, Real):
        values = [values]
    array = as_array(values, expected)
    rows = None if array.shape == shape else range(len(array))
    if rows is None:
        array = array[None]
    if array.shape[1:] != shape:
        if array.ndim == 1 and shape == (1,):
            expected += "; use reshape(-1, 1) on many"
        raise unreadable(f"an array of shape {array.shape} was given; {expected}")
    return Columns.from_array("contexts", array, names or range(shape[-1]), rows)


def _one_row_frame(values: Any) -> pd.DataFrame:
    """Return a mapping or a Series as one row of objects."""
    import pandas as pd

    items = list(values.items())
    row = np.empty((1, len(items)), dtype=object)
    for j, (_, value) in enumerate(items):
        row[0, j] = value
    return pd.DataFrame(row, columns=[column_label(key) for key, _ in items])
