"""Progress bars that appear after two seconds, or not at all."""

from __future__ import annotations

from typing import Any

from typing_extensions import Self

_DELAY_SECONDS = 2.0


class HiddenBar:
    """Accepts the calls of a tqdm bar and shows nothing.

    A disabled tqdm bar takes a lock that all forked processes share. If one of them is
    killed while it holds the lock, the others wait forever.
    """

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def update(self, _count: float = 1) -> None:
        """Do nothing."""


def progress_bar(
    label: str,
    total: int,
    unit: str,
    shown: bool,
    delay: float | None = None,
) -> Any:
    """Return a tqdm bar, or a :class:`HiddenBar`; a single step has no progress to show."""
    if not shown or total == 1:
        return HiddenBar()
    from tqdm.auto import tqdm

    wait = _DELAY_SECONDS if delay is None else delay
    return tqdm(total=total, desc=label, delay=wait, unit=f" {unit}")
