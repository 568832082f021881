"""Evaluations as files of one row for each trial, case and policy; and as one."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from pyomo_csg.errors import DataError, shortlist
from pyomo_csg.evaluation.references import FULL_PROGRAM, GIVEN, POLICY, relative
from pyomo_csg.storage import readable_path, write_user_file

if TYPE_CHECKING:
    from pyomo_csg.evaluation.evaluation import Evaluation

TOLERANCE = 1e-6
_LIMITS = {"value": "the reference", "bound": "what is proven to be possible"}


def remarks(evaluation: Evaluation) -> list[str]:
    """Say what costs are compared with, how far that is proven, and what is missing."""
    return [
        *_on_reference(evaluation),
        *_on_failures(evaluation),
        *warnings_of(evaluation, TOLERANCE),
    ]


def warnings_of(evaluation: Evaluation, tolerance: float) -> list[str]:
    """Say which costs are lower than they should be able to be."""
    if not evaluation.has_reference:
        return []
    limits = evaluation.reference[["value", "bound"]]
    table = evaluation.records.join(limits, on=["trial", "case"])
    found = []
    for column, words in _LIMITS.items():
        limit = table[column]
        under = (table["cost"] - limit) / limit.abs()
        under = under[under < -tolerance]
        if len(under):
            trial, case, policy = under.idxmin()
            found.append(
                f"{len(under)} costs are lower than {words}; the furthest, by "
                f"{-under.min():.3g} of it, is of '{policy}' in case {case} of trial "
                f"{trial}"
            )
    return found


def _on_reference(evaluation: Evaluation) -> list[str]:
    reference = evaluation.reference
    source, gap = reference["source"], reference["gap"]
    if not evaluation.has_reference:
        return ["costs, lower is better; there is no reference"]
    if (source == GIVEN).all():
        return ["gaps to values that were given; nothing is proven of them"]
    count, closed = len(gap), int((gap <= TOLERANCE).sum())
    words = f"gaps to the {FULL_PROGRAM}, proven optimal in {closed} of {count} cases"
    known = gap[np.isfinite(gap) & (gap > TOLERANCE)]
    if len(known):
        words += (
            f", in {len(known)} to within {known.median():.2%} in the median and "
            f"{known.max():.2%} at worst"
        )
    if unproven := count - closed - len(known):
        words += f", not at all in {unproven}"
    found = [words]
    ended = reference.loc[source.str.startswith(POLICY), "status"]
    if len(ended):
        counts = ended.value_counts(sort=False)
        how = ", ".join(f"'{status}' in {count}" for status, count in counts.items())
        found.append(
            f"in {len(ended)} cases the best decision known is a policy's; the "
            f"{FULL_PROGRAM} ended {how}"
        )
    return found


def _on_failures(evaluation: Evaluation) -> list[str]:
    failures = evaluation.failures
    if failures.empty:
        return []
    counts = failures["policy"].value_counts(sort=False)
    names = ", ".join(f"'{name}' in {count}" for name, count in counts.items())
    return [f"cases without a cost, left out of statistics and lost: {names}"]


_LEVEL = 0.95
_SPECIAL = {char: f"\\{char}" for char in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}


@dataclass(frozen=True)
class Table:
    """Rows of cells under a header, names first, and notes below."""

    header: list[str]
    rows: list[list[str]]
    notes: list[str]

    def text(self) -> str:
        """Return it for a terminal."""
        lines = [self.header, *self.rows]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        found = []
        for name, *others in lines:
            cells = (c.rjust(w) for c, w in zip(others, widths[1:], strict=True))
            found.append("  ".join([name.ljust(widths[0]), *cells]).rstrip())
        return "\n".join([*found, "", *self.notes])

    def markdown(self) -> str:
        """Return it in Markdown."""
        rule = ["---", *["---:"] * (len(self.header) - 1)]
        lines = [self.header, rule, *self.rows]
        found = [" | ".join(cell.replace("|", "\\|") for cell in row) for row in lines]
        notes = [f"- {note}" for note in self.notes]
        return "\n".join([*(f"| {row} |" for row in found), "", *notes, ""])

    def latex(self) -> str:
        """Return it in LaTeX, for the package booktabs."""
        width = len(self.header)
        header, *rows = (
            " & ".join(map(_escaped, row)) for row in (self.header, *self.rows)
        )
        notes = (
            rf"\multicolumn{{{width}}}{{l}}{{\footnotesize {_escaped(note)}}}"
            for note in self.notes
        )
        lines = [
            rf"\begin{{tabular}}{{l{'r' * (width - 1)}}}",
            r"\toprule",
            rf"{header} \\",
            r"\midrule",
            *(rf"{row} \\" for row in rows),
            r"\bottomrule",
            *(rf"{note} \\" for note in notes),
            r"\end{tabular}",
            "",
        ]
        return "\n".join(lines)


def summary(evaluation: Evaluation) -> Table:
    """Return statistics, wins and times of each policy, and what is to be said of them."""
    scale, digits, of = 100.0, 3, "gap, %"
    if not evaluation.has_reference:
        scale, digits, of = 1.0, 6, "cost"
    timing, interval = evaluation.timing(), evaluation.interval("median", _LEVEL)
    ends = (_shown(scale * interval[end], digits) for end in ("low", "high"))
    columns = {
        "policy": evaluation.policies,
        f"median {of}": _shown(scale * evaluation.median(), digits),
        f"{_LEVEL:.0%} interval": [f"{a} to {b}" for a, b in zip(*ends, strict=True)],
        f"mean {of}": _shown(scale * evaluation.mean(), digits),
        f"90th percentile {of}": _shown(scale * evaluation.quantile(0.9), digits),
        "wins": [f"{share:.1%}" for share in evaluation.wins()],
        "ms a decision": _shown(1000 * timing["decision"]),
    }
    if timing["speed-up"].notna().any():
        columns["speed-up"] = _shown(timing["speed-up"])
    rows = [list(row) for row in zip(*columns.values(), strict=True)]
    drawn = f"intervals of the median by {interval.columns.name}"
    return Table(list(columns), rows, [*remarks(evaluation), drawn])


def written(content: str, path: str | os.PathLike[str] | None) -> str:
    """Write a text if there is a path, and return it."""
    if path is not None:
        write_user_file(path, content.encode())
    return content


def counted(count: int, one: str, many: str) -> str:
    """Return a count in words that agree with it."""
    return f"{count} {one if count == 1 else many}"


def _shown(numbers: pd.Series, digits: int = 3) -> list[str]:
    return ["-" if np.isnan(x) else f"{x:.{digits}g}" for x in numbers]


def _escaped(cell: str) -> str:
    return "".join(_SPECIAL.get(char, char) for char in cell)


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
    write_user_file(path, table[[*first, *others]].to_csv().encode())


def read(path: str | os.PathLike[str]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the records and the reference that were written."""
    columns = {**_RECORDS, **_REFERENCE}
    path = readable_path(path)
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
