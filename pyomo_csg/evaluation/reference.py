"""The reference of an evaluation: full programs, solved or stored, and the best known costs."""

from __future__ import annotations

import hashlib
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pyomo_csg.errors import DataError
from pyomo_csg.evaluation.cases import Case
from pyomo_csg.learn.fingerprints import model_fingerprint
from pyomo_csg.progress_bars import progress_bar
from pyomo_csg.solve import Oracle, Solution
from pyomo_csg.stages import TwoStageModel
from pyomo_csg.storage import (
    Arrays,
    FileFormat,
    StoredFileError,
    explain_os_errors,
    to_json,
)

logger = logging.getLogger(__name__)

_PROGRAM = FileFormat("pyomo_csg program", 1, max_bytes=2**26, max_header_bytes=2**16)

FULL_PROGRAM, USER_VALUES, POLICY = "full program", "given", "policy "  # sources
TIE = 1e-9  # relative; certified costs are exact to about this
CASE_KEYS = ["trial", "case"]


@dataclass(frozen=True)
class FullProgram:
    """The full program of a case, solved; lower values are better."""

    value: float = np.nan  # cost of its decision; NaN if there is none
    bound: float = np.nan  # proven lower bound of the cost; NaN if there is none
    seconds: float = np.nan  # to solve it
    status: str = ""  # 'optimal', 'time limit', 'infeasible', ...
    decision: list[float] = field(default_factory=list)


