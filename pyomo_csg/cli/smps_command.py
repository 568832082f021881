"""pyomo-csg solve: a problem in SMPS files, on all its scenarios or a sample."""

from __future__ import annotations

import time
from typing import Any

from pyomo_csg.errors import DataError
from pyomo_csg.interop.smps import ENDINGS, SmpsProblem, is_smps_file, read_smps
from pyomo_csg.solve import Oracle
from pyomo_csg.validation import Problems

_ZERO = 1e-9


def solve(given: Any) -> int:
    """Print the value of zeta-SAA, its time, and the decision."""
    if not is_smps_file(given.model):
        known = ", ".join(sum(ENDINGS.values(), ()))
        found = f"it is no file of SMPS; give one that ends in {known}"
        raise DataError(f"'{given.model}' cannot be solved", [found])
    problems = Problems(f"Cannot solve '{given.model}'")
    problems.check_counts(scenarios=given.scenarios)
    problems.check_seed(given.seed)
    problems.raise_any()
    problem = read_smps(given.model)
    scenarios, weights, words = _scenarios(problem, given.scenarios, given.seed)
    options = dict(given.options) or None
    oracle = Oracle(problem.model, given.solver, workers=given.workers, options=options)
    started = time.perf_counter()
    solution = oracle.solve(scenarios, weights)
    seconds = time.perf_counter() - started
    print(f"'{problem.name}', {oracle.two_stage.sense}, {words}")
    print(f"  value    {solution.value:.10g}")
    print(f"  time     {seconds:.2f} s")
    print("  decision (what is not listed is 0)")
    variables = oracle.two_stage.first_stage_variables
    for variable, number in zip(variables, solution.decision.tolist(), strict=True):
        if abs(number) > _ZERO:
            print(f"    {variable.name:24} {number:.6g}")
    return 0


def _scenarios(problem: SmpsProblem, most: int, seed: int) -> tuple[Any, Any, str]:
    count = problem.scenario_count
    if count is not None and count <= most:
        values, weights = problem.scenarios(most)
        return values, weights, f"all {count} scenarios"
    words = f"{most} scenarios drawn with seed {seed}"
    return problem.sample(most, seed), None, words
