"""A bound as the sum of its terms, which says when it is vacuous and whose fault it is."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Term:
    """One summand of a bound.

    Attributes
    ----------
    name : str
    value : float
    detail : str
        The constants that it is made of.
    """

    name: str
    value: float
    detail: str = ""


@dataclass(frozen=True)
class Bound:
    """An upper bound of an expected loss, term by term. ``str()`` is a report.

    Attributes
    ----------
    name : str
        The theorem and the loss.
    delta : float
        The chance, at most, that it is wrong.
    terms : tuple of Term
        The first is what was seen; the others are the price of not having seen all.
    largest : float
        What no loss is above.

    Examples
    --------
    >>> terms = Term("mean loss", 0.25), Term("complexity", 1.5), Term("confidence", 0.1)
    >>> bound = Bound("Theorem 2", 0.05, terms, largest=1.0)
    >>> bound.total, bound.vacuous, bound.culprit.name
    (1.85, True, 'complexity')
    """

    name: str
    delta: float
    terms: tuple[Term, ...]
    largest: float

    @property
    def total(self) -> float:
        """The bound."""
        return sum(term.value for term in self.terms)

    @property
    def vacuous(self) -> bool:
        """Whether it says no more than what is true of every loss."""
        return not self.total < self.largest

    @property
    def culprit(self) -> Term:
        """The largest term, apart from what was seen."""
        return max(self.terms[1:], key=lambda term: term.value)

    def __str__(self) -> str:
        width = max(len(term.name) for term in self.terms)
        sure = f"with {100 * (1 - self.delta):.4g} % confidence"
        lines = [
            f"  {term.name:{width}}{term.value:>12.5g}  {term.detail}".rstrip()
            for term in self.terms
        ]
        head = f"{self.name}, {sure}: at most {self.total:.5g}"
        return "\n".join([head, *lines, self._verdict()])

    def _verdict(self) -> str:
        if not self.vacuous:
            return f"It says something: a loss can be {self.largest:.5g}."
        if math.isinf(self.largest):
            return "Vacuous: the loss is not bounded; give a bounded support."
        fault = f"by its term '{self.culprit.name}'"
        if self.terms[0].value + self.culprit.value < self.largest:
            fault = "by all its terms together"
        return f"Vacuous, {fault}: no loss is above {self.largest:.5g} anyway."
