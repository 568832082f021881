"""Draw the packages and their imports: ``python -m tests.architecture.drawing``."""

from __future__ import annotations

import ast

from tests.architecture.imports import PACKAGE, ROOT, layers, package_imports

PICTURE = ROOT / "docs" / "architecture.svg"
_WIDTH, _HEIGHT, _STEP, _LEFT = 520, 34, 54, 20


def purpose(package: str) -> str:
    """Return the first line of a package's docstring."""
    if package == "root":
        return "Errors, validation, storage, locks, plotting."
    text = (PACKAGE / package / "__init__.py").read_text(encoding="utf-8")
    return (ast.get_docstring(ast.parse(text)) or "").splitlines()[0]


def drawing() -> str:
    """Return the packages as boxes, lowest layer first, with an arrow for each import."""
    order, edges = layers(), package_imports()
    top = {name: 20 + i * _STEP for i, name in enumerate(order)}
    right = _LEFT + _WIDTH
    lines = []
    for importer, imported in sorted(edges):
        start, end = top[importer] + _HEIGHT / 2, top[imported] + _HEIGHT / 2
        bend = right + 14 * abs(order.index(importer) - order.index(imported)) + 10
        lines.append(
            f'<path d="M {right} {start:g} C {bend} {start:g} {bend} {end:g} {right + 6} '
            f'{end:g}" class="arrow"><title>{importer} imports {imported} in '
            f"{edges[importer, imported]} modules</title></path>"
        )
    for name in order:
        label = "pyomo_csg/*.py" if name == "root" else f"{name}/"
        lines += [
            f'<rect x="{_LEFT}" y="{top[name]}" width="{_WIDTH}" height="{_HEIGHT}" rx="5"/>',
            f'<text x="{_LEFT + 10}" y="{top[name] + 22}">',
            f'<tspan class="name">{label}</tspan>',
            f'<tspan x="{_LEFT + 130}">{_escape(purpose(name))}</tspan></text>',
        ]
    return _FRAME.format(
        width=right + 14 * len(order) + 30,
        height=20 + len(order) * _STEP,
        body="\n".join(lines),
    )


def _escape(text: str) -> str:
    """Return text that may stand in XML, cut to the width of a box."""
    short = text if len(text) <= 62 else text[:60].rsplit(" ", 1)[0] + " …"
    return short.replace("&", "&amp;").replace("<", "&lt;")


_FRAME = """<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" \
font-family="sans-serif" font-size="12">
<style>rect {{ fill: #eef3f8; stroke: #37597a }} .name {{ font-weight: bold }}
.arrow {{ fill: none; stroke: #7a93ab; marker-end: url(#tip) }}</style>
<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" \
orient="auto"><path d="M 0 0 L 8 4 L 0 8 z" fill="#7a93ab"/></marker></defs>
{body}
</svg>
"""

if __name__ == "__main__":
    PICTURE.write_text(drawing(), encoding="utf-8")
