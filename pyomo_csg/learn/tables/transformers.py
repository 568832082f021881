"""A user's scikit-learn transformer as encodings of columns, which a policy file can hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from pyomo_csg.errors import DataError
from pyomo_csg.learn.tables.columns import cell_text
from pyomo_csg.learn.tables.encodings import TransformedColumn
from pyomo_csg.learn.tables.preprocessing import Preprocessing

if TYPE_CHECKING:
    import pandas as pd

_SUBJECT = "Cannot use the transformer"
_SUPPORTED = "StandardScaler, OneHotEncoder, SimpleImputer, Pipeline and ColumnTransformer of these"


def learn_transformer(transformer: Any, table: pd.DataFrame) -> Preprocessing:
    """Fit a copy of a transformer to a table, and return what it does to each column."""
    fitted = clone(transformer)
    table = table.rename(columns=str)
    try:
        fitted.fit(table)
    except (ValueError, TypeError) as error:
        found = str(error).splitlines()[0]
        raise DataError(_SUBJECT, [f"it cannot be fitted: {found:.200}"]) from error
    columns = _apply(fitted, [TransformedColumn(name) for name in table])
    names = [name for one in columns for name in one.outputs]
    if len(set(names)) < len(names):
        found = "several transformers make the same numbers of a column"
        raise DataError(_SUBJECT, [f"{found}; give each column to one of them"])
    return Preprocessing(tuple(columns))


def _apply(step: Any, columns: list[TransformedColumn]) -> list[TransformedColumn]:
    """Return columns after a fitted step."""
    kind = type(step)
    if kind is str:
        return [] if step == "drop" else columns
    if kind is FunctionTransformer and step.func is None:  # what 'passthrough' becomes
        return columns
    if kind is Pipeline:
        for _, inner in step.steps:
            columns = _apply("passthrough" if inner is None else inner, columns)
        return columns
    if kind is ColumnTransformer:
        return [
            one
            for _, inner, chosen in step.transformers_
            for one in _apply(inner, [columns[j] for j in _select(chosen, columns)])
        ]
    if kind not in _COLUMN_STEPS:
        found = f"it has a {kind.__name__}, but a policy file holds no Python objects"
        raise DataError(_SUBJECT, [f"{found}; use {_SUPPORTED}"])
    if late := [one.name for one in columns if one.levels is not None or one.indicator]:
        found = f"{kind.__name__} comes after the indicators of column '{late[0]}'"
        raise DataError(_SUBJECT, [f"{found}; give them to no further step"])
    return [_COLUMN_STEPS[kind](step, j, one) for j, one in enumerate(columns)]


def _select(chosen: Any, columns: Sequence[TransformedColumn]) -> list[int]:
    """Return the places of the columns that a part of a ColumnTransformer gets."""
    import pandas as pd

    places = pd.DataFrame([range(len(columns))], columns=[one.name for one in columns])
    if isinstance(chosen, str | int):
        chosen = [chosen]
    is_named = isinstance(chosen, slice) and isinstance(
        chosen.start or chosen.stop, str
    )
    is_named |= not isinstance(chosen, slice) and any(
        isinstance(one, str) for one in chosen
    )
    found = places.loc[:, chosen] if is_named else places.iloc[:, chosen]
    return [int(place) for place in found.iloc[0]]


def _scale(step: Any, place: int, column: TransformedColumn) -> TransformedColumn:
    center = float(step.mean_[place]) if step.with_mean else 0.0
    width = float(step.scale_[place]) if step.with_std else 1.0
    return replace(
        column,
        center=column.center + column.width * center,
        width=column.width * width,
        is_scaled=True,
    )


def _impute(step: Any, place: int, column: TransformedColumn) -> TransformedColumn:
    fill = step.statistics_[place]
    missing = step.missing_values
    if not (missing is None or (isinstance(missing, float) and np.isnan(missing))):
        found = f"SimpleImputer has missing_values={missing!r:.40}"
        raise DataError(_SUBJECT, [f"{found}; use nan or None"])
    if isinstance(fill, float | np.floating) and np.isnan(fill):
        found = f"column '{column.name}' has no value at all"
        raise DataError(_SUBJECT, [f"{found}; leave it out"])
    marked = () if step.indicator_ is None else step.indicator_.features_
    if isinstance(fill, str):
        text: float | str = str(fill)
    else:  # in the units of the cells
        text = float(fill) * column.width + column.center
    fill = text if column.fill is None else column.fill
    return replace(column, fill=fill, indicator=bool(place in marked))


def _indicate(step: Any, place: int, column: TransformedColumn) -> TransformedColumn:
    if column.is_scaled:
        found = f"OneHotEncoder comes after StandardScaler for column '{column.name}'"
        raise DataError(_SUBJECT, [f"{found}; drop the StandardScaler there"])
    if step.max_categories is not None or step.min_frequency is not None:
        found = "OneHotEncoder has max_categories or min_frequency"
        raise DataError(_SUBJECT, [f"{found}; drop these options"])
    dropped = None if step.drop_idx_ is None else step.drop_idx_[place]
    return replace(
        column,
        levels=tuple(cell_text(level) for level in step.categories_[place]),
        dropped=-1 if dropped is None else int(dropped),
        refuses_new=step.handle_unknown == "error",
    )


_COLUMN_STEPS: dict[type, Any] = {
    StandardScaler: _scale,
    SimpleImputer: _impute,
    OneHotEncoder: _indicate,
}
