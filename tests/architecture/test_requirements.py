"""Every library that the package imports is declared in setup.cfg."""

import ast
import configparser
import re
import sys

from tests.architecture.imports import ROOT, modules

# What a library is called on PyPI where that is not what it is imported as.
PROJECTS = {
    "mpisppy": "mpi-sppy",
    "sklearn": "scikit-learn",
    "distributed": "distributed",
    "dask": "distributed",
    "ot": "pot",
}


def imported_libraries():
    """Return the libraries that the package imports, each with a module that does."""
    found = {}
    for module, path in modules().items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module]
            for name in names:
                found.setdefault(name.split(".")[0], module)
    standard = {*sys.stdlib_module_names, "pyomo_csg"}
    return {name: at for name, at in found.items() if name not in standard}


def declared_projects():
    """Return the projects that setup.cfg requires, with every extra."""
    settings = configparser.ConfigParser()
    settings.read(ROOT / "setup.cfg")
    lines = settings["options"]["install_requires"].split("\n")
    for extra in settings["options.extras_require"].values():
        lines += extra.split("\n")
    return {re.split(r"[\s<>=!~;\[]", line.strip())[0].lower() for line in lines}


def test_every_imported_library_is_declared():
    declared = declared_projects()
    missing = {
        library: module
        for library, module in imported_libraries().items()
        if PROJECTS.get(library, library).lower() not in declared
    }
    assert missing == {}


def test_the_libraries_of_the_package_are_found():
    assert {"pyomo", "numpy", "torch", "sympy", "sklearn"} <= set(imported_libraries())
