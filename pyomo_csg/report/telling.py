"""Warnings, of which a page would give many: it asks for one decision after another."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

_WARNING = ("pyomo_csg.deciding", "pyomo_csg.policy")


@contextmanager
def each_warning_once() -> Iterator[None]:
    """Let the first warning of each kind through."""
    told: set[str] = set()

    def is_new(record: logging.LogRecord) -> bool:
        new = record.msg not in told
        told.add(record.msg)
        return new

    loggers = [logging.getLogger(name) for name in _WARNING]
    for logger in loggers:
        logger.addFilter(is_new)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(is_new)
