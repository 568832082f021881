"""How the cells of one column become numbers: levels and gaps."""

from __future__ import annotations

import logging
import math
import zlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar, Protocol

import numpy as np

from pyomo_csg.errors import shortlist
from pyomo_csg.learn.tables.columns import cell_text, is_missing, parses_as_number
from pyomo_csg.learn.tables.date_encoding import DateEncoding
from pyomo_csg.validation import is_number

_log = logging.getLogger(__name__)

_BUCKETS = 16  # for text with many levels
_OTHER = "other"


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
    rare: tuple[str, ...] = ()  # levels of the history without an indicator

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
        _warn_of_new(self.name, new.difference(self.rare))
        return numbers

    def __str__(self) -> str:
        others = ", with the rest as 'other'" if self.has_other else ""
        return f"an indicator for each of {len(self.levels)} values{others}"


@dataclass(frozen=True)
class HashedEncoding:
    """Text with many levels, hashed into a few indicators; new levels have none."""

    kind: ClassVar[str] = "hashed"
    name: str
    buckets: int = _BUCKETS
    seen: tuple[int, ...] = ()  # checksums of the levels of the history

    @property
    def outputs(self) -> tuple[str, ...]:
        return tuple(f"{self.name} #{j + 1}" for j in range(self.buckets))

    def encode(self, cells: Sequence[Any]) -> np.ndarray:
        texts = [cell_text(cell) for cell in cells]
        sums = [level_checksum(text) for text in texts]
        numbers = np.eye(self.buckets)[[one % self.buckets for one in sums]]
        if self.seen:
            is_new = ~np.isin(sums, self.seen)
            numbers[is_new] = 0.0
            _warn_of_new(self.name, {texts[i] for i in np.flatnonzero(is_new)})
        return numbers

    def __str__(self) -> str:
        return f"{self.buckets} indicators, since it has many values"


def level_checksum(text: str) -> int:
    """Return the checksum of a level, by which it is hashed."""
    return zlib.crc32(text.encode())


def _warn_of_new(name: str, levels: Collection[str]) -> None:
    """Warn of the levels that the history does not have, if there are any."""
    if levels:
        _log.warning(
            "column '%s' has values that the history does not have, treated as 'other': %s",
            name,
            shortlist(sorted(levels)),
        )


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
        is_valid &= all(isinstance(level, str) for level in (*one.levels, *one.rare))
        is_valid &= isinstance(one.has_other, bool)
    elif isinstance(one, HashedEncoding):
        is_valid &= type(one.buckets) is int and 0 < one.buckets <= 2**12
        is_valid &= all(type(level) is int for level in one.seen)
    elif isinstance(one, TransformedColumn):
        is_valid &= _is_transformed_column(one)
    else:
        is_valid &= one.is_sound()
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
