"""Batches of cases: cut into chunks, sent to workers, put together in order."""

from __future__ import annotations

import logging
import pickle
import sys
import threading
import uuid
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from concurrent.futures import (
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    as_completed,
    wait,
)
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from pyomo_csg.errors import SolveError
from pyomo_csg.solve.compiling import CompiledModel
from pyomo_csg.solve.engine import STOPPING, Stats
from pyomo_csg.solve.highs_engine import HighsEngine

logger = logging.getLogger(__name__)

_MOST_CASES = 512
_MOST_MIXED_CASES = 64  # of programs with integers in the first stage alone
_MOST_SLOW_CASES = 8  # of integer recourse and other solvers, so that a bar moves
_FRESH_CASES = 128  # few enough to share out, enough to make up for a cold start
_FRESH_COSTS = 4096  # which are cheap once the bases are known
_LEAST_CHUNKS = 4  # a worker, so that the slowest does not hold up the rest
_MOST_ENGINES = 16
_MOST_DEATHS = 2
_QUIET_SECONDS = 2.0
_STOP_SECONDS = 5.0


@dataclass(frozen=True)
class Recipe:
    """How a worker makes its own engine.

    Attributes
    ----------
    solver : str
    options : dict
    compiled : CompiledModel, optional
        For ``'highs'``.
    model : bytes, optional
        For the others: the pickled Pyomo model.
    name : str
        By which a worker knows the engine again.
    bases : dict
        Which the engines of all threads share; it does not leave the process.
    """

    solver: str
    options: dict[str, Any]
    compiled: CompiledModel | None = None
    model: bytes | None = None
    name: str = field(default_factory=lambda: uuid.uuid4().hex)
    bases: dict[int, dict[int, Any]] = field(default_factory=dict, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "bases": {}}

    def engine(self) -> Any:
        """Make the engine."""
        if self.compiled is not None:
            return HighsEngine(self.compiled, self.options, self.bases)
        from pyomo_csg.solve.case_by_case import CaseByCase

        assert self.model is not None
        return CaseByCase(pickle.loads(self.model), self.solver, self.options)


_worker = threading.local()


def work(
    recipe: Recipe,
    method: str,
    arrays: list[Any],
    constants: dict,
    fresh: bool = False,
) -> Any:
    """Answer a chunk in a worker, by an engine that it makes once and keeps.

    A fresh one is not kept: its answers owe nothing, to the last bit, to earlier cases.
    """
    if fresh:
        engine = replace(recipe, bases={}).engine()
        return getattr(engine, method)(*arrays, **constants), engine.stats
    engines = _worker.__dict__.setdefault("engines", OrderedDict())
    if recipe.name not in engines:
        engines[recipe.name] = recipe.engine()
    engines.move_to_end(recipe.name)
    if len(engines) > _MOST_ENGINES:
        engines.popitem(last=False)
    engine = engines[recipe.name]
    try:
        answer = getattr(engine, method)(*arrays, **constants)
    except BaseException:  # its solvers may have been stopped half-way
        del engines[recipe.name]
        raise
    return answer, engine.stats.taken()


