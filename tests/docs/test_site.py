"""The site has a place for every page and every public name."""

import re
from pathlib import Path

import pyomo_csg as csg

ROOT = Path(__file__).parents[2]
DOCS, PACKAGE = ROOT / "docs", ROOT / "pyomo_csg"


def test_every_public_name_is_in_the_api():
    page = (DOCS / "api.md").read_text()
    shown = re.findall(r"^\.\. auto\w+:: (?:pyomo_csg\.)?(\w+)$", page, re.MULTILINE)

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


def test_documented_code_runs_after_pip_install():
    """Nothing imports what is only in a checkout: models, tests or examples."""
    pages = [ROOT / "README.md", *DOCS.glob("*.md"), *PACKAGE.rglob("*.py")]
    local = re.compile(
        r"^ *>>> (?:from|import) (?:models|tests|examples)\b.*", re.MULTILINE
    )
    found = {path.name: local.findall(path.read_text()) for path in pages}

    assert {name: lines for name, lines in found.items() if lines} == {}


def test_the_zoo_holds_each_model_of_the_page():
    page = (DOCS / "models.md").read_text()
    listed = re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)

    assert sorted(listed) == sorted(csg.zoo.__all__)
    assert all(callable(getattr(csg.zoo, name).build) for name in listed)


def test_all_code_on_the_pages_is_tested():
    fences = {
        path.name: re.findall(r"^```python\n(?!>>> )", path.read_text(), re.MULTILINE)
        for path in DOCS.glob("*.md")
    }

    assert len(fences) > 15
    assert [name for name, untested in fences.items() if untested] == []
