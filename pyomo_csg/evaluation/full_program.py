"""v_2SP: the program on all the outcomes of a case."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from pyomo_csg.evaluation.cache import Cache, Full
from pyomo_csg.evaluation.case import Case
from pyomo_csg.evaluation.judging import cost_of
from pyomo_csg.solve import Oracle, Solution

_QUIET_SECONDS = 2.0


def full_programs(
    oracle: Oracle,
    judge: Oracle,
    cases: Sequence[Case],
    cache: Cache,
    workers: int,
    progress: bool,
) -> list[Full]:
    """Return the full program of each case, solved or known already.

    Parameters
    ----------
    oracle : Oracle
        What solves them; one after the other, each from what the last one left.
    judge : Oracle
        An exact one, which charges their decisions as it does those of policies.
    workers : int
        How many to solve at once.
    """
    known = {i: full for i, case in enumerate(cases) if (full := cache.read(case))}
    missing = [i for i in range(len(cases)) if i not in known]
    with tqdm(
        total=len(missing),
        desc="full programs",
        delay=_QUIET_SECONDS,
        disable=not progress,
    ) as bar:
        for i, found in _each(lambda i: _solved(oracle, cases[i]), missing, workers):
            known[i] = _charged(judge, cases[i], *found)
            cache.write(cases[i], known[i])
            bar.update()
    return [known[i] for i in range(len(cases))]


def _solved(oracle: Oracle, case: Case) -> tuple[Solution, float]:
    start = time.perf_counter()
    solution = oracle.solve(
        case.outcomes, case.weights, on_error="record", progress=False
    )
    return solution, time.perf_counter() - start


def _charged(judge: Oracle, case: Case, solution: Solution, seconds: float) -> Full:
    sense = int(judge.two_stage.sense)
    value = sense * solution.value
    if np.isfinite(solution.decision).all():
        # As policies are charged, so that the same decision has no gap at all.
        cost = cost_of(judge, solution.decision, case)
        value = value if np.isnan(cost) else cost
    bound, decision = sense * solution.bound, solution.decision.tolist()
    return Full(value, bound, seconds, str(solution.status), decision)


def _each(
    function: Callable[[int], Any], numbers: Sequence[int], workers: int
) -> Iterator[tuple[int, Any]]:
    """Yield what a function makes of each number, as it comes."""
    if workers == 1:
        yield from ((i, function(i)) for i in numbers)
        return
    # Threads of ours wait for the oracle's workers; without an executor they are those.
    pool = ThreadPoolExecutor(workers)
    try:
        futures = {pool.submit(function, i): i for i in numbers}
        for future in as_completed(futures):
            yield futures[future], future.result()
    finally:
        pool.shutdown(cancel_futures=True)
