"""Draw which method, which K, or a baseline: ``python -m tests.docs.decision_tree``.

The figures in the boxes are those of docs/field.md, which the tests compare.
"""

from pathlib import Path

PICTURE = Path(__file__).parents[2] / "docs" / "choosing.svg"
# A question, what to use if the answer is yes, and why.
STEPS = [
    (
        ("Does one decision for all contexts", "cost as little?"),
        ("csg.baselines.SampleAverage", "one decision, no policy"),
        "industries: 24.39, and 23.43 for the best method; the difference is noise",
    ),
    (
        ("Is the program fast enough", "on hundreds of outcomes?"),
        ("scenarios='all'", "or NeighborWeighted, ForestWeighted"),
        "bikes: neighbors on all outcomes cost 3,266.3, in 10 ms a decision",
    ),
    (
        ("Does a tail decide,", "as in a portfolio or a CVaR?"),
        ("scenarios=10 to 40", "or 'auto', which chooses K"),
        "industries: 5 scenarios by 'mmd' cost 49.58, all outcomes 23.43",
    ),
    (
        ("Do you only want a first look,", "in seconds?"),
        ("method='mmd', scenarios=5", "it solves no programs in training"),
        "electricity: 3,718.4, and 3,721.3 for the best on all outcomes",
    ),
]
LAST = ("csg.fit(model, history)", "method 'auto', K = 5")
_LEFT, _RIGHT, _WIDTH, _HEIGHT, _STEP = 20, 380, 280, 56, 104


def drawing() -> str:
    """Return the questions, one below the other, with the answer to each at the right."""
    parts = []
    for i, (question, answer, evidence) in enumerate(STEPS):
        top = 20 + i * _STEP
        middle = top + _HEIGHT / 2
        parts += [
            _box(_LEFT, top, question, "question"),
            _box(_RIGHT, top, answer, "answer"),
            _arrow(_LEFT + _WIDTH, middle, _RIGHT, middle),
            _label(_LEFT + _WIDTH + 36, middle - 8, "yes"),
            f'<text x="{_RIGHT}" y="{top + _HEIGHT + 16}" class="evidence">{evidence}</text>',
            _arrow(_LEFT + 140, top + _HEIGHT, _LEFT + 140, top + _STEP),
            _label(_LEFT + 152, top + _HEIGHT + 28, "no"),
        ]
    bottom = 20 + len(STEPS) * _STEP
    parts.append(_box(_LEFT, bottom, LAST, "answer"))
    return _FRAME.format(height=bottom + _HEIGHT + 20, body="\n".join(parts))


def _box(left: float, top: float, lines: tuple[str, str], kind: str) -> str:
    center, heads = f"{left + _WIDTH / 2:g}", ("head" if kind == "answer" else "", "")
    rows = "".join(
        f'<text x="{center}" y="{top + 23 + 19 * i}" class="{heads[i]}" '
        f'text-anchor="middle">{line}</text>'
        for i, line in enumerate(lines)
    )
    return (
        f'<rect x="{left}" y="{top}" width="{_WIDTH}" height="{_HEIGHT}" rx="6" '
        f'class="{kind}"/>{rows}'
    )


def _arrow(x: float, y: float, to_x: float, to_y: float) -> str:
    return f'<path d="M {x:g} {y:g} L {to_x:g} {to_y:g}" class="arrow"/>'


def _label(x: float, y: float, text: str) -> str:
    return f'<text x="{x:g}" y="{y:g}" class="label">{text}</text>'


_FRAME = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 830 {height}" \
font-family="sans-serif" font-size="14">
<title>Which method, which K, or a baseline?</title>
<style>.question {{ fill: #eef3f8; stroke: #37597a }} .answer {{ fill: #eaf5ea; stroke: #3a7a3a }}
.head {{ font-weight: bold }} .label {{ fill: #37597a; font-weight: bold }}
.evidence {{ fill: #666; font-size: 11.5px }}
.arrow {{ fill: none; stroke: #7a93ab; stroke-width: 1.5; marker-end: url(#tip) }}</style>
<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" \
orient="auto"><path d="M 0 0 L 8 4 L 0 8 z" fill="#7a93ab"/></marker></defs>
<rect width="830" height="{height}" fill="#fff"/>
{body}
</svg>
"""

if __name__ == "__main__":
    PICTURE.write_text(drawing(), encoding="utf-8")
