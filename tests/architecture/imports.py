"""The package's modules, and which package imports from which."""

from __future__ import annotations

import ast
import configparser
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "pyomo_csg"


def modules() -> dict[str, Path]:
    """Return every module below ``pyomo_csg`` by its dotted name."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        if "assets" not in path.parts:
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            found[name.removesuffix(".__init__")] = path
    return found


def imported_modules(path: Path, known: dict[str, Path]) -> Iterator[str]:
    """Yield the modules of the package that a file imports, wherever in the file."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module in known:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in known else node.module


def layer(module: str) -> str:
    """Return the top-level package of a module; the root's own modules are one."""
    parts = module.split(".")
    is_package = len(parts) > 1 and (PACKAGE / parts[1]).is_dir()
    return parts[1] if is_package else "root"


def layers() -> list[str]:
    """Return the packages from the lowest to the highest, as setup.cfg lists them."""
    settings = configparser.ConfigParser()
    settings.read(ROOT / "setup.cfg")
    contract = settings["importlinter:contract:layers"]["layers"].split("\n")
    named = [line.strip() for line in contract if line.strip()]
    return ["root", *(name for name in reversed(named) if (PACKAGE / name).is_dir())]


def exceptions() -> set[tuple[str, str]]:
    """Return the imports that the contract in setup.cfg exempts, each with its reason."""
    settings = configparser.ConfigParser()
    settings.read(ROOT / "setup.cfg")
    rows = settings["importlinter:contract:layers"].get("ignore_imports", "")
    pairs = [line.split(" -> ") for line in rows.split("\n") if " -> " in line]
    return {(importer.strip(), imported.strip()) for importer, imported in pairs}


def package_imports() -> dict[tuple[str, str], int]:
    """Return how many modules of one package import from another."""
    known, allowed = modules(), exceptions()
    counts: dict[tuple[str, str], int] = {}
    for name, path in known.items():
        if name in ("pyomo_csg", "pyomo_csg.__main__"):
            continue  # the public face imports everything
        targets = {m for m in imported_modules(path, known) if (name, m) not in allowed}
        for target in {layer(m) for m in targets} - {layer(name)}:
            counts[layer(name), target] = counts.get((layer(name), target), 0) + 1
    return counts
