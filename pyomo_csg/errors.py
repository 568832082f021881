"""Every error that pyomo_csg raises, in one tree under :class:`CsgError`."""

from __future__ import annotations

from collections.abc import Iterable

from pyomo.common.errors import PyomoException


class CsgError(PyomoException):
    """Base of every error that pyomo_csg raises."""


class ProblemsError(CsgError):
    """An error that lists everything found wrong, not only the first thing.

    Parameters
    ----------
    subject : str
        What was being checked.
    problems : iterable of str
        One line a problem: the component, what was found, what to do.

    Attributes
    ----------
    problems : tuple of str
    """

    def __init__(self, subject: str, problems: Iterable[str]):
        self.subject = subject
        self.problems = tuple(problems)
        super().__init__(subject, self.problems)

    def __str__(self) -> str:
        return "\n  - ".join([f"{self.subject}:", *self.problems])


class AnnotationError(ProblemsError):
    """:func:`pyomo_csg.annotate` was given something that it cannot mark."""


class ModelError(ProblemsError):
    """An annotated model that is not a usable two-stage model."""


class DataError(ProblemsError):
    """Scenarios, weights, outcomes or decisions that do not fit the model."""


def shortlist(names: Iterable[str], most: int = 5) -> str:
    """Join names for a message, the first few of them when there are many."""
    names = list(names)
    shown = ", ".join(f"'{name}'" for name in names[:most])
    more = len(names) - most
    return shown if more <= 0 else f"{shown} and {more} more"
