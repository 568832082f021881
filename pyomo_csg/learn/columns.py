"""One side of a history, column by column, and the words for what is no number in it."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Sequence
from datetime import date, time, timedelta
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd

from pyomo_csg.validation import Problems

LARGEST = 1e100  # of a context's number, so that squares are finite
_MOST_PLACES = 3
_MOST_COLUMNS = 10
_TEXT, _DATES, _CATEGORIES = "text", "dates or times", "categories"
_STRAY = "text among numbers"
ENCODINGS = {
    _TEXT: (
        "encode it as numbers, e.g. pandas.get_dummies, or pandas.to_numeric where the "
        "text is a number"
    ),
    _DATES: (
        "encode it as numbers, e.g. pandas.get_dummies of its .dt.month or .dt.dayofweek"
    ),
    _CATEGORIES: "encode it as numbers, e.g. pandas.get_dummies",
}
_REMEDIES = {**ENCODINGS, _STRAY: "correct it, or drop the row"}


class Side:
    """One side of the pairs: its columns, and what its rows are called (None for one).

    Columns are (n,), or (n, W) in panels, by what messages call them. One that is not
    made of numbers is refused and left out, so that the others are looked at too.
    """

    def __init__(self, role: str, rows: Any, problems: Problems):
        self.role = role
        self.rows: Sequence[Any] | None = rows
        self.count = 1 if rows is None else len(rows)
        self.names: tuple[str, ...] | None = None
        self.columns: dict[str, np.ndarray] = {}
        self._problems = problems

    def add(self, label: str, values: Any) -> None:
        """Take a column, an array or a Series, if it is made of numbers."""
        objects = object if values.dtype == object else None  # left as they are
        column = pd.Series(values.ravel() if values.ndim > 1 else values, dtype=objects)
        kind, position = _not_numbers(column)
        if not kind:
            numbers = column.to_numpy(dtype=float, na_value=np.nan)
            self.columns[label] = numbers.reshape(values.shape)
            return
        found = f"{label} holds {kind}"
        if position is not None:
            shown = reprlib.repr(column.iloc[position])
            place = tuple(map(int, np.unravel_index(position, values.shape)))
            found += f", such as {shown}{self._where(place)}"
        remedy = _REMEDIES.get(kind, "give numbers")
        if self.role == "outcomes":
            remedy = "an outcome is a number"
        self.refuse(f"{found}; {remedy}")

    def stacked(self) -> np.ndarray:
        """Return all columns as one array, a copy of what was given."""
        return np.stack(list(self.columns.values()), axis=-1)

    def refuse(self, problem: str) -> None:
        """Refuse this side for a reason."""
        self._problems.add_for(self.role, problem)

    def refuse_all(self, problems: Iterable[str]) -> None:
        """Refuse for each reason; of very many, the first ones speak for all."""
        problems = list(problems)
        for problem in problems[:_MOST_COLUMNS]:
            self.refuse(problem)
        if (more := len(problems) - _MOST_COLUMNS) > 0:
            self.refuse(f"... and {more} more like these")

    def refuse_infinite(self) -> None:
        """Refuse numbers that are missing, infinite, or beyond all measure."""
        self.refuse_all(
            f"{label} is {self.listed(column, places)}; {_remedy(column, places)}"
            for label, column in self.columns.items()
            if (places := [tuple(p) for p in np.argwhere(~(abs(column) < LARGEST))])
        )

    def listed(self, column: np.ndarray, places: list[tuple[int, ...]]) -> str:
        """Return the numbers at these places, and where that is."""
        shown = [f"{column[p]:g}{self._where(p)}" for p in places[:_MOST_PLACES]]
        more = len(places) - _MOST_PLACES
        return ", ".join(shown) + (f" and {more} more" if more > 0 else "")

    def _where(self, place: tuple[int, ...]) -> str:
        words = [] if self.rows is None else [f"row {self.rows[place[0]]}"]
        words += [f"step {step}" for step in place[1:]]
        return " in " + ", ".join(words) if words else ""


def _remedy(column: np.ndarray, places: list[tuple[int, ...]]) -> str:
    huge = any(np.isfinite(column[place]) for place in places)
    return f"give a number below {LARGEST:g}" if huge else "give a finite number"


def _not_numbers(column: pd.Series) -> tuple[str, int | None]:
    """Return what a column holds instead of numbers, '' if it does not, and where."""
    dtype = column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return _CATEGORIES, None
    if dtype.kind in "mM":
        return _DATES, None
    if dtype.kind == "c":
        return "complex numbers", None
    if not pd.api.types.is_numeric_dtype(dtype):
        for position, value in enumerate(column):
            if not _is_number(value):
                return _fault(column, position)
    return "", None


def _fault(column: pd.Series, first: int) -> tuple[str, int]:
    """Return what a column holds and where: of text, the first that reads as no number."""
    kind = _kind(column.iloc[first])
    unread = [i for i, value in enumerate(column) if not _reads_as_number(value)]
    if kind != _TEXT or not unread:
        return kind, first
    kind = _kind(column.iloc[unread[0]])
    stray = kind == _TEXT and 2 * len(unread) < len(column)
    return _STRAY if stray else kind, unread[0]


def _reads_as_number(value: Any) -> bool:
    if not isinstance(value, str | bytes):
        return _is_number(value)
    try:
        float(value)
    except ValueError:
        return False
    return True


def _is_number(value: Any) -> bool:
    if pd.api.types.is_scalar(value) and pd.isna(value):
        return True  # a gap, which is refused as nan
    if not isinstance(value, Real | Decimal | np.bool_):
        return False
    try:
        float(value)
    except OverflowError:
        return False
    return True


def _kind(value: Any) -> str:
    if isinstance(value, str | bytes):
        return _TEXT
    if isinstance(
        value, date | time | timedelta | pd.Period | np.datetime64 | np.timedelta64
    ):
        return _DATES
    if isinstance(value, int):
        return "integers too large for a float"
    return describe_type(value)


def describe_type(value: Any) -> str:
    """Return what a value is, in words."""
    name = "array" if isinstance(value, np.ndarray) else type(value).__name__
    article = "an" if name[0] in "aeioAEIO" else "a"
    return "nothing" if value is None else f"{article} {name}"
