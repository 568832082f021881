"""One thread for all arithmetic, so that the same seed gives the same numbers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from pyomo_csg.locks import SharedChange, process_wide_lock

_stream = process_wide_lock()
_lent = SharedChange(lambda: torch.random.fork_rng(devices=[]), _stream)


@contextmanager
def torch_seed(seed: int | np.random.Generator = 0) -> Iterator[None]:
    """Let this thread alone draw, from a seed or one that is drawn; then put all back.

    For what is soon done, such as new weights.
    """
    number = seed if isinstance(seed, int) else int(seed.integers(2**31))
    with _stream, torch.random.fork_rng(devices=[]):
        torch.manual_seed(number)
        yield


@contextmanager
def shared_torch_seed(number: int) -> Iterator[None]:
    """Seed, and put all back in the end, but let other threads draw meanwhile.

    For a descent, which takes long: only a module of a user's own draws in it, such as
    one with Dropout. Two descents at once, in threads of a process, leave its draws to
    chance; all else is the same.
    """
    with _lent:
        with _stream:
            torch.manual_seed(number)
        yield


@contextmanager
def _limited() -> Iterator[None]:
    threads = torch.get_num_threads()
    try:
        with threadpool_limits(1):  # of the clusters' centers, too
            yield
    finally:
        torch.set_num_threads(threads)


_limit = SharedChange(_limited, process_wide_lock())


@contextmanager
def single_threaded() -> Iterator[None]:
    """Let all use one thread: the order of a sum, and so the policy, depends on it."""
    with _limit:
        torch.set_num_threads(1)  # of which each thread may have a number of its own
        yield