class Batch:
    """Answers batches with the workers there are.

    Parameters
    ----------
    recipe : Recipe
    executor : Executor, optional
        Anything with the interface of ``concurrent.futures``.
    workers : int
        How many threads, or processes for appsi's solvers, to use without one.
    """

    def __init__(self, recipe: Recipe, executor: Executor | None, workers: int):
        self._recipe = recipe
        self._workers = workers
        self._executor = executor
        if executor is None and workers > 1:
            # HiGHS runs outside Python's lock; Pyomo's interfaces share global state.
            pool: Any = ThreadPoolExecutor if recipe.compiled else ProcessPoolExecutor
            self._executor = pool(workers)
        self.stats = Stats()

    def run(
        self,
        method: str,
        arrays: list[np.ndarray],
        progress: bool,
        fresh: bool = False,
        **constants: Any,
    ) -> tuple[list[Any], dict[int, Any]]:
        """Answer all cases; return the arrays of the answer and the troubles.

        Parameters
        ----------
        method : str
            Of the engine; its last answer is the dictionary of troubles.
        arrays : list of arrays
            With the cases on the first axis.
        fresh : bool
            Whether answers are to be the same to the last bit whatever was asked before
            and however many workers there are.
        """
        count = len(arrays[0])
        if not fresh and self._is_short(count, method):
            answer, stats = work(
                self._recipe, method, arrays, {**constants, "first": 0}
            )
            self.stats.add(stats)
            return list(answer[:-1]), answer[-1]
        cut = self._fresh_chunks if fresh else self._chunks
        chunks = list(cut(count, method))
        pieces: dict[int, Any] = {}
        bar = tqdm(
            total=count,
            disable=not progress,
            delay=_QUIET_SECONDS,
            unit=" cases",
            desc=method.replace("_", " "),
        )
        with bar:
            for number, answer, stats in self._answers(
                method, arrays, chunks, constants, fresh
            ):
                pieces[number] = answer
                self.stats.add(stats)
                bar.update(chunks[number].stop - chunks[number].start)
        return _joined(chunks, pieces)

    def _is_short(self, count: int, method: str) -> bool:
        """Whether to answer at once, in this thread: there would be a single chunk."""
        if self._executor is None:
            return count <= _most_cases(self._recipe.compiled, method)
        return count == 1 and isinstance(self._executor, ThreadPoolExecutor)

    def _chunks(self, count: int, method: str) -> Iterator[slice]:
        """Cut so that neighbours, which share bases, stay together."""
        parts = self._workers * _LEAST_CHUNKS if self._executor is not None else 1
        most = _most_cases(self._recipe.compiled, method)
        size = max(1, min(most, -(-count // parts)))
        for start in range(0, count, size):
            yield slice(start, min(start + size, count))

    def _fresh_chunks(self, count: int, method: str) -> Iterator[slice]:
        """Cut in a way that does not depend on the workers."""
        most = _most_cases(self._recipe.compiled, method)
        size = min(most, _FRESH_CASES)
        if method == "costs" and most == _MOST_CASES:
            size = _FRESH_COSTS
        for start in range(0, count, size):
            yield slice(start, min(start + size, count))

    def _answers(
        self,
        method: str,
        arrays: list[Any],
        chunks: list[slice],
        constants: dict,
        fresh: bool,
    ) -> Iterator[tuple[int, Any, Stats]]:
        def arguments(number: int) -> tuple:
            cases = [array[chunks[number]] for array in arrays]
            first = {"first": chunks[number].start}
            return self._recipe, method, cases, {**constants, **first}, fresh

        left, deaths = set(range(len(chunks))), 0
        while self._executor is not None and left:
            try:
                for number, answer, stats in _submitted(
                    self._executor, arguments, sorted(left)
                ):
                    left.discard(number)
                    yield number, answer, stats
            except BrokenExecutor:
                deaths += 1
                if deaths > _MOST_DEATHS:
                    raise _dead(chunks[min(left)]) from None
                self._replace(self._executor)
            except _GaveUpError as error:
                raise _dead(chunks[error.number]) from None
        for number in sorted(left):
            yield (number, *work(*arguments(number)))

    def _replace(self, broken: Executor) -> None:
        """Take a pool like one that died; go on in this process without any other."""
        if isinstance(broken, ProcessPoolExecutor):
            logger.warning(
                "A worker died; its pool is replaced, its cases solved again"
            )
            pool: Any = broken
            self._executor = ProcessPoolExecutor(
                pool._max_workers, pool._mp_context, pool._initializer, pool._initargs
            )
        else:
            logger.warning("The executor broke; the rest is solved in this process")
            self._executor = None


def _most_cases(compiled: CompiledModel | None, method: str) -> int:
    """Return how many cases a chunk may have."""
    if compiled is None or compiled.quadratic or compiled.integer_recourse:
        return _MOST_SLOW_CASES
    branches = compiled.integer and method != "costs"
    return _MOST_MIXED_CASES if branches else _MOST_CASES


class _GaveUpError(Exception):
    """An executor that replaces its own workers gave a chunk up: it kills them all."""

    def __init__(self, number: int):
        super().__init__(number)
        self.number = number


def _dead(chunk: slice) -> SolveError:
    return SolveError(chunk.start, "worker died", "again and again")


def _submitted(
    executor: Executor, arguments: Any, numbers: list[int]
) -> Iterator[tuple[int, Any, Stats]]:
    """Submit chunks and yield their answers as they come."""
    futures: dict[Future, int] = {}
    try:
        for number in numbers:
            futures[executor.submit(work, *arguments(number))] = number
        for future in _completed(futures):
            try:
                answer, stats = future.result()
            except _killed() as error:
                raise _GaveUpError(futures[future]) from error
            yield futures[future], answer, stats
    except BaseException:
        for future in futures:
            future.cancel()
        if isinstance(executor, ThreadPoolExecutor):
            _stop(futures)
        raise


def _stop(futures: Iterable[Future]) -> None:
    """Have the integer programs of threads stopped: nobody waits for them any more."""
    STOPPING.set()
    try:
        wait(futures, _STOP_SECONDS)
    finally:
        STOPPING.clear()


def _killed() -> tuple[type[Exception], ...]:
    """Return what Dask, if it is in use, raises for a task that kills its workers."""
    dask = sys.modules.get("distributed")
    return () if dask is None else (dask.KilledWorker,)


def _completed(futures: dict[Future, int]) -> Iterator[Future]:
    """As ``as_completed``, which knows only the standard library's futures."""
    if all(isinstance(future, Future) for future in futures):
        return as_completed(futures)
    return iter(futures)


def _joined(
    chunks: list[slice], pieces: dict[int, Any]
) -> tuple[list[Any], dict[int, Any]]:
    answers = [pieces[number] for number in range(len(chunks))]
    arrays = [np.concatenate(parts) for parts in list(zip(*answers, strict=True))[:-1]]
    troubles = {
        chunk.start + i: trouble
        for chunk, answer in zip(chunks, answers, strict=True)
        for i, trouble in answer[-1].items()
    }
    return arrays, troubles
