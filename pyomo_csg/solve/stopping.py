"""Work in threads that is stopped when nobody waits for it any more.

Python lets Ctrl-C into its main thread alone; an integer program in another one would go on
until it is solved.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
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
