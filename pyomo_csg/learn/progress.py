"""Progress bars, the log of losses, and the time budget of a fit."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pandas as pd

from pyomo_csg.progress_bars import progress_bar

logger = logging.getLogger(__name__)

clock = time.monotonic
Callback = Callable[[dict[str, Any]], None]


class TimeUpError(Exception):
    """The time budget of a fit is used up."""


class TrainingLog:
    """Shows the progress of a fit, records its losses, and keeps its time budget.

    ``callback`` gets a copy of every entry, a dict with ``stage``, ``step`` and numbers.
    ``stopped_in`` is the stage in which the time was up.
    """

    def __init__(
        self,
        progress: bool = False,
        callback: Callback | None = None,
        seconds: float | None = None,
    ):
        self.progress, self._callback = progress, callback
        self.entries: list[dict[str, Any]] = []
        self.stopped_in: str | None = None
        self._end = math.inf if seconds is None else clock() + seconds

    @contextmanager
    def stage(self, name: str, total: int, unit: str = "epoch") -> Iterator[StageBar]:
        """Open a stage with its bar; raise TimeUpError if an earlier one used all time.

        The first stage of a fit always begins.
        """
        if self.stopped_in is not None:
            raise TimeUpError
        start = time.perf_counter()
        with progress_bar(name, total, unit, self.progress, 0) as bar:
            yield StageBar(self, name, bar)
        logger.info("%s took %.1f s", name, time.perf_counter() - start)

    def each(self, name: str, items: Sequence[Any], unit: str) -> Iterable[Any]:
        """Return items under a bar, whatever the time budget."""
        with progress_bar(name, len(items), unit, self.progress, 0) as bar:
            for item in items:
                yield item
                bar.update()

    def check_time(self, stage: str) -> None:
        """Raise a TimeUpError if the time budget is used up."""
        if clock() > self._end:
            self.stopped_in = self.stopped_in or stage
            raise TimeUpError

    def record(self, stage: str, step: int, **numbers: Any) -> None:
        """Add an entry."""
        entry = {"stage": stage, "step": step, **numbers}
        self.entries.append(entry)
        if self._callback is not None:
            self._callback(dict(entry))

    def table(self) -> pd.DataFrame:
        """Return all entries, one per row."""
        return pd.DataFrame(self.entries)


class StageBar:
    """The progress bar of an open stage."""

    def __init__(self, log: TrainingLog, stage: str, bar: Any):
        self._log, self._stage, self._bar = log, stage, bar
        self._step = 0

    def step(self, count: int = 1, **numbers: Any) -> None:
        """Advance the bar, record the numbers, and check the time budget."""
        self._step += count
        self._bar.update(count)
        if numbers:
            shown = {key: f"{value:.4g}" for key, value in numbers.items()}
            self._bar.set_postfix(shown, refresh=False)
            self._log.record(self._stage, self._step, **numbers)
        self._log.check_time(self._stage)
