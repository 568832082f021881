"""csg.write_smps: an annotated model and its scenarios as SMPS files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pyomo.core.base.block import BlockData

from pyomo_csg.errors import DataError
from pyomo_csg.interop.smps import is_smps_file
from pyomo_csg.interop.smps_tables import LinearTable, tabulate
from pyomo_csg.stages import TwoStageModel
from pyomo_csg.stages.inputs import scenario_array, weight_vector
from pyomo_csg.storage import write_user_file
from pyomo_csg.validation import Problems, is_one_of

_SECTIONS = ("scenarios", "blocks")
_FIRST, _SECOND = "PERIOD1", "PERIOD2"
_RHS, _BOUNDS, _RANGES = "RHS", "BND", "RNG"


def write_smps(
    model: BlockData,
    scenarios: Any,
    weights: Any,
    path: str | os.PathLike[str],
    *,
    section: str = "scenarios",
) -> tuple[Path, Path, Path]:
    """Write an annotated linear or mixed-integer model and scenarios to SMPS files.

    The core file holds the model at its own data, the stoch file what differs from it
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
        What the three names have in common: ``'data/farmer'`` writes farmer.cor,
        farmer.tim and farmer.sto.
    section : str, optional
        ``'scenarios'`` or ``'blocks'``: the kind of the stoch file.

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
    >>> from models import newsvendor
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
    table = tabulate(two_stage, values)
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
                lines.append(_entry_line(table, entry, values[place]))
    return lines


def _entry_line(table: LinearTable, entry: tuple[str, ...], value: float) -> str:
    kind, *names = entry
    if kind in ("LO", "UP"):
        return f" {kind} {_BOUNDS}       {names[0]:<8}  {value!r}"
    return _line(_RHS if kind == "rhs" else names[1], names[0], value)


def _line(column: str, row: str, value: float) -> str:
    return f"    {column:<8}  {row:<8}  {value!r}"


def _marker(kind: str) -> str:
    return f"    MARKER    'MARKER'                 '{kind}'"
