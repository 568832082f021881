"""How the cells of one column become numbers: levels, dates, gaps."""

from __future__ import annotations

import logging
import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, ClassVar, Protocol

import numpy as np

from pyomo_csg.errors import shortlist
from pyomo_csg.learn.tables.columns import parses_as_number
from pyomo_csg.validation import is_number

_log = logging.getLogger(__name__)

_BUCKETS = 16  # for text with many levels
_MISSING, _OTHER = "missing", "other"
EPOCH = datetime(1970, 1, 1)
DAY, YEAR = 86400.0, 365.25 * 86400.0  # seconds
_WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


class Encoding(Protocol):
    """How the cells of one column become numbers."""

    kind: ClassVar[str]

    @property
    def name(self) -> str:
        """The column."""

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the numbers."""

    def encode(self, cells: Sequence[Any]) -> np.ndarray:
        """Return the numbers (n, width) of cells; a ValueError names what is wrong."""

    def __str__(self) -> str:
        """What the column became."""


@dataclass(frozen=True)
class NumberEncoding:
    """A number; where it may be missing, it is filled in and has an indicator."""

    kind: ClassVar[str] = "number"
    name: str
    fill: float | None = None  # None: it was never missing

    @property
    def outputs(self) -> tuple[str, ...]:
        return (
            (self.name,) if self.fill is None else (self.name, f"{self.name} missing")
        )

    def encode(self, cells: Sequence[Any]) -> np.ndarray:
        numbers = np.array([self._number(cell) for cell in cells])
        missing = np.isnan(numbers)
        if self.fill is None:
            if missing.any():
                raise ValueError(
                    "is missing, and was never missing in the history; give a number"
                )
            return numbers[:, None]
        return np.column_stack([np.where(missing, self.fill, numbers), missing])

    def _number(self, cell: Any) -> float:
        if is_missing(cell):
            return math.nan
        if isinstance(cell, timedelta):
            return cell.total_seconds()
        if not parses_as_number(cell):
            raise ValueError(f"is {cell!r:.60}; give a number")
        return float(cell)

    def __str__(self) -> str:
        if self.fill is None:
            return "a number"
        return f"a number; {self.fill:g} where it is missing, with an indicator"


@dataclass(frozen=True)
class LevelEncoding:
    """An indicator for each level; rare and new levels share the level 'other'."""

    kind: ClassVar[str] = "levels"
    name: str
    levels: tuple[str, ...]
    has_other: bool

    @property
    def outputs(self) -> tuple[str, ...]:
        levels = (*self.levels, _OTHER) if self.has_other else self.levels
        return tuple(f"{self.name} = {level}" for level in levels)

    def encode(self, cells: Sequence[Any]) -> np.ndarray:
        places = {level: j for j, level in enumerate(self.levels)}
        texts = [cell_text(cell) for cell in cells]
        numbers = np.zeros((len(texts), len(self.outputs)))
        new = set()
        for i, text in enumerate(texts):
            place = places.get(text)
            if place is None:
                new.add(text)
                if not self.has_other:
                    continue
                place = len(self.levels)
            numbers[i, place] = 1.0
        if new and not self.has_other:
            _log.warning(
                "column '%s' has values that the history does not have, treated as "
                "'other': %s",
                self.name,
                shortlist(sorted(new)),
            )
        return numbers

    def __str__(self) -> str:
        others = ", with the rest as 'other'" if self.has_other else ""
        return f"an indicator for each of {len(self.levels)} values{others}"


@dataclass(frozen=True)
class HashedEncoding:
    """Text with many levels, hashed into a few indicators."""

    kind: ClassVar[str] = "hashed"
    name: str
    buckets: int = _BUCKETS

    @property
    def outputs(self) -> tuple[str, ...]:
        return tuple(f"{self.name} #{j + 1}" for j in range(self.buckets))

    def encode(self, cells: Sequence[Any]) -> np.ndarray:
        places = [zlib.crc32(cell_text(cell).encode()) % self.buckets for cell in cells]
        return np.eye(self.buckets)[places]

    def __str__(self) -> str:
        return f"{self.buckets} indicators, since it has many values"


@dataclass(frozen=True)
class DateEncoding:
    """The parts of a date that vary in the history."""

    kind: ClassVar[str] = "date"
    name: str
    start: float  # seconds since 1970
    parts: tuple[str, ...]

    @property
    def outputs(self) -> tuple[str, ...]:
        return tuple(
            f"{self.name} {one}" for part in self.parts for one in _PARTS[part]
        )

    def encode(self, cells: Sequence[Any]) -> np.ndarray:
        times = [read_date(cell) for cell in cells]
        if any(one is None for one in times):
            raise ValueError("has a cell without a date; give a date")
        seconds = np.array([(one - EPOCH).total_seconds() for one in times if one])
        found = [self._encode_part(part, seconds) for part in self.parts]
        return np.column_stack(found) if found else np.empty((len(cells), 0))

    def _encode_part(self, part: str, seconds: np.ndarray) -> np.ndarray:
        if part == "trend":
            return (seconds - self.start) / YEAR
        if part == "weekday":
            days = np.floor(seconds / DAY).astype(int)
            return np.eye(7)[(days + 3) % 7]  # 1970 began on a Thursday
        angle = 2 * np.pi * seconds / (DAY if part == "hour" else YEAR)
        return np.column_stack([np.sin(angle), np.cos(angle)])

    def __str__(self) -> str:
        return ", ".join(_PART_NAMES[part] for part in self.parts) or "nothing"


@dataclass(frozen=True)
class TransformedColumn:
    """What a scikit-learn transformer does to a column: fill it, scale it, or split it up."""

    kind: ClassVar[str] = "transformed"
    name: str
    fill: float | str | None = None  # where a cell is missing
    indicator: bool = False  # of missing cells
    center: float = 0.0
    width: float = 1.0
    is_scaled: bool = False
    levels: tuple[str, ...] | None = None  # with an indicator each
    dropped: int = -1  # the level without one
    refuses_new: bool = False

    @property
    def outputs(self) -> tuple[str, ...]:
        if self.levels is not None:
            kept = self._kept
            return tuple(f"{self.name} = {self.levels[j]}" for j in kept)
        first = f"{self.name} scaled" if self.is_scaled else self.name
        return (first, f"{self.name} missing") if self.indicator else (first,)

    @property
    def _kept(self) -> list[int]:
        return [j for j in range(len(self.levels or ())) if j != self.dropped]

    def encode(self, cells: Sequence[Any]) -> np.ndarray:
        missing = np.array([is_missing(cell) for cell in cells])
        if self.fill is not None:
            cells = [
                self.fill if gone else cell
                for cell, gone in zip(cells, missing, strict=True)
            ]
        if self.levels is not None:
            return self._indicators([cell_text(cell) for cell in cells])
        numbers = NumberEncoding(self.name).encode(cells)
        scaled = (numbers - self.center) / self.width
        return np.column_stack([scaled, missing]) if self.indicator else scaled

    def _indicators(self, texts: list[str]) -> np.ndarray:
        levels = self.levels or ()
        new = sorted(set(texts) - set(levels))
        if new and self.refuses_new:
            raise ValueError(
                f"is {new[0]!r:.60}, which the history does not have; use "
                "OneHotEncoder(handle_unknown='ignore')"
            )
        found = [[text == level for level in levels] for text in texts]
        return np.array(found, float).reshape(len(texts), -1)[:, self._kept]

    def __str__(self) -> str:
        words = [f"{self.fill} where it is missing"] * (self.fill is not None)
        words += ["an indicator of what is missing"] * self.indicator
        words += [f"({self.center:g} subtracted, / {self.width:g})"] * self.is_scaled
        if self.levels is not None:
            words.append(f"an indicator for each of {len(self._kept)} values")
        return ", ".join(words) or "a number"


_PARTS = {
    "hour": ("hour sine", "hour cosine"),
    "weekday": _WEEKDAYS,
    "season": ("season sine", "season cosine"),
    "trend": ("trend",),
}
_PART_NAMES = {
    "hour": "the hour as sine and cosine",
    "weekday": "an indicator for each weekday",
    "season": "the day of the year as sine and cosine",
    "trend": "the years since the first date",
}
KINDS: dict[str, Any] = {
    one.kind: one
    for one in (
        NumberEncoding,
        LevelEncoding,
        HashedEncoding,
        DateEncoding,
        TransformedColumn,
    )
}


def check_restored(one: Any) -> None:
    """Raise a ValueError if an encoding from a file has fields of the wrong type."""
    is_valid = isinstance(one.name, str)
    if isinstance(one, NumberEncoding):
        is_valid &= one.fill is None or (
            isinstance(one.fill, float | int) and math.isfinite(one.fill)
        )
    elif isinstance(one, LevelEncoding):
        is_valid &= all(isinstance(level, str) for level in one.levels)
        is_valid &= isinstance(one.has_other, bool)
    elif isinstance(one, HashedEncoding):
        is_valid &= isinstance(one.buckets, int) and 0 < one.buckets <= 2**12
    elif isinstance(one, TransformedColumn):
        is_valid &= _is_transformed_column(one)
    else:
        is_valid &= isinstance(one.start, float | int) and math.isfinite(one.start)
        is_valid &= all(part in _PARTS for part in one.parts)
    if not is_valid:
        raise ValueError("the encoding of a column is damaged")


def _is_transformed_column(one: TransformedColumn) -> bool:
    """Whether the fields have the right types."""
    levels = () if one.levels is None else one.levels
    numbers = [one.center, one.width, *([one.fill] if one.levels is None else [])]
    return (
        isinstance(levels, tuple)
        and all(isinstance(level, str) for level in levels)
        and isinstance(one.fill, float | int | str | None)
        and all(n is None or is_number(n) for n in numbers)
        and one.center is not None
        and bool(one.width)
        and type(one.dropped) is int
        and all(
            isinstance(flag, bool)
            for flag in (one.indicator, one.is_scaled, one.refuses_new)
        )
    )


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
        return _MISSING
    if isinstance(cell, float | np.floating) and float(cell).is_integer():
        cell = int(cell)
    return str(cell).strip()


def read_date(cell: Any) -> datetime | None:
    """Return a date, a time or ISO text as a datetime without a time zone, or None."""
    if is_missing(cell):
        return None
    if isinstance(cell, np.datetime64):
        cell = cell.astype("datetime64[s]").item()
    if hasattr(cell, "to_timestamp"):  # a Period of pandas
        cell = cell.to_timestamp()
    if isinstance(cell, str) and len(cell) >= len("2026-01-01") and cell.count("-") > 1:
        try:
            cell = datetime.fromisoformat(cell.strip())
        except ValueError:
            return None
    if isinstance(cell, datetime):
        return cell.replace(tzinfo=None)
    if isinstance(cell, date):
        return datetime(cell.year, cell.month, cell.day)
    return None
