"""Batches of cases: cut into chunks, solved by workers, joined in order."""

from __future__ import annotations

import logging
import os
import pickle
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Iterator
from concurrent.futures import (
    BrokenExecutor,
    Executor,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
)
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import WeakSet

import numpy as np

from pyomo_csg.errors import SolveError
from pyomo_csg.locks import process_wide_lock
from pyomo_csg.progress_bars import progress_bar
from pyomo_csg.solve.compile.compiled_model import CompiledModel
from pyomo_csg.solve.engine import (
    DEADLINE_PASSED,
    FOREVER,
    CostTask,
    DecisionTask,
    Engine,
    GradientTask,
    LossTask,
    Moment,
    R,
    SolverTrouble,
    SolveTask,
    Stats,
    Task,
    join,
)
from pyomo_csg.solve.executors import GaveUpError, pool_like, submit_all
from pyomo_csg.solve.highs_engine import HighsEngine
from pyomo_csg.solve.lp.basis_cache import Basis

logger = logging.getLogger(__name__)

_MOST_CASES = 512  # cases in a chunk
# Known bases are tried on all cases of a chunk at once: the more cases, the faster.
_MOST_COSTS = 65_536
_MOST_MIXED_CASES = 64  # where only the first stage has integers
_MOST_SLOW_CASES = 8  # with integer recourse or other solvers, so that the bar moves
# Cases in a chunk with fresh=True, which starts without a basis. It must be small, so that
# workers share the cases, and large, so that the cold start pays. In large programs a cold start
# matters less, so the total of rows and columns in a chunk is limited.
_LEAST_FRESH_CASES, _FRESH_CASES, _FRESH_NUMBERS = 4, 128, 16_000
_FRESH_INTEGER_CASES = 5
_FRESH_COSTS = 4096  # more, since costs are cheap once the bases are known
_MOST_NUMBERS = 2_000_000  # in one array of all cases of a chunk
_LEAST_CHUNKS = 4  # per worker, so that the slowest one does not delay the rest
_MOST_ENGINES = 16  # that a thread keeps
_MOST_DEATHS = 2  # of the worker pool in one batch


