"""Measure the package: sizes, names, and what one label and one decision run through.

``python -m tests.architecture.measures`` prints the table.
"""

from __future__ import annotations

import sys
import traceback
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Any

import highspy
import numpy as np

import pyomo_csg as csg
from models import cep1, newsvendor
from tests.architecture.imports import PACKAGE, modules

_QUICK = csg.FitConfig(mmd_epochs=2, loss_epochs=2, task_epochs=1)


def files_by_folder() -> dict[str, int]:
    """Return how many modules each folder holds, ``__init__`` aside."""
    stems = [path for path in modules().values() if path.stem != "__init__"]
    return dict(Counter(str(path.parent.relative_to(PACKAGE.parent)) for path in stems))


def repeated_names() -> list[str]:
    """Return the module names that occur more than once."""
    counts = Counter(path.stem for path in modules().values())
    return [n for n, k in counts.items() if k > 1 and not n.startswith("__")]


def line_count() -> int:
    """Return how many lines the package has."""
    texts = (path.read_text(encoding="utf-8") for path in modules().values())
    return sum(text.count("\n") for text in texts)


def label_files() -> set[str]:
    """Return the files that run for one loss of one case, on a warm oracle."""
    oracle = csg.Oracle(newsvendor.build())
    zeta, omega = np.array([[[10.0], [20.0]]]), np.array([[15.0]])
    return _files_run(lambda: oracle.loss(zeta, omega))


def decision_files() -> set[str]:
    """Return the files that run for one decision, on a warm policy."""
    pairs = newsvendor.sample(60, seed=1)
    policy = csg.fit(
        newsvendor.build(), pairs, scenarios=2, method="mmd", progress=False
    )
    return _files_run(lambda: policy.decide([0.0, 0.0]))


def label_frames() -> list[str]:
    """Return the package's deepest stack from ``csg.fit`` to HiGHS for a static label."""
    deepest: list[str] = []
    run = highspy.Highs.run

    def recorded(self: Any) -> Any:
        nonlocal deepest
        frames = [f for f in traceback.extract_stack() if str(PACKAGE) in f.filename]
        if len(frames) > len(deepest):
            deepest = [
                f"{f.filename[len(str(PACKAGE)) + 1 :]} {f.name}" for f in frames
            ]
        return run(self)

    highspy.Highs.run = recorded
    try:
        pairs = cep1.sample(40, seed=1)
        csg.fit(
            cep1.build(), pairs, scenarios=2, method="static", config=_QUICK,
            progress=False,
        )  # fmt: skip
    finally:
        highspy.Highs.run = run
    return deepest


def _files_run(call: Callable[[], object]) -> set[str]:
    """Return the package's files in which a function runs during the second call."""
    call()
    seen: set[str] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(str(PACKAGE)):
            seen.add(frame.f_code.co_filename[len(str(PACKAGE)) + 1 :])

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return seen


def main() -> None:
    """Print what is measured."""
    folders = files_by_folder()
    fullest = max(folders, key=lambda name: folders[name])
    print(f"files in the package           {len(modules())}")
    print(f"lines                          {line_count()}")
    print(f"most files in one folder       {folders[fullest]} ({fullest})")
    print(f"module names that occur twice  {len(repeated_names())}")
    print(f"files that run for a label     {len(label_files())}")
    print(f"files that run for a decision  {len(decision_files())}")
    frames = label_frames()
    print(f"frames from fit to run()       {len(frames)}")
    print("\n".join(f"    {frame}" for frame in frames))


if __name__ == "__main__":
    main()
