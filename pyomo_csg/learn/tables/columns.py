"""Columns of numbers, and messages about cells that are not numbers."""

from __future__ import annotations

import math
import re
import reprlib
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import date, time, timedelta
from decimal import Decimal
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from pyomo_csg.errors import DataError, shortlist
from pyomo_csg.learn.tables.column_names import column_label

if TYPE_CHECKING:
    import pandas as pd

LARGEST = 1e100  # of a context's number, so that squares are finite
_MAX_CELLS = 3  # shown for a column
_MAX_COLUMNS = 10  # shown in an error
_FINITE = "give a finite number"
TEXT, DATES, CATEGORIES = "text", "dates or times", "categories"
STRAY = "text among numbers"
ENCODINGS = {
    TEXT: (
        "encode it as numbers, e.g. with pandas.get_dummies, or with pandas.to_numeric "
        "if the text is a number"
    ),
    DATES: (
        "encode it as numbers, e.g. with pandas.get_dummies of its .dt.month or "
        ".dt.dayofweek"
    ),
    CATEGORIES: "encode it as numbers, e.g. with pandas.get_dummies",
}
_REMEDIES = {**ENCODINGS, STRAY: "correct it, or drop the row"}
MISSING = "missing"
_SEPARATED = re.compile(r"[-+]?[$€£¥]?\s?[-+]?\d[\d.,'\u2019\u00a0\u202f ]*[%$€£¥]?")
_DATE_TYPES = date | time | timedelta | np.datetime64 | np.timedelta64


class Columns:
    """The numeric columns of ``'contexts'`` or ``'outcomes'``, and the problems in them.

    A column is (n,), or (n, W) in panels, and its key is its name in messages. A column
    that is not numeric is left out and listed in ``problems``. ``rows`` holds the row
    labels; None stands for a single row without a label.
    """

    def __init__(
        self, role: str, rows: Sequence[Any] | None, names: Sequence[str] | None = None
    ):
        self.role, self.rows = role, rows
        self.names = None if names is None else tuple(names)
        self.arrays: dict[str, np.ndarray] = {}
        self.problems: list[str] = []

    @classmethod
    def from_frame(
        cls, role: str, frame: pd.DataFrame, names: Sequence[str], rows: Any
    ) -> Columns:
        """Read the columns with these names; other columns are ignored."""
        columns = cls(role, rows, names)
        found = [column_label(column) for column in frame.columns]
        counts = Counter(found)
        if missing := [name for name in names if not counts[name]]:
            among = f" among {shortlist(found)}" if found else ""
            columns.problems.append(
                f"no column for {shortlist(missing)}{among}; add it or rename one"
            )
        if repeated := [name for name in names if counts[name] > 1]:
            columns.problems.append(
                f"more than one column is called {shortlist(repeated)}; rename or drop "
                "one"
            )
        for name in names:
            if counts[name] == 1:
                columns._add(columns.label(name), frame.iloc[:, found.index(name)])
        return columns

    @classmethod
    def from_array(
        cls, role: str, array: np.ndarray, labels: Iterable[str | int], rows: Any
    ) -> Columns:
        """Read the last axis of an array as columns."""
        columns = cls(role, rows)
        for j, label in enumerate(labels):
            columns._add(columns.label(label), array[..., j])
        return columns

    def __len__(self) -> int:
        return 1 if self.rows is None else len(self.rows)

    def label(self, name: str | int) -> str:
        """Return a column's name in messages."""
        quoted = f"'{name}'" if isinstance(name, str) else str(name)
        return f"column {quoted}" if self.role == "contexts" else quoted

    def stack(self) -> np.ndarray:
        """Return a copy of all columns as one array (n, d) or (n, W, d)."""
        return np.stack(list(self.arrays.values()), axis=-1)

    def check_finite(self) -> None:
        """Report numbers that are missing, infinite or too large."""
        problems = []
        for label, array in self.arrays.items():
            if cells := [tuple(cell) for cell in np.argwhere(~(abs(array) < LARGEST))]:
                huge = any(np.isfinite(array[cell]) for cell in cells)
                remedy = f"give a number below {LARGEST:g}" if huge else _FINITE
                problems.append(f"{label} is {self.list_cells(array, cells)}; {remedy}")
        self.add_problems(problems)

    def add_problems(self, problems: list[str]) -> None:
        """Keep one problem per column, or the first few if there are many."""
        self.problems += problems[:_MAX_COLUMNS]
        if (more := len(problems) - _MAX_COLUMNS) > 0:
            self.problems.append(f"... and {more} more like these")

    def list_cells(self, array: np.ndarray, cells: list[tuple[int, ...]]) -> str:
        """Return the first few of these cells with their rows, for a message."""
        shown = []
        for cell in cells[:_MAX_CELLS]:
            place = self._place(cell)
            shown.append(f"{array[cell]:g}" + (f" in {place}" if place else ""))
        more = len(cells) - _MAX_CELLS
        return ", ".join(shown) + (f" and {more} more" if more > 0 else "")

    def _add(self, label: str, values: Any) -> None:
        """Keep an array or a Series if all its cells are numbers; report it if not."""
        import pandas as pd

        dtype = object if values.dtype == object else None  # do not infer another
        column = pd.Series(values.ravel() if values.ndim > 1 else values, dtype=dtype)
        kind, position = _content_problem(column)
        if not kind:
            numbers = column.to_numpy(dtype=float, na_value=np.nan)
            self.arrays[label] = numbers.reshape(values.shape)
            return
        example = ""
        if position is not None:
            place = self._place(np.unravel_index(position, values.shape))
            shown = reprlib.repr(column.iloc[position])
            example = f" ({shown}, {place})" if place else f" ({shown})"
        remedy = _REMEDIES.get(kind, "give numbers")
        if self.role == "outcomes":
            remedy = "every outcome must be a number"
        self.problems.append(f"{label} contains {kind}{example}; {remedy}")

    def _place(self, cell: Sequence[Any]) -> str:
        words = [] if self.rows is None else [f"row {self.rows[cell[0]]}"]
        return ", ".join([*words, *(f"step {step}" for step in cell[1:])])