@dataclass(frozen=True)
class Recipe:
    """The data from which a worker builds its engine."""

    solver: str
    options: dict[str, Any]
    compiled: CompiledModel | None = None  # for 'highs'
    model: bytes | None = None  # for other solvers: the pickled Pyomo model
    # The key under which a worker keeps the engine.
    name: str = field(default_factory=lambda: uuid.uuid4().hex)
    # Bases shared by the engines of all threads; they are not pickled.
    bases: dict[int, dict[int, Any]] = field(default_factory=dict, repr=False)
    # Bases of the recourse that every engine starts with.
    known: tuple[Basis, ...] = field(default=(), repr=False)
    width: int = 0  # of a decision

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "bases": {}}

    def engine(self) -> Engine:
        """Build the engine."""
        if self.compiled is not None:
            return HighsEngine(self.compiled, self.options, self.bases, self.known)
        from pyomo_csg.solve.pyomo_solvers.pyomo_engine import PyomoEngine

        assert self.model is not None
        return PyomoEngine(pickle.loads(self.model), self.solver, self.options)

    def fresh_engine(self) -> Engine:
        """Build an engine whose answers do not depend, to the last bit, on earlier cases."""
        return replace(self, bases={}).engine()

    def with_gap(self, gap: float | None) -> Recipe:
        """Return the recipe whose integer programs stop at a relative gap."""
        if gap is None or self.compiled is None or not self.compiled.integer:
            return self
        options = {**self.options, "mip_rel_gap": gap}
        return replace(self, options=options, name=f"{self.name} {gap}")

    def fresh_cases(self, task: Task[Any]) -> int:
        """Return how many cases share a cold start: fewer where programs are larger.

        Integer programs gain little from each other, and a batch of training holds few.
        """
        if self.compiled is not None and self.compiled.integer:
            return _FRESH_INTEGER_CASES
        weights = task.arrays().get("weights")
        if self.compiled is None or weights is None:
            return _FRESH_CASES
        block = len(self.compiled.recourse) + len(self.compiled.recourse_rows)
        cases = _FRESH_NUMBERS // max(1, weights.shape[1] * block)
        return int(np.clip(cases, _LEAST_FRESH_CASES, _FRESH_CASES))

    def most_cases(self, task: Task[Any]) -> int:
        """Return the size of the largest chunk."""
        compiled = self.compiled
        if compiled is None or compiled.integer_recourse:
            return _MOST_SLOW_CASES
        if compiled.quadratic and not (
            isinstance(task, CostTask) and compiled.has_certain_recourse
        ):
            return _MOST_SLOW_CASES
        most = _MOST_MIXED_CASES if compiled.integer else _MOST_CASES
        if isinstance(task, CostTask):
            reuses = compiled.has_certain_linear_recourse and not compiled.quadratic
            most = _MOST_COSTS if reuses else _MOST_CASES
        return max(1, min(most, _MOST_NUMBERS // max(1, _numbers(compiled, task))))


def _numbers(compiled: CompiledModel, task: Task[Any]) -> int:
    """Return the approximate size of the largest array that one case of a task needs."""
    rows = compiled.recourse_rows
    block = len(compiled.recourse) + len(rows)
    if not rows.entries.certain:
        block += len(rows.row)
    match task:
        case CostTask():
            return block
        case GradientTask():
            inverse = len(compiled.first) * len(rows)
            count, outcomes = task.weights.shape[1], task.outcomes.shape[1]
            return count * (block + inverse) + outcomes * block
        case LossTask() if task.outcome_weights is not None:
            return sum(task.weights.shape[1:] + task.outcome_weights.shape[1:]) * block
        case SolveTask() | LossTask():
            return (task.weights.shape[1] + 1) * block
    return block


_thread = threading.local()
_pyomo = process_wide_lock()  # Pyomo's solver interfaces are not safe in threads


def work(
    recipe: Recipe, task: Task[Any], fresh: bool = False, deadline: Moment = FOREVER
) -> tuple[Any, Stats]:
    """Solve a chunk in a worker, by an engine that its thread builds once and keeps."""
    if deadline.is_over:
        nothing = task.empty_result(recipe.width)
        late = SolverTrouble("time limit", DEADLINE_PASSED)
        nothing.troubles.update((i, late) for i in range(len(task)))
        return nothing, Stats()
    with _pyomo if recipe.compiled is None else nullcontext():
        engine = recipe.fresh_engine() if fresh else _thread_engine(recipe)
        engine.stop_at(deadline)
        result: Any
        try:
            match task:
                case SolveTask():
                    result = engine.solve(task)
                case LossTask():
                    result = engine.losses(task)
                case CostTask():
                    result = engine.costs(task)
                case GradientTask():
                    result = engine.gradients(task)
                case DecisionTask():
                    result = engine.decision_gradients(task)
        except BaseException:  # its solvers may be in an undefined state
            _thread.__dict__.get("engines", {}).pop(recipe.name, None)
            raise
        return result, engine.stats.reset()


def _thread_engine(recipe: Recipe) -> Engine:
    """Return this thread's engine."""
    engines = _thread.__dict__.setdefault("engines", OrderedDict())
    if recipe.name not in engines:
        engines[recipe.name] = recipe.engine()
    engines.move_to_end(recipe.name)
    if len(engines) > _MOST_ENGINES:
        engines.popitem(last=False)
    return engines[recipe.name]


class Batch:
    """Solves batches in this thread, on workers or on an executor.

    Workers are threads, or processes for Pyomo's solvers; an executor is anything with the
    interface of ``concurrent.futures``.
    """

    def __init__(self, recipe: Recipe, executor: Executor | None, workers: int):
        self._recipe = recipe
        self._workers = workers
        self._executor = executor
        self._lock, self._was_forked = threading.Lock(), False
        if executor is None and workers > 1:
            # HiGHS releases the GIL; Pyomo's solver interfaces share global state.
            pool: Any = ThreadPoolExecutor if recipe.compiled else ProcessPoolExecutor
            self._executor = pool(workers)
        self.stats = Stats()
        _batches.add(self)

    def rehearse(self, *arrays: np.ndarray) -> None:
        """Find the recourse bases of some cases, and start all later engines with them."""
        compiled = self._recipe.compiled
        if compiled is not None:
            engine = HighsEngine(compiled, self._recipe.options)
            known = engine.recourse_bases(*arrays)
            self._recipe = replace(self._recipe, known=known)
            self._count(engine.stats)

    def run(
        self,
        task: Task[R],
        progress: bool = False,
        fresh: bool = False,
        deadline: float | None = None,
        gap: float | None = None,
    ) -> R:
        """Solve all cases.

        If ``fresh``, answers are the same to the last bit whatever was solved before and
        however many workers there are. Cases that are left at the deadline, a value of
        ``time.monotonic()``, have the trouble 'time limit'. Integer programs stop at the
        relative gap.
        """
        end = FOREVER if deadline is None else Moment(deadline)
        recipe = self._recipe.with_gap(gap)
        start = time.perf_counter()
        if self._was_forked:
            self._renew_pool()
        if fresh:
            cases, places = distinct_cases(list(task.arrays().values()))
            task = task.take(cases)
        chunks = list(self._chunks(task, fresh))
        try:
            if len(chunks) == 1 and not self._needs_executor(task):
                joined, stats = work(recipe, task, fresh, end)
                self._count(stats)
            else:
                joined = self._run_chunks(recipe, task, chunks, fresh, end, progress)
        except GaveUpError as error:
            first = chunks[error.number].start
            case = int(cases[first]) if fresh else first
            raise SolveError(case, "worker died", "again and again") from None
        finally:
            self._count(Stats(total_seconds=time.perf_counter() - start))
        return joined.take(places) if fresh else joined

    def _run_chunks(
        self,
        recipe: Recipe,
        task: Task[R],
        chunks: list[slice],
        fresh: bool,
        end: Moment,
        progress: bool,
    ) -> R:
        """Solve chunks on the executor, if any, the rest in this thread, and join the results."""
        results: dict[int, R] = {}
        shown = progress and len(chunks) > 1
        with progress_bar(task.label, len(task), "cases", shown) as bar:
            if self._needs_executor(task):
                for number, result in self._submit(recipe, task, chunks, fresh, end):
                    results[number] = result
                    bar.update(chunks[number].stop - chunks[number].start)
            for number, chunk in enumerate(chunks):
                if number not in results:
                    part = task.take(chunk)
                    results[number], stats = work(recipe, part, fresh, end)
                    self._count(stats)
                    bar.update(chunk.stop - chunk.start)
        return join([results[number] for number in range(len(chunks))])

    def _count(self, stats: Stats) -> None:
        with self._lock:
            self.stats.add(stats)

    def note_fork(self) -> None:
        """Replace the lock in a forked process: no thread is left to release it."""
        self._lock, self._was_forked = threading.Lock(), True

    def _renew_pool(self) -> None:
        """Replace a pool of the parent process; its workers are not this one's."""
        if isinstance(self._executor, ThreadPoolExecutor | ProcessPoolExecutor):
            self._executor = pool_like(self._executor)
        self._was_forked = False

    def _needs_executor(self, task: Task[Any]) -> bool:
        """Whether to use the executor; a pool of threads would only delay a single case."""
        is_pool = isinstance(self._executor, ThreadPoolExecutor)
        return self._executor is not None and not (is_pool and len(task) == 1)

    def _chunks(self, task: Task[Any], fresh: bool) -> Iterator[slice]:
        """Cut cases into chunks of neighbors, which share bases."""
        count, size = len(task), self._recipe.most_cases(task)
        if fresh:  # the same chunks for any number of workers
            compiled = self._recipe.compiled
            is_quadratic = compiled is not None and compiled.quadratic
            is_cheap = isinstance(task, CostTask) and not is_quadratic
            most = _FRESH_COSTS if is_cheap else self._recipe.fresh_cases(task)
            size = min(size, most)
        elif self._executor is not None:
            size = max(1, min(size, -(-count // (self._workers * _LEAST_CHUNKS))))
        for start in range(0, count, size):
            yield slice(start, min(start + size, count))

    def _submit(
        self,
        recipe: Recipe,
        task: Task[R],
        chunks: list[slice],
        fresh: bool,
        end: Moment,
    ) -> Iterator[tuple[int, R]]:
        """Yield results from the executor as they complete; stop if the executor is gone."""

        def arguments(number: int) -> tuple[Recipe, Task[R], bool, Moment]:
            return recipe, task.take(chunks[number]), fresh, end

        left, deaths = set(range(len(chunks))), 0
        while (executor := self._executor) is not None and left:
            try:
                for number, (result, stats) in submit_all(
                    executor, work, arguments, sorted(left)
                ):
                    left.discard(number)
                    self._count(stats)
                    yield number, result
            except BrokenExecutor:
                deaths += 1
                if deaths > _MOST_DEATHS:
                    raise GaveUpError(min(left)) from None
                self._replace(executor)

    def _replace(self, broken: Executor) -> None:
        """Replace a process pool that died; stop using any other executor."""
        with self._lock:
            if self._executor is not broken:
                return  # another thread has replaced it
            if isinstance(broken, ProcessPoolExecutor):
                logger.warning(
                    "A worker died; its pool is replaced and its cases are solved again"
                )
                self._executor = pool_like(broken)
            else:
                logger.warning(
                    "The executor broke; the remaining cases are solved in this process"
                )
                self._executor = None


_batches: WeakSet[Batch] = WeakSet()


def _note_fork() -> None:
    for batch in list(_batches):
        batch.note_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_fork)


def distinct_cases(arrays: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return one of each group of equal cases, sorted, and where each case is among them.

    A case starts from what the one before it left, so its last bits depend on the order
    of the cases. This order depends on their numbers alone.

    Examples
    --------
    >>> distinct_cases([np.array([[3.0], [1.0], [3.0], [2.0]])])
    (array([1, 3, 0]), array([2, 0, 2, 1]))
    """
    # Big-endian bytes sort nearly as the numbers do, so neighbors have similar bases.
    parts = [
        np.ascontiguousarray(array, array.dtype.newbyteorder(">"))
        .reshape(len(array), -1)
        .view(np.uint8)
        for array in arrays
    ]
    rows = np.concatenate(parts, axis=1)
    rows = rows.view(f"V{rows.shape[1]}").ravel()
    _, cases, places = np.unique(rows, return_index=True, return_inverse=True)
    return cases, places
