"""The site has a place for every page and every public name."""

import re
from pathlib import Path

import pyomo_csg as csg

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def test_every_public_name_is_in_the_api():
    page = (DOCS / "api.md").read_text()
    place = r"(?:pyomo_csg\.(?:learn\.)?)?"  # csg.methods is pyomo_csg.learn.methods
    shown = re.findall(rf"^\.\. auto\w+:: {place}(\w+)$", page, re.MULTILINE)

    assert sorted(shown) == sorted(csg.__all__)


def test_the_readme_links_to_what_is_there():
    links = re.findall(r"\]\((?!http)([^)#]+)", (ROOT / "README.md").read_text())

    assert "docs/index.md" in links  # which lists every page, as below
    assert [link for link in links if not (ROOT / link).is_file()] == []


def test_the_readme_stays_on_one_screen():
    readme = (ROOT / "README.md").read_text()

    assert len(readme.splitlines()) <= 65
    assert readme.count("](docs/") <= 11


def test_the_index_lists_each_page_once():
    index = (DOCS / "index.md").read_text()
    trees = re.findall(r"^```{toctree}\n(?::.*\n)*\n([^`]*)```", index, re.MULTILINE)
    named = [name for tree in trees for name in tree.split() if "[" not in name]
    found = named + [path.stem for path in DOCS.glob("[br]e[ns]*.md")]

    pages = {path.stem for path in DOCS.glob("*.md")} - {"index"}
    assert sorted(found) == sorted(pages)


def test_all_code_on_the_pages_is_tested():
    fences = {
        path.name: re.findall(r"^```python\n(?!>>> )", path.read_text(), re.MULTILINE)
        for path in DOCS.glob("*.md")
    }

    assert len(fences) > 15
    assert [name for name, untested in fences.items() if untested] == []
