"""What takes long to find out: each part prints what it found.

Run: python -m tests.reliability.soak [part ...] [--mutations N] [--seed N]
"""

import argparse

from tests.reliability.soak_drift import drift
from tests.reliability.soak_files import files
from tests.reliability.soak_kills import kills

PARTS = {
    "kills": lambda given: kills(),
    "drift": lambda given: drift(),
    "files": lambda given: files(given.mutations, given.seed),
}


def main(arguments=None):
    """Run some parts, or all."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("parts", nargs="*", metavar="part", help=", ".join(PARTS))
    parser.add_argument("--mutations", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    for part in given.parts or PARTS:
        PARTS[part](given)


if __name__ == "__main__":
    main()
