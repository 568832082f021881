"""Verdicts: what a policy's decisions cost or earn beside the nearest alternative."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from pyomo_csg.decisions.number_formats import join_words, with_error
from pyomo_csg.notebook import card

POLICY = "this policy"
HELD_OUT = "held-out rows"
CLEARLY = 2.0  # standard errors of a difference that is no chance
_MOST_ROWS_ASKED = 100_000  # a larger number of rows is no advice


@dataclass(frozen=True)
class Advantage:
    """By how much a policy is better than an alternative; negative if it is worse.

    ``mean`` is a saving, or a further profit if the model is maximized.
    """

    name: str
    mean: float
    standard_error: float

    @property
    def is_clear(self) -> bool:
        """Whether the policy is better by more than two standard errors."""
        return self.mean > CLEARLY * self.standard_error

    @property
    def is_clear_loss(self) -> bool:
        """Whether the policy is worse by more than two standard errors."""
        return self.mean < -CLEARLY * self.standard_error


@dataclass(frozen=True)
class Verdict:
    """What decisions cost or earn on rows, beside the nearest alternative. ``print`` it.

    Numbers are in the model's own sense: profits if it is maximized.

    Attributes
    ----------
    rows : int
    mean, standard_error : float
        Of the policy's costs, or of its profits.
    advantages : tuple of Advantage
        One for each alternative, the hardest to beat first.
    maximized : bool
    name : str
        What the policy is called.
    where : str
        Which rows these are.
    notes : tuple of str
        What a reader must know to trust the numbers.
    advises : bool
        Whether to say what to do if the policy does not win.

    Examples
    --------
    >>> print(Verdict(60, 38.9, 1.1, (Advantage("SAA", 2.9, 0.6),), maximized=True))
    On 60 held-out rows this policy earns 38.9 +- 1.1 on average, 2.90 +- 0.60 more than
    the best alternative (SAA).
    """

    rows: int
    mean: float
    standard_error: float
    advantages: tuple[Advantage, ...]
    maximized: bool = False
    name: str = POLICY
    where: str = HELD_OUT
    notes: tuple[str, ...] = ()
    advises: bool = True

    @property
    def nearest(self) -> Advantage | None:
        """The advantage over the alternative that is hardest to beat."""
        return self.advantages[0] if self.advantages else None

    @property
    def beats(self) -> bool:
        """Whether the policy is clearly better than every alternative."""
        return all(one.is_clear for one in self.advantages)

    @property
    def sentences(self) -> tuple[str, ...]:
        """The verdict, what to do if the policy does not win, and the notes."""
        return tuple(s for s in (self._result(), self._advice(), *self.notes) if s)

    def __str__(self) -> str:
        return " ".join(self.sentences)

    def _repr_html_(self) -> str:
        return card("Verdict", self.sentences)

    def _result(self) -> str:
        verb = "earns" if self.maximized else "costs"
        own = with_error(self.mean, self.standard_error)
        text = f"On {self.rows:,} {self.where} {self.name} {verb} {own} on average"
        if self.nearest is None:
            return f"{text}."
        first, *others = self.advantages
        text += f", {self._difference(first)} the best alternative ({first.name})"
        rest = [f"{self._difference(one)} {one.name}" for one in others]
        return f"{join_words([text, *rest])}."

    def _difference(self, one: Advantage) -> str:
        if one.mean == one.standard_error == 0:
            return "as much as"
        better, worse = ("more", "less") if self.maximized else ("less", "more")
        size = with_error(abs(one.mean), one.standard_error)
        return f"{size} {better if one.mean >= 0 else worse} than"

    def _advice(self) -> str:
        """Return what to do if the policy does not clearly beat the nearest one."""
        first = self.nearest
        if first is None or first.is_clear or not self.advises:
            return ""
        if first.is_clear_loss:
            return (
                f"It does not beat '{first.name}': decide by that instead, and fit again "
                "with more rows or with other context columns."
            )
        advice = f"That is not clearly different from '{first.name}'"
        needed = self._rows_needed(first)
        if first.mean > 0 and needed is not None:
            return f"{advice}: about {needed:,} held-out rows would show it."
        return (
            f"{advice}, which is simpler: prefer that, unless more held-out rows show "
            "otherwise."
        )

    def _rows_needed(self, one: Advantage) -> int | None:
        """Return the rows on which a difference of this size would be clear."""
        if one.mean == 0 or not math.isfinite(one.standard_error):
            return None
        needed = self.rows * (CLEARLY * one.standard_error / one.mean) ** 2
        if not needed <= _MOST_ROWS_ASKED:
            return None
        step = 10 ** max(0, math.floor(math.log10(max(needed, 1))) - 1)
        return int(math.ceil(needed / step) * step)

    def summary(self) -> dict[str, Any]:
        """Return the numbers and the sentences in JSON types."""
        return {
            "rows": self.rows,
            "mean": self.mean,
            "standard_error": self.standard_error,
            "sense": "maximize" if self.maximized else "minimize",
            "beats": self.beats,
            "advantages": [vars(one) for one in self.advantages],
            "sentences": list(self.sentences),
        }
