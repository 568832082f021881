"""Read a history: contexts and the outcomes that followed them."""

from __future__ import annotations

import hashlib
import logging
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pyomo_csg.errors import DataError, shortlist
from pyomo_csg.learn.tables.column_names import column_label, match_columns
from pyomo_csg.learn.tables.columns import (
    ENCODINGS,
    Columns,
    as_array,
    content_kind,
    describe_type,
    is_frame,
    is_series,
    unreadable,
)
from pyomo_csg.learn.tables.date_encoding import (
    date_index,
    date_name,
    with_date_column,
)
from pyomo_csg.learn.tables.known_columns import add_known, read_known
from pyomo_csg.learn.tables.preprocessing import (
    Preprocessing,
    check_preprocess,
    is_transformer,
    learn_columns,
)
from pyomo_csg.stages.inputs import find_invalid
from pyomo_csg.stages.two_stage import TwoStageModel
from pyomo_csg.validation import Problems

if TYPE_CHECKING:
    import pandas as pd

_GAP = 5.0  # usual steps; longer than a weekend with a holiday
_log = logging.getLogger(__name__)

_MIN_ROWS = 2

_NO_CONTEXT = (
    "there are no context columns; give at least one (add a column of zeros if nothing "
    "is known in advance)"
)


@dataclass(frozen=True, eq=False)
class History:
    """Contexts and the outcomes that followed them, as numbers.

    Contexts are vectors (n, d), or panels (n, W, d) of W time steps. Outcomes (n, p) are in
    the order of ``TwoStageModel.uncertain_params``, known numbers (n, r) in that of
    ``TwoStageModel.known_params``. Context names are the columns of a DataFrame.
    ``has_dates`` says whether its rows have dates in order.
    """

    contexts: np.ndarray
    outcomes: np.ndarray
    context_names: tuple[str, ...] | None = None
    has_dates: bool = False
    preprocessing: Preprocessing | None = None  # of the table's context columns
    known: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))

    def __post_init__(self) -> None:
        if not self.known.size:
            object.__setattr__(self, "known", np.zeros((len(self.outcomes), 0)))

    def __len__(self) -> int:
        return len(self.outcomes)

    @property
    def has_panels(self) -> bool:
        """Whether a context is a panel (W, d) and not a vector (d,)."""
        return self.contexts.ndim == 3

    def select(self, rows: np.ndarray) -> History:
        """Return the history of some rows."""
        return replace(
            self,
            contexts=self.contexts[rows],
            outcomes=self.outcomes[rows],
            known=self.known[rows],
        )

    def fingerprint(self) -> str:
        """Return the SHA-256 of the shapes and numbers."""
        digest = hashlib.sha256()
        known = [self.known] if self.known.size else []
        for array in (self.contexts, self.outcomes, *known):
            digest.update(repr(array.shape).encode())
            digest.update(np.ascontiguousarray(array, dtype="<f8").tobytes())
        return digest.hexdigest()


