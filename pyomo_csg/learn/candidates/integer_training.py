"""Networks of integer models: on the relaxation first, then on the programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from torch import nn

from pyomo_csg.learn.candidates.copula_forest import augment
from pyomo_csg.learn.distributions.samplers import Sampler
from pyomo_csg.learn.methods.direct import train_direct
from pyomo_csg.learn.methods.mmd import train_mmd
from pyomo_csg.learn.networks.initialization import new_bodies, replicate_scenarios
from pyomo_csg.learn.selection.fits import Candidate, network_candidate
from pyomo_csg.learn.selection.folds import Folds
from pyomo_csg.learn.selection.plan import Plan, steps_and_batch
from pyomo_csg.learn.task import Task
from pyomo_csg.learn.trainer import sample_schedule

_BATCH = 20
_FAR_FROM_MMD = 0.03


class IntegerTraining:
    """Trains networks of an integer model on the costs of their decisions.

    Relaxed programs are fast and allow many steps. Then come a few steps on the integer
    programs, up to the number that the plan allows.
    """

    def __init__(
        self,
        task: Task,
        folds: Folds,
        plan: Plan,
        kind: Any,
        samplers: Sequence[Sampler],
    ):
        self._task, self._folds, self._plan = task, folds, plan
        self._kind, self._samplers = kind, list(samplers)

    def train(self, mmd: Callable[[], Candidate]) -> Candidate:
        """Return networks of one scenario on the task loss, then of K scenarios.

        Programs of one scenario are fast; the networks of K scenarios start from their
        result. One scenario has no weights to learn, and a user's module has a fixed
        number of scenarios: these start from networks trained by MMD.
        """
        task, count, larger = self._task, self._task.scenarios, self._on_augmented_rows
        rate, heads = task.config.task_rate / 2, [task.head] * len(self._folds)
        if count == 1 or isinstance(self._kind, nn.Module) or self._is_weighted:
            bodies = larger._train_relaxed_first("direct", mmd().bodies, count == 1)
            return network_candidate("direct", bodies, heads)
        one = IntegerTraining(
            task.with_scenarios(1), self._folds, self._plan, self._kind, self._samplers
        )
        found = one._train_relaxed_first("one scenario", one._mmd(), True)
        rng = task.rng("widened")
        wide = [replicate_scenarios(body, count, rng) for body in found]
        bodies = larger._train(
            "direct", wide, rate, self._plan.integer_programs, together=True
        )
        return network_candidate("direct", bodies, heads)

    def polish(
        self,
        name: str,
        bodies: Sequence[nn.Module],
        heads: Sequence[Any],
        rate: float,
        draws: int,
    ) -> list[nn.Module]:
        """Return bodies after a few steps on the integer programs."""
        programs = self._plan.integer_programs
        return self._train(name, bodies, rate, programs, heads=heads, draws=draws)

    @property
    def _is_weighted(self) -> bool:
        return self._task.config.weights == "learned"

    @cached_property
    def _on_augmented_rows(self) -> IntegerTraining:
        """The same on augmented rows, with samplers estimated fold by fold.

        A user's distribution has no draws for contexts between those of the history.
        """
        if self._task.distribution is not None:
            return self
        task, rows, forests = augment(self._task, self._folds.rows)
        folds = Folds(rows, self._folds.held_out)
        return IntegerTraining(task, folds, self._plan, self._kind, forests)

    def _mmd(self) -> list[nn.Module]:
        """Return networks on the MMD loss."""
        task, rows = self._task, self._folds.rows
        bodies = new_bodies(task, self._kind, rows, "one scenario")
        held_out = None if self._plan.folds == 1 else self._folds.held_out
        return train_mmd(task, bodies, rows, held_out, "one scenario, mmd")

    def _train_relaxed_first(
        self, name: str, bodies: Sequence[nn.Module], is_one: bool
    ) -> list[nn.Module]:
        """Train on the task loss of the relaxation, then of the integer model."""
        plan, config = self._plan, self._task.config
        programs = min(plan.programs, config.task_epochs * len(self._task.history))
        relaxed = self._train(
            f"{name}, relaxed",
            bodies,
            config.task_rate,
            programs,
            oracle=self._task.relaxed,
            regularization=_FAR_FROM_MMD,
            batch=config.batch,
        )
        integer = plan.one_scenario_programs if is_one else plan.integer_programs
        return self._train(name, relaxed, config.task_rate / 2, integer)

    def _train(
        self,
        stage: str,
        bodies: Sequence[nn.Module],
        rate: float,
        programs: int,
        *,
        batch: int = _BATCH,
        **options: Any,
    ) -> list[nn.Module]:
        """Return bodies trained on some number of programs; options are those of ``train_direct``."""
        if programs == 0:
            return list(bodies)
        task, length = self._task, steps_and_batch(programs, batch)
        rng = task.rng(f"{stage} rows")
        rows, schedule = sample_schedule(self._folds.rows, *length, rate, rng)
        options = {"schedule": schedule, "draws": self._plan.draws, **options}
        options["mip_gap"] = self._plan.training_gap or None
        return train_direct(task, stage, bodies, rows, self._samplers, **options)
