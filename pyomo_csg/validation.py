"""Validate the arguments of public calls: collect every problem, then raise once."""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, TypeGuard

from pyomo_csg.errors import DataError, ProblemsError

METHODS = ("auto", "mmd", "static", "dynamic", "direct")  # of csg.fit
DEFAULT_SECONDS = 600.0  # of csg.fit
MAX_SEED = 2**32 - 1  # the largest that scikit-learn accepts
MAX_LISTED = 50  # problems in one error


class Problems:
    """The problems that one public call finds, raised together as one error.

    ``subject`` is the first line of the error; ``error`` is its class. :meth:`check`
    records the problems of a :class:`DataError` that a function raises.
    """

    def __init__(
        self,
        subject: str,
        error: type[ProblemsError] = DataError,
        limit: int = MAX_LISTED,
    ):
        self._subject = subject
        self._error = error
        self._limit = limit
        self._found: list[str] = []

    def __bool__(self) -> bool:
        return bool(self._found)

    def add(self, *problems: str) -> None:
        """Record problems."""
        self._found += problems

    def add_for(self, argument: str, *problems: str) -> None:
        """Record problems of one argument."""
        self._found += [f"{argument}: {problem}" for problem in problems]

    def check(self, argument: str, function: Callable[..., Any], *args: Any) -> Any:
        """Return ``function(*args)``, or record its problems and return None."""
        try:
            return function(*args)
        except DataError as error:
            self.add_for(argument, *error.problems)
            return None

    def check_counts(self, **counts: Any) -> None:
        """Record the arguments that are not integers of at least 1."""
        for name, count in counts.items():
            valid = is_whole(count) and count >= 1
            self._expect(valid, name, count, "a whole number from 1 up")

    def check_seed(self, seed: Any) -> None:
        """Record a seed that scikit-learn would not accept."""
        valid = is_whole(seed) and 0 <= seed <= MAX_SEED
        self._expect(valid, "seed", seed, f"a whole number from 0 to {MAX_SEED}")

    def check_fractions(self, **fractions: Any) -> None:
        """Record the arguments that are not strictly between 0 and 1."""
        for name, value in fractions.items():
            valid = is_number(value) and 0 < value < 1
            self._expect(valid, name, value, "a number between 0 and 1")

    def check_nonnegative(self, **numbers: Any) -> None:
        """Record the arguments that are not numbers of at least 0."""
        for name, value in numbers.items():
            valid = is_number(value) and value >= 0
            self._expect(valid, name, value, "a number from 0 up")

    def check_positive(self, **numbers: Any) -> None:
        """Record the arguments that are not numbers above 0."""
        for name, value in numbers.items():
            valid = is_number(value) and value > 0
            self._expect(valid, name, value, "a number above 0")

    def _expect(self, valid: bool, name: str, value: Any, expected: str) -> None:
        if not valid:
            self.add(f"{name} is {value!r:.80}; give {expected}")

    def raise_any(self) -> None:
        """Raise what was recorded, if anything; very long lists are cut short."""
        if not self._found:
            return
        shown = self._found[: self._limit]
        if (more := len(self._found) - self._limit) > 0:
            shown.append(f"... and {more} more")
        raise self._error(self._subject, shown)


def is_whole(value: Any) -> TypeGuard[int]:
    """Return True for an integer, but not for a bool or a float such as 2.0."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_number(value: Any) -> TypeGuard[float]:
    """Return True for a finite number, but not for a bool or text."""
    real = isinstance(value, Real) and not isinstance(value, bool)
    return real and -math.inf < value < math.inf


def is_one_of(value: Any, choices: tuple[str, ...]) -> bool:
    """Return True for one of some words; unlike ``in``, it is safe for arrays."""
    return isinstance(value, str) and value in choices