def read_history(
    two_stage: TwoStageModel,
    data: Any,
    context: Any = None,
    preprocess: Any = "auto",
    known: Any = None,
    seed: int = 0,
    least: int = _MIN_ROWS,
) -> History:
    """Return data as a History, or raise one DataError that lists every problem.

    ``data`` is a pair (contexts, outcomes) of arrays or DataFrames, or one DataFrame with
    the columns of both; outcomes are columns by their Pyomo names. ``context`` names the
    context columns of a DataFrame; the default is all columns that are not outcomes.
    ``preprocess`` says how these become numbers: ``'auto'`` learns it from them, None
    refuses other cells than numbers, and a scikit-learn transformer is fitted to them.
    ``known`` holds known numbers that the data has no columns for: see
    :mod:`~pyomo_csg.learn.tables.known_columns`. ``least`` is the number of rows that are
    required. Messages count rows without a label and columns without a name from 0.
    """
    problems = Problems(f"The data does not fit '{two_stage.model.name}'")
    names = [param.name for param in two_stage.uncertain_params]
    contexts: Columns | None = None
    outcomes: Columns | None = None
    data = _name_columns(problems, two_stage, data, names)
    problems.raise_any()
    if not isinstance(preprocess, Preprocessing):
        problems.add(*check_preprocess(preprocess))
        problems.raise_any()
    data = _add_dates(data, preprocess)
    data, known = problems.check("known", add_known, two_stage, data, known, seed) or (
        data,
        None,
    )
    problems.raise_any()
    if isinstance(preprocess, Preprocessing):
        context = None if context is None else preprocess.columns
    reader = _ContextReader(names, preprocess)
    if is_frame(data):
        contexts = problems.check("contexts", reader.from_frame, data, context)
        outcomes = Columns.from_frame("outcomes", data, names, data.index)
    elif isinstance(data, tuple) and len(data) == 2:
        contexts = problems.check("contexts", reader.from_pair, data[0], context)
        outcomes = problems.check("outcomes", _pair_outcomes, data[1], names)
    else:
        problems.add_for("data", _expected_data(data, names))
    if contexts is not None:
        contexts.check_finite()
        problems.add_for(contexts.role, *contexts.problems)
        if contexts.names is None and context is not None:
            problems.add_for(
                "context",
                "it names DataFrame columns, but contexts are an array; drop it",
            )
        if contexts.names is None and is_transformer(preprocess):
            problems.add_for(
                "preprocess",
                "it transforms columns, but contexts are an array; give a DataFrame",
            )
    if outcomes is not None:
        _check_domains(two_stage.uncertain_params, outcomes)
        problems.add_for(outcomes.role, *outcomes.problems)
    if contexts is not None and outcomes is not None:
        _check_rows(contexts, outcomes, problems, least)
    problems.raise_any()
    known = problems.check(
        "known", read_known, two_stage, data, known, len(outcomes or ())
    )
    problems.raise_any()
    assert contexts is not None and outcomes is not None
    for label, array in contexts.arrays.items():
        if (array == array.flat[0]).all():
            _log.info("context %s is constant and carries no information", label)
    has_dates = reader.has_dates or _are_dates(outcomes.rows)
    return History(
        contexts.stack(),
        outcomes.stack(),
        contexts.names,
        has_dates,
        reader.preprocessing,
        known,
    )


def _name_columns(
    problems: Problems, two_stage: TwoStageModel, data: Any, outcomes: list[str]
) -> Any:
    """Return data whose columns for annotated Params have Pyomo's names."""
    known = [param.name for param in two_stage.known_params]
    if is_frame(data):
        table = problems.check("columns", match_columns, data, [*outcomes, *known])
        return data if table is None else table
    if isinstance(data, tuple) and len(data) == 2 and is_frame(data[0]):
        table = problems.check("contexts", match_columns, data[0], known)
        return data if table is None else (table, data[1])
    return data


def _add_dates(data: Any, preprocess: Any) -> Any:
    """Return data with an index of dates as a column of the contexts."""
    if preprocess is None or is_transformer(preprocess):
        return data
    is_pair = isinstance(data, tuple) and len(data) == 2
    table = data[0] if is_pair else data
    if not is_frame(table):
        return data
    if isinstance(preprocess, Preprocessing):
        name = preprocess.missing_date(table.columns)
    else:
        name = date_name(table)
    table = with_date_column(table, name)
    return (table, data[1]) if is_pair else table


def _warn_of_gaps(dates: pd.DatetimeIndex | pd.PeriodIndex) -> None:
    """Warn if dates in order leave out a stretch of several steps."""
    import pandas as pd

    times = dates.to_timestamp() if isinstance(dates, pd.PeriodIndex) else dates
    steps = np.diff(times.astype("int64").to_numpy())
    if not len(steps) or not np.median(steps):
        return
    places = np.flatnonzero(steps > _GAP * np.median(steps))
    if len(places):
        first = places[0]
        _log.warning(
            "the dates of the rows have long gaps (%d), the first from %s to %s; the rows "
            "before and after a gap count as neighbors in time",
            len(places),
            times[first],
            times[first + 1],
        )


