"""The stoch file of an SMPS problem: the uncertain numbers and their joint distribution."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pyomo_csg.errors import DataError, shortlist
from pyomo_csg.interop.smps_core import VALUED_BOUNDS, Core
from pyomo_csg.interop.smps_periods import Periods
from pyomo_csg.interop.smps_records import Record, read_lines, records

logger = logging.getLogger(__name__)

_MODES = ("REPLACE", "ADD", "MULTIPLY")
_KINDS = {
    "INDEP": ("DISCRETE", "NORMAL", "UNIFORM"),
    "BLOCKS": ("DISCRETE",),
    "SCENARIOS": ("DISCRETE",),
}
_RHS_NAMES = ("RHS", "RIGHT")
_ROUNDED = 1e-3  # files round probabilities to six digits or so


class Entry(NamedTuple):
    """An uncertain number: its Param (rhs, matrix, cost, lower, upper) and key."""

    param: str
    key: str | tuple[str, str]


@dataclass(frozen=True)
class Discrete:
    """Uncertain numbers that take the values (k, m) together, with probabilities (k,)."""

    positions: list[int]
    values: np.ndarray
    probabilities: np.ndarray

    def draw(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Return n draws (n, m)."""
        cumulative = np.cumsum(self.probabilities)
        places = np.searchsorted(cumulative, rng.random(n) * cumulative[-1], "right")
        return self.values[np.minimum(places, len(cumulative) - 1)]


