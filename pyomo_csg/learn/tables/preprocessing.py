"""Turn the context columns of a table into numbers: text, dates, and missing values."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pyomo_csg.errors import DataError, shortlist
from pyomo_csg.learn.tables.column_names import column_label
from pyomo_csg.learn.tables.columns import (
    CATEGORIES,
    DATES,
    STRAY,
    TEXT,
    cell_text,
    content_kind,
    is_frame,
    is_missing,
    is_separated_number,
    is_series,
    parses_as_number,
)
from pyomo_csg.learn.tables.date_encoding import (
    DateEncoding,
    HolidayCalendar,
    find_formats,
    learn_dates,
    read_date,
    with_date_column,
    zone_name,
)
from pyomo_csg.learn.tables.encodings import (
    KINDS,
    Encoding,
    HashedEncoding,
    LevelEncoding,
    NumberEncoding,
    check_restored,
    level_checksum,
)
from pyomo_csg.validation import is_one_of

if TYPE_CHECKING:
    import pandas as pd

_log = logging.getLogger(__name__)

_SUBJECT = "The context does not fit the history"
_MOST_LEVELS = 20  # with an indicator each; more are hashed
_LEAST_ROWS = 3  # of a level with its own indicator
_PREPROCESS = "give 'auto' or None, {'holidays': 'US'}, or a scikit-learn transformer"


@dataclass(frozen=True)
class Preprocessing:
    """How the context columns of a table become numbers, learned from a history.

    It holds numbers and text only, so a policy file can store it.
    """

    encodings: tuple[Encoding, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read."""
        return tuple(dict.fromkeys(one.name for one in self.encodings))

    @property
    def date_columns(self) -> tuple[str, ...]:
        """The columns of dates."""
        return tuple(
            one.name for one in self.encodings if isinstance(one, DateEncoding)
        )

    @property
    def date_outputs(self) -> tuple[str, ...]:
        """The names of the numbers that dates become."""
        dates = [one for one in self.encodings if isinstance(one, DateEncoding)]
        return tuple(name for one in dates for name in one.outputs)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the numbers."""
        return tuple(name for one in self.encodings for name in one.outputs)

    def encode_row(self, row: Mapping[str, Any]) -> dict[str, float]:
        """Return the numbers of one context by name."""
        return dict(zip(self.names, self._encode(row, None)[0].tolist(), strict=True))

    def encode_table(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return the numbers of many contexts, with the table's index."""
        import pandas as pd

        table = with_date_column(table, self.missing_date(table.columns))
        found = [column_label(column) for column in table.columns]
        if twice := [name for name in self.columns if found.count(name) > 1]:
            problem = f"more than one column is called {shortlist(twice)}"
            raise DataError(_SUBJECT, [f"{problem}; rename or drop one"])
        cells = {
            name: table.iloc[:, found.index(name)].tolist()
            for name in self.columns
            if name in found
        }
        numbers = self._encode(cells, table.index)
        return pd.DataFrame(numbers, index=table.index, columns=list(self.names))

    def encode_any(self, values: Any) -> Any:
        """Return numbers for a mapping, a Series or a DataFrame; leave arrays as they are."""
        if is_frame(values):
            return self.encode_table(values)
        if not hasattr(values, "items"):
            return values
        row = {column_label(key): cell for key, cell in values.items()}
        date = self.missing_date(row) if is_series(values) else None
        if date is not None and not is_missing(values.name):
            row[date] = values.name  # a row of a table with dates as its labels
        return self.encode_row(row)

    def missing_date(self, columns: Iterable[Any]) -> str | None:
        """Return the date column that is not among some, if there is one: it may be the index."""
        found = set(map(column_label, columns))
        missing = [name for name in self.date_columns if name not in found]
        return missing[0] if len(missing) == 1 else None

    def _encode(self, cells: Mapping[str, Any], rows: Any) -> np.ndarray:
        """Return numbers (n, width) of the cells of each column, or of a single row."""
        problems, parts = [], []
        for one in self.encodings:
            if one.name not in cells:
                remedy = "add it or rename one"
                if isinstance(one, DateEncoding):
                    remedy = "give the date of the row, as a column or as its label"
                problems.append(f"no column for '{one.name}'; {remedy}")
                continue
            column = [cells[one.name]] if rows is None else cells[one.name]
            try:
                parts.append(one.encode(column))
            except ValueError as error:
                where = _first_fault(one, column, rows)
                problems.append(f"column '{one.name}'{where} {error}")
        if problems:
            raise DataError(_SUBJECT, problems)
        return np.hstack(parts)

    def describe(self) -> list[tuple[str, str]]:
        """Return each column that changed, and what it became."""
        return [
            (one.name, str(one))
            for one in self.encodings
            if not (isinstance(one, NumberEncoding) and one.fill is None)
        ]

    def summary(self) -> list[dict[str, Any]]:
        """Return the encodings in JSON types."""
        return [{"kind": one.kind, **asdict(one)} for one in self.encodings]  # type: ignore[call-overload]

    @classmethod
    def restore(cls, summary: Any) -> Preprocessing:
        """Return the preprocessing of a summary; a ValueError if it is damaged."""
        found = []
        for entry in summary:
            content = dict(entry)
            kind = KINDS[content.pop("kind")]
            for name, value in content.items():
                if isinstance(value, list):
                    content[name] = tuple(value)
            found.append(kind(**content))
            check_restored(found[-1])
        return cls(tuple(found))


