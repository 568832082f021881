"""How an evaluation is shown: remarks, tables in text, Markdown, LaTeX and CSV, plots."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pyomo_csg.decisions.number_formats import with_error
from pyomo_csg.errors import DataError, shortlist
from pyomo_csg.evaluation.reference import (
    CASE_KEYS,
    FULL_PROGRAM,
    POLICY,
    USER_VALUES,
    relative_difference,
)
from pyomo_csg.plotting import axes_or_new, new_figure, save_figure
from pyomo_csg.storage import readable_path, write_user_file
from pyomo_csg.validation import Problems

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from pyomo_csg.evaluation.evaluation import Evaluation

_TOLERANCE = 1e-6  # relative; larger differences are worth a remark
_LIMITS = {"value": "the reference", "bound": "the proven bound"}
_KEYS = [*CASE_KEYS, "policy"]
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
_SENSE, _SENSES = "sense", ("minimize", "maximize")
_LEVEL = 0.95
_SPECIAL = {char: f"\\{char}" for char in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}


def remarks(evaluation: Evaluation) -> list[str]:
    """Return notes on the reference, how far it is proven, and missing costs."""
    return [
        *_reference_remarks(evaluation),
        *_failure_remarks(evaluation),
        *low_cost_warnings(evaluation, _TOLERANCE),
    ]


def low_cost_warnings(evaluation: Evaluation, tolerance: float) -> list[str]:
    """Return warnings about costs below the reference or the proven bound."""
    if not evaluation.has_reference:
        return []
    limits = evaluation.reference[["value", "bound"]]
    table = evaluation.records.join(limits, on=CASE_KEYS)
    found = []
    for column, words in _LIMITS.items():
        limit = table[column]
        below = (table["cost"] - limit) / limit.abs()
        below = below[below < -tolerance]
        if len(below):
            trial, case, policy = below.idxmin()
            found.append(
                f"{len(below)} costs are lower than {words}; the largest difference, "
                f"{-below.min():.3g} relatively, is for '{policy}' in case {case} of "
                f"trial {trial}"
            )
    return found


def _reference_remarks(evaluation: Evaluation) -> list[str]:
    reference = evaluation.reference
    source, gap = reference["source"], reference["gap"]
    if not evaluation.has_reference:
        if evaluation.maximized:
            return ["profits, higher is better; there is no reference"]
        return ["costs, lower is better; there is no reference"]
    if (source == USER_VALUES).all():
        return ["gaps to given values, for which nothing is proven"]
    count, closed = len(gap), int((gap <= _TOLERANCE).sum())
    words = f"gaps to the {FULL_PROGRAM}, proven optimal in {closed} of {count} cases"
    known = gap[np.isfinite(gap) & (gap > _TOLERANCE)]
    if len(known):
        words += (
            f", in {len(known)} to within {known.median():.2%} in the median and "
            f"{known.max():.2%} at worst"
        )
    if unproven := count - closed - len(known):
        words += f", not at all in {unproven}"
    found = [words]
    status = reference.loc[source.str.startswith(POLICY), "status"]
    if len(status):
        counts = status.value_counts(sort=False)
        how = ", ".join(f"'{status}' in {count}" for status, count in counts.items())
        found.append(
            f"in {len(status)} cases the best known decision is a policy's; the "
            f"{FULL_PROGRAM} ended with status {how}"
        )
    return found


def _failure_remarks(evaluation: Evaluation) -> list[str]:
    failures = evaluation.failures
    if failures.empty:
        return []
    counts = failures["policy"].value_counts(sort=False)
    names = ", ".join(f"'{name}' in {count}" for name, count in counts.items())
    return [f"cases without a cost, left out of statistics and not won: {names}"]


@dataclass(frozen=True)
class Table:
    """Rows of cells under a header, names first, and notes below."""

    header: list[str]
    rows: list[list[str]]
    notes: list[str]

    def text(self) -> str:
        """Return the table as text."""
        lines = [self.header, *self.rows]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        found = []
        for name, *others in lines:
            cells = (c.rjust(w) for c, w in zip(others, widths[1:], strict=True))
            found.append("  ".join([name.ljust(widths[0]), *cells]).rstrip())
        return "\n".join([*found, "", *self.notes])

    def markdown(self) -> str:
        """Return Markdown."""
        rule = ["---", *["---:"] * (len(self.header) - 1)]
        lines = [self.header, rule, *self.rows]
        found = [" | ".join(cell.replace("|", "\\|") for cell in row) for row in lines]
        notes = [f"- {note}" for note in self.notes]
        return "\n".join([*(f"| {row} |" for row in found), "", *notes, ""])

    def latex(self) -> str:
        """Return LaTeX, for the package booktabs."""
        width = len(self.header)
        header, *rows = (
            " & ".join(map(_escape, row)) for row in (self.header, *self.rows)
        )
        notes = (
            rf"\multicolumn{{{width}}}{{l}}{{\footnotesize {_escape(note)}}}"
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


def summary_table(evaluation: Evaluation) -> Table:
    """Return statistics, wins and times of each policy, with remarks."""
    scale, digits, of, worst = 100.0, 3, "gap, %", "90th"
    if not evaluation.has_reference:
        scale, digits, of = 1.0, 6, "cost"
        if evaluation.maximized:
            scale, of, worst = -1.0, "profit", "10th"
    timing, interval = evaluation.timing(), evaluation.interval("median", _LEVEL)
    sides = ("low", "high") if scale > 0 else ("high", "low")
    ends = (_format(scale * interval[end], digits) for end in sides)
    columns = {"policy": evaluation.policies}
    if not evaluation.has_reference and len(evaluation.policies) > 1:
        first = evaluation.policies[0]
        columns[f"above {first}"] = _format_differences(evaluation, scale)
    columns |= {
        f"median {of}": _format(scale * evaluation.median(), digits),
        f"{_LEVEL:.0%} interval": [f"{a} to {b}" for a, b in zip(*ends, strict=True)],
        f"mean {of}": _format(scale * evaluation.mean(), digits),
        f"{worst} percentile {of}": _format(scale * evaluation.quantile(0.9), digits),
        "wins": [f"{share:.1%}" for share in evaluation.wins()],
        "ms a decision": _format(1000 * timing["decision"]),
    }
    if timing["speed-up"].notna().any():
        columns["speed-up"] = _format(timing["speed-up"])
    rows = [list(row) for row in zip(*columns.values(), strict=True)]
    method = f"intervals of the median by {interval.columns.name}"
    return Table(list(columns), rows, [*remarks(evaluation), method])


def _format_differences(evaluation: Evaluation, scale: float) -> list[str]:
    """Return mean differences from the first policy with their standard errors."""
    _, *others = evaluation.differences().itertuples(index=False)
    found = ((scale * row.mean, row.standard_error) for row in others)
    return ["", *("+" * (mean > 0) + with_error(mean, error) for mean, error in found)]


def write_text(content: str, path: str | os.PathLike[str] | None) -> str:
    """Return a text, after writing it if there is a path."""
    if path is not None:
        write_user_file(path, content.encode())
    return content


def count_words(count: int, one: str, many: str) -> str:
    """Return a count with its noun in the singular or plural."""
    return f"{count} {one if count == 1 else many}"


def _format(numbers: pd.Series, digits: int = 3) -> list[str]:
    return ["-" if np.isnan(x) else f"{x:.{digits}g}" for x in numbers]


def _escape(cell: str) -> str:
    return "".join(_SPECIAL.get(char, char) for char in cell)


def write_csv(
    path: str | os.PathLike[str],
    records: pd.DataFrame,
    reference: pd.DataFrame,
    maximized: bool,
) -> None:
    """Write an evaluation, with its gaps."""
    known = reference.rename(columns={"seconds": "full_seconds"})
    table = records.join(known, on=CASE_KEYS)
    table["gap"] = relative_difference(table["cost"] - table["value"], table["value"])
    table[_SENSE] = _SENSES[maximized]
    first = ["cost", "gap", "value", "bound", "seconds"]
    others = [name for name in (*_RECORDS, *_REFERENCE) if name not in first]
    write_user_file(path, table[[*first, *others, _SENSE]].to_csv().encode())


def read_csv(
    path: str | os.PathLike[str],
) -> tuple[pd.DataFrame, pd.DataFrame, bool]:
    """Return the records, the reference and the sense of a file by :func:`write_csv`."""
    columns = {**_RECORDS, **_REFERENCE}
    path = readable_path(path)
    try:
        # Read as text: a policy may be called NA, and numbers must keep every bit.
        table = pd.read_csv(path, dtype=str, keep_default_na=False)
        if missing := [name for name in (*_KEYS, *columns) if name not in table]:
            raise ValueError(f"it has no column {shortlist(missing)}")
        for name, kind in columns.items():
            if kind is float:
                table[name] = table[name].map(lambda x: float(x) if x else math.nan)
        table["case"] = table["case"].map(int)
    except ValueError as error:
        found = f"{error}; give a file that Evaluation.to_csv wrote"
        raise DataError(f"'{path}' is not an evaluation", [found]) from None
    table["trial"] = table["trial"].map(_read_trial)
    records = table.set_index(_KEYS)[list(_RECORDS)]
    by_case = table.drop_duplicates(CASE_KEYS).set_index(CASE_KEYS)
    known = by_case[list(_REFERENCE)].rename(columns={"full_seconds": "seconds"})
    maximized = _SENSE in table and (table[_SENSE] == _SENSES[True]).any()
    return records, known, bool(maximized)


def _read_trial(text: str) -> int | str:
    return int(text) if text.lstrip("-").isdecimal() else text


def check_joinable(evaluations: Sequence[Evaluation]) -> None:
    """Raise a DataError if evaluations cannot be joined."""
    problems = Problems("Cannot join the evaluations")
    if len({getattr(one, "maximized", False) for one in evaluations}) > 1:
        problems.add("some are of a maximized model and others are not")
    strange = [one for one in evaluations if not hasattr(one, "has_reference")]
    if strange or not evaluations:
        given = f"a {type(strange[0]).__name__} was" if strange else "none were"
        problems.add(f"{given} given; give a list of csg.Evaluation")
        problems.raise_any()
    if len({one.has_reference for one in evaluations}) > 1:
        problems.add("some have a reference and others have none")
    records = pd.concat([one.records for one in evaluations])
    duplicates = records.index[records.index.duplicated()].unique()
    if len(duplicates):
        trial, case, policy = duplicates[0]
        problems.add(
            f"{count_words(len(duplicates), 'cost occurs', 'costs occur')} twice, the first "
            f"for '{policy}' in case "
            f"{case} of trial {trial}; give each evaluation another trial="
        )
    digests = pd.concat([one.reference["digest"] for one in evaluations])
    distinct = digests.groupby(CASE_KEYS, sort=False).nunique()
    if (distinct > 1).any():
        trial, case = distinct.index[distinct > 1][0]
        problems.add(
            f"case {case} of trial {trial} is not the same in all; give each evaluation "
            "another trial="
        )
    problems.raise_any()


_STYLES = ("-", "--", ":", "-.")
_COLORS = 10  # of matplotlib's cycle, before the line style changes


def plot_distributions(
    evaluation: Evaluation, path: str | os.PathLike[str] | None, ax: Any, floor: float
) -> Axes:
    """Plot the distribution of each policy's gaps on a logarithmic scale, or of its costs.

    Cases without a gap or cost keep the curve of a policy below 1.
    """
    counts = evaluation.records.groupby("policy").size()
    sign, label = (-1, "profit") if evaluation.maximized else (1, "cost")
    values = sign * evaluation.costs
    if evaluation.has_reference:
        values, label = _log_gaps(evaluation.gaps, floor)
    ax = axes_or_new(ax, lambda: new_figure(6.4, 4.2).add_subplot())
    for number, policy in enumerate(values.columns):
        found = np.sort(values[policy].dropna().to_numpy())
        x = np.concatenate([found[:1], found])
        style = _STYLES[number // _COLORS % len(_STYLES)]
        fraction = np.arange(len(x)) / counts[policy]
        ax.step(x, fraction, where="post", linestyle=style, label=policy)
    ax.set_xlabel(label)
    ax.set_ylabel("fraction of cases")
    ax.set_ylim(0, 1.02)
    ax.grid(alpha=0.3)
    ax.legend(fontsize="small")
    if path is not None:
        save_figure(ax.figure, path, dpi=150)
    return ax


def _log_gaps(gaps: pd.DataFrame, floor: float) -> tuple[pd.DataFrame, str]:
    """Return logarithms of gaps, those below the floor raised to it, and their label."""
    problems = Problems("Cannot draw")
    problems.check_positive(floor=floor)
    problems.raise_any()
    low = int((gaps <= floor).to_numpy().sum())
    label = r"$\log_{10}$ of the optimality gap"
    if low:
        label += f" ({low} gaps of at most {floor:g} shown at {floor:g})"
    return np.log10(gaps.clip(lower=floor)), label
