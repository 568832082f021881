"""The core file of an SMPS problem: a linear or mixed-integer program in MPS format."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pyomo_csg.errors import DataError
from pyomo_csg.interop.smps_records import (
    Record,
    needs_fixed_format,
    read_lines,
    records,
)

logger = logging.getLogger(__name__)

VALUELESS_BOUNDS = ("FR", "MI", "PL", "BV")
VALUED_BOUNDS = ("LO", "UP", "FX", "LI", "UI")
_SECTIONS = (
    *("NAME", "OBJSENSE", "OBJSENSEMAX", "OBJNAME", "OBJSENSEMIN"),
    *("ROWS", "COLUMNS", "RHS", "RANGES", "BOUNDS"),
)
_UNSUPPORTED = {
    *("SOS", "SOS1", "SOS2", "SETS", "QUADOBJ", "QMATRIX", "QSECTION", "QCMATRIX"),
    *("CSECTION", "INDICATORS", "GENCONS", "LAZYCONS", "USERCUTS", "ARCS", "NETWORK"),
    *("QUADS", "CHANCE", "PWLOBJ", "PWLNAM", "PWLCON"),
}
_TYPES = "NLGE"


@dataclass
class Core:
    """Rows, columns and numbers of a core file, in the order of the file.

    Entries, right-hand sides, ranges and bounds are stored by names; ``objective`` is
    the first N row, and ``ignored`` the others.
    """

    path: Path
    fixed: bool
    name: str = ""
    maximize: bool = False
    objective: str = ""
    ignored: set[str] = field(default_factory=set)
    rows: dict[str, str] = field(default_factory=dict)
    columns: dict[str, dict[str, float]] = field(default_factory=dict)
    integer: set[str] = field(default_factory=set)
    rhs: dict[str, float] = field(default_factory=dict)
    ranges: dict[str, float] = field(default_factory=dict)
    lower: dict[str, float] = field(default_factory=dict)
    upper: dict[str, float] = field(default_factory=dict)
    sets: dict[str, str] = field(default_factory=dict)

    def sides(self, row: str) -> tuple[float, float]:
        """Return how far below and above its right-hand side a row may be."""
        kind, width = self.rows[row], self.ranges.get(row)
        if width is None:
            return {"E": (0.0, 0.0), "L": (-math.inf, 0.0), "G": (0.0, math.inf)}[kind]
        if kind == "E":
            return (min(width, 0.0), max(width, 0.0))
        return (-abs(width), 0.0) if kind == "L" else (0.0, abs(width))

    def bounds(self, column: str) -> tuple[float, float]:
        """Return the bounds of a column; integers without any are binary."""
        untouched = column not in self.lower and column not in self.upper
        binary = untouched and column in self.integer
        upper = self.upper.get(column, 1.0 if binary else math.inf)
        return self.lower.get(column, 0.0), upper


def read_core(path: str | Path, fixed: bool | None = None) -> Core:
    """Read a core file; ``fixed`` None recognizes fixed format by names with spaces."""
    place, lines = read_lines(path)
    core = Core(place, needs_fixed_format(lines) if fixed is None else fixed)
    reader = _CoreReader(core)
    for record in records(place, lines, core.fixed, ("NAME",)):
        reader.take(record)
    reader.finish()
    return core


class _CoreReader:
    """Fills a :class:`Core` record by record."""

    def __init__(self, core: Core):
        self._core = core
        self._inside_markers = False
        self._column = ""
        self._wanted_objective = ""
        self._seen: set[tuple[str, str]] = set()
        self._sections = {
            "OBJSENSE": self._take_sense,
            "OBJNAME": self._take_objective_name,
            "ROWS": self._take_row,
            "COLUMNS": self._take_column,
            "RHS": self._take_rhs,
            "RANGES": self._take_range,
            "BOUNDS": self._take_bound,
        }

    def take(self, record: Record) -> None:
        if record.is_header:
            self._take_header(record)
        elif record.section in self._sections:
            self._sections[record.section](record)
        elif record.section in _SECTIONS:
            found = f"'{' '.join(record.words)}' was found; this section has no data"
            raise record.error(f"{found}, so remove the line")

    def finish(self) -> None:
        core = self._core
        for name, found in (("objective", "N row"), ("columns", "column")):
            if not getattr(core, name):
                problem = f"it has no {found}; add one to ROWS and COLUMNS"
                raise DataError(f"'{core.path}' cannot be read", [problem])

    def _take_header(self, record: Record) -> None:
        words = record.words
        if record.section == "NAME":
            self._core.name = words[1] if len(words) > 1 else ""
        elif record.section in ("OBJSENSEMAX", "OBJSENSEMIN"):
            self._core.maximize = record.section.endswith("MAX")
        elif record.section == "OBJSENSE" and len(words) > 1:
            self._set_sense(record, words[1])
        elif record.section in _UNSUPPORTED:
            found = f"the section {record.section} was found; linear and mixed-integer "
            raise record.error(f"{found}programs are read, so reformulate it into rows")
        elif record.section not in _SECTIONS:
            logger.warning(
                "'%s', line %d: the section %s is not part of MPS and is skipped",
                record.path,
                record.line,
                words[0],
            )

    def _take_sense(self, record: Record) -> None:
        self._set_sense(record, record.words[0])

    def _set_sense(self, record: Record, word: str) -> None:
        if word.upper()[:3] not in ("MAX", "MIN"):
            raise record.error(f"'{word}' was found; write MAX or MIN")
        self._core.maximize = word.upper().startswith("MAX")

    def _take_objective_name(self, record: Record) -> None:
        self._wanted_objective = record.words[0]

    def _take_row(self, record: Record) -> None:
        core, words = self._core, record.words
        if len(words) != 2 or words[0].upper() not in _TYPES:
            found = f"'{' '.join(words)}' was found; write a type, N, L, G or E, and a"
            raise record.error(f"{found} name{self._about_spaces()}")
        kind, name = words[0].upper(), words[1]
        if name in core.rows or name in core.ignored or name == core.objective:
            raise record.error(f"the row '{name}' is declared twice; rename one")
        if kind != "N":
            core.rows[name] = kind
        elif name == self._wanted_objective or not core.objective:
            if core.objective:
                core.ignored.add(core.objective)
            core.objective = name
        else:
            core.ignored.add(name)

    def _take_column(self, record: Record) -> None:
        words = record.words
        if len(words) >= 3 and words[1].upper().strip("'") == "MARKER":
            return self._take_marker(record)
        if len(words) not in (3, 5):
            found = f"{len(words)} fields were found ('{' '.join(words)}'); write a "
            found += "column, a row and a number, or two of each"
            raise record.error(f"{found}{self._about_spaces()}")
        core, column = self._core, words[0]
        if column != self._column:
            if column in core.columns:
                found = f"the column '{column}' appears again after other columns"
                raise record.error(f"{found}; put its entries together")
            core.columns[column] = {}
            self._column = column
            if self._inside_markers:
                core.integer.add(column)
        for row, value in _pairs(record, words[1:]):
            self._check_row(record, row)
            if row in core.columns[column]:
                found = f"column '{column}' has two entries in row '{row}'"
                raise record.error(f"{found}; remove one")
            if row not in core.ignored:
                core.columns[column][row] = value
        return None

    def _about_spaces(self) -> str:
        """Return what may be wrong with a line that has too many fields."""
        return "" if self._core.fixed else "; names in free format have no spaces"

    def _take_marker(self, record: Record) -> None:
        kind = record.words[-1].upper().strip("'")
        if kind not in ("INTORG", "INTEND"):
            raise record.error(f"the marker '{kind}' was found; write INTORG or INTEND")
        if (kind == "INTORG") == self._inside_markers:
            found = (
                "is inside integers" if kind == "INTORG" else "has no INTORG above it"
            )
            raise record.error(f"the marker {kind} {found}; remove it")
        self._inside_markers = kind == "INTORG"

    def _take_rhs(self, record: Record) -> None:
        for row, value in self._set_pairs(record):
            self._core.rhs[row] = value

    def _take_range(self, record: Record) -> None:
        for row, value in self._set_pairs(record):
            if row == self._core.objective:
                found = f"the objective '{row}' has a range; remove it"
                raise record.error(found)
            self._core.ranges[row] = value

    def _set_pairs(self, record: Record) -> Iterator[tuple[str, float]]:
        """Yield rows and numbers of the first RHS or RANGES set; its name may be missing."""
        words = record.words
        name = words[0] if len(words) % 2 else ""
        pairs = list(_pairs(record, words[len(words) % 2 :]))
        if not pairs:
            found = f"'{' '.join(words)}' was found; write a row and a number"
            raise record.error(found)
        if not self._is_first_set(record, name):
            return
        for row, value in pairs:
            self._check_row(record, row)
            self._check_once(record, row, f"row '{row}' has two numbers")
            if row not in self._core.ignored:
                yield row, value

    def _is_first_set(self, record: Record, name: str) -> bool:
        sets = self._core.sets
        if record.section in sets and sets[record.section] != name:
            logger.warning(
                "'%s', line %d: the %s set '%s' is ignored; '%s' comes first",
                *(record.path, record.line, record.section, name),
                sets[record.section],
            )
            return False
        sets[record.section] = name
        return True

    def _take_bound(self, record: Record) -> None:
        kind, name, column, value = split_bound(record, self._core.columns)
        if not self._is_first_set(record, name):
            return
        side = {"LO": "lower", "LI": "lower", "UP": "upper", "UI": "upper"}.get(kind)
        sides: tuple[str, ...] = (side,) if side else ("lower", "upper")
        if kind in ("MI", "PL"):
            sides = ("lower",) if kind == "MI" else ("upper",)
        if kind in ("LO", "LI") and self._core.lower.get(column) == -math.inf:
            sides = ()  # after MI: the bound takes the place of none
        for one in sides:
            again = f"the {one} bound of column '{column}' is given twice"
            self._check_once(record, f"{one} {column}", again)
        self._set_bound(record, kind, column, value)

    def _set_bound(self, record: Record, kind: str, column: str, value: float) -> None:
        core = self._core
        if kind in ("BV", "LI", "UI"):
            core.integer.add(column)
        if kind in ("LO", "LI", "FX"):
            core.lower[column] = value
        if kind in ("UP", "UI", "FX"):
            core.upper[column] = value
        if kind in ("FR", "MI"):
            core.lower[column] = -math.inf
        if kind in ("FR", "PL", "LI", "LO", "MI"):
            core.upper.setdefault(column, math.inf)
        if kind == "BV":
            core.lower[column], core.upper[column] = 0.0, 1.0
        if kind in ("UP", "UI") and value < 0 and column not in core.lower:
            logger.warning(
                "'%s', line %d: column '%s' has a negative upper bound and no lower one, "
                "which is read as minus infinity",
                *(record.path, record.line, column),
            )
            core.lower[column] = -math.inf
        low, high = core.bounds(column)
        if low > high and (column in core.lower and column in core.upper):
            found = f"column '{column}' has the bounds {low:g} and {high:g}"
            raise record.error(f"{found}, the lower above the upper; correct one")

    def _check_row(self, record: Record, row: str) -> None:
        core = self._core
        known = row in core.rows or row == core.objective or row in core.ignored
        if not known:
            found = f"the row '{row}' is not in ROWS; declare it there or correct it"
            raise record.error(found)

    def _check_once(self, record: Record, key: str, found: str) -> None:
        if (record.section, key) in self._seen:
            raise record.error(f"{found}; remove one")
        self._seen.add((record.section, key))


def split_bound(
    record: Record, columns: dict[str, dict[str, float]]
) -> tuple[str, str, str, float]:
    """Return type, set, column and number of a record of BOUNDS; the set may be missing."""
    kind, rest = record.words[0].upper(), record.words[1:]
    if kind not in VALUELESS_BOUNDS and kind not in VALUED_BOUNDS:
        known = ", ".join(VALUED_BOUNDS + VALUELESS_BOUNDS)
        what = "semi-continuous columns are not read" if kind == "SC" else "unknown"
        found = f"the bound type '{record.words[0]}' was found ({what})"
        raise record.error(f"{found}; write one of {known}")
    has_value = kind in VALUED_BOUNDS
    if len(rest) == 1 + has_value or (
        not has_value
        and len(rest) == 2
        and rest[0] in columns
        and rest[1] not in columns
    ):
        rest = ["", *rest]
    if len(rest) < 2 + has_value:
        found = f"'{' '.join(record.words)}' has too few fields; write the type, the"
        raise record.error(f"{found} set, a column{' and a number' * has_value}")
    name, column = rest[:2]
    if column not in columns:
        found = f"the column '{column}' is not in COLUMNS"
        raise record.error(f"{found}; add it there or correct the name")
    return kind, name, column, record.bound(rest[2]) if has_value else 0.0


def _pairs(record: Record, words: list[str]) -> Iterator[tuple[str, float]]:
    for place in range(0, len(words) - 1, 2):
        yield words[place], record.number(words[place + 1])
