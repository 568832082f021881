"""Submit tasks to executors, collect results as they complete, and rebuild pools."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import (
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    as_completed,
    wait,
)
from functools import partial
from typing import Any

from pyomo_csg.errors import CsgError

_STOP_SECONDS = 5.0  # to wait for threads that were asked to stop
_thread = threading.local()


def run_with_stop(stop: threading.Event, work: Callable[..., Any], *args: Any) -> Any:
    """Call ``work``; integer programs in this thread end once ``stop`` is set."""
    _thread.stop = stop
    try:
        return work(*args)
    finally:
        del _thread.stop


def thread_stop_event() -> threading.Event:
    """Return this thread's stop event; a new one, never set, if it has none."""
    stop = getattr(_thread, "stop", None)
    return threading.Event() if stop is None else stop


class GaveUpError(Exception):
    """A task that killed every worker that tried it."""

    def __init__(self, number: int):
        super().__init__(number)
        self.number = number


def submit_all(
    executor: Executor,
    work: Callable[..., Any],
    arguments: Callable[[int], tuple],
    numbers: list[int],
) -> Iterator[tuple[int, Any]]:
    """Submit numbered tasks and yield their results as they complete.

    If the caller stops early, running threads are asked to stop. Dask blames a dead worker
    on all tasks in its queue, so each suspect task is retried on its own.
    """
    futures: dict[Future, int] = {}
    suspects: list[int] = []
    stop = threading.Event()
    if isinstance(executor, ThreadPoolExecutor):
        work = partial(run_with_stop, stop, work)
    try:
        for number in numbers:
            futures[_submit(executor, work, *arguments(number))] = number
        for future in _as_completed(futures):
            try:
                answer = future.result()
            except _dask_errors():
                suspects.append(futures[future])
            else:
                yield futures[future], answer
        for number in sorted(suspects):
            futures[future := _submit(executor, work, *arguments(number))] = number
            try:
                answer = future.result()
            except _dask_errors() as error:
                raise GaveUpError(number) from error
            yield number, answer
    except BaseException:
        for future in futures:
            future.cancel()
        if isinstance(executor, ThreadPoolExecutor):
            stop.set()
            wait(futures, _STOP_SECONDS)
        raise


def _submit(executor: Executor, work: Callable[..., Any], *args: Any) -> Future:
    """Submit a task; raise a CsgError if the executor does not accept it."""
    try:
        return executor.submit(work, *args)
    except BrokenExecutor:
        raise
    except RuntimeError as error:
        raise CsgError(
            f"The executor does not take tasks: {error}. Solve before it is shut down, "
            "or make an oracle with another executor"
        ) from error


def pool_like(pool: Any) -> Executor:
    """Return a new pool of threads or processes with the same settings."""
    starting = pool._initializer, pool._initargs
    if isinstance(pool, ThreadPoolExecutor):
        return ThreadPoolExecutor(pool._max_workers, "", *starting)
    return ProcessPoolExecutor(pool._max_workers, pool._mp_context, *starting)


def _dask_errors() -> tuple[type[Exception], ...]:
    """Return Dask's error for a task that kills its workers, if Dask is in use."""
    dask = sys.modules.get("distributed")
    return () if dask is None else (dask.KilledWorker,)


def _as_completed(futures: dict[Future, int]) -> Iterator[Future]:
    """Iterate over futures as they complete, or in order if they are not standard ones."""
    if all(isinstance(future, Future) for future in futures):
        return as_completed(futures)
    return iter(futures)
