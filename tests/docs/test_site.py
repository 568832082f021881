"""The site has a place for every page and every public name."""

import re
import subprocess
import sys
from importlib.util import find_spec

import pytest

import pyomo_csg as csg
from tests.docs import decision_tree
from tests.docs.pages import DOCS, PACKAGE, ROOT, sections, word_count

MOST_WORDS = 1_500
WIDEST_CODE = 92  # characters, with the prompt: wider code is cut off


def test_every_public_name_is_in_the_api():
    page = (DOCS / "api.md").read_text()
    place = r"(?:pyomo_csg\.(?:learn\.)?)?"  # csg.methods is pyomo_csg.learn.methods
    shown = re.findall(rf"^\.\. auto\w+:: {place}(\w+)$", page, re.MULTILINE)

    assert sorted(shown) == sorted(csg.__all__)


def test_the_readme_links_to_what_is_there():
    links = re.findall(r"\]\((?!http)([^)#]+)", (ROOT / "README.md").read_text())

    assert "docs/index.md" in links  # which lists every page, as below
    assert [link for link in links if not (ROOT / link).is_file()] == []


def test_the_readme_shows_a_picture_that_is_there():
    (picture,) = re.findall(r'<img src="([^"]+)"', (ROOT / "README.md").read_text())

    assert (ROOT / picture).is_file()


def test_the_readme_stays_on_one_screen():
    readme = (ROOT / "README.md").read_text()

    assert len(readme.splitlines()) <= 65
    assert readme.count("](docs/") <= 11


def test_the_figures_of_the_readme_are_on_the_field_page():
    readme, page = (ROOT / "README.md").read_text(), (DOCS / "field.md").read_text()
    rows = re.findall(r"^\| [a-z].*\d.*$", readme, re.MULTILINE)
    figures = re.findall(r"\d[\d,]*\d\.?\d?(?=[ ,*])", " ".join(rows))

    assert len(figures) == 9
    assert [figure for figure in figures if figure not in page] == []


def test_the_index_lists_each_page_once():
    named = [name for names in sections().values() for name in names]
    found = named + [path.stem for path in DOCS.glob("[br]e[ns]*.md")]

    pages = {path.stem for path in DOCS.glob("*.md")} - {"index"}
    assert sorted(found) == sorted(pages)


def test_pages_are_short():
    """A page that is not reference takes ten minutes to read, at most."""
    counts = {path.stem: word_count(path.read_text()) for path in DOCS.glob("*.md")}
    reference = set(sections()["Reference"])
    long = {name for name, count in counts.items() if count > MOST_WORDS}

    assert long - reference == set()


def test_code_is_not_wider_than_the_page():
    pages = [ROOT / "README.md", *DOCS.glob("*.md")]
    wide = [
        f"{path.name}: {line}"
        for path in pages
        for line in path.read_text().splitlines()
        if line.startswith((">>> ", "... ")) and len(line) > WIDEST_CODE
    ]

    assert wide == []


def test_a_page_starts_with_words():
    """After the title, a page says what the reader gets, before any code or table."""
    for path in DOCS.glob("*.md"):
        title, _, rest = path.read_text().partition("\n\n")
        assert title.startswith("# "), path.name
        assert re.match(r"[A-Z\[]", rest), path.name


def test_the_decision_tree_shows_the_figures_of_the_field_page():
    drawn, page = decision_tree.PICTURE.read_text(), (DOCS / "field.md").read_text()
    figures = re.findall(
        r"\d[\d,]*\.\d+", " ".join(step[2] for step in decision_tree.STEPS)
    )

    assert drawn == decision_tree.drawing(), "run python -m tests.docs.decision_tree"
    assert len(figures) > 4
    assert [figure for figure in figures if figure not in page] == []


@pytest.mark.skipif(not find_spec("codespell_lib"), reason="codespell is not installed")
def test_no_word_is_misspelled():
    command = [sys.executable, "-m", "codespell_lib"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert (ran.stdout, ran.returncode) == ("", 0)


def test_documented_code_runs_after_pip_install():
    """Nothing imports what is only in a checkout: models, tests or examples.

    One page says that it needs a checkout, because its data are another project's.
    """
    pages = [ROOT / "README.md", *DOCS.glob("*.md"), *PACKAGE.rglob("*.py")]
    local = re.compile(
        r"^ *>>> (?:from|import) (?:models|tests|examples)\b.*", re.MULTILINE
    )
    found = {path.name: local.findall(path.read_text()) for path in pages}

    assert {name for name, lines in found.items() if lines} == {"every_morning.md"}
    assert "in a checkout" in (DOCS / "every_morning.md").read_text()


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
