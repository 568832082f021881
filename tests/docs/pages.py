"""The pages of the documentation, and what kind each is."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS, PACKAGE = ROOT / "docs", ROOT / "pyomo_csg"


def sections() -> dict[str, list[str]]:
    """Return the pages of each caption of the index, without patterns."""
    index = (DOCS / "index.md").read_text()
    tree = r"^```{toctree}\n:caption: (.*)\n(?::.*\n)*\n([^`]*)```"
    return {
        caption: [name for name in names.split() if "[" not in name]
        for caption, names in re.findall(tree, index, re.MULTILINE)
    }


def word_count(text: str) -> int:
    """Return the number of words: what has a letter, in prose, tables and code."""
    return len(re.findall(r"\S*[A-Za-z]\S*", text))
