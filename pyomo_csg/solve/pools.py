"""Executors of many makes: tasks sent, answers as they come, pools made again."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import (
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    as_completed,
)
from typing import Any


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
    """Submit tasks by their numbers and yield their answers as they come."""
    futures: dict[Future, int] = {}
    try:
        for number in numbers:
            futures[executor.submit(work, *arguments(number))] = number
        for future in _completed(futures):
            try:
                answer = future.result()
            except _killed() as error:
                raise GaveUpError(futures[future]) from error
            yield futures[future], answer
    except BaseException:
        for future in futures:
            future.cancel()
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
