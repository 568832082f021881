"""The shared inputs of every method: tensors, Omega, the oracle, the seeds."""

from __future__ import annotations

import copy
import zlib
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pyomo.environ as pyo
import torch
from torch import Tensor, nn

from pyomo_csg.errors import CsgError
from pyomo_csg.learn.checkpoint import Checkpoint
from pyomo_csg.learn.config import FitConfig, complete_settings
from pyomo_csg.learn.distributions.distances import (
    check_distance,
    distance_losses,
    mmd_to_points,
    trainable_kernel,
)
from pyomo_csg.learn.distributions.features import evenly_spaced, standard_spread
from pyomo_csg.learn.distributions.user_distribution import (
    DrawnSampler,
    UserDistribution,
)
from pyomo_csg.learn.loss_kinds import LossKind
from pyomo_csg.learn.networks.domains import Omega, build_omega
from pyomo_csg.learn.networks.task_nets import (
    OmegaHead,
    TaskNet,
    eval_mode,
    scenarios_from_output,
)
from pyomo_csg.learn.progress import TrainingLog
from pyomo_csg.learn.tables.history import History
from pyomo_csg.solve import Oracle
from pyomo_csg.solve.results import LossGradient, Solution

# In a fit, failures are recorded and solves do not depend on earlier ones.
_OPTIONS: dict[str, Any] = {
    "on_error": "record",
    "progress": False,
    "fresh": True,
}
_WARM_UP_SETS, _WARM_UP_OUTCOMES = 64, 256
_MOST_TARGETS = 50  # draws that scenarios are compared with
_SCALE_ROWS = 500  # on which the spread of costs is measured


def decision_costs(
    oracle: Oracle,
    decisions: np.ndarray,
    outcomes: np.ndarray,
    known: np.ndarray,
    deadline: float | None = None,
) -> np.ndarray:
    """Return the costs (n,) of decisions (n, s) on outcomes (n, p), given known (n, r).

    They are NaN where a decision is NaN, or has no feasible recourse.
    """
    costs = np.full(len(outcomes), np.nan)
    made = np.flatnonzero(np.isfinite(decisions).all(axis=1))
    if len(made):
        costs[made] = oracle.cost(
            decisions[made],
            outcomes[made],
            known=known[made],
            deadline=deadline,
            **_OPTIONS,
        )
    return costs


