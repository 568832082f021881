"""Results: which candidate was selected, what a method learned, and the whole fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from pyomo_csg.errors import DataError
from pyomo_csg.learn.generators.scenario_generator import ScenarioGenerator
from pyomo_csg.learn.tables.history import History
from pyomo_csg.learn.tables.preprocessing import Preprocessing

if TYPE_CHECKING:
    import pandas as pd

    from pyomo_csg.learn.networks.task_nets import TaskNet


@dataclass(frozen=True)
class CandidateScore:
    """A candidate's mean cost, and the standard error of its difference from the chosen."""

    name: str
    loss: float
    standard_error: float
    unsolved: int


@dataclass
class Selection:
    """Which candidate was chosen, and why; fields that do not apply are None."""

    chosen: str
    margin: float | None = None  # in mean cost, from the runner-up
    confidence: float | None = None  # probability that it beats the runner-up
    pairs_scored: int | None = None  # how many costs were compared
    candidates: list[CandidateScore] | None = None  # the best first
    loss_net: dict[str, Any] | None = None  # predicted and true losses on held-out rows
    loss_net_errors: dict[str, Any] | None = None  # diagnostics of the Loss-Net
    notes: list[str] | None = None  # warnings for the report
    settings: dict[str, Any] | None = None  # chosen by a hyperparameter search
    searched: int | None = None  # how many settings were tried
    search_won: dict[str, Any] | None = None  # how much better the chosen settings are
    all_outcomes: dict[str, Any] | None = None  # the cost of deciding on all outcomes
    scenarios_tried: list[dict[str, Any]] | None = None  # costs by number of scenarios
    plan: dict[str, Any] | None = None  # what was planned for the time of the fit

    def summary(self) -> dict[str, Any]:
        """Return the fields that apply, in JSON types."""
        return {
            name: value for name, value in asdict(self).items() if value is not None
        }


@dataclass(frozen=True, eq=False)
class MethodResult:
    """The generator that a method fitted to all rows, and how it was selected.

    ``holdout_losses`` returns the losses (m,) on held-out rows of networks fitted to the
    other rows: costs of decisions, or MMD losses of ``'mmd'``, which has ``holdout_costs``
    for the costs. ``scored_costs`` (m,) are the costs on held-out rows and their observed
    outcomes, if the choice was made by them.
    """

    generator: ScenarioGenerator
    selection: Selection
    holdout_losses: Callable[[], np.ndarray]
    holdout_costs: Callable[[], np.ndarray] | None = None
    scored_costs: np.ndarray | None = None

    def costs(self) -> np.ndarray:
        """Return the costs of decisions on held-out rows (m,)."""
        return (self.holdout_costs or self.holdout_losses)()


@dataclass(frozen=True, eq=False)
class FitResult:
    """A fitted scenario generator and the record of its fit.

    ``summary`` is the content of a report in JSON types. ``training`` holds the losses
    during the fit: a DataFrame, or its columns and rows in JSON types. ``reach`` is the
    largest distance of a context in the history from their mean, as the root mean square
    of its standardized numbers. ``preprocessing`` makes these numbers from a table's columns.
    ``pairs`` is the history, if it is kept, and ``holdout_costs`` (m,) are the costs of the
    winner's decisions on rows that were held out while it was chosen. ``lineage`` has one
    entry for the fit and one for every update, in JSON types.
    """

    generator: ScenarioGenerator
    method: str
    summary: dict[str, Any]
    training: pd.DataFrame | Mapping[str, Any] | None = None
    context_names: tuple[str, ...] | None = None
    reach: float = 0.0
    preprocessing: Preprocessing | None = None
    pairs: History | None = None
    holdout_costs: np.ndarray | None = None
    lineage: tuple[dict[str, Any], ...] = ()

    @cached_property
    def log(self) -> pd.DataFrame:
        """The losses during the fit."""
        import pandas as pd  # deciding does without

        if isinstance(self.training, Mapping):
            rows, columns = self.training["rows"], self.training["columns"]
            return pd.DataFrame(rows, columns=columns)
        return pd.DataFrame() if self.training is None else self.training

    @property
    def network(self) -> TaskNet:
        """The torch network that generates the scenarios; a DataError if there is none."""
        network = getattr(self.generator, "network", None)
        if network is None:
            found = f"its scenarios come from a {type(self.generator).__name__}"
            remedy = "fit with a method by name, such as 'mmd'"
            raise DataError("The policy has no network", [f"{found}; {remedy}"])
        return network
