"""Run methods on field problems, rolled forward in time, and store what they cost.

    python examples/field/run.py bikes --methods baselines mmd
    python examples/field/run.py bikes --methods auto --seeds 0 1 2
    python examples/field/run.py report --methods baselines mmd auto

A run that was stopped continues where it was: what is stored is not run again. Then
``python examples/field/table.py`` writes the page.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import problems
from candidates import GROUPS, read_candidates
from problem import MissingDataError
from runner import run_problem

ROWS = Path(__file__).parents[2] / "docs" / "results" / "field"
_HALVES = {"development": problems.DEVELOPMENT, "report": problems.REPORT}


def main() -> int:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("problems", nargs="+", help="problems; 'development', 'report'")
    parser.add_argument(
        "--methods",
        nargs="+",
        default=["baselines", "mmd"],
        help=f"groups ({', '.join(GROUPS)}) or methods such as auto:5, forest:all",
    )
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--out", type=Path, default=ROWS, help="folder of the rows")
    parser.add_argument("--rows", type=int, help="only so many rows, to try it")
    given = parser.parse_args()
    try:
        candidates = read_candidates(given.methods)
        for group in given.problems:
            for name in _HALVES.get(group, (group,)):
                problem = problems.load(name)
                if given.rows:
                    problem = problem.shortened(given.rows)
                run_problem(problem, candidates, given.seeds, given.out)
    except (MissingDataError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
