"""The HTML page of a monitoring: one file without external resources or scripts."""

from __future__ import annotations

import html
from collections.abc import Sequence
from importlib.resources import files
from string import Template
from typing import Any

import numpy as np

_WIDTH, _HEIGHT, _EDGE = 640, 180, 8


def render_monitoring(found: dict[str, Any]) -> str:
    """Return the page of what ``Monitoring.summary`` returns."""
    assets = files(__package__) / "assets"
    return Template((assets / "monitor.html").read_text(encoding="utf-8")).substitute(
        name=html.escape(found["model"]),
        style=(assets / "page.css").read_text(encoding="utf-8"),
        doubt=" doubt" * found["drift"],
        sentences="".join(f"<p>{_text(one)}</p>" for one in found["sentences"]),
        costs=_running_mean(found),
        word="profit" if found["verdict"]["sense"] == "maximize" else "cost",
        columns=_table(
            [
                "context",
                "outside",
                "farthest, sd",
                "mean moved, sd",
                "evidence",
                "since",
            ],
            [
                [
                    one["name"],
                    f"{one['outside']:.0%}",
                    f"{one['farthest']:.2g}",
                    f"{one['moved']:+.2f}",
                    f"{one['evidence'] or 0:.3g}",
                    "" if one["since"] is None else f"row {one['since']}",
                ]
                for one in found["columns"]
            ],
        ),
        calibration=_table(
            ["uncertain number", "below", "inside", "above", "PIT by fifths"],
            [
                [
                    one["name"],
                    *(f"{one[part]:.0%}" for part in ("below", "inside", "above")),
                    ", ".join(f"{share:.0%}" for share in one["pit"]),
                ]
                for one in found["calibration"]
            ],
        ),
        scores=_text(
            f"Energy score of the scenarios {found['energy_score']:.3g}, of the history's "
            f"outcomes without context {found['history_score']:.3g}; smaller is better."
        ),
    )


def _text(words: str) -> str:
    return html.escape(words.replace("+-", "±"))


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    cells = "".join(f'<th scope="col">{_text(cell)}</th>' for cell in head)
    body = "".join(
        f"<tr>{''.join(f'<td>{_text(cell)}</td>' for cell in row)}</tr>" for row in rows
    )
    return f"<table><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table>"


def _running_mean(found: dict[str, Any]) -> str:
    """Return the running mean of the realized values, and the promise as a line."""
    values = np.array([v for v in found["values"] if v is not None], dtype=float)
    if not len(values):
        return ""
    means = np.cumsum(values) / np.arange(1, len(values) + 1)
    promised = found["promised"]
    shown = means if promised is None else np.append(means, promised)
    low, high = float(shown.min()), float(shown.max())
    room = (high - low) or 1.0

    def place(i: float, value: float) -> str:
        x = _EDGE + i / max(1, len(means) - 1) * (_WIDTH - 2 * _EDGE)
        y = _EDGE + (high - value) / room * (_HEIGHT - 2 * _EDGE)
        return f"{x:.1f},{y:.1f}"

    points = " ".join(place(i, value) for i, value in enumerate(means))
    lines = f'<polyline class="curve ours" points="{points}"/>'
    if promised is not None:
        ends = f"{place(0, promised)} {place(len(means) - 1, promised)}"
        lines += f'<polyline class="curve held mean" points="{ends}"/>'
    label = "Running mean of the realized values, and what was promised, dashed"
    return (
        f'<figure><svg role="img" aria-label="{label}" viewBox="0 0 {_WIDTH} {_HEIGHT}">'
        f"{lines}</svg><figcaption>{label}: from {low:,.5g} to {high:,.5g}.</figcaption>"
        "</figure>"
    )