def _first_fault(one: Encoding, column: Sequence[Any], rows: Any) -> str:
    """Return the first row that an encoding refuses, for a message."""
    if rows is None:
        return ""
    for row, cell in zip(rows, column, strict=True):
        try:
            one.encode([cell])
        except ValueError:
            return f", row {row},"
    return ""


def check_preprocess(preprocess: Any) -> list[str]:
    """Return what is wrong with an argument ``preprocess``."""
    if isinstance(preprocess, Mapping) and set(preprocess) == {"holidays"}:
        try:
            HolidayCalendar(preprocess["holidays"])
        except DataError as error:
            return [f"preprocess: {one}" for one in error.problems]
        return []
    if (
        preprocess is None
        or is_one_of(preprocess, ("auto",))
        or is_transformer(preprocess)
    ):
        return []
    return [f"preprocess is {preprocess!r:.80}; {_PREPROCESS}"]


def learn_columns(preprocess: Any, table: pd.DataFrame) -> Preprocessing | None:
    """Return how a table becomes numbers, by a valid argument ``preprocess``.

    None if it is numbers without gaps.
    """
    if is_transformer(preprocess):
        # Imports scikit-learn, without which policies decide.
        from pyomo_csg.learn.tables.transformers import learn_transformer

        return learn_transformer(preprocess, table)
    if isinstance(preprocess, Mapping):
        return learn_preprocessing(table, HolidayCalendar(preprocess["holidays"]))
    return learn_preprocessing(table)


def learn_preprocessing(
    table: pd.DataFrame, calendar: HolidayCalendar | None = None
) -> Preprocessing | None:
    """Return how a table becomes numbers; None if it is numbers without gaps.

    Columns that cannot be used, such as numbers with stray text, are left as they are; the
    reader of numbers then refuses them.
    """
    found: list[Encoding | None] = []
    problems, are_plain = [], True
    for j, name in enumerate(map(str, table)):
        column = table.iloc[:, j]
        try:
            found.append(_learn_column(name, column, calendar))
        except DataError as error:
            problems += [f"column '{name}' {one}" for one in error.problems]
            continue
        are_plain &= found[-1] == NumberEncoding(name) and not _needs_reading(column)
    if problems:
        raise DataError("", problems)
    encodings = [one for one in found if one is not None and one.outputs]
    has_dates = any(one is not None and one.kind == "date" for one in found)
    if calendar is not None and not has_dates:
        remedy = "add one, or drop the holidays"
        raise DataError("", [f"holidays need a column or an index of dates; {remedy}"])
    return None if are_plain else Preprocessing(tuple(encodings))


def _needs_reading(column: pd.Series) -> bool:
    """Whether a column holds numbers as text, or durations."""
    return column.dtype.kind == "m" or (
        content_kind(column) == TEXT and all(map(parses_as_number, column))
    )


