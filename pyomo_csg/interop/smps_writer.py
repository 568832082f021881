"""csg.write_smps: an annotated model and its scenarios as SMPS files."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from pyomo.core.base.block import BlockData
from pyomo.core.base.constraint import Constraint
from pyomo.core.expr.numvalue import value
from pyomo.repn import generate_standard_repn

from pyomo_csg.errors import DataError, ModelError
from pyomo_csg.interop.smps import is_smps_file
from pyomo_csg.interop.smps_core import VALUED_BOUNDS, VALUELESS_BOUNDS
from pyomo_csg.stages import TwoStageModel
from pyomo_csg.stages.inputs import scenario_array, weight_vector
from pyomo_csg.stages.stage_inference import leaves
from pyomo_csg.storage import write_user_file
from pyomo_csg.validation import Problems, is_one_of

_SECTIONS = ("scenarios", "blocks")
_FIRST, _SECOND = "PERIOD1", "PERIOD2"
_RHS, _BOUNDS, _RANGES = "RHS", "BND", "RNG"
_RESERVED = {
    *("RHS", "RIGHT", "BND", "RNG", "ROOT", "MARKER", "SC", "BL"),
    *VALUED_BOUNDS,
    *VALUELESS_BOUNDS,
}
_OBJECTIVE = "OBJ"

Entry = tuple[str, ...]


def write_smps(
    model: BlockData,
    scenarios: Any,
    weights: Any,
    path: str | os.PathLike[str],
    *,
    section: str = "scenarios",
) -> tuple[Path, Path, Path]:
    """Write an annotated linear or mixed-integer model and scenarios to SMPS files.

    The core file holds the model with its current data; the stoch file holds what differs
    in each scenario. Names are Pyomo's; spaces in them become underscores. Fields are
    separated by spaces (free format), and numbers are written with all digits.

    Parameters
    ----------
    model : ConcreteModel
        Annotated by :func:`pyomo_csg.annotate`.
    scenarios : array (K, p) or DataFrame
        In the order of the model's uncertain numbers.
    weights : array (K,) or None
        Probabilities that sum to 1. None: 1/K each.
    path : str or path
        The common part of the three names: ``'data/farmer'`` writes farmer.cor,
        farmer.tim and farmer.sto.
    section : str, optional
        ``'scenarios'`` or ``'blocks'``: the section of the stoch file.

    Returns
    -------
    tuple of Path
        The core, time and stoch files.

    Raises
    ------
    DataError
        If the scenarios or weights do not fit, or a file cannot be written.
    ModelError
        If the model is not linear.

    Examples
    --------
    >>> import os, tempfile
    >>> import pyomo_csg as csg
    >>> from pyomo_csg.zoo import newsvendor
    >>> stem = os.path.join(tempfile.mkdtemp(), 'news')
    >>> files = csg.write_smps(newsvendor.build(), [[10], [30]], [0.4, 0.6], stem)
    >>> [file.name for file in files]
    ['news.cor', 'news.tim', 'news.sto']
    """
    two_stage = TwoStageModel(model)
    problems = Problems(f"Cannot write '{model.name}' as SMPS")
    values = problems.check("scenarios", scenario_array, two_stage, scenarios)
    chances = problems.check("weights", weight_vector, weights, values)
    if not is_one_of(section, _SECTIONS):
        problems.add(f"section is {section!r:.80}; give 'scenarios' or 'blocks'")
    problems.raise_any()
    files = _files(path)
    table = _Tabulator(two_stage.copy()).table(values)
    written = (
        _core_lines(table),
        _time_lines(table),
        _stoch_lines(table, chances.tolist(), section),
    )
    for file, lines in zip(files, written, strict=True):
        write_user_file(file, "\n".join([*lines, "ENDATA", ""]).encode())
    return files


def _files(path: str | os.PathLike[str]) -> tuple[Path, Path, Path]:
    if not isinstance(path, str | os.PathLike) or not Path(path).name:
        found = "it is not the name of a file; give one such as 'data/farmer'"
        raise DataError(f"'{path!r:.80}' cannot be written", [found])
    stem = Path(path)
    stem = stem.with_suffix("") if is_smps_file(stem) else stem
    core, time, stoch = (
        stem.with_name(stem.name + e) for e in (".cor", ".tim", ".sto")
    )
    return core, time, stoch


def _core_lines(table: LinearTable) -> list[str]:
    lines = [f"NAME          {table.name}"]
    if table.maximize:
        lines += ["OBJSENSE", "    MAX"]
    lines += ["ROWS", f" N  {table.objective}"]
    lines += [f" {kind}  {row}" for row, kind in table.kinds.items()]
    lines += ["COLUMNS", *_column_lines(table)]
    lines += ["RHS", *(_line(_RHS, row, value) for row, value in table.rhs.items())]
    if table.ranges:
        ranges = table.ranges.items()
        lines += ["RANGES", *(_line(_RANGES, row, width) for row, width in ranges)]
    lines += ["BOUNDS", *_bound_lines(table)]
    return lines


def _column_lines(table: LinearTable) -> list[str]:
    lines, inside = [], False
    for column, entries in table.columns.items():
        if (column in table.integer) != inside:
            inside = not inside
            lines.append(_marker("INTORG" if inside else "INTEND"))
        lines += [_line(column, row, value) for row, value in entries.items()]
    return lines + [_marker("INTEND")] * inside


def _bound_lines(table: LinearTable) -> list[str]:
    lines = []
    for column, (low, high) in table.bounds.items():
        if low is None and high is None:
            lines.append(f" FR {_BOUNDS}       {column}")
            continue
        # An upper bound after MI or LO, so that no reader assumes a lower one.
        kind = "MI" if low is None else "LO"
        value = "" if low is None else f"  {low!r}"
        lines.append(f" {kind} {_BOUNDS}       {column}{value}")
        kind, value = ("PL", "") if high is None else ("UP", f"  {high!r}")
        lines.append(f" {kind} {_BOUNDS}       {column}{value}")
    return lines


def _time_lines(table: LinearTable) -> list[str]:
    lines = [f"TIME          {table.name}"]
    rows, columns = list(table.kinds), list(table.columns)
    later_rows, later_columns = rows[table.first_rows :], columns[table.first_columns :]
    if later_rows and later_columns:
        row = rows[0] if table.first_rows else table.objective
        return [
            *lines,
            "PERIODS       IMPLICIT",
            f"    {columns[0]:<8}  {row:<8}  {_FIRST}",
            f"    {later_columns[0]:<8}  {later_rows[0]:<8}  {_SECOND}",
        ]
    lines += ["PERIODS       EXPLICIT", f"    {_FIRST}", f"    {_SECOND}"]
    for section, names, first in (
        ("ROWS", rows, table.first_rows),
        ("COLUMNS", columns, table.first_columns),
    ):
        lines.append(section)
        lines += [
            f"    {name:<8}  {_FIRST if place < first else _SECOND}"
            for place, name in enumerate(names)
        ]
    return lines


def _stoch_lines(table: LinearTable, weights: list[float], section: str) -> list[str]:
    lines = [f"STOCH         {table.name}", f"{section.upper():<12}  DISCRETE"]
    for place, weight in enumerate(weights):
        if section == "blocks":
            lines.append(f" BL BLOCK1    {_SECOND}   {weight!r}")
        else:
            lines.append(f" SC SCEN{place + 1:<5}  ROOT      {weight!r}  {_SECOND}")
        for entry, values in table.uncertain.items():
            # The blocks after the first inherit its values, not the core's.
            if section == "blocks" or values[place] != table.core_value(entry):
                lines.append(_entry_line(entry, values[place]))
    return lines


def _entry_line(entry: Entry, value: float) -> str:
    kind, *names = entry
    if kind in ("LO", "UP"):
        return f" {kind} {_BOUNDS}       {names[0]:<8}  {value!r}"
    return _line(_RHS if kind == "rhs" else names[1], names[0], value)


def _line(column: str, row: str, value: float) -> str:
    return f"    {column:<8}  {row:<8}  {value!r}"


def _marker(kind: str) -> str:
    return f"    MARKER    'MARKER'                 '{kind}'"


@dataclass
class LinearTable:
    """Rows and columns by their names in the files, first stage first.

    ``uncertain`` has the values of each uncertain number in all scenarios, by
    ('rhs', row), ('entry', row, column), ('LO', column) or ('UP', column).
    """

    name: str
    maximize: bool
    objective: str = _OBJECTIVE
    first_rows: int = 0
    first_columns: int = 0
    kinds: dict[str, str] = field(default_factory=dict)
    columns: dict[str, dict[str, float]] = field(default_factory=dict)
    integer: set[str] = field(default_factory=set)
    rhs: dict[str, float] = field(default_factory=dict)
    ranges: dict[str, float] = field(default_factory=dict)
    bounds: dict[str, tuple[float | None, float | None]] = field(default_factory=dict)
    uncertain: dict[Entry, list[float]] = field(default_factory=dict)

    def core_value(self, entry: Entry) -> float | None:
        """Return the value of an uncertain number in the core."""
        kind, *names = entry
        if kind == "rhs":
            return self.rhs.get(names[0], 0.0)
        if kind == "entry":
            return self.columns[names[1]].get(names[0], 0.0)
        return self.bounds[names[0]][kind == "UP"]


class _Tabulator:
    """Makes the table of a model and scenarios; sets the model's Params."""

    def __init__(self, two_stage: TwoStageModel):
        self._two_stage = two_stage
        self._params = {id(param) for param in two_stage.uncertain_params}
        self._variables = [
            *two_stage.first_stage_variables,
            *two_stage.recourse_variables,
        ]
        columns = _unique_names(v.name for v in self._variables)
        self._names = {
            id(v): name for v, name in zip(self._variables, columns, strict=True)
        }
        self._rows: list[tuple[Any, list[tuple[str, str]]]] = []

    def table(self, scenarios: np.ndarray) -> LinearTable:
        """Return the table for scenarios (K, p)."""
        two_stage = self._two_stage
        (name,) = _unique_names([two_stage.model.name])
        table = LinearTable(name, two_stage.sense < 0)
        table.first_columns = len(two_stage.first_stage_variables)
        table.columns = {name: {} for name in self._names.values()}
        table.integer = {
            self._names[id(v)] for v in self._variables if not v.is_continuous()
        }
        self._check()
        self._name_rows(table)
        self._fill_core(table)
        self._fill_scenarios(table, scenarios)
        return table

    def _check(self) -> None:
        two_stage = self._two_stage
        problems = []
        for con in self._constraints():
            if con.ctype is not Constraint:
                problems.append(f"'{con.name}' is not linear; SMPS has rows only")
            elif con.body.polynomial_degree() not in (0, 1):
                found = f"Constraint '{con.name}' is not linear in the variables"
                problems.append(f"{found}; reformulate it")
        if two_stage.objective.expr.polynomial_degree() not in (0, 1):
            found = f"Objective '{two_stage.objective.name}' is not linear"
            problems.append(f"{found} in the variables; reformulate it")
        if problems:
            subject = f"Cannot write '{two_stage.model.name}' as SMPS"
            raise ModelError(subject, problems)

    def _constraints(self) -> list[Any]:
        two_stage = self._two_stage
        return [*two_stage.first_stage_constraints, *two_stage.recourse_constraints]

    def _name_rows(self, table: LinearTable) -> None:
        """Name the rows of each constraint; one with two uncertain sides has two."""
        constraints = self._constraints()
        names = _unique_names([_OBJECTIVE, *(con.name for con in constraints)])[1:]
        taken = set(names)
        early = len(self._two_stage.first_stage_constraints)
        for place, (con, name) in enumerate(zip(constraints, names, strict=True)):
            has_lower, has_upper = con.has_lb(), con.has_ub()
            if con.equality:
                kinds = [(name, "E")]
            elif has_lower and has_upper and self._is_uncertain(con.expr):
                other = _another_name(f"{name}_upper", taken)
                kinds = [(name, "G"), (other, "L")]
            elif has_lower and has_upper:
                kinds = [(name, "G")]
                table.ranges[name] = value(con.upper) - value(con.lower)
            else:
                kinds = [(name, "G" if has_lower else "L")]
            if not (has_lower or has_upper):
                kinds = []  # a row without sides
            self._rows.append((con, kinds))
            table.kinds.update(kinds)
            table.first_rows += len(kinds) * (place < early)

    def _is_uncertain(self, expr: Any) -> bool:
        return any(id(param) in self._params for param in leaves(expr)[1])

    def _fill_core(self, table: LinearTable) -> None:
        for entry, number in self._numbers(self._rows).items():
            kind, row, *column = entry
            if kind == "rhs":
                if number:
                    table.rhs[row] = number
            else:
                table.columns[column[0]][row] = number
        for name, entries in table.columns.items():
            if not entries:  # MPS declares a column by its entries
                table.columns[name][_OBJECTIVE] = 0.0
        for v in self._variables:
            low, high = v.bounds
            low, high = (v.value, v.value) if v.fixed else (low, high)
            table.bounds[self._names[id(v)]] = (
                None if low is None else float(low),
                None if high is None else float(high),
            )

    def _fill_scenarios(self, table: LinearTable, scenarios: np.ndarray) -> None:
        """Record each number that differs from the core in some scenario."""
        moving = [(c, kinds) for c, kinds in self._rows if self._is_uncertain(c.expr)]
        bounded = self._two_stage.uncertain_bounds
        # A coefficient of the core may vanish in every scenario.
        entries = dict.fromkeys(self._numbers(moving))
        by_scenario = []
        for scenario in scenarios.tolist():
            for param, number in zip(
                self._two_stage.uncertain_params, scenario, strict=True
            ):
                param.set_value(number)
            by_scenario.append({**self._numbers(moving), **self._bounds(bounded)})
        entries.update(dict.fromkeys(entry for one in by_scenario for entry in one))
        for entry in entries:
            core = table.core_value(entry)
            absent = 0.0  # the entry of a coefficient that vanishes in a scenario
            values = [found.get(entry, absent) for found in by_scenario]
            if any(number != core for number in values):
                table.uncertain[entry] = values
                if entry[0] == "entry":
                    table.columns[entry[2]].setdefault(entry[1], 0.0)
        if not table.uncertain:
            self._add_unchanged(table, by_scenario)

    def _add_unchanged(
        self, table: LinearTable, by_scenario: list[dict[Entry, float]]
    ) -> None:
        """Record one number although all scenarios equal the core: a stoch file needs one."""
        entry = next(
            entry
            for entry in by_scenario[0]
            if entry[0] != "rhs"
            or entry[1] not in list(table.kinds)[: table.first_rows]
        )
        table.uncertain[entry] = [found[entry] for found in by_scenario]

    def _numbers(self, rows: list[Any]) -> dict[Entry, float]:
        """Return coefficients and right-hand sides at the Params' current values."""
        found: dict[Entry, float] = {}
        for con, kinds in rows:
            repn = generate_standard_repn(con.body, compute_values=True)
            for row, kind in kinds:
                side = con.upper if kind == "L" else con.lower
                found["rhs", row] = float(value(side)) - float(value(repn.constant))
                found.update(self._entries(row, repn))
        repn = generate_standard_repn(self._two_stage.objective.expr)
        # The right-hand side of an objective is minus its constant.
        found["rhs", _OBJECTIVE] = -float(value(repn.constant))
        found.update(self._entries(_OBJECTIVE, repn))
        return found

    def _entries(self, row: str, repn: Any) -> Iterable[tuple[Entry, float]]:
        for v, number in zip(repn.linear_vars, repn.linear_coefs, strict=True):
            yield ("entry", row, self._names[id(v)]), float(value(number))

    def _bounds(self, bounded: list[Any]) -> dict[Entry, float]:
        found: dict[Entry, float] = {}
        for v in bounded:
            for kind, bound in zip(("LO", "UP"), v.bounds, strict=True):
                if bound is not None:
                    found[kind, self._names[id(v)]] = float(bound)
        return found


def _unique_names(names: Iterable[str]) -> list[str]:
    """Return distinct names without spaces, none of them a keyword of the format."""
    taken: set[str] = set()
    found = []
    for name in names:
        word = "_".join(str(name).split()) or "unnamed"
        if word.upper() in _RESERVED or word.startswith(("$", "*", "'")):
            word = f"_{word}"
        found.append(_another_name(word, taken))
    return found


def _another_name(word: str, taken: set[str]) -> str:
    """Return a name that is not taken yet, and take it."""
    name, count = word, 1
    while name in taken:
        count += 1
        name = f"{word}_{count}"
    taken.add(name)
    return name