def is_frame(value: Any) -> bool:
    """Whether a value is a DataFrame; pandas is not imported to find out."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(value, pandas.DataFrame)


def is_series(value: Any) -> bool:
    """Whether a value is a Series; pandas is not imported to find out."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(value, pandas.Series)


def as_array(values: Any, expected: str) -> np.ndarray:
    """Return values as an array, of objects if some may not be numbers."""
    try:
        if isinstance(values, np.ma.MaskedArray):
            values = np.ma.filled(values.astype(float), np.nan)
        array = np.asarray(values)
        if array.dtype.kind in "USV":  # NumPy turned numbers beside text into text
            array = np.asarray(values, dtype=object)
    except (TypeError, ValueError, RuntimeError) as error:
        problem = f"they are not an array of numbers: {error}; {expected}"
        raise unreadable(problem) from None
    if array.ndim == 0:
        raise unreadable(f"{describe_type(values)} was given; {expected}")
    return array


def unreadable(problem: str) -> DataError:
    """Return the error of a reader; the caller's collector adds the subject."""
    return DataError("", [problem])


def describe_type(value: Any) -> str:
    """Return a value's type with its article, such as 'a dict'."""
    name = "array" if isinstance(value, np.ndarray) else type(value).__name__
    article = "an" if name[0] in "aeioAEIO" else "a"
    return "nothing" if value is None else f"{article} {name}"


def content_kind(column: pd.Series) -> str:
    """Return what a column contains besides numbers; '' if nothing."""
    return _content_problem(column)[0]


def _content_problem(column: pd.Series) -> tuple[str, int | None]:
    """Return what a column contains besides numbers ('' if nothing), and where."""
    import pandas as pd

    dtype = column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return CATEGORIES, None
    if dtype.kind in "mM":
        return DATES, None
    if dtype.kind == "c":
        return "complex numbers", None
    if pd.api.types.is_numeric_dtype(dtype):
        return "", None
    others = [i for i, value in enumerate(column) if not _is_number(value)]
    if not others:
        return "", None
    kind = _content_kind(column.iloc[others[0]])
    # Of text, show the first cell that does not parse as a number: '-' among '1.5', '2'.
    unparsed = [i for i in others if not parses_as_number(column.iloc[i])]
    if kind != TEXT or not unparsed:
        return kind, others[0]
    kind = _content_kind(column.iloc[unparsed[0]])
    is_stray = kind == TEXT and 2 * len(unparsed) < len(column)
    return STRAY if is_stray else kind, unparsed[0]


def _is_number(value: Any) -> bool:
    import pandas as pd

    if pd.api.types.is_scalar(value) and pd.isna(value):
        return True  # reported later, as nan
    return isinstance(value, Real | Decimal | np.bool_) and parses_as_number(value)


def parses_as_number(value: Any) -> bool:
    """Whether a number, or a text that is a number."""
    if not isinstance(value, str | bytes | Real | Decimal | np.bool_):
        return False
    try:
        float(value)
    except (ValueError, OverflowError):
        return False
    return True


def _content_kind(value: Any) -> str:
    if isinstance(value, str | bytes):
        return TEXT
    if isinstance(value, _DATE_TYPES) or type(value).__name__ == "Period":
        return DATES
    if isinstance(value, int):
        return "integers too large for a float"
    return describe_type(value)


def is_missing(cell: Any) -> bool:
    """Whether a cell is empty: None, NaN, a missing value of pandas, or blank text."""
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):  # of pandas
        return True
    if isinstance(cell, str):
        return not cell.strip()
    if isinstance(cell, np.datetime64):
        return bool(np.isnat(cell))
    return isinstance(cell, float | np.floating | Decimal) and math.isnan(cell)


def cell_text(cell: Any) -> str:
    """Return a cell as text, the same for 3, 3.0 and '3'."""
    if is_missing(cell):
        return MISSING
    if isinstance(cell, float | np.floating) and float(cell).is_integer():
        cell = int(cell)
    return str(cell).strip()


def is_separated_number(cell: Any) -> bool:
    """Whether text is a number with separators or a unit, such as 1,200 or 5 %."""
    return isinstance(cell, str) and bool(_SEPARATED.fullmatch(cell.strip()))
