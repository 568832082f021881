"""The outcome of comparing candidates on held-out rows."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class CandidateScore:
    """A candidate's mean cost, and the standard error of its difference from the chosen."""

    name: str
    loss: float
    standard_error: float
    unsolved: int


@dataclass
class Selection:
    """Which candidate was chosen, and why. Fields that do not apply are None.

    Attributes
    ----------
    chosen : str
    margin : float
        The difference in mean cost from the runner-up.
    confidence : float
        The probability that the chosen one beats the runner-up.
    pairs_judged : int
        How many costs were compared.
    candidates : list of CandidateScore
        By mean cost, the best first.
    loss_net, trust : dict
        Predicted and true losses on held-out rows, and the Loss-Net's diagnostics.
    notes : list of str
        Warnings for the report.
    settings, searched, search_won
        The settings that a hyperparameter search chose, out of how many, and by how much.
    scenarios_tried : list of dict
        The costs by number of scenarios.
    """

    chosen: str
    margin: float | None = None
    confidence: float | None = None
    pairs_judged: int | None = None
    candidates: list[CandidateScore] | None = None
    loss_net: dict[str, Any] | None = None
    trust: dict[str, Any] | None = None
    notes: list[str] | None = None
    settings: dict[str, Any] | None = None
    searched: int | None = None
    search_won: dict[str, Any] | None = None
    scenarios_tried: list[dict[str, Any]] | None = None

    def summary(self) -> dict[str, Any]:
        """Return the fields that apply, in JSON's types."""
        return {
            name: value for name, value in asdict(self).items() if value is not None
        }
