"""Match the columns of a table to Pyomo's names by meaning: ``demand[a, 1]`` is ``demand[a,1]``."""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

from pyomo_csg.errors import DataError, shortlist

if TYPE_CHECKING:
    import pandas as pd

_INDEXED = re.compile(r"(?P<name>[^\[\]]+)\[(?P<index>.*)\]")


def match_columns(table: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Return a table whose columns that mean one of the names are called so.

    Spaces and quotes do not matter, nor whether a column is a tuple or a text. A column
    called like an indexed Param of one number is that number.

    Raises
    ------
    DataError
        If several columns mean the same name.
    """
    columns = [_label(column) for column in table.columns]
    missing = [name for name in names if name not in columns]
    meanings: dict[tuple[str, ...], list[int]] = {}
    for j, column in enumerate(table.columns):
        if columns[j] not in names:
            meanings.setdefault(_meaning(column), []).append(j)
    families = [_meaning(name)[0] for name in names]
    problems = []
    for name in missing:
        meaning = _meaning(name)
        found = meanings.get(meaning, [])
        if not found and families.count(meaning[0]) == 1:
            found = meanings.get(meaning[:1], [])
        if len(found) > 1:
            several = shortlist([repr(table.columns[j]) for j in found])
            problems.append(f"columns {several} all mean '{name}'; drop all but one")
        elif found:
            columns[found[0]] = name
    if problems:
        raise DataError("", problems)
    if columns == list(table.columns):
        return table
    return table.set_axis(columns, axis=1)


def with_date_column(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table that has its index as a column, too, if that holds dates and has a name."""
    import pandas as pd

    index = table.index
    if not isinstance(index, pd.DatetimeIndex) or index.name is None:
        return table
    if str(index.name) in map(str, table.columns):
        return table
    wider = table.copy(deep=False)
    wider.insert(0, str(index.name), index)
    return wider


def _label(column: Hashable) -> str:
    """Return the name of a column; the parts of a tuple as Pyomo joins them."""
    if not isinstance(column, tuple):
        return str(column)
    head, *index = (str(part) for part in column if part != "")
    return f"{head}[{','.join(index)}]" if index else head


def _meaning(column: Hashable) -> tuple[str, ...]:
    """Return the Param's name and its index, without spaces, quotes and brackets."""
    if isinstance(column, tuple):
        return tuple(_bare(part) for part in column if part != "")
    text = str(column).strip()
    match = _INDEXED.fullmatch(text)
    if match is None:
        return (text,)
    parts = match["index"].strip().removeprefix("(").removesuffix(")").split(",")
    return (match["name"].strip(), *(_bare(part) for part in parts if part.strip()))


def _bare(part: Hashable) -> str:
    """Return an index as text without quotes; 3.0 is 3."""
    if isinstance(part, float) and part.is_integer():
        part = int(part)
    return str(part).strip().strip("'\"")
