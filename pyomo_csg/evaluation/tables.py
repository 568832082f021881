"""An evaluation as a table: plain, in Markdown and in LaTeX."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from pyomo_csg.evaluation.remarks import remarks
from pyomo_csg.files import write_result

if TYPE_CHECKING:
    from pyomo_csg.evaluation.evaluation import Evaluation

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
        write_result(path, content.encode())
    return content


def counted(count: int, one: str, many: str) -> str:
    """Return a count in words that agree with it."""
    return f"{count} {one if count == 1 else many}"


def _shown(numbers: pd.Series, digits: int = 3) -> list[str]:
    return ["-" if np.isnan(x) else f"{x:.{digits}g}" for x in numbers]


def _escaped(cell: str) -> str:
    return "".join(_SPECIAL.get(char, char) for char in cell)
