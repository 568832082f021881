"""Seeds and thread limits, so that the same seed gives the same numbers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from pyomo_csg.locks import SharedChange, process_wide_lock

_generator_lock = process_wide_lock()
_restored_generator = SharedChange(
    lambda: torch.random.fork_rng(devices=[]), _generator_lock
)


@contextmanager
def torch_seed(seed: int | np.random.Generator = 0) -> Iterator[None]:
    """Seed torch, lock its generator for this thread, and restore it afterwards.

    Use it for short work, such as drawing initial weights. A Generator draws the seed.
    """
    number = seed if isinstance(seed, int) else int(seed.integers(2**31))
    with _generator_lock, torch.random.fork_rng(devices=[]):
        torch.manual_seed(number)
        yield


@contextmanager
def shared_torch_seed(number: int) -> Iterator[None]:
    """Seed torch and restore its generator afterwards, without locking others out.

    Use it for training, which takes long. Only user modules, such as those with Dropout,
    draw numbers there. Their draws are not reproducible if two threads train at once.
    """
    with _restored_generator:
        with _generator_lock:
            torch.manual_seed(number)
        yield


@contextmanager
def _limit_threads() -> Iterator[None]:
    threads = torch.get_num_threads()
    try:
        with threadpool_limits(1):  # also those of KMeans
            yield
    finally:
        torch.set_num_threads(threads)


_thread_limit = SharedChange(_limit_threads, process_wide_lock())


@contextmanager
def single_threaded() -> Iterator[None]:
    """Limit arithmetic to one thread, because the order of sums changes the policy."""
    with _thread_limit:
        torch.set_num_threads(1)  # torch counts per thread
        yield
