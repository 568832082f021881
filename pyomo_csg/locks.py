"""Locks between the threads of a process, which a forked process finds open."""

from __future__ import annotations

import os
import threading
from typing import Any


def process_wide_lock() -> Any:
    """Return a lock to keep for as long as the process lives.

    A fork waits until no other thread holds it: no child begins with half the work of a
    thread that it does not have, or waits for that thread for ever.
    """
    lock = threading.RLock()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(
            before=lock.acquire,
            after_in_parent=lock.release,
            after_in_child=lock.release,
        )
    return lock