def _are_dates(rows: Any) -> bool:
    """Whether labels, or a column, are dates in order; warn if they are not in order."""
    import pandas as pd

    dates = (
        date_index(pd.Index(rows)) if isinstance(rows, pd.Series | pd.Index) else None
    )
    if dates is None or dates.hasnans:
        return False
    rows = dates
    if not rows.is_monotonic_increasing:
        _log.warning(
            "the dates of the rows are not in order, so the rows are not treated as a time "
            "series; sort them, e.g. with sort_index()"
        )
    else:
        _warn_of_gaps(rows)
    return bool(rows.is_monotonic_increasing)


def _expected_data(data: Any, names: list[str]) -> str:
    size = f" of {len(data)}" if isinstance(data, tuple) else ""
    return (
        f"{describe_type(data)}{size} was given; expected a pair (contexts, outcomes) of "
        f"arrays (n, d) or (n, W, d) and (n, {len(names)}), or a pandas DataFrame with a "
        f"column for each of {shortlist(names)} and columns for the context"
    )


class _ContextReader:
    """Reads contexts; ``preprocessing`` is what turned a table into numbers, if needed."""

    def __init__(self, outcomes: list[str], preprocess: Any):
        self._outcomes, self._preprocess = outcomes, preprocess
        self.preprocessing: Preprocessing | None = None
        self.has_dates = False

    def from_frame(self, frame: pd.DataFrame, context: Any) -> Columns:
        """Read the context columns of a DataFrame, by default all but outcomes."""
        if context is None:
            context = [name for name in map(str, frame) if name not in self._outcomes]
        if isinstance(context, str | bytes) or not isinstance(context, Iterable):
            context = [context]
        if isinstance(context, set | frozenset):  # which has no order
            context = sorted(context, key=str)
        chosen = list(dict.fromkeys(map(column_label, context)))
        known = [name for name in chosen if name not in self._outcomes]
        self.has_dates = _are_dates(frame.index)
        columns = self._numbers(frame, known)
        if not columns.names:
            columns.problems.append(_NO_CONTEXT)
        if both := [name for name in chosen if name in self._outcomes]:
            columns.problems.append(
                f"{shortlist(both)} is an outcome; drop it from the contexts, or rename it "
                "if it was known before the decision"
            )
        return columns

    def _numbers(self, frame: pd.DataFrame, names: list[str]) -> Columns:
        """Read columns; turn them into numbers first if any holds something else."""
        found = [str(column) for column in frame.columns]
        if self._preprocess is None:
            return Columns.from_frame("contexts", frame, names, frame.index)
        if any(found.count(name) != 1 for name in names):
            # Reported with the faults of numbers; what can be encoded is no fault.
            kinds = {name: content_kind(column) for name, column in frame.items()}
            some = [name for name in names if kinds.get(name) not in ENCODINGS]
            return Columns.from_frame("contexts", frame, some, frame.index)
        if isinstance(self._preprocess, Preprocessing):
            encoding: Preprocessing | None = self._preprocess
        else:
            table = frame.iloc[:, [found.index(name) for name in names]]
            encoding = learn_columns(self._preprocess, table)
        if encoding is None:
            return Columns.from_frame("contexts", frame, names, frame.index)
        if not encoding.names:  # such as one weekday alone
            return Columns("contexts", frame.index, ())
        self.preprocessing = encoding
        for name in encoding.date_columns:
            if name in found:
                self.has_dates |= _are_dates(frame.iloc[:, found.index(name)])
        try:
            frame = encoding.encode_table(frame)
        except DataError as error:  # listed with all other problems
            raise DataError("", error.problems) from None
        return Columns.from_frame("contexts", frame, encoding.names, frame.index)

    def from_pair(self, values: Any, context: Any) -> Columns:
        """Read the first one of a pair (contexts, outcomes)."""
        if is_series(values) and values.name is not None:
            values = values.to_frame()
        if is_frame(values):
            if context is None:
                context = list(values.columns)
            return self.from_frame(values, context)
        expected = "expected (n, d), or (n, W, d) for panels of W steps"
        array = as_array(values, expected)
        if array.ndim > 3:
            raise unreadable(f"an array of shape {array.shape} was given; {expected}")
        if array.ndim == 1:
            array = array[:, None]
        if 0 in array.shape[1:]:
            raise unreadable(f"shape {array.shape} was given: {_NO_CONTEXT}")
        return Columns.from_array(
            "contexts", array, range(array.shape[-1]), _row_labels(values, array)
        )


