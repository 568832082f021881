"""A bar for each stage, and every loss that was seen, as a table."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pandas as pd
from tqdm.auto import tqdm

logger = logging.getLogger(__name__)

clock = time.monotonic
Callback = Callable[[dict[str, Any]], None]


class TimeUpError(Exception):
    """The time of a fit is up: what is there by now is all that there will be."""


class TrainingLog:
    """Tells how far a fit is, and keeps what it saw.

    Parameters
    ----------
    progress : bool
        Whether to draw bars.
    callback : callable, optional
        Called with a copy of every entry as it is written: a dict with ``stage``,
        ``step`` and the stage's own numbers.
    seconds : float, optional
        From now on, until the time is up.

    Attributes
    ----------
    entries : list of dict
    stopped_in : str, optional
        The stage in which the time was up.
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
        """Open a stage: a bar that closes with it.

        Raises
        ------
        TimeUpError
            If the time was up in an earlier one: the first stage of a fit begins.
        """
        if self.stopped_in is not None:
            raise TimeUpError
        start = time.perf_counter()
        with tqdm(
            total=total, desc=name, unit=f" {unit}", disable=not self.progress
        ) as bar:
            yield StageBar(self, name, bar)
        logger.info("%s took %.1f s", name, time.perf_counter() - start)

    def each(self, name: str, items: Sequence[Any], unit: str) -> Iterable[Any]:
        """Return items under a bar, also when the time is up."""
        return tqdm(items, desc=name, unit=f" {unit}", disable=not self.progress)

    def check_time(self, stage: str) -> None:
        """Raise a TimeUpError in a stage if the time is up."""
        if clock() > self._end:
            self.stopped_in = self.stopped_in or stage
            raise TimeUpError

    def record(self, stage: str, step: int, **numbers: Any) -> None:
        """Keep an entry."""
        entry = {"stage": stage, "step": step, **numbers}
        self.entries.append(entry)
        if self._callback is not None:
            self._callback(dict(entry))

    def table(self) -> pd.DataFrame:
        """Return all entries, one a row."""
        return pd.DataFrame(self.entries)


class StageBar:
    """The bar of a stage that is under way."""

    def __init__(self, log: TrainingLog, stage: str, bar: Any):
        self._log, self._stage, self._bar = log, stage, bar
        self._step = 0

    def step(self, count: int = 1, **numbers: Any) -> None:
        """Go on by a count of units, with the numbers to show and to keep.

        Raises
        ------
        TimeUpError
            If the time is up.
        """
        self._step += count
        self._bar.update(count)
        if numbers:
            shown = {key: f"{value:.4g}" for key, value in numbers.items()}
            self._bar.set_postfix(shown, refresh=False)
            self._log.record(self._stage, self._step, **numbers)
        self._log.check_time(self._stage)
