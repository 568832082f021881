"""The log of a fit: its losses, its time budget, and one progress bar for all stages."""

from __future__ import annotations

import logging
import math
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import pandas as pd
from typing_extensions import Self

logger = logging.getLogger(__name__)

clock = time.monotonic
Callback = Callable[[dict[str, Any]], None]
Item = TypeVar("Item")

_REFRESH_SECONDS = 1.0
_LOG_SECONDS = 60.0


class TimeUpError(Exception):
    """The time budget of a fit is used up."""


class TrainingLog:
    """Shows the progress of a fit, records its losses, and keeps its time budget.

    ``callback`` gets a copy of every entry, a dict with ``stage``, ``step`` and numbers.
    ``deadline`` is when the budget ends, by ``clock``, or None. ``is_over`` says whether a
    stage was stopped because the time was up, ``stopped_in`` which was the first, and
    ``stopped_after`` the seconds that it and all before it had. The bar is open within the with
    statement.
    """

    def __init__(
        self,
        progress: bool = False,
        callback: Callback | None = None,
        seconds: float | None = None,
    ):
        self._callback = callback
        self.entries: list[dict[str, Any]] = []
        self.stopped_in: str | None = None
        self.stopped_after: float | None = None
        self.start = clock()
        self.deadline = None if seconds is None else self.start + seconds
        self.bar = FitBar(progress, self.start, self.deadline)
        self.is_over = False
        self._stage = "start"

    def __enter__(self) -> Self:
        self.bar.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.close()

    @property
    def seconds_left(self) -> float:
        """The rest of the time budget; infinite without one."""
        return math.inf if self.deadline is None else self.deadline - clock()

    @contextmanager
    def stage(self, name: str, total: int) -> Iterator[StageBar]:
        """Open a stage of the bar; raise TimeUpError if an earlier one used all time.

        The first stage of a fit always begins.
        """
        if self.is_over:
            raise TimeUpError
        started, before, self._stage = clock(), self._stage, name
        self.bar.begin(name, total)
        try:
            yield StageBar(self, name)
        finally:
            self.bar.finish()
            self._stage = before
        logger.info("%s took %.1f s", name, clock() - started)

    def each(self, name: str, items: Sequence[Item]) -> Iterator[Item]:
        """Return items as the steps of a stage; raise TimeUpError once the time is up."""
        with self.stage(name, len(items)) as bar:
            for item in items:
                yield item
                bar.step()

    def check_time(self, stage: str | None = None) -> None:
        """Raise a TimeUpError if the time budget is used up."""
        if self.deadline is not None and clock() > self.deadline:
            if self.stopped_in is None:
                self.stopped_in = stage or self._stage
                self.stopped_after = self.deadline - self.start
            self.is_over = True
            raise TimeUpError

    @contextmanager
    def limit_to(self, share: float) -> Iterator[None]:
        """Limit the stages inside to a share of the time budget; later ones have the rest."""
        deadline = self.deadline
        if deadline is not None:
            self.deadline = self.start + share * (deadline - self.start)
        try:
            yield
        finally:
            self.deadline = deadline
            self.is_over = self.seconds_left <= 0

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
    """An open stage of the bar."""

    def __init__(self, log: TrainingLog, stage: str):
        self._log, self._stage, self._step = log, stage, 0

    def step(self, count: int = 1, **numbers: Any) -> None:
        """Advance the bar, record the numbers, and check the time budget."""
        self._step += count
        self._log.bar.advance(count)
        if numbers:
            self._log.record(self._stage, self._step, **numbers)
        self._log.check_time(self._stage)


class FitBar:
    """One bar for a whole fit: the stage, the time left, and the best candidate so far.

    A thread refreshes it every second, so that a long program does not look like a hang.
    No bar is shown if stderr is a file or a pipe. The state is logged once a minute, also
    during a long program.
    """

    def __init__(self, shown: bool, start: float, deadline: float | None):
        self._shown = shown and _is_interactive()
        self._start, self._deadline = start, deadline
        self._planned: dict[str, float] = {}  # seconds by stage
        self._done: list[tuple[float, float]] = []  # planned and taken seconds
        self._stage, self._began, self._total, self._count = "", start, 1, 0
        self._depth = 0
        self.best = ""
        self._bar: Any = None
        self._logged = start
        self._closed = threading.Event()

    def plan(self, seconds: Mapping[str, float]) -> None:
        """Set how long the coming stages are expected to take."""
        self._planned = dict(seconds)

    def open(self) -> None:
        """Show the bar, if someone watches, and keep it and the log up to date."""
        if self._shown:
            from tqdm.auto import tqdm

            self._bar = tqdm(
                total=1.0, bar_format="{desc} {percentage:3.0f}%|{bar:20}|{postfix}"
            )
        threading.Thread(target=self._keep_fresh, daemon=True).start()

    def close(self) -> None:
        """Remove the bar."""
        self._closed.set()
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def begin(self, stage: str, total: int) -> None:
        """Start a stage of ``total`` steps; a stage within a stage counts as part of it."""
        self._depth += 1
        if self._depth == 1:
            self._stage, self._began = stage, clock()
            self._total, self._count = max(1, total), 0

    def advance(self, count: int) -> None:
        """Count steps of the stage."""
        if self._depth == 1:
            self._count += count
        self._log_each_minute()

    def _log_each_minute(self) -> None:
        if clock() - self._logged > _LOG_SECONDS:
            self._logged = clock()
            logger.info("%s", self.text())

    def finish(self) -> None:
        """End a stage."""
        self._depth -= 1
        if self._depth == 0 and self._stage in self._planned:
            planned = self._planned.pop(self._stage)
            self._done.append((planned, clock() - self._began))

    def share_done(self) -> float:
        """Return the share of the expected time of all stages that is done."""
        stage = min(1.0, self._count / self._total)
        if not self._planned and not self._done:
            return stage
        done = sum(planned for planned, _ in self._done)
        left = sum(self._planned.values())
        current = stage * self._planned.get(self._stage, 0.0)
        return (done + current) / max(done + left, 1e-9)

    def seconds_left(self) -> float | None:
        """Return the expected time left, or None if it is not known."""
        limit = None if self._deadline is None else max(0.0, self._deadline - clock())
        share = self.share_done()
        if not self._planned or share <= 0.02:
            return limit
        left = (clock() - self._start) * (1 - share) / share
        return left if limit is None else min(left, limit)

    def text(self) -> str:
        """Return the state in words."""
        parts = [f"{self._stage}: {self._count} of {self._total}"]
        if (left := self.seconds_left()) is not None:
            parts.append(f"about {_minutes(left)} left")
        if self.best:
            parts.append(f"best so far: {self.best}")
        return ", ".join(parts)

    def _keep_fresh(self) -> None:
        while not self._closed.wait(_REFRESH_SECONDS):
            if self._depth:
                self._log_each_minute()
            if (bar := self._bar) is not None:
                bar.n = min(1.0, self.share_done())
                bar.set_description_str(self._stage, refresh=False)
                bar.set_postfix_str(self.text().partition(": ")[2], refresh=False)
                bar.refresh()


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def _is_interactive() -> bool:
    """Whether the output is a terminal or a notebook."""
    return sys.stderr.isatty() or "ipykernel" in sys.modules
