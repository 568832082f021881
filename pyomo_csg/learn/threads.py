"""One thread for all arithmetic, so that the same seed gives the same numbers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch
from threadpoolctl import threadpool_limits

from pyomo_csg.locks import process_wide_lock

_lock = process_wide_lock()
_inside = 0
_undo = ExitStack()


@contextmanager
def one_thread() -> Iterator[None]:
    """Let all use one thread: the order of a sum, and so the policy, depends on it.

    Fits in several threads may be inside at once: the last to leave puts all back.
    """
    global _inside, _undo
    with _lock:
        _inside += 1
        if _inside == 1:
            _undo = ExitStack()
            _undo.callback(torch.set_num_threads, torch.get_num_threads())
            _undo.enter_context(threadpool_limits(1))  # of the clusters' centers, too
        torch.set_num_threads(1)
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                _undo.close()
