"""The time file of an SMPS problem: which rows and columns belong to the first stage."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from pyomo_csg.errors import DataError, shortlist
from pyomo_csg.interop.smps_core import Core
from pyomo_csg.interop.smps_records import Record, read_lines, records

_STAGES = 2


@dataclass
class Periods:
    """The names of the two periods, and what belongs to the first."""

    path: Path
    name: str = ""
    names: list[str] = field(default_factory=list)
    first_columns: set[str] = field(default_factory=set)
    first_rows: set[str] = field(default_factory=set)


def read_periods(path: str | Path, core: Core) -> Periods:
    """Read a time file, with implicit or explicit periods."""
    place, lines = read_lines(path)
    reader = _PeriodReader(Periods(place), core)
    for record in records(place, lines, core.fixed, ("TIME",)):
        reader.take(record)
    return reader.finish()


class _PeriodReader:
    """Fills :class:`Periods` record by record."""

    def __init__(self, periods: Periods, core: Core):
        self._periods = periods
        self._core = core
        self._explicit = False
        self._starts: list[tuple[Record, int, int]] = []
        self._assigned: dict[str, dict[str, str]] = {"ROWS": {}, "COLUMNS": {}}
        self._columns = {name: place for place, name in enumerate(core.columns)}
        self._rows = {name: place for place, name in enumerate(core.rows)}

    def take(self, record: Record) -> None:
        words = record.words
        if record.is_header:
            if record.section not in ("TIME", "PERIODS", "ROWS", "COLUMNS"):
                found = f"the section {words[0]} was found"
                raise record.error(f"{found}; a time file has TIME and PERIODS")
            if record.section == "TIME":
                self._periods.name = words[1] if len(words) > 1 else ""
            if record.section == "PERIODS":
                self._explicit = [w.upper() for w in words[1:2]] == ["EXPLICIT"]
        elif record.section == "PERIODS" and self._explicit:
            self._add_period(record, words[-1])
        elif record.section == "PERIODS":
            self._take_start(record)
        elif record.section in self._assigned:
            self._assign(record)
        else:
            found = f"'{' '.join(words)}' was found; write PERIODS above it"
            raise record.error(found)

    def finish(self) -> Periods:
        periods = self._periods
        if len(periods.names) != _STAGES:
            count = len(periods.names)
            listed = f" ({shortlist(periods.names)})" if count else ""
            found = (
                f"section PERIODS: {count} periods were found{listed}, but two-stage "
                "problems are read; merge later periods into the second, or split one"
            )
            raise DataError(f"'{periods.path}' cannot be read", [found])
        if self._explicit:
            self._finish_explicit()
        else:
            self._finish_implicit()
        return periods

    def _add_period(self, record: Record, name: str) -> None:
        if name in self._periods.names:
            raise record.error(f"the period '{name}' appears twice; rename one")
        self._periods.names.append(name)

    def _take_start(self, record: Record) -> None:
        words, core = record.words, self._core
        if len(words) != 3:
            found = f"'{' '.join(words)}' was found; write the first column, the first"
            raise record.error(f"{found} row and the name of a period")
        column, row, period = words
        if column not in self._columns:
            found = f"the column '{column}' is not in '{core.path.name}'"
            raise record.error(f"{found}; name the first column of the period")
        if row not in self._rows and row != core.objective and row not in core.ignored:
            found = f"the row '{row}' is not in '{core.path.name}'"
            raise record.error(f"{found}; name the first row of the period")
        self._add_period(record, period)
        start = record, self._columns[column], self._rows.get(row, 0)
        self._starts.append(start)

    def _finish_implicit(self) -> None:
        (first, column, row), (second, column2, row2) = self._starts
        for record, what, start in (
            (first, "column", column),
            (first, "row", row),
        ):
            if start:
                found = f"the first period begins at {what} {start + 1} of the core"
                raise record.error(f"{found}; begin it at the first {what}")
        if column2 == 0:
            found = "both periods begin at the same column"
            raise second.error(f"{found}; name the first column of the second period")
        self._periods.first_columns = set(list(self._core.columns)[:column2])
        self._periods.first_rows = set(list(self._core.rows)[:row2])

    def _assign(self, record: Record) -> None:
        words, what = record.words, record.section
        known = self._rows if what == "ROWS" else self._columns
        skipped = (self._core.objective, *self._core.ignored)
        if len(words) != 2:
            found = f"'{' '.join(words)}' was found; write a name and its period"
            raise record.error(found)
        name, period = words
        if what == "ROWS" and name in skipped:
            return
        if name not in known:
            found = f"'{name}' is not among the {what} of '{self._core.path.name}'"
            raise record.error(f"{found}; correct the name")
        if period not in self._periods.names:
            names = shortlist(self._periods.names)
            found = f"the period '{period}' was found; the periods are {names}"
            raise record.error(f"{found}; write one of them")
        if name in self._assigned[what]:
            raise record.error(f"'{name}' has two periods; remove one")
        self._assigned[what][name] = period

    def _finish_explicit(self) -> None:
        periods = self._periods
        for what, known in (("ROWS", self._rows), ("COLUMNS", self._columns)):
            missing = [name for name in known if name not in self._assigned[what]]
            if missing:
                found = f"section {what}: {shortlist(missing)} has no period; add it"
                raise DataError(f"'{periods.path}' cannot be read", [found])
        first = periods.names[0]
        rows, columns = self._assigned["ROWS"], self._assigned["COLUMNS"]
        periods.first_rows = {name for name, p in rows.items() if p == first}
        periods.first_columns = {name for name, p in columns.items() if p == first}
        if not periods.first_columns:
            found = f"section COLUMNS: no column belongs to '{first}'; assign some"
            raise DataError(f"'{periods.path}' cannot be read", [found])
