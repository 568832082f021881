"""Known numbers of the rows of a history: read from columns, passed, or drawn for training.

In a DataFrame they are columns by Pyomo name, and part of the context like other columns.
For a history without them, ``known`` holds for each name a column (n,), a range (low, high)
to draw uniform values from, or a function from (rng, n) to n values. With arrays, ``known``
may be an array (n, r).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pyomo_csg.errors import DataError, shortlist
from pyomo_csg.learn.tables.columns import is_frame, is_series
from pyomo_csg.stages.inputs import known_batch
from pyomo_csg.stages.two_stage import TwoStageModel
from pyomo_csg.validation import is_number

_KNOWN_SUBJECT = "The known data does not fit"
_PLAIN = {float, int, np.float64, np.int64}


def add_known(
    two_stage: TwoStageModel, data: Any, known: Any, seed: int
) -> tuple[Any, Any]:
    """Return data with the known numbers as further columns, and None.

    Arrays cannot have further columns, so the known numbers are returned beside them.
    """
    if known is None:
        return data, None
    names = [param.name for param in two_stage.known_params]
    if not names:
        found = "the model has none; name its Params by csg.annotate(known_params=...)"
        raise DataError(_KNOWN_SUBJECT, [found])
    if is_frame(known):
        known = {str(name): known[name].to_numpy() for name in known.columns}
    rows = _count_rows(data)
    if isinstance(known, Mapping):
        known = {str(name): known[name] for name in known}
        if unknown := [name for name in known if name not in names]:
            found = f"{shortlist(unknown)} is not among {shortlist(names)}; drop it"
            raise DataError(_KNOWN_SUBJECT, [found])
        rng = np.random.default_rng([seed, 24])
        known = {name: _column(name, known[name], rows, rng) for name in known}
    first = data[0] if isinstance(data, tuple) and data else data
    if not is_frame(first):
        return data, known
    if not isinstance(known, Mapping):
        columns = known_batch(two_stage, known, rows).T
        known = dict(zip(names, columns, strict=True))
    present = {str(column) for column in first.columns}
    if twice := [name for name in known if name in present]:
        found = f"{shortlist(twice)} is a column of the data, too; drop one of the two"
        raise DataError(_KNOWN_SUBJECT, [found])
    wider = first.assign(**known)
    return (wider if data is first else (wider, *data[1:])), None


def read_known(
    two_stage: TwoStageModel, data: Any, known: Any, rows: int
) -> np.ndarray:
    """Return the known numbers (n, r) of the rows."""
    names = [param.name for param in two_stage.known_params]
    if not names:
        return np.zeros((rows, 0))
    first = data[0] if isinstance(data, tuple) and data else data
    if known is None and is_frame(first):
        columns = [str(column) for column in first.columns]
        known = {n: first.iloc[:, columns.index(n)] for n in names if n in columns}
    missing = [n for n in names if not isinstance(known, Mapping) or n not in known]
    if known is None or (isinstance(known, Mapping) and missing):
        found = (
            f"the history has no column for {shortlist(missing)}; add it, or draw "
            f"values for training: known={{'{missing[0]}': (low, high)}}"
        )
        raise DataError(_KNOWN_SUBJECT, [found])
    return known_batch(two_stage, known, rows)


def known_of_contexts(
    two_stage: TwoStageModel, contexts: Any, known: Any, cases: int
) -> np.ndarray:
    """Return the known numbers (n, r) of contexts: as passed, or by name among them."""
    names = [param.name for param in two_stage.known_params]
    if known is None and type(contexts) is dict and {*names} <= contexts.keys():
        row = [contexts[name] for name in names]
        if {*map(type, row)} <= _PLAIN:  # the oracle checks the values
            return np.array([row], float)
    if known is None and names:
        has_names = isinstance(contexts, Mapping) or is_series(contexts)
        if not (has_names or is_frame(contexts)):
            found = (
                f"contexts are an array; give numbers for {shortlist(names)} by known="
            )
            raise DataError(_KNOWN_SUBJECT, [found])
        labels = {str(key): key for key in contexts.keys()}  # noqa: SIM118
        if missing := [name for name in names if name not in labels]:
            found = (
                f"there is no value for {shortlist(missing)}; add it to the contexts"
            )
            raise DataError(_KNOWN_SUBJECT, [found])
        known = {name: contexts[labels[name]] for name in names}
    if not names and (known is None or np.size(known) == 0):
        return np.zeros((cases, 0))
    return known_batch(two_stage, known, cases)


def _column(name: str, value: Any, rows: int, rng: np.random.Generator) -> np.ndarray:
    """Return the numbers (n,) of one known Param."""
    if callable(value):
        value = value(rng, rows)
    elif isinstance(value, tuple) and len(value) == 2 and all(map(is_number, value)):
        low, high = value
        if low > high:
            found = f"'{name}': the range {value} is empty; give (low, high)"
            raise DataError(_KNOWN_SUBJECT, [found])
        return rng.uniform(low, high, rows)
    try:
        column = np.asarray(value.to_numpy() if is_series(value) else value, float)
    except (TypeError, ValueError):
        column = np.zeros(())
    if column.shape != (rows,):
        found = f"'{name}' is {value!r:.60}; give (low, high), or a number for each row"
        raise DataError(_KNOWN_SUBJECT, [found])
    return column


def _count_rows(data: Any) -> int:
    one = data[-1] if isinstance(data, tuple) and data else data
    return len(one) if hasattr(one, "__len__") else 0