class Task:
    """A learning task: one model, one history, one number of scenarios.

    ``contexts`` are standardized. ``head`` is the default head; location-scale networks
    have another one. The kernel divides outcomes by ``kernel_unit`` (p,). Programs take the
    known numbers of the ``rows`` (n,) in a call, or those of a typical row without ``rows``.
    With the user's ``distribution``, labels, training and scores use its draws, ``targets``.
    """

    def __init__(
        self,
        oracle: Oracle,
        history: History,
        scenarios: int,
        config: FitConfig,
        seed: int,
        log: TrainingLog,
        checkpoint: Checkpoint | None = None,
        distribution: UserDistribution | None = None,
    ):
        self.oracle, self.history, self.scenarios = oracle, history, scenarios
        config = complete_settings(config, history)
        self.config, self.seed, self.log = config, seed, log
        self.checkpoint = checkpoint or Checkpoint(None, {})
        self.distribution = distribution
        # Outcomes (n, M, p): those observed, or draws of the user's distribution.
        self.targets = history.outcomes[:, None]
        if distribution is not None:
            self.targets = distribution.remember(history.contexts)
        axes = tuple(range(history.contexts.ndim - 1))
        self.center = history.contexts.mean(axis=axes)
        self.spread = standard_spread(history.contexts)
        self.contexts = torch.as_tensor((history.contexts - self.center) / self.spread)
        self.outcomes = torch.as_tensor(history.outcomes)
        points = self.targets.reshape(-1, self.targets.shape[-1])
        self.omega: Omega = build_omega(oracle.two_stage, points)
        self.head = OmegaHead(self.omega)
        numbers = history.outcomes.shape[1]
        self.kernel = trainable_kernel(config.kernel, numbers, config.bandwidth)
        if config.distance is not None:
            check_distance(config.distance, scenarios, numbers)
        spread = self.omega.spread
        is_raw = config.units == "raw"
        self.kernel_unit = torch.ones_like(spread) if is_raw else spread
        self._terms: dict[int, tuple[Any, Tensor | None]] = {}

    def warm_up_oracle(self) -> None:
        """Find the oracle's recourse bases once instead of in every batch."""
        outcomes, rng = self.history.outcomes, self.rng("rehearsal")
        picked = rng.integers(len(outcomes), size=(_WARM_UP_SETS, self.scenarios))
        tried = evenly_spaced(len(outcomes), _WARM_UP_OUTCOMES)
        known = self.history.known[tried]
        self.oracle.rehearse(outcomes[picked], outcomes[tried], known)

    def solve(
        self,
        scenarios: np.ndarray,
        weights: np.ndarray | None = None,
        rows: np.ndarray | None = None,
        mip_gap: float | None = None,
    ) -> Solution:
        """Solve zeta-SAA; NaN where it was not solved. Raise TimeUpError if time is up."""
        known = self._known(rows, len(scenarios))
        options = {**self._options, "known": known, "weights": weights}
        options["mip_gap"] = mip_gap
        found = self.oracle.solve(scenarios, **options)
        self.log.check_time()
        return found

    def cost(
        self,
        decisions: np.ndarray,
        outcomes: np.ndarray,
        rows: np.ndarray | None = None,
    ) -> np.ndarray:
        """Return the costs (n,) of decisions (n, s); NaN as by ``decision_costs``."""
        known = self._known(rows, len(outcomes))
        costs = decision_costs(
            self.oracle, decisions, outcomes, known, self.log.deadline
        )
        self.log.check_time()
        return costs

    def loss(
        self,
        scenarios: np.ndarray,
        outcomes: np.ndarray,
        kind: str | LossKind = "optimistic",
        weights: np.ndarray | None = None,
        rows: np.ndarray | None = None,
    ) -> np.ndarray:
        """Return the losses (n,) of scenarios (n, K, p) on outcomes (n, p)."""
        options = {**self._options, "known": self._known(rows, len(outcomes))}
        if isinstance(kind, str):
            # An audit would search among ties after all.
            options |= {"kind": kind, "weights": weights, "audit": False}
            found = self.oracle.loss(scenarios, outcomes, **options)
        else:
            found = kind.losses(self.oracle, scenarios, outcomes, options, weights)
        self.log.check_time()
        return found

    def loss_gradient(
        self,
        scenarios: np.ndarray,
        outcomes: np.ndarray,
        weights: np.ndarray | None = None,
        oracle: Oracle | None = None,
        rows: np.ndarray | None = None,
    ) -> LossGradient:
        """Return losses and their gradients, by default of the task's oracle."""
        oracle = oracle or self.oracle
        known = self._known(rows, len(outcomes))
        options = {**self._options, "weights": weights, "known": known}
        found = oracle.loss_gradient(scenarios, outcomes, **options)
        self.log.check_time()
        return found

    def _known(self, rows: np.ndarray | None, count: int) -> np.ndarray:
        """Return the known numbers (n, r) of rows, or those of the row nearest to the median."""
        known = self.history.known
        if rows is not None:
            return known[rows]
        distances = np.abs(known - np.median(known, axis=0)) / standard_spread(known)
        return np.repeat(known[[distances.sum(axis=1).argmin()]], count, axis=0)

    @property
    def _options(self) -> dict[str, Any]:
        """Options of the oracle's calls, which end with the time budget."""
        return {**_OPTIONS, "deadline": self.log.deadline}

    @cached_property
    def relaxed(self) -> Oracle:
        """The oracle of the model with its integers relaxed; its programs are fast."""
        if not self.has_integers:
            return self.oracle
        model = self.oracle.two_stage.copy().model
        pyo.TransformationFactory("core.relax_integer_vars").apply_to(model)
        return self.oracle.on(model)

    @cached_property
    def has_gradient(self) -> bool:
        """Whether decisions move with scenarios, and the solver has their gradient."""
        rng, outcomes = self.rng("gradient"), self.history.outcomes
        picked = rng.integers(len(outcomes), size=(8, self.scenarios))
        others = outcomes[rng.integers(len(outcomes), size=8)]
        scenarios = outcomes[picked]
        try:
            # Programs may be slow, and the first one mostly has a gradient.
            for some in (slice(0, 1), slice(1, None)):
                found = self.loss_gradient(
                    scenarios[some], others[some], oracle=self.relaxed
                )
                if np.nan_to_num(found.gradient).any():
                    return True
        except CsgError:
            pass
        return False

    def with_scenarios(self, count: int) -> Task:
        """Return the same task with another number of scenarios."""
        other = copy.copy(self)
        other.scenarios = count
        return other

    def stored_within(self, part: str) -> Task:
        """Return the same task, whose stages have names of their own in the checkpoint."""
        other = copy.copy(self)
        other.checkpoint = self.checkpoint.within(part)
        return other

    def with_config(self, **changes: Any) -> Task:
        """Return the same task with some other settings."""
        other = copy.copy(self)
        other.config = replace(self.config, **changes)
        return other

    def with_rows(
        self, contexts: np.ndarray, outcomes: np.ndarray, known: np.ndarray
    ) -> Task:
        """Return the same task with more rows of history, in the same units."""
        other = copy.copy(self)
        other.history = replace(
            self.history,
            contexts=np.concatenate([self.history.contexts, contexts]),
            outcomes=np.concatenate([self.history.outcomes, outcomes]),
            known=np.concatenate([self.history.known, known]),
        )
        other.contexts = torch.as_tensor(
            (other.history.contexts - self.center) / self.spread
        )
        other.outcomes = torch.as_tensor(other.history.outcomes)
        other.targets = np.concatenate([self.targets, outcomes[:, None]])
        other._terms = {}
        return other

    @property
    def output_shape(self) -> tuple[int, int]:
        """Shape of a body's output for a context: (K, p), or (K, p + 1) with weights."""
        numbers = self.history.outcomes.shape[1]
        return self.scenarios, numbers + (self.config.weights == "learned")

    @property
    def device(self) -> str:
        """The torch device for training."""
        if self.config.device != "auto":
            return self.config.device
        return "cuda" if torch.cuda.is_available() else "cpu"

    @property
    def has_integers(self) -> bool:
        """Whether the model has integer variables, so that solves are slow."""
        return self.oracle.two_stage.integer

    @property
    def has_integer_recourse(self) -> bool:
        """Whether recourse variables are integer, so that evaluating costs is slow."""
        recourse = self.oracle.two_stage.recourse_variables
        return any(not v.is_continuous() for v in recourse)

    @cached_property
    def cost_scale(self) -> float:
        """The standard deviation of the costs of the decision for the median outcome."""
        outcomes = self.history.outcomes
        middle = np.median(outcomes, axis=0)
        decision = self.solve(middle[None, None]).decision
        some = outcomes[evenly_spaced(len(outcomes), _SCALE_ROWS)]
        costs = self.cost(np.repeat(decision, len(some), axis=0), some)
        known = costs[np.isfinite(costs)]
        spread = float(known.std()) if len(known) else 0.0
        return spread if spread > 0 else float(np.abs(known).max(initial=1.0))

    def context_terms(self, head: Any) -> Tensor | None:
        """Return what a head computes from the contexts of all rows, if anything."""
        if id(head) not in self._terms:
            terms = getattr(head, "history_terms", None)  # out of fold
            if terms is None:
                terms = head.context_terms(torch.as_tensor(self.history.contexts))
            # The head is stored as well, so that no other object can get its id.
            self._terms[id(head)] = head, terms
        return self._terms[id(head)][1]

    def rng(self, stage: str) -> np.random.Generator:
        """Return the generator of a stage, which does not depend on earlier stages."""
        return np.random.default_rng([self.seed, zlib.crc32(stage.encode())])

    def mmd_losses(
        self, scenarios: Tensor, weights: Tensor | None, rows: np.ndarray
    ) -> Tensor:
        """Return the MMD losses (...) of scenarios (..., K, p) on rows (...).

        They are the user's distances, if there are any.
        """
        targets = self.target_points(rows) / self.kernel_unit
        scaled = scenarios / self.kernel_unit
        if self.config.distance is not None:
            return distance_losses(scaled, targets, weights, self.config.distance)
        return mmd_to_points(scaled, targets, weights, self.kernel)

    def target_points(self, rows: np.ndarray) -> Tensor:
        """Return what scenarios of rows (...) are compared with: points (..., M, p)."""
        places = evenly_spaced(self.targets.shape[1], _MOST_TARGETS)
        return torch.as_tensor(self.targets[rows][..., places, :])

    def draw_targets(self, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return an outcome (..., p) for each of the rows (...): observed, or drawn."""
        if self.distribution is None:
            return self.targets[rows, 0]
        return self.targets[rows, rng.integers(self.targets.shape[1], size=rows.shape)]

    @property
    def target_sampler(self) -> DrawnSampler | None:
        """Draws of the user's distribution; None without one."""
        return None if self.distribution is None else DrawnSampler(self.targets)

    def network(self, body: nn.Module, head: Any = None) -> TaskNet:
        """Return the Task-Net with this body."""
        return TaskNet(body, head or self.head, self.center, self.spread)

    def generate_scenarios(
        self, body: nn.Module, rows: np.ndarray, head: Any = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return a body's scenarios (n, K, p) and weights (n, K) on some rows."""
        head = head or self.head
        with torch.no_grad(), eval_mode(body):
            index, terms = torch.as_tensor(rows), self.context_terms(head)
            free = body(self.contexts[index])
            known = None if terms is None else terms[index]
            found = scenarios_from_output(free, head, known)
        return found[0].numpy(), found[1].numpy()

    def solver_weights(self, weights: np.ndarray) -> np.ndarray | None:
        """Return weights for the oracle: None if they are all equal."""
        return weights if self.config.weights == "learned" else None
