"""Public SMPS instances: values and times beside an extensive form and a plain loop.

python -m tests.benchmarks.instances FOLDER [NAME ...] prints a table in Markdown.
"""

import sys
import time
from pathlib import Path

import highspy
import numpy as np
import pyomo.environ as pyo

import pyomo_csg as csg
from tests.interop.smps_reference import extensive_form, named_scenarios, optimum

# Published value, scenarios to draw where there are more, first column of period 2.
INSTANCES = {
    "lands": ("381.853333", 200, "Y11"),
    "lands_million": ("about 225.63", 200, "Y11"),
    "gbd": ("1655.628", 200, "C0000018"),
    "phone": ("36.9", 200, "F12R0"),
    "chem": ("-13009.166667", 200, "QS04T1"),
    "20term": ("254,300 to 254,600", 200, "COL00064"),
    "ssn": ("9.84 to 9.98", 200, "COL00090"),
    "sslp_5_25_50": ("-121.6", 200, "y_1_1"),
    "sslp_15_45_5": ("-262.4", 200, "y_1_1"),
    "sizes3": ("224,433.7", 200, "Z01JJ02"),
}
SEED = 100


def timed(function, *arguments):
    """Return the result and the seconds that it took."""
    start = time.perf_counter()
    found = function(*arguments)
    return found, time.perf_counter() - start


def appsi_seconds(model, values, weights):
    """Build Pyomo's extensive form and solve it by appsi_highs."""

    def run():
        program = pyo.TransformationFactory("csg.extensive_form").create_using(
            model, scenarios=values, weights=weights
        )
        solver = pyo.SolverFactory("appsi_highs")
        solver.options["time_limit"] = 120
        solver.solve(program, load_solutions=False)

    return timed(run)[1]


def plain_seconds(path, column, named, weights):
    """Build the extensive form from arrays and solve it by highspy."""
    value, seconds = timed(
        lambda: optimum(extensive_form(path, column, named, weights))
    )
    return value, seconds


def line(folder, name):
    """Return one line of the table."""
    published, most, column = INSTANCES[name]
    problem, reading = timed(csg.read_smps, folder / name)
    count = problem.scenario_count
    if count is not None and count <= most:
        values, weights = problem.scenarios()
        drawn = f"all {count}"
    else:
        values, weights = problem.sample(most, SEED), np.full(most, 1 / most)
        drawn = f"{most} drawn"
    two_stage = csg.TwoStageModel(problem.model)
    rows = len(two_stage.first_stage_constraints), len(two_stage.recourse_constraints)
    columns = len(two_stage.first_stage_variables), len(two_stage.recourse_variables)
    oracle = csg.Oracle(problem.model)
    solution, ours = timed(oracle.solve, values, weights)
    named = named_scenarios(problem.model, values)
    value, plain = plain_seconds(problem.files[0], column, named, weights)
    appsi = appsi_seconds(problem.model, values, weights)
    difference = abs(value - solution.value) / max(1, abs(value))
    return (
        f"| {name} | {rows[0]}+{rows[1]} x {columns[0]}+{columns[1]} | "
        f"{len(two_stage.uncertain_params)} | {drawn} | {published} | "
        f"{solution.value:.8g} | {difference:.0e} | {reading:.2f} | {ours:.2f} | "
        f"{plain:.2f} | {appsi:.2f} |"
    )


def main(folder, names):
    """Print the table."""
    print(f"highspy {highspy.Highs().version()}, samples of seed {SEED}\n")
    print(
        "| instance | rows x columns | uncertain | scenarios | published | ours | "
        "difference | read, s | Oracle, s | highspy, s | appsi_highs, s |"
    )
    print("| " + "--- | " * 11)
    for name in names or INSTANCES:
        print(line(Path(folder), name), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
