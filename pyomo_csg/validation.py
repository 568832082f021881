"""What an option may be, and the words that refuse it where it is something else."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any, TypeGuard

METHODS = ("auto", "mmd", "static", "dynamic", "direct")  # of csg.fit
MOST_SEED = 2**32 - 1  # of scikit-learn


def is_whole(value: Any) -> TypeGuard[int]:
    """Say if it is a whole number: no bool, and no float that happens to be one."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_number(value: Any) -> TypeGuard[float]:
    """Say if it is a finite number: no bool, and no text that reads like one."""
    real = isinstance(value, Real) and not isinstance(value, bool)
    return real and -math.inf < value < math.inf


def is_one_of(value: Any, choices: tuple[str, ...]) -> bool:
    """Say if it is one of some words; of arrays, ``in`` would say something else."""
    return isinstance(value, str) and value in choices


def whole_problems(**counts: Any) -> list[str]:
    """Say which of some arguments are no whole numbers from 1 up."""
    return [
        f"{name} is {count!r:.80}; give a whole number from 1 up"
        for name, count in counts.items()
        if not (is_whole(count) and count >= 1)
    ]


def seed_problems(seed: Any) -> list[str]:
    """Say what is wrong with a seed, if anything is."""
    if is_whole(seed) and 0 <= seed <= MOST_SEED:
        return []
    return [f"seed is {seed!r:.80}; give a whole number from 0 to {MOST_SEED}"]


def share_problems(**shares: Any) -> list[str]:
    """Say which of some arguments are not between 0 and 1."""
    return [
        f"{name} is {share!r:.80}; give a number between 0 and 1"
        for name, share in shares.items()
        if not (is_number(share) and 0 < share < 1)
    ]


def size_problems(**sizes: Any) -> list[str]:
    """Say which of some arguments are no numbers from 0 up."""
    return [
        f"{name} is {size!r:.80}; give a number from 0 up"
        for name, size in sizes.items()
        if not (is_number(size) and size >= 0)
    ]


def positive_problems(**sizes: Any) -> list[str]:
    """Say which of some arguments are no numbers above 0."""
    return [
        f"{name} is {size!r:.80}; give a number above 0"
        for name, size in sizes.items()
        if not (is_number(size) and size > 0)
    ]
