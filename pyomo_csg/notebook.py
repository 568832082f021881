"""How objects show themselves in Jupyter: a title, sentences, and text or a table."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

_STYLE = "text-align:left;padding:.2em .8em .2em 0"


def card(
    title: str,
    sentences: Iterable[str] = (),
    table: Sequence[Sequence[str]] = (),
    text: str = "",
) -> str:
    """Return HTML of a title, a paragraph each, a table by its rows, and plain text.

    >>> card("Policy", ["It earns 3 < 4."])
    '<div><strong>Policy</strong><p>It earns 3 &lt; 4.</p></div>'
    """
    parts = [f"<strong>{html.escape(title)}</strong>"]
    parts += [f"<p>{html.escape(sentence)}</p>" for sentence in sentences if sentence]
    if table:
        head, *rows = table
        parts.append(
            f"<table><thead>{_row('th', head)}</thead>"
            f"<tbody>{''.join(_row('td', row) for row in rows)}</tbody></table>"
        )
    if text:
        parts.append(f"<pre>{html.escape(text)}</pre>")
    return f"<div>{''.join(parts)}</div>"


def _row(tag: str, cells: Iterable[str]) -> str:
    shown = (f'<{tag} style="{_STYLE}">{html.escape(cell)}</{tag}>' for cell in cells)
    return f"<tr>{''.join(shown)}</tr>"
