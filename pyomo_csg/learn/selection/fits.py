"""What candidates of ``'auto'`` are: one fit per fold, each a way to generate scenarios."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from torch import nn

from pyomo_csg.learn.generators.scenario_generator import ScenarioGenerator
from pyomo_csg.learn.methods.static import LossNetFit
from pyomo_csg.learn.networks.torch_generator import generator_from_network
from pyomo_csg.learn.task import Task


class Fit(Protocol):
    """A way to generate scenarios, fitted to the rows of one fold."""

    is_trained: ClassVar[bool]

    def scenarios(
        self, task: Task, rows: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Return scenarios (n, K, p) for some rows, and weights (n, K) if they differ."""

    def generator(self, task: Task) -> ScenarioGenerator:
        """Return what the policy keeps."""


@dataclass(frozen=True, eq=False)
class NetworkFit:
    """A network, with the Loss-Net that trained it, if any."""

    is_trained: ClassVar[bool] = True
    body: nn.Module
    head: Any
    loss_net_fit: LossNetFit | None = None

    def scenarios(
        self, task: Task, rows: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the network's scenarios, and its weights if they are learned."""
        scenarios, weights = task.generate_scenarios(self.body, rows, self.head)
        return scenarios, task.solver_weights(weights)

    def generator(self, task: Task) -> ScenarioGenerator:
        """Return the network as arrays."""
        shape = task.history.contexts.shape[1:]
        return generator_from_network(task.network(self.body, self.head), shape)


@dataclass(frozen=True, eq=False)
class GeneratorFit:
    """A generator that needs no training."""

    is_trained: ClassVar[bool] = False
    make: ScenarioGenerator

    def scenarios(
        self, task: Task, rows: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the generator's scenarios and weights."""
        found: Any = self.make(task.history.contexts[rows])
        scenarios, weights = found
        return scenarios, weights if self.make.is_weighted else None

    def generator(self, task: Task) -> ScenarioGenerator:
        """Return the generator."""
        return self.make


@dataclass(frozen=True, eq=False)
class Candidate:
    """A way to generate scenarios: one fit per fold, the last on all rows."""

    name: str
    fits: Sequence[Fit]
    is_context_free: bool = False

    @property
    def is_trained(self) -> bool:
        """Whether networks were trained, which may reach different local minima."""
        return self.fits[-1].is_trained

    @property
    def bodies(self) -> list[nn.Module]:
        """The networks of all folds, of a candidate that has them."""
        return [fit.body for fit in self.fits if isinstance(fit, NetworkFit)]

    @property
    def heads(self) -> list[Any]:
        """Their heads."""
        return [fit.head for fit in self.fits if isinstance(fit, NetworkFit)]


def network_candidate(
    name: str, bodies: Sequence[nn.Module], heads: Sequence[Any]
) -> Candidate:
    """Return the candidate of one network per fold."""
    pairs = zip(bodies, heads, strict=True)
    return Candidate(name, [NetworkFit(body, head) for body, head in pairs])


def loss_net_candidates(
    names: Sequence[str], fits: Sequence[LossNetFit], heads: Sequence[Any]
) -> list[Candidate]:
    """Return one candidate per name; ``fits`` has all folds of the first, then the next."""
    rest = iter(fits)
    return [
        Candidate(
            name, [NetworkFit((fit := next(rest)).body, head, fit) for head in heads]
        )
        for name in names
    ]
