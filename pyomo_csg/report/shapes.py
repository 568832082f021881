"""The shape of named numbers: profiles over an ordered index, heat maps over two, or lists."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

_INDEX = re.compile(r"\[([^\[\]]*)\]")
_LEAST_PROFILE = 5  # numbers that make a profile
_LEAST_MAP = 2  # rows and columns that make a heat map

PROFILE, MAP, LIST = "profile", "map", "list"


def group_by_shape(names: Sequence[str]) -> list[dict[str, Any]]:
    """Return the groups of names that differ in their indices only, with their shapes.

    ``members`` are positions among the names. A profile is in the order of its index, which
    consists of numbers; a map has labels for ``rows`` and ``columns``, and its members row
    by row. All others are lists.

    >>> group_by_shape(["on[a,1]", "on[a,2]", "on[b,1]", "on[b,2]"])[0]["columns"]
    ['1', '2']
    >>> group_by_shape(["order"])
    [{'name': 'order', 'shape': 'list', 'members': [0]}]
    """
    groups: dict[tuple[str, int], list[tuple[int, tuple[str, ...]]]] = {}
    for position, name in enumerate(names):
        index = tuple(
            part.strip() for found in _INDEX.findall(name) for part in found.split(",")
        )
        groups.setdefault((_INDEX.sub("", name), len(index)), []).append(
            (position, index)
        )
    return [_shape(name, size, found) for (name, size), found in groups.items()]


def _shape(
    name: str, size: int, found: list[tuple[int, tuple[str, ...]]]
) -> dict[str, Any]:
    members = [position for position, _ in found]
    if size == 1 and len(found) >= _LEAST_PROFILE:
        labels = [label for _, (label,) in found]
        if all(map(_is_number, labels)):
            order = sorted(range(len(found)), key=lambda i: float(labels[i]))
            return {
                "name": name,
                "shape": PROFILE,
                "members": [members[i] for i in order],
                "columns": [labels[i] for i in order],
            }
    if size == 2:
        by_index = {index: position for position, index in found}
        rows, columns = (_ordered(index[side] for _, index in found) for side in (0, 1))
        is_full = len(by_index) == len(rows) * len(columns)
        if is_full and min(len(rows), len(columns)) >= _LEAST_MAP:
            if len(rows) > len(columns) and not all(map(_is_number, columns)):
                rows, columns = columns, rows
                by_index = {(b, a): p for (a, b), p in by_index.items()}
            cells = [by_index[row, column] for row in rows for column in columns]
            return {
                "name": name,
                "shape": MAP,
                "members": cells,
                "rows": rows,
                "columns": columns,
            }
    return {"name": name, "shape": LIST, "members": members}


def _ordered(labels: Any) -> list[str]:
    """Return distinct labels, numbers in their order and others as they come."""
    found = list(dict.fromkeys(labels))
    return sorted(found, key=float) if all(map(_is_number, found)) else found


def _is_number(label: str) -> bool:
    try:
        float(label)
    except ValueError:
        return False
    return True
