"""CPU seconds until the package is imported, and until the command line answers.

``python -m tests.benchmarks.startup`` prints a table; Pyomo alone is the first row.
"""

import resource
import subprocess
import sys

REPEATS = 5
COMMANDS = {
    "import pyomo.environ": ("-c", "import pyomo.environ"),
    "import pyomo_csg": ("-c", "import pyomo_csg"),
    "import both": (
        "-c",
        "import pyomo.environ, pyomo_csg",
    ),
    "pyomo-csg --help": ("-m", "pyomo_csg", "--help"),
    "pyomo-csg check, no such file": ("-m", "pyomo_csg", "check", "nowhere.py"),
    "pyomo-csg fit, no such table": (
        "-m",
        "pyomo_csg",
        "fit",
        "nowhere.py",
        "nowhere.csv",
        "--out",
        "nowhere.csg",
    ),
}


def cpu_seconds(arguments):
    """Return the CPU seconds of one new process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, *arguments]
    subprocess.run(command, capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


if __name__ == "__main__":
    print("| | CPU s, least of", REPEATS, "|\n| --- | --- |")
    for label, arguments in COMMANDS.items():
        print(
            f"| {label} | {min(cpu_seconds(arguments) for _ in range(REPEATS)):.2f} |"
        )