class ProgramCache:
    """Stores full programs, one file each, in a folder that several runs can share.

    The model, the settings of the solver and the case name the file. With the folder None,
    nothing is stored.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str] | None,
        two_stage: TwoStageModel,
        settings: Mapping[str, Any],
    ):
        if not isinstance(folder, str | os.PathLike | None):
            found = f"cache is {folder!r:.80}; give the path of a folder"
            raise DataError("Cannot store full programs", [found])
        self._folder = None if folder is None else Path(folder)
        self._two_stage, self._settings = two_stage, dict(settings)
        self._error_texts = (
            f"Cannot store full programs in '{folder}'",
            "give a folder that can be written",
        )
        if self._folder is not None:
            with explain_os_errors(*self._error_texts):
                self._folder.mkdir(parents=True, exist_ok=True)

    def read(self, case: Case) -> FullProgram | None:
        """Return the stored program of a case, if there is one."""
        if self._folder is None:
            return None
        file = self._program_file(self._folder, case)
        if not os.path.lexists(file):
            return None
        try:
            return _parse(file, *_PROGRAM.read(file))
        except StoredFileError as error:
            problem = f"{error.subject} ({error.problems[0]})"
            logger.warning("%s; solving the program again", problem)
            return None

    def write(self, case: Case, program: FullProgram) -> None:
        """Store the program of a case, if it has a decision."""
        if self._folder is None or np.isnan(program.value):
            return
        header = {
            "value": float(program.value),
            "bound": float(program.bound),
            "seconds": float(program.seconds),
            "status": program.status,
        }
        arrays = {"decision": np.array(program.decision, dtype=float)}
        with explain_os_errors(*self._error_texts):
            _PROGRAM.write(self._program_file(self._folder, case), header, arrays)

    def _program_file(self, folder: Path, case: Case) -> Path:
        identity = {
            "model": model_fingerprint(
                self._two_stage, case.outcomes[0], case.numbers[0]
            ),
            "distribution": case.digest(),
            **self._settings,
        }
        digest = hashlib.sha256(to_json(identity, sort_keys=True).encode()).hexdigest()
        return folder / f"{digest[:32]}.safetensors"


def _parse(file: Path, header: dict[str, Any], arrays: Arrays) -> FullProgram:
    """Return the program in a file; raise an error for values that no solver returns."""
    numbers: list[Any] = [header.get(name) for name in ("value", "bound", "seconds")]
    status, decision = header.get("status"), arrays.get("decision")
    if not all(isinstance(number, float) for number in numbers):
        raise _PROGRAM.damage_error(file, "its value, bound or time is not a number")
    if not isinstance(status, str) or decision is None or decision.ndim != 1:
        raise _PROGRAM.damage_error(file, "it has no status or no decision")
    value, bound, seconds = numbers
    if not np.isfinite([value, *decision]).all():
        raise _PROGRAM.damage_error(file, "its value or decision is not finite")
    return FullProgram(value, bound, seconds, status, decision.astype(float).tolist())


def solve_full_programs(
    oracle: Oracle,
    exact: Oracle,
    cases: Sequence[Case],
    cache: ProgramCache,
    workers: int,
    progress: bool,
) -> list[FullProgram]:
    """Return the full program of each case, from the cache or solved by ``oracle``.

    ``exact`` has no solver options, and evaluates their decisions like the policies'.
    """
    known = {i: full for i, case in enumerate(cases) if (full := cache.read(case))}
    missing = [i for i in range(len(cases)) if i not in known]
    with progress_bar("full programs", len(missing), "programs", progress) as bar:
        for i, solved in _each(
            lambda i: _timed_solve(oracle, cases[i]), missing, workers
        ):
            known[i] = _full_program(exact, cases[i], *solved)
            cache.write(cases[i], known[i])
            bar.update()
    return [known[i] for i in range(len(cases))]


def _timed_solve(oracle: Oracle, case: Case) -> tuple[Solution, float]:
    start = time.perf_counter()
    solution = oracle.solve(
        case.outcomes,
        case.weights,
        known=case.numbers,
        on_error="record",
        progress=False,
    )
    return solution, time.perf_counter() - start


def _full_program(
    exact: Oracle, case: Case, solution: Solution, seconds: float
) -> FullProgram:
    sense = int(exact.two_stage.sense)
    value = sense * solution.value
    if np.isfinite(solution.decision).all():
        # Evaluated like a policy's decision, so that the same decision has no gap.
        cost = expected_cost(exact, solution.decision, case)
        value = value if np.isnan(cost) else cost
    bound, decision = sense * solution.bound, solution.decision.tolist()
    return FullProgram(value, bound, seconds, str(solution.status), decision)


def _each(
    function: Callable[[int], Any], numbers: Sequence[int], workers: int
) -> Iterator[tuple[int, Any]]:
    """Yield each number with its result, as results arrive."""
    if workers == 1:
        yield from ((i, function(i)) for i in numbers)
        return
    # These threads wait for the oracle's workers, or are the workers themselves.
    pool = ThreadPoolExecutor(workers)
    try:
        futures = {pool.submit(function, i): i for i in numbers}
        for future in as_completed(futures):
            yield futures[future], future.result()
    finally:
        pool.shutdown(cancel_futures=True)


def expected_cost(
    exact: Oracle, decision: np.ndarray, case: Case, on_error: str = "record"
) -> float:
    """Return the expected cost of a decision (s,); NaN if an outcome has no recourse.

    With a risk measure, return the mean-CVaR; the decision's value at risk is ignored.
    """
    plain, risk = exact.plain, exact.two_stage.risk
    width = len(plain.two_stage.first_stage_variables)
    costs = plain.cost(
        decision[:width],
        case.outcomes,
        known=case.numbers,
        on_error=on_error,
        progress=False,
    )
    if risk is None:
        return float(case.weights @ costs)
    return risk.measure(costs, case.weights)


def reference_table(
    programs: Sequence[FullProgram], source: str, cases: Sequence[Case], trial: Any
) -> pd.DataFrame:
    """Return the reference by trial and case."""
    keys = pd.MultiIndex.from_product(
        [[trial], range(len(cases))], names=["trial", "case"]
    )
    columns = ("value", "bound", "seconds", "status")
    parts = {name: [getattr(one, name) for one in programs] for name in columns}
    digests = [case.digest() for case in cases]
    return pd.DataFrame(parts, index=keys).assign(source=source, digest=digests)


def relative_difference(difference: pd.Series, value: pd.Series) -> pd.Series:
    """Return difference / abs(value), 0 where the difference is 0."""
    return (difference / value.abs()).mask(difference == 0, 0.0)


def proven_gap(reference: pd.DataFrame) -> pd.Series:
    """Return the relative gap between the value and the proven bound."""
    value = reference["value"]
    return relative_difference((value - reference["bound"]).clip(lower=0.0), value)


def improve_reference(reference: pd.DataFrame, records: pd.DataFrame) -> pd.DataFrame:
    """Return the reference, with a policy's cost where that beats the full program's.

    This happens if a limit stopped the full program. ``source`` names the policy.
    """
    costs = records["cost"].dropna()
    if costs.empty:
        return reference
    groups, value = costs.groupby(CASE_KEYS, sort=False), reference["value"]
    least = groups.min().reindex(reference.index)
    winner = groups.idxmin().reindex(reference.index)
    beaten = least.notna() & ~(least >= value - TIE * value.abs())
    source = reference["source"].copy()
    source[beaten] = [f"{POLICY}{policy}" for _, _, policy in winner[beaten]]
    return reference.assign(value=np.fmin(value, least), source=source)


def join_references(references: list[pd.DataFrame]) -> pd.DataFrame:
    """Return one reference, with the best value and bound of each case."""
    table = pd.concat(references)
    ranked = table.sort_values("value", kind="stable")
    best = ranked.groupby(CASE_KEYS, sort=False).first()
    bound = table.groupby(CASE_KEYS, sort=False)["bound"].max()
    return best.assign(bound=bound).reindex(table.index.unique())
