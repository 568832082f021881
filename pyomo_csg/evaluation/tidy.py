"""Evaluations as files of one row for each trial, case and policy; and as one."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pandas as pd

from pyomo_csg.errors import DataError, shortlist
from pyomo_csg.evaluation.reference import relative
from pyomo_csg.files import file_to_read, write_result

if TYPE_CHECKING:
    from pyomo_csg.evaluation.evaluation import Evaluation

_KEYS = ["trial", "case", "policy"]
_RECORDS = {
    "cost": float,
    "seconds": float,
    "solve_seconds": float,
    "solver_seconds": float,
    "failure": str,
}
_REFERENCE = {
    "value": float,
    "bound": float,
    "full_seconds": float,
    "status": str,
    "source": str,
    "digest": str,
}


def write(
    path: str | os.PathLike[str], records: pd.DataFrame, reference: pd.DataFrame
) -> None:
    """Write all that an evaluation holds, with the gaps."""
    known = reference.rename(columns={"seconds": "full_seconds"})
    table = records.join(known, on=["trial", "case"])
    table["gap"] = relative(table["cost"] - table["value"], table["value"])
    first = ["cost", "gap", "value", "bound", "seconds"]
    others = [name for name in (*_RECORDS, *_REFERENCE) if name not in first]
    write_result(path, table[[*first, *others]].to_csv().encode())


def read(path: str | os.PathLike[str]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the records and the reference that were written."""
    columns = {**_RECORDS, **_REFERENCE}
    path = file_to_read(path)
    try:
        # As text: a policy may be called NA, and numbers are to be the same to the bit.
        table = pd.read_csv(path, dtype=str, keep_default_na=False)
        if lacking := [name for name in (*_KEYS, *columns) if name not in table]:
            raise ValueError(f"it has no column {shortlist(lacking)}")
        for name, kind in columns.items():
            table[name] = table[name].map(_number) if kind is float else table[name]
        table["case"] = table["case"].map(int)
    except ValueError as error:
        found = f"{error}; give a file that Evaluation.to_csv wrote"
        raise DataError(f"'{path}' is no evaluation", [found]) from None
    table["trial"] = table["trial"].map(_label)
    records = table.set_index(_KEYS)[list(_RECORDS)]
    by_case = table.drop_duplicates(["trial", "case"]).set_index(["trial", "case"])
    known = by_case[list(_REFERENCE)].rename(columns={"full_seconds": "seconds"})
    return records, known


def _number(text: str) -> float:
    return float(text) if text else math.nan


def _label(text: str) -> int | str:
    return int(text) if text.lstrip("-").isdecimal() else text


def refuse_join(evaluations: Sequence[Evaluation]) -> None:
    """Raise a DataError that lists why evaluations are not of one kind."""
    subject = "Cannot join the evaluations"
    strange = [one for one in evaluations if not hasattr(one, "has_reference")]
    if strange or not evaluations:
        given = f"a {type(strange[0]).__name__} was" if strange else "none were"
        raise DataError(subject, [f"{given} given; give a list of csg.Evaluation"])
    problems = []
    if len({one.has_reference for one in evaluations}) > 1:
        problems.append("some have a reference and others have none")
    records = pd.concat([one.records for one in evaluations])
    twice = records.index[records.index.duplicated()].unique()
    if len(twice):
        trial, case, policy = twice[0]
        problems.append(
            f"{len(twice)} costs are there twice, the first of '{policy}' in case {case} "
            f"of trial {trial}; give each evaluation another trial="
        )
    digests = pd.concat([one.reference["digest"] for one in evaluations])
    kinds = digests.groupby(["trial", "case"], sort=False).nunique()
    if (kinds > 1).any():
        trial, case = kinds.index[kinds > 1][0]
        problems.append(
            f"case {case} of trial {trial} is not the same in all; give each evaluation "
            "another trial="
        )
    if problems:
        raise DataError(subject, problems)
