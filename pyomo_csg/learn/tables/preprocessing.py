"""Turn the context columns of a table into numbers: text, dates, and missing values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pyomo_csg.errors import DataError, shortlist
from pyomo_csg.learn.tables.columns import (
    CATEGORIES,
    DATES,
    STRAY,
    TEXT,
    content_kind,
    is_frame,
    parses_as_number,
)
from pyomo_csg.learn.tables.encodings import (
    DAY,
    EPOCH,
    KINDS,
    DateEncoding,
    Encoding,
    HashedEncoding,
    LevelEncoding,
    NumberEncoding,
    cell_text,
    check_restored,
    is_missing,
    read_date,
)

if TYPE_CHECKING:
    import pandas as pd

_SUBJECT = "The context does not fit the history"
_MOST_LEVELS = 20  # with an indicator each; more are hashed
_LEAST_ROWS = 3  # of a level with its own indicator
_HALF_A_YEAR = 183 * DAY


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
    def names(self) -> tuple[str, ...]:
        """The names of the numbers."""
        return tuple(name for one in self.encodings for name in one.outputs)

    def encode_row(self, row: Mapping[str, Any]) -> dict[str, float]:
        """Return the numbers of one context by name."""
        return dict(zip(self.names, self._encode(row, None)[0].tolist(), strict=True))

    def encode_table(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return the numbers of many contexts, with the table's index."""
        import pandas as pd

        found = [str(column) for column in table.columns]
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
        if hasattr(values, "items"):
            return self.encode_row({str(key): cell for key, cell in values.items()})
        return values

    def _encode(self, cells: Mapping[str, Any], rows: Any) -> np.ndarray:
        """Return numbers (n, width) of the cells of each column, or of a single row."""
        problems, parts = [], []
        for one in self.encodings:
            if one.name not in cells:
                problems.append(f"no column for '{one.name}'; add it or rename one")
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


def learn_preprocessing(table: pd.DataFrame) -> Preprocessing | None:
    """Return how to turn a table into numbers; None if it is numbers without gaps.

    Columns that cannot be used, such as numbers with stray text, are left as they are; the
    reader of numbers then refuses them.
    """
    found = [_learn_column(str(name), table.iloc[:, j]) for j, name in enumerate(table)]
    if all(isinstance(one, NumberEncoding) and one.fill is None for one in found):
        return None
    return Preprocessing(tuple(one for one in found if one.outputs))


def _learn_column(name: str, column: pd.Series) -> Encoding:
    """Return the encoding of a column by what its cells are."""
    kind = content_kind(column)
    cells = column.tolist()
    present = [cell for cell in cells if not is_missing(cell)]
    if kind == STRAY and not any(map(parses_as_number, present)):
        kind = TEXT  # with many gaps
    if kind in (TEXT, CATEGORIES) and present:
        if all(read_date(cell) is not None for cell in present):
            kind = DATES
        elif kind == TEXT and all(map(parses_as_number, present)):
            kind = ""
    if kind in (TEXT, CATEGORIES):
        return _learn_levels(name, cells)
    if kind == DATES and present and read_date(present[0]) is not None:
        return _learn_dates(name, present)
    gaps = len(present) < len(cells)
    if kind or not gaps or not present:
        return NumberEncoding(name)
    return NumberEncoding(name, float(np.median([float(cell) for cell in present])))


def _learn_levels(name: str, cells: Sequence[Any]) -> Encoding:
    """Return indicators of the levels that occur often, or a hash if they are many."""
    counts = Counter(map(cell_text, cells))
    often = [level for level, count in counts.items() if count >= _LEAST_ROWS]
    if len(often) > _MOST_LEVELS or not often:
        return HashedEncoding(name)
    levels = tuple(sorted(often, key=lambda level: (-counts[level], level)))
    return LevelEncoding(name, levels, len(often) < len(counts))


def _learn_dates(name: str, cells: Sequence[Any]) -> DateEncoding:
    """Return the parts of a date that vary."""
    dates = [one for one in map(read_date, cells) if one is not None]
    seconds = np.array([(one - EPOCH).total_seconds() for one in dates])
    span, parts = float(np.ptp(seconds)), []
    if len(np.unique(seconds % DAY)) > 1:
        parts.append("hour")
    if len({one.weekday() for one in dates}) > 1:
        parts.append("weekday")
    if span >= _HALF_A_YEAR:
        parts += ["season", "trend"]
    return DateEncoding(name, float(seconds.min()), tuple(parts))


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


def is_transformer(value: Any) -> bool:
    """Whether a value is an object with scikit-learn's methods of a transformer."""
    methods = ("fit", "transform", "get_params")
    return not isinstance(value, type) and all(
        callable(getattr(value, name, None)) for name in methods
    )
