"""A bad argument of a public call, and what is to be said of it."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.reliability.scene import Scene


@dataclass(frozen=True)
class Bad:
    """A call that must be refused.

    Attributes
    ----------
    call : str
        The public name.
    given : str
        What is wrong with the argument.
    run : callable
        Makes the call in a scene.
    thing, remedy : str
        What the message must name, and what it must advise.
    before : callable, optional
        What happens in the scene before: to the model, or to a file.
    """

    call: str
    given: str
    run: Callable[[Scene], Any]
    thing: str
    remedy: str
    before: Callable[[Scene], Any] = lambda scene: None

    def __str__(self) -> str:
        return f"{self.call}: {self.given}"


def grid(
    calls: Mapping[str, Callable[[Scene, Any], Any]],
    values: Mapping[str, tuple[Any, str, str]],
    argument: str = "",
) -> Iterator[Bad]:
    """Yield each call with each bad value, which comes with what is to be said of it."""
    for call, run in calls.items():
        for given, (value, thing, remedy) in values.items():
            yield Bad(
                call,
                f"{argument}, {given}" if argument else given,
                lambda s, run=run, value=value: run(s, value),
                thing,
                remedy,
            )


def said(options: Mapping[str, Any]) -> str:
    """Return options as one would write them."""
    shown = (
        (name, re.sub(" at 0x.*", ">", repr(value))) for name, value in options.items()
    )
    return ", ".join(f"{name}={text:.30}" for name, text in shown)