@dataclass(frozen=True)
class Continuous:
    """One uncertain number: scale * Z + shift, with Z normal or uniform.

    ``parameters`` are the mean and variance, or the two ends of the interval.
    """

    positions: list[int]
    kind: str
    parameters: tuple[float, float]
    scale: float = 1.0
    shift: float = 0.0

    def draw(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Return n draws (n, 1)."""
        one, other = self.parameters
        if self.kind == "NORMAL":
            drawn = rng.normal(one, math.sqrt(other), n)
        else:
            drawn = rng.uniform(one, other, n)
        return (self.scale * drawn + self.shift)[:, None]


Group = Discrete | Continuous


@dataclass
class Stoch:
    """The uncertain numbers in order of appearance, and their joint distribution."""

    path: Path
    name: str = ""
    entries: list[Entry] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)


def read_stoch(path: str | Path, core: Core, periods: Periods) -> Stoch:
    """Read a stoch file with sections INDEP, BLOCKS and SCENARIOS."""
    place, lines = read_lines(path)
    reader = _StochReader(Stoch(place), core, periods)
    for record in records(place, lines, core.fixed, ("STOCH",)):
        reader.take(record)
    return reader.finish()


def core_value(core: Core, entry: Entry) -> float:
    """Return the value that an uncertain number has in the core file."""
    if entry.param == "rhs":
        return core.rhs.get(str(entry.key), 0.0)
    if entry.param == "matrix":
        row, column = entry.key[0], entry.key[1]
        return core.columns[column].get(row, 0.0)
    if entry.param == "cost":
        return core.columns[str(entry.key)].get(core.objective, 0.0)
    low, high = core.bounds(str(entry.key))
    return low if entry.param == "lower" else high


@dataclass
class _Realization:
    """One outcome of a block, or one scenario: values by entry."""

    record: Record
    probability: float
    values: dict[Entry, float]


class _StochReader:
    """Fills a :class:`Stoch` record by record."""

    def __init__(self, stoch: Stoch, core: Core, periods: Periods):
        self._stoch = stoch
        self._core = core
        self._periods = periods
        self._kind, self._mode = "DISCRETE", "REPLACE"
        self._independent: dict[Entry, list[_Realization]] = {}
        self._continuous: dict[Entry, Continuous] = {}
        self._blocks: dict[str, list[_Realization]] = {}
        self._scenarios: dict[str, _Realization] = {}
        self._current: _Realization | None = None
        self._base: dict[Entry, float] = {}
        self._owners: dict[Entry, str] = {}

    def take(self, record: Record) -> None:
        if record.is_header:
            self._take_header(record)
        elif record.section == "INDEP":
            self._take_independent(record)
        elif record.section in ("BLOCKS", "SCENARIOS"):
            self._take_joint(record)
        else:
            found = f"'{' '.join(record.words)}' is above INDEP, BLOCKS or SCENARIOS"
            raise record.error(f"{found}; add that line")

    def _take_joint(self, record: Record) -> None:
        """Read a line of BLOCKS or SCENARIOS: the start of a realization, or its values."""
        is_block = record.section == "BLOCKS"
        code = "BL" if is_block else "SC"
        if record.words[0].upper() != code or record.words[0] in self._core.columns:
            self._take_values(record, code)
        elif is_block:
            self._start_block(record)
        else:
            self._start_scenario(record)

    def _take_header(self, record: Record) -> None:
        words, section = record.words, record.section
        if section == "STOCH":
            self._stoch.name = words[1] if len(words) > 1 else ""
            return
        if section not in _KINDS:
            found = f"the section {words[0]} was found"
            raise record.error(f"{found}; INDEP, BLOCKS and SCENARIOS are read")
        options = [word.upper() for word in words[1:]]
        modes = [word for word in options if word in _MODES]
        kinds = [word for word in options if word not in _MODES]
        known = _KINDS[section]
        unknown = [word for word in kinds if word not in known]
        if unknown or len(modes) > 1 or len(kinds) > 1:
            found = f"'{' '.join(words[1:])}' was found; write {' or '.join(known)}"
            raise record.error(f"{found}, then nothing or {', '.join(_MODES)}")
        if not kinds and section == "INDEP":
            logger.warning(
                "'%s', line %d: INDEP names no distribution; DISCRETE is assumed",
                *(record.path, record.line),
            )
        self._kind = kinds[0] if kinds else "DISCRETE"
        self._mode = modes[0] if modes else "REPLACE"
        self._current = None

    def _take_independent(self, record: Record) -> None:
        entry_words, numbers = self._split_independent(record)
        entry = self._entry(record, *entry_words)
        self._claim(record, entry, f"INDEP {entry}")
        one, other = (record.number(text) for text in numbers)
        if self._kind != "DISCRETE":
            self._take_continuous(record, entry, one, other)
            return
        if entry in self._continuous:
            found = f"{_entry_name(entry)} has a continuous distribution above"
            raise record.error(f"{found}; remove one of the two")
        self._check_probability(record, other)
        value = self._combine(core_value(self._core, entry), one)
        outcome = _Realization(record, other, {entry: value})
        self._independent.setdefault(entry, []).append(outcome)

    def _take_continuous(
        self, record: Record, entry: Entry, one: float, other: float
    ) -> None:
        if entry in self._continuous or entry in self._independent:
            raise record.error(
                f"{_entry_name(entry)} has two distributions; remove one"
            )
        if self._kind == "NORMAL" and other < 0:
            raise record.error(f"the variance is {other:g}; give a number from 0 up")
        if self._kind == "UNIFORM" and other < one:
            found = f"the interval from {one:g} to {other:g} is empty; swap the two"
            raise record.error(found)
        own = core_value(self._core, entry)
        scale = own if self._mode == "MULTIPLY" else 1.0
        shift = own if self._mode == "ADD" else 0.0
        self._continuous[entry] = Continuous([], self._kind, (one, other), scale, shift)

    def _split_independent(self, record: Record) -> tuple[list[str], list[str]]:
        """Return the words that name an entry, and its two numbers; the period may be missing."""
        words = record.words
        size = 3 if self._is_bound(record) else 2
        rest = words[size:]
        if len(rest) == 3:
            self._check_period(record, rest.pop(1))
        if len(rest) != 2:
            second = {"DISCRETE": "probability", "NORMAL": "variance"}
            last = second.get(self._kind, "upper end")
            found = f"'{' '.join(words)}' was found; write a column, a row, a number, "
            raise record.error(f"{found}the period and the {last}")
        return words[:size], rest

    def _start_block(self, record: Record) -> None:
        words = record.words
        if len(words) not in (3, 4):
            found = f"'{' '.join(words)}' was found; write BL, a name, the period and"
            raise record.error(f"{found} the probability")
        if len(words) == 4:
            self._check_period(record, words[2])
        block = self._blocks.setdefault(words[1], [])
        probability = record.number(words[-1])
        self._check_probability(record, probability)
        # A later realization lists only what differs from the first one.
        own = dict(block[0].values) if block else {}
        self._base = {}
        self._current = _Realization(record, probability, own)
        block.append(self._current)

    def _start_scenario(self, record: Record) -> None:
        words = record.words
        if len(words) not in (4, 5):
            found = f"'{' '.join(words)}' was found; write SC, a name, the parent, the"
            raise record.error(f"{found} probability and the period")
        name, parent = words[1], words[2].strip("'\"")
        if name in self._scenarios:
            raise record.error(f"the scenario '{name}' appears twice; rename one")
        if parent.upper() != "ROOT" and parent not in self._scenarios:
            found = f"the parent scenario '{parent}' of '{name}' is not known"
            raise record.error(f"{found}; write ROOT or an earlier scenario")
        if len(words) == 5:
            self._check_period(record, words[4], first=True)
        probability = record.number(words[3])
        self._check_probability(record, probability)
        known = self._scenarios.get(parent)
        own = dict(known.values) if known else {}
        self._base = dict(own)
        self._current = self._scenarios[name] = _Realization(record, probability, own)

    def _take_values(self, record: Record, code: str) -> None:
        if self._current is None:
            found = (
                f"'{' '.join(record.words)}' was found; write a line {code} above it"
            )
            raise record.error(found)
        words = record.words
        if self._is_bound(record):
            parts = [(words[:3], words[3:])]
        else:
            parts = [
                ([words[0], words[place]], words[place + 1 : place + 2])
                for place in range(1, len(words), 2)
            ]
        if not parts or any(len(value) != 1 for _, value in parts):
            found = f"'{' '.join(words)}' was found; write a column, a row and a number"
            raise record.error(f"{found}, or {code} to begin the next")
        for names, (text,) in parts:
            entry = self._entry(record, *names)
            block = self._current.record.words[1] if code == "BL" else ""
            self._claim(record, entry, f"{record.section} {block}")
            base = self._base.get(entry, core_value(self._core, entry))
            value = self._combine(base, record.number(text))
            self._current.values[entry] = value

    def _is_bound(self, record: Record) -> bool:
        words = record.words
        return (
            len(words) >= 4
            and words[0].upper() in VALUED_BOUNDS
            and words[0] not in self._core.columns
            and words[2] in self._core.columns
        )

    def _entry(self, record: Record, *names: str) -> Entry:
        """Return the uncertain number that a column and a row, or a bound, name."""
        core = self._core
        if len(names) == 3:
            kind, column = names[0].upper(), names[2]
            if kind == "FX":
                found = f"the fixed column '{column}' is uncertain"
                raise record.error(f"{found}; write an LO and a UP bound for it")
            side = "lower" if kind in ("LO", "LI") else "upper"
            self._check_finite(record, Entry(side, column))
            return Entry(side, column)
        column, row = names
        if row not in core.rows and row != core.objective:
            what = (
                "is ignored: it is not the first N row"
                if row in core.ignored
                else (f"is not in '{core.path.name}'")
            )
            raise record.error(f"the row '{row}' {what}; correct the name")
        if row in self._periods.first_rows:
            found = f"row '{row}' belongs to the first period, but it is uncertain"
            raise record.error(f"{found}; only data of the second period can be")
        if column in core.columns:
            if row == core.objective:
                return Entry("cost", column)
            return Entry("matrix", (row, column))
        if column == core.sets.get("RHS") or column.upper() in _RHS_NAMES:
            return Entry("rhs", row)
        if column == core.sets.get("RANGES"):
            found = f"the range of row '{row}' is uncertain"
            raise record.error(f"{found}; write the row as two rows, G and L")
        raise record.error(
            f"the column '{column}' is not in '{core.path.name}', and its right-hand "
            f"side is called '{core.sets.get('RHS') or 'RHS'}'; correct the name"
        )

    def _check_finite(self, record: Record, entry: Entry) -> None:
        if self._mode != "REPLACE" and not np.isfinite(core_value(self._core, entry)):
            found = f"{_entry_name(entry)} is infinite in the core, but the mode is {self._mode}"
            raise record.error(f"{found}; give it a finite bound there")

    def _check_period(self, record: Record, name: str, first: bool = False) -> None:
        names = self._periods.names
        if name == names[0] and not first:
            found = f"data of the first period, '{name}', is uncertain; only data of"
            raise record.error(f"{found} the second period can be")
        if name not in (names if first else names[1:]):
            wanted = shortlist(names if first else names[1:])
            raise record.error(f"the period '{name}' was found; write {wanted}")

    def _check_probability(self, record: Record, probability: float) -> None:
        if not 0 <= probability <= 1:
            found = f"the probability is {probability:g}; give a number from 0 to 1"
            raise record.error(found)

    def _combine(self, base: float, value: float) -> float:
        if self._mode == "ADD":
            return base + value
        return base * value if self._mode == "MULTIPLY" else value

    def _claim(self, record: Record, entry: Entry, owner: str) -> None:
        """Refuse a number that two independent distributions would set."""
        if self._owners.setdefault(entry, owner) != owner:
            raise record.error(
                f"{_entry_name(entry)} is set by '{self._owners[entry]}' as well; keep one"
            )

    def finish(self) -> Stoch:
        if self._scenarios and (self._independent or self._continuous or self._blocks):
            found = (
                "there are SCENARIOS as well as INDEP or BLOCKS; use one or the other"
            )
            raise self._refusal(found)
        for entry, outcomes in self._independent.items():
            found = f"section INDEP: the probabilities of {_entry_name(entry)}"
            self._add_discrete([entry], outcomes, found)
        for entry, group in self._continuous.items():
            self._stoch.groups.append(replace(group, positions=[self._place(entry)]))
        for name, block in self._blocks.items():
            found = f"section BLOCKS: the probabilities of block '{name}'"
            self._add_discrete(_entries(block), block, found)
        if self._scenarios:
            scenarios = list(self._scenarios.values())
            found = "section SCENARIOS: the probabilities"
            self._add_discrete(_entries(scenarios), scenarios, found)
        if not self._stoch.entries:
            found = "nothing in it is uncertain; add data to INDEP, BLOCKS or SCENARIOS"
            raise self._refusal(found)
        return self._stoch

    def _add_discrete(
        self, entries: list[Entry], outcomes: list[_Realization], found: str
    ) -> None:
        own = [core_value(self._core, entry) for entry in entries]
        values = [
            [outcome.values.get(e, v) for e, v in zip(entries, own, strict=True)]
            for outcome in outcomes
        ]
        chances = np.array([outcome.probability for outcome in outcomes], float)
        total = chances.sum()
        if abs(total - 1) > _ROUNDED:
            sums = f"line {outcomes[0].record.line}, {found} sum to {total:g}"
            raise self._refusal(f"{sums}; correct them so that they sum to 1")
        positions = [self._place(entry) for entry in entries]
        self._stoch.groups.append(
            Discrete(positions, np.array(values), chances / total)
        )

    def _place(self, entry: Entry) -> int:
        self._stoch.entries.append(entry)
        return len(self._stoch.entries) - 1

    def _refusal(self, found: str) -> DataError:
        return DataError(f"'{self._stoch.path}' cannot be read", [found])


def _entries(outcomes: list[_Realization]) -> list[Entry]:
    """Return what any of the outcomes sets, in order of appearance."""
    return list(dict.fromkeys(entry for one in outcomes for entry in one.values))


def _entry_name(entry: Entry) -> str:
    index = ", ".join(entry.key) if isinstance(entry.key, tuple) else entry.key
    return f"{entry.param}[{index}]"
