"""Every notebook runs, holds no outputs, and is shown in the gallery."""

import json

import matplotlib
import pytest
from matplotlib import pyplot as plt

from tests.docs.pages import DOCS

NOTEBOOKS = sorted(DOCS.glob("notebooks/*.ipynb"))


def code_cells(path):
    cells = json.loads(path.read_text())["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_notebook_runs(path, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    matplotlib.use("Agg")
    names = {"__name__": "__main__"}
    for number, cell in enumerate(code_cells(path), 1):
        code = compile("".join(cell["source"]), f"{path.name}, cell {number}", "exec")
        exec(code, names)  # noqa: S102, a cell is code
    plt.close("all")
    assert list(tmp_path.iterdir()) == []  # nothing is left in a reader's folder


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_notebook_holds_no_outputs(path):
    cells = code_cells(path)
    assert len(cells) >= 4
    assert [c for c in cells if c["outputs"] or c["execution_count"]] == []


def test_the_gallery_shows_each_notebook_with_a_picture():
    page = (DOCS / "gallery.md").read_text()
    assert len(NOTEBOOKS) >= 6
    for path in NOTEBOOKS:
        assert f"<notebooks/{path.name}>" in page
        assert f"](notebooks/{path.stem}.png)" in page
        assert path.with_suffix(".png").is_file()
