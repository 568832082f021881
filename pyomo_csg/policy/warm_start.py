"""Fit a policy's scenario generator to other rows, from where it stands."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import torch
from torch import nn

from pyomo_csg.decisions.decider import LearnedDecider
from pyomo_csg.errors import DataError
from pyomo_csg.learn.candidates.fold_distributions import FoldDistributions
from pyomo_csg.learn.candidates.untrained import (
    reduced_name,
    task_frame,
    untrained_candidates,
)
from pyomo_csg.learn.config import FitConfig
from pyomo_csg.learn.distributions.conditional import ConditionalDistribution
from pyomo_csg.learn.distributions.distances import KERNELS
from pyomo_csg.learn.distributions.mixture import Mixture
from pyomo_csg.learn.distributions.samplers import ObservedSampler, Sampler
from pyomo_csg.learn.generators.distribution_generators import (
    AtomGenerator,
    ConstantGenerator,
    ForecastNetworkGenerator,
    FullGenerator,
    ReducedGenerator,
)
from pyomo_csg.learn.generators.scenario_generator import ScenarioGenerator
from pyomo_csg.learn.methods.direct import Direct
from pyomo_csg.learn.methods.mmd import train_mmd
from pyomo_csg.learn.methods.static import standard_lambdas, train_static
from pyomo_csg.learn.networks.initialization import constant_body
from pyomo_csg.learn.networks.task_nets import Feedforward, TaskNet
from pyomo_csg.learn.networks.torch_generator import generator_from_network
from pyomo_csg.learn.progress import TrainingLog
from pyomo_csg.learn.selection.folds import Folds
from pyomo_csg.learn.selection.plan import Plan, steps_and_batch
from pyomo_csg.learn.tables.history import History
from pyomo_csg.learn.task import Task
from pyomo_csg.learn.trainer import Schedule

_SHARE = 0.1  # of the programs or epochs of a new fit
_LEAST_PROGRAMS, _LEAST_EPOCHS = 60, 2
_BATCH, _LEAST_STEPS = 20, 12  # a step takes time whatever its batch
_RATE = 1e-3  # of networks; half of the usual one
_ATOM_RATE = 1e-2  # of constant scenarios and atoms, which have few parameters
_NEAR_MMD = 0.03  # weight of the MMD loss, as in a fit
_SAMPLER = "neighbors"  # the distribution whose outcomes networks are trained on
_LIGHT_PLAN: dict[str, Any] = {"programs": 1000, "draws": 8, "labels": 500}


class WarmStart:
    """Fits the generator of a policy to the rows of a history.

    Distributions are estimated again, which is fast. Atoms and networks go on from their old
    values, with a tenth of the training of a fit. ``log`` records it.
    """

    def __init__(self, policy: LearnedDecider, history: History, stage: str = "update"):
        self._policy, self._stage = policy, stage
        learned = policy.learned
        self.log = TrainingLog()
        self._chosen = str(learned.summary.get("chosen", policy.method))
        self._task = Task(
            policy.oracle,
            history,
            policy.count or 1,
            restored_settings(learned.summary.get("settings", {})),
            int(learned.summary.get("seed", 0)),
            self.log,
        )
        everything = np.arange(len(history))
        self._folds = Folds([everything], [everything[:0]])
        self._plan = _plan_counts(learned.summary.get("plan"))

    def fit(self, generator: ScenarioGenerator) -> ScenarioGenerator:
        """Return the generator after it has learned from all rows."""
        if getattr(generator, "is_users", False):
            return generator  # it was fitted to no rows
        if isinstance(generator, ForecastNetworkGenerator):
            return self._forecast_networks(generator)
        if isinstance(generator, AtomGenerator) and self._chosen == "trained atoms":
            return self._atoms(generator)
        if isinstance(generator, FullGenerator):
            distribution = self._distribution(generator.distribution)
            return FullGenerator(distribution, task_frame(self._task))
        if isinstance(generator, ConstantGenerator):
            return self._untrained(("empirical",), self._chosen)
        if isinstance(generator, AtomGenerator | ReducedGenerator):
            distribution = generator.distribution
            return self._untrained(_kinds(distribution), reduced_name(distribution))
        return self._network(generator)

    def _untrained(self, kinds: Sequence[str], name: str) -> ScenarioGenerator:
        """Return the reduction of a distribution, estimated again."""
        distributions = FoldDistributions(self._task, self._folds, kinds)
        found = list(untrained_candidates(self._task, distributions))
        named = [one for one in found if one.name == name]
        return (named or found)[-1].fits[-1].generator(self._task)

    def _distribution(self, old: ConditionalDistribution) -> Any:
        """Return a distribution of the same kind, estimated again."""
        found = FoldDistributions(self._task, self._folds, _kinds(old)).by_fold[0]
        if old.name not in found:
            problem = f"'{old.name}' cannot be estimated from {len(self._task.history)}"
            remedy = "rows in reasonable time; fit again, by csg.fit"
            raise DataError("Cannot update the policy", [f"{problem} {remedy}"])
        return found[old.name]

    def _atoms(self, generator: AtomGenerator) -> AtomGenerator:
        """Return the atoms after some training, around a forecast that is fitted again."""
        task = self._task.with_config(weights="learned")
        head, sampler = self._forecast(generator.distribution)
        free = torch.as_tensor(generator.atoms)
        start = constant_body(task, free, np.maximum(generator.weights, 1e-6))
        (body,) = self._train_on_costs(task, [start], [head], [sampler], _ATOM_RATE, 0)
        found = body.free.detach().numpy()
        logs = np.exp(found[:, -1] - found[:, -1].max())
        frame = task_frame(self._task)
        return AtomGenerator(head.distribution, found[:, :-1], logs / logs.sum(), frame)

    def _forecast_networks(
        self, generator: ForecastNetworkGenerator
    ) -> ForecastNetworkGenerator:
        """Return the networks after some training, around a forecast fitted again."""
        task = self._task.with_config(weights="learned")
        _use_inputs(task, generator.center, generator.spread)
        head, sampler = self._forecast(generator.distribution)
        settings = generator.settings
        starts = []
        for member in generator.members:
            body = Feedforward(
                settings["inputs"], tuple(settings["shape"]), tuple(settings["hidden"])
            )
            state = {name: torch.as_tensor(x) for name, x in member.items()}
            body.load_state_dict(state)
            starts.append(body.double())
        count = len(starts)
        bodies = self._train_on_costs(
            task, starts, [head] * count, [sampler] * count, _RATE, _NEAR_MMD
        )
        members = [
            {name: value.numpy() for name, value in body.state_dict().items()}
            for body in bodies
        ]
        return ForecastNetworkGenerator(
            head.distribution, settings, members, task_frame(task)
        )

    def _forecast(self, old: ConditionalDistribution) -> tuple[Any, Sampler]:
        """Return the head and the sampler of a forecast that is fitted again."""
        distributions = FoldDistributions(self._task, self._folds, _kinds(old))
        if old.name not in distributions.names:
            self._distribution(old)
        (head,), (sampler,) = (
            distributions.heads(old.name),
            distributions.samplers(old.name),
        )
        return head, sampler

    def _network(self, generator: Any) -> ScenarioGenerator:
        """Return a network after some training, with its old inputs and head."""
        task, network = self._task, generator.network
        center, spread = generator.center.copy(), generator.spread.copy()
        _use_inputs(task, center, spread)
        start, head = copy.deepcopy(network.body), copy.deepcopy(network.head)
        (body,) = self._train_network(task, start, head)
        shape = task.history.contexts.shape[1:]
        return generator_from_network(TaskNet(body, head, center, spread), shape)

    def _train_network(self, task: Task, start: nn.Module, head: Any) -> Any:
        if self._chosen in ("mmd", "location-scale, MMD"):
            return self._train_on_mmd(task, start, head)
        if task.has_gradient:
            rate = _ATOM_RATE if not _reads_contexts(start) else _RATE
            return self._train_on_costs(
                task, [start], [head], [self._sampler()], rate, _NEAR_MMD
            )
        return self._train_on_loss_net(task, start, head)

    def _sampler(self) -> Sampler:
        """Return what decisions are evaluated on: outcomes of similar contexts."""
        history = self._task.history
        if history.has_panels:
            return ObservedSampler(history.outcomes)
        found = FoldDistributions(self._task, self._folds, (_SAMPLER,))
        return found.samplers(found.names[-1])[0]

    def _train_on_costs(
        self,
        task: Task,
        starts: Sequence[nn.Module],
        heads: Sequence[Any],
        samplers: Sequence[Sampler],
        rate: float,
        regularization: float,
    ) -> list[Any]:
        """Return bodies trained on the costs of their decisions."""
        programs = max(_LEAST_PROGRAMS, int(_SHARE * self._plan["programs"]))
        steps, batch = steps_and_batch(programs // len(starts), _BATCH, _LEAST_STEPS)
        rows = self._folds.rows * len(starts)
        schedule = Schedule.of_steps(steps, rows, batch, rate, 0.0)
        direct = Direct(
            task,
            samplers,
            heads,
            oracle=task.relaxed,
            regularization=regularization,
            draws=self._plan["draws"],
        )
        return direct.train(
            starts, self._draw(steps * batch, len(starts)), self._stage, schedule
        )

    def _draw(self, count: int, members: int) -> list[np.ndarray]:
        """Return the rows to train on: all of them, or one for each planned program."""
        n, rng = len(self._task.history), self._task.rng(self._stage)
        if count >= n:
            return self._folds.rows * members
        return [np.sort(rng.choice(n, count, replace=False)) for _ in range(members)]

    def _train_on_mmd(self, task: Task, start: nn.Module, head: Any) -> list[Any]:
        epochs = max(_LEAST_EPOCHS, round(_SHARE * task.config.mmd_epochs))
        config = {"mmd_epochs": epochs, "mmd_rate": task.config.mmd_rate / 2}
        return train_mmd(
            task.with_config(**config),
            [start],
            self._folds.rows,
            None,
            self._stage,
            head=head,
        )

    def _train_on_loss_net(self, task: Task, start: nn.Module, head: Any) -> list[Any]:
        rows = self._draw(max(_LEAST_PROGRAMS, int(_SHARE * self._plan["labels"])), 1)
        (weight, *_) = standard_lambdas(task)
        (found,) = train_static(task, [start], [weight], rows, self._stage, head=head)
        return [found.body]


def restored_settings(stored: Mapping[str, Any]) -> FitConfig:
    """Return the settings of a fit from its summary; what has no text has its default."""
    known = {field.name for field in fields(FitConfig)}
    found: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in stored.items()
        if name in known
    }
    found.pop("search", None)
    try:
        return FitConfig(**found)
    except DataError:
        for name in ("kernel", "distance", "loss_net"):
            if found.get(name) not in KERNELS:  # an object of the user's
                found.pop(name, None)
        return FitConfig(**found)


def _plan_counts(stored: Any) -> dict[str, int]:
    """Return the counts of a fit's plan, or moderate ones without a plan."""
    counts = dict(_LIGHT_PLAN)
    if stored is not None:
        plan = Plan.restore(stored)
        counts.update(draws=plan.draws)
        counts.update({"programs": plan.programs} if plan.programs else {})
        counts.update({"labels": plan.labels} if plan.labels else {})
    return counts


def _kinds(distribution: ConditionalDistribution) -> tuple[str, ...]:
    """Return the kinds to estimate for a distribution: those of its parts, too."""
    if isinstance(distribution, Mixture):
        return (*(part.name for part in distribution.parts), distribution.name)
    return (distribution.name,)


def _use_inputs(task: Task, center: np.ndarray, spread: np.ndarray) -> None:
    """Standardize a new task's contexts as an old network expects them."""
    task.center, task.spread = center, spread
    task.contexts = torch.as_tensor((task.history.contexts - center) / spread)


def _reads_contexts(body: nn.Module) -> bool:
    return type(body).__name__ != "Constant"
