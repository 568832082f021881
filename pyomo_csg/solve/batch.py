"""Batches of cases: cut into chunks, sent to workers, put together in order."""

from __future__ import annotations

import logging
import pickle
import threading
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

import numpy as np
from tqdm.auto import tqdm

from pyomo_csg.errors import SolveError
from pyomo_csg.locks import fork_count, process_wide_lock
from pyomo_csg.solve.compile.compiler import CompiledModel
from pyomo_csg.solve.engine import Stats
from pyomo_csg.solve.executors import GaveUpError, pool_like, submitted
from pyomo_csg.solve.highs_engine import HighsEngine
from pyomo_csg.solve.lp.basis_cache import Basis

logger = logging.getLogger(__name__)


def in_order(arrays: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return which cases to answer, each once, and where the answer to each then is.

    A case that is solved after others starts from what they left, so that its last bits
    depend on their order.

    Parameters
    ----------
    arrays : list of arrays
        With the n cases on the first axis.

    Returns
    -------
    cases : array (m,) of int
        One of those that are equal to each other, in an order of their numbers.
    places : array (n,) of int
        Where among those each case is.

    Examples
    --------
    >>> in_order([np.array([[3.0], [1.0], [3.0], [2.0]])])
    (array([1, 3, 0]), array([2, 0, 2, 1]))
    """
    _, cases, places = np.unique(_rows(arrays), return_index=True, return_inverse=True)
    return cases, places


def _rows(arrays: list[np.ndarray]) -> np.ndarray:
    """Return each case as its bytes: high ones first, so that what is near stays near."""
    parts = [
        np.ascontiguousarray(array, array.dtype.newbyteorder(">"))
        .reshape(len(array), -1)
        .view(np.uint8)
        for array in arrays
    ]
    rows = np.concatenate(parts, axis=1)
    return rows.view(f"V{rows.shape[1]}").ravel()


_MOST_CASES = 512
_MOST_MIXED_CASES = 64  # of programs with integers in the first stage alone
_MOST_SLOW_CASES = 8  # of integer recourse and other solvers, so that a bar moves
_FRESH_CASES = 128  # few enough to share out, enough to make up for a cold start
_FRESH_COSTS = 4096  # which are cheap once the bases are known
_LEAST_CHUNKS = 4  # a worker, so that the slowest does not hold up the rest
_MOST_ENGINES = 16
_MOST_DEATHS = 2
_QUIET_SECONDS = 2.0


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
    known : tuple of Basis
        Of the recourse, which every engine starts with.
    """

    solver: str
    options: dict[str, Any]
    compiled: CompiledModel | None = None
    model: bytes | None = None
    name: str = field(default_factory=lambda: uuid.uuid4().hex)
    bases: dict[int, dict[int, Any]] = field(default_factory=dict, repr=False)
    known: tuple[Basis, ...] = field(default=(), repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "bases": {}}

    def engine(self) -> Any:
        """Make the engine."""
        if self.compiled is not None:
            return HighsEngine(self.compiled, self.options, self.bases, self.known)
        from pyomo_csg.solve.pyomo_solvers.appsi_engine import CaseByCase

        assert self.model is not None
        return CaseByCase(pickle.loads(self.model), self.solver, self.options)


_worker = threading.local()
_pyomo = process_wide_lock()  # of Pyomo's interfaces, which threads must not share


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
    with _pyomo if recipe.compiled is None else nullcontext():
        if fresh:
            engine = replace(recipe, bases={}).engine()
        else:
            engine = _kept(recipe)
        try:
            answer = getattr(engine, method)(*arrays, **constants)
        except BaseException:  # its solvers may have been stopped half-way
            _worker.__dict__.get("engines", {}).pop(recipe.name, None)
            raise
        return answer, engine.stats.taken()


def _kept(recipe: Recipe) -> Any:
    """Return this thread's engine."""
    engines = _worker.__dict__.setdefault("engines", OrderedDict())
    if recipe.name not in engines:
        engines[recipe.name] = recipe.engine()
    engines.move_to_end(recipe.name)
    if len(engines) > _MOST_ENGINES:
        engines.popitem(last=False)
    return engines[recipe.name]


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
        self._lock, self._forks = threading.Lock(), fork_count()
        if executor is None and workers > 1:
            # HiGHS runs outside Python's lock; Pyomo's interfaces share global state.
            pool: Any = ThreadPoolExecutor if recipe.compiled else ProcessPoolExecutor
            self._executor = pool(workers)
        self.stats = Stats()

    def rehearse(self, *arrays: np.ndarray) -> None:
        """Have all engines to come know the recourse's bases that some cases have."""
        if self._recipe.compiled is not None:
            engine = replace(self._recipe, bases={}, known=()).engine()
            self._recipe = replace(self._recipe, known=engine.rehearsed(*arrays))
            self.count(engine.stats.taken())

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
        self._settle_in()
        if fresh:
            return self._run_fresh(method, arrays, progress, constants)
        if self._is_short(len(arrays[0]), method):
            answer, stats = work(
                self._recipe, method, arrays, {**constants, "first": 0}
            )
            self.count(stats)
            return list(answer[:-1]), answer[-1]
        return self._run_chunks(method, arrays, progress, constants)

    def _run_fresh(
        self, method: str, arrays: list[np.ndarray], progress: bool, constants: dict
    ) -> tuple[list[Any], dict[int, Any]]:
        """Answer all cases, in an order of their own."""
        cases, places = in_order(arrays)
        arrays = [array[cases] for array in arrays]
        try:
            found, troubles = self._run_chunks(
                method, arrays, progress, constants, fresh=True
            )
        except SolveError as error:
            raise _dead(int(cases[error.case])) from None
        mine = {i: troubles[p] for i, p in enumerate(places.tolist()) if p in troubles}
        return [array[places] for array in found], mine

    def _run_chunks(
        self,
        method: str,
        arrays: list[np.ndarray],
        progress: bool,
        constants: dict,
        fresh: bool = False,
    ) -> tuple[list[Any], dict[int, Any]]:
        count = len(arrays[0])
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
                self.count(stats)
                bar.update(chunks[number].stop - chunks[number].start)
        return _joined(chunks, pieces)

    def count(self, stats: Stats) -> None:
        """Add what was done to ``stats``."""
        with self._lock:
            self.stats.add(stats)

    def count_seconds(self, seconds: float) -> None:
        """Add what all of a batch took."""
        with self._lock:
            self.stats.total_seconds += seconds

    def _settle_in(self) -> None:
        """Take workers of this process's own, where it was forked: it has none of them."""
        if self._forks == fork_count():
            return
        self._lock = threading.Lock()
        if isinstance(self._executor, ThreadPoolExecutor | ProcessPoolExecutor):
            self._executor = pool_like(self._executor)
        self._forks = fork_count()

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
        while (executor := self._executor) is not None and left:
            try:
                for number, (answer, stats) in submitted(
                    executor, work, arguments, sorted(left)
                ):
                    left.discard(number)
                    yield number, answer, stats
            except BrokenExecutor:
                deaths += 1
                if deaths > _MOST_DEATHS:
                    raise _dead(chunks[min(left)].start) from None
                self._replace(executor)
            except GaveUpError as error:
                raise _dead(chunks[error.number].start) from None
        for number in sorted(left):
            yield (number, *work(*arguments(number)))

    def _replace(self, broken: Executor) -> None:
        """Take a pool like one that died; go on in this process without any other."""
        with self._lock:
            if self._executor is not broken:
                return  # another thread has seen to it
            if isinstance(broken, ProcessPoolExecutor):
                logger.warning(
                    "A worker died; its pool is replaced, its cases solved again"
                )
                self._executor = pool_like(broken)
            else:
                logger.warning("The executor broke; the rest is solved in this process")
                self._executor = None


def _most_cases(compiled: CompiledModel | None, method: str) -> int:
    """Return how many cases a chunk may have."""
    if compiled is None or compiled.quadratic or compiled.integer_recourse:
        return _MOST_SLOW_CASES
    branches = compiled.integer and method != "costs"
    return _MOST_MIXED_CASES if branches else _MOST_CASES


def _dead(case: int) -> SolveError:
    return SolveError(case, "worker died", "again and again")


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