def _learn_column(
    name: str, column: pd.Series, calendar: HolidayCalendar | None
) -> Encoding | None:
    """Return the encoding of a column by what its cells are; None if it says nothing."""
    kind = content_kind(column)
    cells = column.tolist()
    present = [cell for cell in cells if not is_missing(cell)]
    if not present and cells:
        raise DataError("", ["is empty in every row; leave it out of the context"])
    if kind == STRAY and not any(map(parses_as_number, present)):
        kind = TEXT  # with many gaps
    if kind in (TEXT, STRAY, DATES, CATEGORIES):
        forms = find_formats(present)
        if forms:
            form = _check_dates(present, column.index[_places(cells)], forms)
            return learn_dates(name, cells, form, zone_name(column), calendar)
        if kind == TEXT and all(map(parses_as_number, present)):
            kind = ""
    if kind in (TEXT, STRAY):
        _check_separators(present, column.index[_places(cells)])
    if kind in (TEXT, CATEGORIES):
        return _learn_levels(name, cells)
    gaps = len(present) < len(cells)
    if kind or not gaps:
        return NumberEncoding(name)
    return NumberEncoding(name, float(np.median([float(cell) for cell in present])))


def _places(cells: Sequence[Any]) -> list[bool]:
    return [not is_missing(cell) for cell in cells]


def _check_dates(
    cells: Sequence[Any], rows: Sequence[Any], forms: Sequence[str]
) -> str:
    """Return the format of a column of dates; raise a DataError if some are none."""
    if len(forms) > 1:
        text = next(one for one in cells if isinstance(one, str))
        days = " or ".join(f"{read_date(text, form):%d %B}" for form in forms)
        found = f"has dates that can be read in several ways ({text!r}: {days})"
        remedy = "convert it with pandas.to_datetime, or write 2026-03-28"
        raise DataError("", [f"{found}; {remedy}"])
    remedy = "correct it, or leave it empty"
    stray = _first(cells, lambda cell: read_date(cell, forms[0]) is None)
    if stray is not None:
        found = f"contains {cells[stray]!r:.60} among dates (row {rows[stray]})"
        raise DataError("", [f"{found}; {remedy}"])
    return forms[0]


def _check_separators(cells: Sequence[Any], rows: Sequence[Any]) -> None:
    """Raise a DataError if most cells are numbers, some with separators or units."""

    def is_separated(cell: Any) -> bool:
        return is_separated_number(cell) and not parses_as_number(cell)

    count = sum(is_separated(cell) or parses_as_number(cell) for cell in cells)
    place = _first(cells, is_separated)
    if place is not None and 2 * count > len(cells):
        found = f"contains numbers with separators or units ({cells[place]!r:.60}, row {rows[place]})"
        remedy = (
            "write them as 1200.5, e.g. by pandas.read_csv(thousands=',', decimal='.'), or "
            "make it a category if they are names"
        )
        raise DataError("", [f"{found}; {remedy}"])


def _first(cells: Sequence[Any], condition: Callable[[Any], bool]) -> int | None:
    return next((i for i, cell in enumerate(cells) if condition(cell)), None)


def _learn_levels(name: str, cells: Sequence[Any]) -> Encoding | None:
    """Return indicators of the levels that occur often, or a hash if they are many."""
    counts = Counter(map(cell_text, cells))
    often = [level for level, count in counts.items() if count >= _LEAST_ROWS]
    if not often and len(counts) > _MOST_LEVELS:
        _log.warning(
            "column '%s' has %d values in %d rows, each in fewer than %d, such as %s; it "
            "is left out",
            name,
            len(counts),
            len(cells),
            _LEAST_ROWS,
            shortlist(sorted(counts)[:2]),
        )
        return None
    if len(often) > _MOST_LEVELS or not often:
        return HashedEncoding(name, seen=tuple(sorted(map(level_checksum, counts))))
    levels = tuple(sorted(often, key=lambda level: (-counts[level], level)))
    rare = tuple(sorted(level for level in counts if level not in set(often)))
    return LevelEncoding(name, levels, bool(rare), rare)


def is_transformer(value: Any) -> bool:
    """Whether a value is an object with scikit-learn's methods of a transformer."""
    methods = ("fit", "transform", "get_params")
    return not isinstance(value, type) and all(
        callable(getattr(value, name, None)) for name in methods
    )
