"""Which code made a row."""

from __future__ import annotations

import subprocess
from functools import lru_cache
from pathlib import Path

import pyomo_csg as csg

FOLDER = Path(__file__).parent
SOURCES = ("pyomo_csg", "models")  # what a row depends on


@lru_cache(maxsize=1)
def code_version() -> dict[str, str]:
    """Return the commit, and what identifies the package and the models in it.

    Rows of different code never share a table. Without git, the version stands for both.
    """
    try:
        commit = _git("rev-parse", "HEAD")
        trees = [_git("rev-parse", f"HEAD:{source}")[:12] for source in SOURCES]
        changed = _git("status", "--porcelain", "--", *(f":/{s}" for s in SOURCES))
    except (OSError, subprocess.CalledProcessError):
        return {"commit": "unknown", "code": csg.__version__}
    code = "-".join([*trees, *(["changed"] if changed else [])])
    return {"commit": commit, "code": code}


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(FOLDER), *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, check=True
    ).stdout.strip()
