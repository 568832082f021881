"""Numbers in texts and tables: standard errors with two digits, no rounding residues."""

from __future__ import annotations

import math
from collections.abc import Sequence

_DIGITS = 6  # of a number without a standard error
_MOST_PLACES = 12  # after the point; a smaller error is shown with an exponent
_LARGEST = 1e15  # larger numbers are shown with an exponent


def with_error(mean: float, error: float) -> str:
    """Return a mean and its standard error, of which two digits count.

    >>> with_error(316438.2, 1234.5), with_error(2.914, 0.6), with_error(1.5, 0.0)
    ('316,400 +- 1,200', '2.91 +- 0.60', '1.5 +- 0')
    """
    if not math.isfinite(error):
        return number(mean)
    return f"{round_like(mean, error)} +- {two_digits(error)}"


def two_digits(error: float) -> str:
    """Return a standard error with two digits.

    >>> two_digits(0.0996), two_digits(1249.0), two_digits(0.0)
    ('0.10', '1,200', '0')
    """
    return "0" if error == 0 else round_like(error, error)


def round_like(value: float, error: float) -> str:
    """Return a number rounded to the place of a standard error's second digit."""
    if not (error > 0 and math.isfinite(error) and math.isfinite(value)):
        return number(value)
    error = float(f"{error:.1e}")  # 0.0996 has the place of 0.10
    place = 1 - math.floor(math.log10(error))
    if place > _MOST_PLACES:
        return number(value)
    return f"{round(value, place) + 0.0:,.{max(0, place)}f}"


def number(value: float) -> str:
    """Return a number with six digits, without rounding residues or a negative zero.

    >>> number(249.99999999999997), number(-0.0), number(1234567.8), number(math.nan)
    ('250', '0', '1,234,568', '-')
    """
    if not math.isfinite(value):
        return "-" if math.isnan(value) else str(value)
    if abs(value) >= 10**_DIGITS:
        return f"{value:,.0f}" if abs(value) < _LARGEST else f"{value:.6g}"
    return f"{float(f'{value:.{_DIGITS}g}') + 0.0:,.{_DIGITS}g}"


def join_words(parts: Sequence[str]) -> str:
    """Return parts of a sentence as a list in words.

    >>> join_words(["a", "b", "c"]), join_words(["a"])
    ('a, b and c', 'a')
    """
    *most, last = parts
    return f"{', '.join(most)} and {last}" if most else last
