"""A bar for each stage, and every loss that was seen, as a table."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pandas as pd
from tqdm.auto import tqdm

logger = logging.getLogger(__name__)

Callback = Callable[[dict[str, Any]], None]


class Journal:
    """Tells how far a fit is, and keeps what it saw.

    Parameters
    ----------
    progress : bool
        Whether to draw bars.
    callback : callable, optional
        Called with every entry as it is written: a dict with ``stage``, ``step`` and the
        stage's own numbers.
    """

    def __init__(self, progress: bool = False, callback: Callback | None = None):
        self.progress, self._callback = progress, callback
        self.entries: list[dict[str, Any]] = []

    @contextmanager
    def stage(self, name: str, total: int, unit: str = "epoch") -> Iterator[Bar]:
        """Open a stage: a bar that closes with it."""
        start = time.perf_counter()
        with tqdm(
            total=total, desc=name, unit=f" {unit}", disable=not self.progress
        ) as bar:
            yield Bar(self, name, bar)
        logger.info("%s took %.1f s", name, time.perf_counter() - start)

    def note(self, stage: str, step: int, **numbers: Any) -> None:
        """Keep an entry."""
        entry = {"stage": stage, "step": step, **numbers}
        self.entries.append(entry)
        if self._callback is not None:
            self._callback(entry)

    def table(self) -> pd.DataFrame:
        """Return all entries, one a row."""
        return pd.DataFrame(self.entries)


class Bar:
    """The bar of a stage that is under way."""

    def __init__(self, journal: Journal, stage: str, bar: Any):
        self._journal, self._stage, self._bar = journal, stage, bar
        self._step = 0

    def step(self, count: int = 1, **numbers: Any) -> None:
        """Go on by a count of units, with the numbers to show and to keep."""
        self._step += count
        self._bar.update(count)
        if numbers:
            shown = {key: f"{value:.4g}" for key, value in numbers.items()}
            self._bar.set_postfix(shown, refresh=False)
            self._journal.note(self._stage, self._step, **numbers)
