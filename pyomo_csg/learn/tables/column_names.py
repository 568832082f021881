"""Match the columns of a table to Pyomo's names by meaning: ``demand[a, 1]`` is ``demand[a,1]``."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

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
    labels = [column_label(column) for column in table.columns]
    columns, exact = list(labels), set(names)
    meanings: dict[tuple[str, ...], list[int]] = {}
    for j, column in enumerate(table.columns):
        meaning = _meaning(labels[j] if labels[j] in exact else column)
        meanings.setdefault(meaning, []).append(j)
    families = Counter(_meaning(name)[0] for name in names)
    problems = []
    for name in names:
        meaning = _meaning(name)
        found = meanings.get(meaning, [])
        if len(meaning) > 1 and families[meaning[0]] == 1:
            found = [*found, *meanings.get(meaning[:1], [])]
        found = [j for j in found if labels[j] == name or labels[j] not in exact]
        apart = dict.fromkeys(str(table.columns[j]) for j in found)
        if len(apart) > 1:
            problems.append(
                f"columns {shortlist([*apart])} all mean '{name}'; drop all but one, or "
                "rename those that mean something else"
            )
        for j in found:
            columns[j] = name
    if problems:
        raise DataError("", problems)
    if columns == list(table.columns):
        return table
    return table.set_axis(columns, axis=1)


def match_keys(row: Mapping[Any, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return a row whose keys that mean one of the names are called so."""
    import pandas as pd

    columns = pd.Index([*row], tupleize_cols=False)
    matched = match_columns(pd.DataFrame(columns=columns), names)
    return dict(zip(map(column_label, matched.columns), row.values(), strict=True))


def column_label(column: Hashable) -> str:
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