def _pair_outcomes(values: Any, names: list[str]) -> Columns:
    if is_frame(values):
        values = match_columns(values, names)
        columns = Columns.from_frame("outcomes", values, names, values.index)
        unknown = [name for name in map(str, values.columns) if name not in names]
        if unknown:
            columns.problems.insert(
                0, f"no uncertain parameter is called {shortlist(unknown)}; drop it"
            )
        return columns
    expected = f"expected (n, {len(names)}): a column for each of {shortlist(names)}"
    array = as_array(values, expected)
    if array.ndim == len(names) == 1:
        array = array[:, None]
    if array.ndim != 2 or array.shape[1] != len(names):
        raise unreadable(f"an array of shape {array.shape} was given; {expected}")
    return Columns.from_array("outcomes", array, names, _row_labels(values, array))


def _row_labels(values: Any, array: np.ndarray) -> Any:
    return values.index if is_series(values) else range(len(array))


def _check_domains(params: list[Any], outcomes: Columns) -> None:
    """Report outcomes that are not finite or lie outside their Param's domain."""
    problems = []
    for param in params:
        label = outcomes.label(param.name)
        if label not in outcomes.arrays:  # reported already
            continue
        cells = defaultdict(list)
        for cell, fault in find_invalid(param, outcomes.arrays[label]):
            cells[fault].append(cell)
        problems += [
            f"{label} is {outcomes.list_cells(outcomes.arrays[label], found)}{fault}"
            for fault, found in cells.items()
        ]
    outcomes.add_problems(problems)


def _check_rows(
    contexts: Columns, outcomes: Columns, problems: Problems, least: int
) -> None:
    """Report sides that do not pair row by row, or too few rows."""
    one: Any = contexts.rows
    other: Any = outcomes.rows
    if len(contexts) != len(outcomes):
        problems.add_for(
            "data",
            f"contexts have {len(contexts)} rows and outcomes have {len(outcomes)}; "
            "give an outcome for each context",
        )
    elif len(contexts) < least:
        found = "there is only 1 row" if len(contexts) else "it is empty"
        problems.add_for(
            "data",
            f"{found}; give at least {least} rows, and expect to need several dozen"
            if least > 1
            else f"{found}; give at least one row",
        )
    elif problem := _label_problem(one, other):
        problems.add_for("data", problem)


def _label_problem(one: Any, other: Any) -> str:
    """Return why the row labels of contexts and outcomes do not pair; empty if they do."""
    both_labeled = hasattr(one, "equals") and hasattr(other, "equals")  # of pandas
    if not both_labeled or one.equals(other):
        return ""
    if set(one) == set(other):
        return (
            "contexts and outcomes have the same row labels in another order; align them, "
            "e.g. outcomes.loc[contexts.index]"
        )
    if not (one.is_unique and other.is_unique) and set(one) & set(other):
        return (
            "contexts and outcomes have different row labels, and some repeat; if they pair "
            "row by row, use .reset_index(drop=True) on both"
        )
    return ""
