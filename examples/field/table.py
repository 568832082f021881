"""Write docs/field.md from the stored rows: what methods cost, side by side.

python examples/field/table.py
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from block_errors import block_standard_error
from candidates import ALL, CLAIRVOYANT, FULL
from stored_rows import Store

DOCS = Path(__file__).parents[2] / "docs"
INTRODUCTION = Path(__file__).with_name("introduction.md")
_NAMES = {
    "ev-ridge": "forecast by ridge",
    "ev-forest": "forecast by a forest",
    "saa": "context-free SAA",
    "forest": "forest SAA",
    "neighbors": "neighbors",
    "residuals-ridge": "residuals of ridge",
    "residuals-forest": "residuals of a forest",
    "mmd": "`mmd`",
    "auto": "`auto`",
}
_ORDER = list(_NAMES)


class Results:
    """The rows of a problem, those of several seeds taken together."""

    def __init__(self, store: Store):
        self.facts = store.facts()
        self.rows: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for (method, scenarios, _), row in sorted(store.rows().items()):
            self.rows.setdefault((method, scenarios), []).append(row)

    def costs(self, key: tuple[str, str]) -> np.ndarray:
        """Return the costs of the decisions, averaged over seeds."""
        return np.mean([row["costs"] for row in self.rows[key]], axis=0)

    def mean(self, key: tuple[str, str]) -> float:
        """Return the mean cost."""
        return float(self.costs(key).mean())

    def spread(self, key: tuple[str, str]) -> float | None:
        """Return the standard deviation of the mean cost over seeds."""
        means = [np.mean(row["costs"]) for row in self.rows[key]]
        return float(np.std(means, ddof=1)) if len(means) > 1 else None

    def ordered(self) -> list[tuple[str, str]]:
        """Return the methods in the order of the table."""
        found = [key for key in self.rows if key[0] != CLAIRVOYANT]
        return sorted(found, key=lambda key: (_ORDER.index(key[0]), _size(key[1])))

    def best(self) -> tuple[str, str] | None:
        """Return the full-distribution baseline of the least mean cost."""
        full = [(method, ALL) for method in FULL if (method, ALL) in self.rows]
        return min(full, key=self.mean) if full else None


def _size(scenarios: str) -> float:
    return float("inf") if scenarios == ALL else float(scenarios)


def page(results: list[Results], introduction: str) -> str:
    """Return the page in Markdown."""
    parts = [introduction.rstrip(), _sizes(results)]
    parts += [_section(one) for one in results]
    return "\n\n".join(parts) + "\n"


def _sizes(results: list[Results]) -> str:
    columns = {
        "problem": "problem",
        "rows": "rows",
        "decided": "decided",
        "refits": "fits",
        "d": "d",
        "p": "p",
        "first_stage": "first stage",
        "integers": "integers",
        "recourse": "recourse",
        "constraints": "constraints",
    }
    lines = [_line(columns.values()), _line(["---"] * len(columns))]
    lines += [_line(str(one.facts[name]) for name in columns) for one in results]
    return "## Sizes\n\n" + "\n".join(lines)


def _section(one: Results) -> str:
    facts, best = one.facts, one.best()
    heading = f"## {facts['title']}\n\nMean cost in {facts['unit']}."
    known = (CLAIRVOYANT, ALL)
    if known in one.rows:
        heading += f" With the outcome known: {one.mean(known):,.{_digits(one)}f}."
    if best is None:
        return heading + " No baseline on all outcomes has been run yet."
    heading += f" Best on all outcomes: {_NAMES[best[0]]}."
    titles = (
        "method", "K", "mean cost", "above the best on all", "captured, %",
        "CPU ms a decision", "CPU s a fit", "seeds", "sd over seeds",
    )  # fmt: skip
    lines = [_line(titles), _line(["---"] * len(titles))]
    lines += [_line(_cells(one, key, best)) for key in one.ordered()]
    return heading + "\n\n" + "\n".join(lines)


def _cells(one: Results, key: tuple[str, str], best: tuple[str, str]) -> list[str]:
    rows, spread = one.rows[key], one.spread(key)
    apart = one.costs(key) - one.costs(best)
    error = block_standard_error(apart, one.facts["block"])
    digits = _digits(one)
    difference = f"{apart.mean():+,.{digits}f} ± {error:,.{digits}f}"
    mean = f"{one.mean(key):,.{digits}f}"
    return [
        _NAMES[key[0]],
        key[1],
        f"**{mean}**" if key == best else mean,
        "" if key == best else difference,
        _captured(one, key, best),
        f"{np.mean([row['decide_ms'] for row in rows]):.3g}",
        f"{np.mean([row['fit_seconds'] for row in rows]):.3g}",
        str(len(rows)),
        "" if spread is None else f"{spread:,.{digits}f}",
    ]


def _captured(one: Results, key: tuple[str, str], best: tuple[str, str]) -> str:
    """Return the share of the step from context-free SAA, where that step is clear."""
    saa = ("saa", ALL)
    if saa not in one.rows or key == saa:
        return ""
    steps = one.costs(saa) - one.costs(best)
    if steps.mean() < 2 * block_standard_error(steps, one.facts["block"]):
        return ""
    return f"{100 * (one.mean(saa) - one.mean(key)) / steps.mean():.0f}"


def _digits(one: Results) -> int:
    """Return how many decimals show five digits of the largest mean cost."""
    largest = max(abs(one.mean(key)) for key in one.rows)
    return int(np.clip(4 - np.floor(np.log10(max(largest, 1e-9))), 0, 4))


def _line(cells: Any) -> str:
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    """Read the rows and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=Path, default=DOCS / "results" / "field")
    parser.add_argument("--page", type=Path, default=DOCS / "field.md")
    given = parser.parse_args()
    names = sorted(path.stem for path in given.rows.glob("*.json"))
    results = [Results(Store(given.rows, name)) for name in names]
    given.page.write_text(page(results, INTRODUCTION.read_text()))


if __name__ == "__main__":
    main()
