"""Executors of many makes: tasks sent, answers as they come, pools made again."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import (
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    as_completed,
    wait,
)
from functools import partial
from typing import Any

_thread = threading.local()


def under(stop: threading.Event, work: Callable[..., Any], *arguments: Any) -> Any:
    """Do work in this thread that is to end once ``stop`` is set."""
    _thread.stop = stop
    try:
        return work(*arguments)
    finally:
        del _thread.stop


def stop_of_thread() -> threading.Event:
    """Return what tells the work of this thread to end; nothing may."""
    stop = getattr(_thread, "stop", None)
    return threading.Event() if stop is None else stop


_STOP_SECONDS = 5.0


class GaveUpError(Exception):
    """An executor that replaces its own workers gave a task up: it kills them all."""

    def __init__(self, number: int):
        super().__init__(number)
        self.number = number


def submitted(
    executor: Executor,
    work: Callable[..., Any],
    arguments: Callable[[int], tuple],
    numbers: list[int],
) -> Iterator[tuple[int, Any]]:
    """Submit tasks by their numbers and yield their answers as they come.

    Threads whose answers are not waited for any more stop at the next chance. Dask blames
    a worker's death on all that it was to do: what is blamed is tried again by itself.
    """
    futures: dict[Future, int] = {}
    blamed: list[int] = []
    stop = threading.Event()
    if isinstance(executor, ThreadPoolExecutor):
        work = partial(under, stop, work)
    try:
        for number in numbers:
            futures[executor.submit(work, *arguments(number))] = number
        for future in _completed(futures):
            try:
                answer = future.result()
            except _killed():
                blamed.append(futures[future])
            else:
                yield futures[future], answer
        for number in sorted(blamed):
            futures[future := executor.submit(work, *arguments(number))] = number
            try:
                answer = future.result()
            except _killed() as error:
                raise GaveUpError(number) from error
            yield number, answer
    except BaseException:
        for future in futures:
            future.cancel()
        if isinstance(executor, ThreadPoolExecutor):
            stop.set()
            wait(futures, _STOP_SECONDS)
        raise


def pool_like(pool: Any) -> Executor:
    """Return a new pool of threads or processes of the same make."""
    starting = pool._initializer, pool._initargs
    if isinstance(pool, ThreadPoolExecutor):
        return ThreadPoolExecutor(pool._max_workers, "", *starting)
    return ProcessPoolExecutor(pool._max_workers, pool._mp_context, *starting)


def _killed() -> tuple[type[Exception], ...]:
    """Return what Dask, if it is in use, raises for a task that kills its workers."""
    dask = sys.modules.get("distributed")
    return () if dask is None else (dask.KilledWorker,)


def _completed(futures: dict[Future, int]) -> Iterator[Future]:
    """As ``as_completed``, which knows only the standard library's futures."""
    if all(isinstance(future, Future) for future in futures):
        return as_completed(futures)
    return iter(futures)
