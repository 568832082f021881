"""The package keeps its layers, its sizes and its short paths."""

import ast
import re

import pytest

from tests.architecture import measures
from tests.architecture.drawing import PICTURE, drawing, purpose
from tests.architecture.imports import (
    ROOT,
    exceptions,
    imported_modules,
    layer,
    layers,
    modules,
    package_imports,
)

MOST_FILES, MOST_LINES, MOST_IN_A_FOLDER = 239, 49_500, 12
MOST_LABEL_FILES, MOST_DECISION_FILES, MOST_FRAMES = 14, 17, 18


def test_a_package_imports_only_from_lower_layers():
    order = layers()
    upward = [
        pair
        for pair in package_imports()
        if order.index(pair[0]) < order.index(pair[1])
    ]
    assert upward == []


def test_every_package_is_a_layer():
    assert {layer(name) for name in modules()} == set(layers())


def test_exempted_imports_still_exist():
    known = modules()
    unused = [
        (importer, imported)
        for importer, imported in exceptions()
        if imported not in set(imported_modules(known[importer], known))
    ]
    assert unused == []


def test_a_module_name_occurs_once():
    assert measures.repeated_names() == []


def test_folders_files_and_lines_stay_few():
    assert max(measures.files_by_folder().values()) <= MOST_IN_A_FOLDER
    assert len(modules()) <= MOST_FILES
    assert measures.line_count() <= MOST_LINES


def test_every_module_says_its_purpose():
    silent = [
        name
        for name, path in modules().items()
        if not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert silent == []


def test_a_label_and_a_decision_run_through_few_files():
    assert len(measures.label_files()) <= MOST_LABEL_FILES
    assert len(measures.decision_files()) <= MOST_DECISION_FILES


def test_few_frames_lie_between_fit_and_the_solver():
    frames = measures.label_frames()
    assert frames[0] == "policy/fit.py fit"
    assert len(frames) <= MOST_FRAMES


def test_the_drawing_shows_the_imports_of_today():
    assert PICTURE.read_text(encoding="utf-8") == drawing(), "run `make architecture`"


@pytest.mark.parametrize("package", layers()[1:])
def test_the_architecture_page_names_every_package(package):
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert f"`{package}/`" in page
    assert purpose(package)


def test_files_named_on_the_architecture_page_exist():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = re.findall(r"`((?:[a-z_]+/)+[a-z_0-9]+\.py)`", page)
    assert len(named) > 20
    missing = [
        f
        for f in named
        if not (ROOT / f).exists() and not (ROOT / "pyomo_csg" / f).exists()
    ]
    assert missing == []


BRITISH = re.compile(
    r"\w*(?:neighbour|colour|behaviour|favour|licence|labelled|modelling|misspelt|"
    r"(?:maxim|minim|normal|standard|vector|optim|initial|summar|regular)is(?:e|ed|es|ing)\b)",
    re.IGNORECASE,
)


def test_spelling_is_american():
    pages = [*(ROOT / "docs").glob("*.md"), *ROOT.glob("*.md")]
    found = {
        path.name: words
        for path in [*modules().values(), *pages]
        if (words := BRITISH.findall(path.read_text(encoding="utf-8")))
    }
    assert found == {}


def test_functions_are_not_named_by_their_relation():
    named = [
        f"{name}.{node.name}"
        for name, path in modules().items()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
        and node.name.endswith("_of")
        and not node.name.startswith("is_")
    ]
    assert named == []
