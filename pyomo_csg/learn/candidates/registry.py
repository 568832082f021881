"""The methods by name: from a task to a network."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import torch
from torch import nn

from pyomo_csg.learn.candidates.auto import learn_auto
from pyomo_csg.learn.candidates.fold_distributions import FoldDistributions
from pyomo_csg.learn.checkpoint import train_or_restore
from pyomo_csg.learn.distributions.samplers import ObservedSampler, Sampler
from pyomo_csg.learn.fit_result import MethodResult, Selection
from pyomo_csg.learn.loss_kinds import LossKind
from pyomo_csg.learn.methods import specifications
from pyomo_csg.learn.methods.custom import train_custom
from pyomo_csg.learn.methods.direct import Direct
from pyomo_csg.learn.methods.dynamic import train_dynamic
from pyomo_csg.learn.methods.mmd import train_mmd
from pyomo_csg.learn.methods.specifications import (
    Auto,
    BuiltIn,
    Method,
    method_regularization,
)
from pyomo_csg.learn.methods.static import (
    GRID,
    LossNetFit,
    load_loss_net_fits,
    resolve_lambda,
    save_loss_net_fits,
    standard_lambdas,
    train_static,
)
from pyomo_csg.learn.methods.surrogate_diagnostics import (
    loss_net_errors,
    loss_net_predictions,
)
from pyomo_csg.learn.networks.initialization import new_bodies
from pyomo_csg.learn.progress import TimeUpError
from pyomo_csg.learn.selection.fits import (
    Candidate,
    NetworkFit,
    loss_net_candidates,
    network_candidate,
)
from pyomo_csg.learn.selection.folds import holdout_folds
from pyomo_csg.learn.selection.plan import SOME_KINDS, Plan
from pyomo_csg.learn.selection.scoring import compare_candidates, held_out_costs
from pyomo_csg.learn.task import Task


def learn(
    task: Task,
    method: BuiltIn | Method,
    kind: Any,
    head: Any = None,
    *,
    plan: Plan | None = None,
    chooses_network: bool = True,
) -> MethodResult:
    """Return what a method finds; the MMD network if the time is up before.

    ``'auto'`` follows a plan.
    """
    if plan is not None:
        if plan.rehearses:
            task.warm_up_oracle()
        names = method.candidates if isinstance(method, Auto) else None
        return learn_auto(task, plan, kind, head, chooses_network, names)
    fit = _MethodFit(task, method, kind, head)
    mmd = fit.train_mmd()
    with suppress(TimeUpError):
        if not isinstance(method, BuiltIn):
            return fit.select([fit.train_custom(mmd, method)], mmd)
        if method.name == "direct":
            return fit.select([fit.train_direct(mmd)], mmd)
        if method.name != "mmd":
            return fit.select(fit.train_on_loss_nets(mmd), mmd)
    return fit.mmd_result(mmd)


class _MethodFit:
    """Fits one of the paper's methods, ``'direct'`` or a user's method on two folds.

    The first fold holds out a fifth of the rows, for early stopping of the MMD fit and
    the choice of lambda; the last one trains on all rows.
    """

    def __init__(self, task: Task, method: BuiltIn | Method, kind: Any, head: Any):
        self._task, self._name, self._kind, self._head = task, method.name, kind, head
        self._regularization = method_regularization(method)
        self._loss_kind = LossKind()
        if isinstance(method, specifications.LearnsLosses):
            self._loss_kind = LossKind(method.loss_kind, method.regret)
        self._folds = holdout_folds(task)
        self._held_out = self._folds.held_out[0]

    def _new_bodies(self) -> list[nn.Module]:
        """Return the networks at which MMD fits and those with a given lambda begin."""
        return new_bodies(self._task, self._kind, self._folds.rows, "mmd")

    def train_mmd(self) -> Candidate:
        """Return the MMD networks."""
        task, folds = self._task, self._folds
        trained = train_mmd(
            task,
            self._new_bodies(),
            folds.rows,
            folds.held_out,
            "mmd",
            head=self._head,
        )
        return network_candidate("mmd", trained, [self._head] * len(trained))

    def train_direct(self, mmd: Candidate) -> Candidate:
        """Return the MMD networks after training on the task loss."""
        task, rows, history = self._task, self._folds.rows, self._task.history
        weight = 0.0 if self._regularization == "auto" else self._regularization

        def train() -> list[nn.Module]:
            samplers: Sequence[Sampler]
            if (sampler := task.target_sampler) is not None:
                samplers = [sampler] * len(rows)
            elif history.has_panels:
                samplers = [ObservedSampler(history.outcomes)] * len(rows)
            else:
                distributions = FoldDistributions(task, self._folds, SOME_KINDS)
                *_, last = distributions.names  # the mixture, unless rows are too few
                samplers = [*distributions.samplers(last)]
            heads = None if self._head is None else [self._head] * len(rows)
            direct = Direct(
                task,
                samplers,
                heads,
                regularization=float(weight),
                kind=self._loss_kind,
            )
            return direct.train(mmd.bodies, rows, "direct")

        bodies = train_or_restore(task, "direct", mmd.bodies, train)
        heads = [self._head] * len(bodies)
        return network_candidate(f"lambda {weight}", bodies, heads)

    def train_custom(self, mmd: Candidate, method: Method) -> Candidate:
        """Return the networks of a user's method, which may start from the MMD networks."""
        bodies = train_custom(
            self._task, method, self._folds.rows, mmd.bodies, self._kind, self._head
        )
        return network_candidate(method.name, bodies, [self._head] * len(bodies))

    def train_on_loss_nets(self, mmd: Candidate) -> list[Candidate]:
        """Return one candidate per lambda, trained on a Loss-Net.

        With a lambda of the user's, networks begin where the MMD networks began, as in the
        paper. With ``'auto'`` or 0 they begin at the MMD networks: without MMD, only the
        start keeps a network near the data.
        """
        task, stage, folds = self._task, self._name, self._folds
        chooses = self._regularization == "auto"
        grid = GRID if chooses else (self._regularization,)
        start, rows = mmd.bodies * len(grid), folds.rows * len(grid)
        fits: Sequence[LossNetFit] | None = load_loss_net_fits(task, stage, start)
        if fits is None:
            first_entry = len(task.log.entries)
            if chooses:
                lambdas = [*np.repeat(standard_lambdas(task), len(folds))]
            else:
                lambdas = [
                    resolve_lambda(grid[0], task, [body], [mine], self._head)
                    for body, mine in zip(start, rows, strict=True)
                ]
            begins_anew = self._regularization not in ("auto", 0)
            options: dict[str, Any] = {
                "fresh": self._new_bodies() if begins_anew else None,
                "held_out": folds.held_out,
                "head": self._head,
                "kind": self._loss_kind,
            }
            if stage == "static":
                fits = train_static(task, start, lambdas, rows, stage, **options)
            else:
                length = task.config.rounds, task.config.buffer
                fits = train_dynamic(
                    task, start, lambdas, rows, stage, *length, **options
                )
            save_loss_net_fits(task, stage, fits, first_entry)
        names = [f"lambda {regularization}" for regularization in grid]
        return loss_net_candidates(names, fits, mmd.heads)

    def select(self, trained: list[Candidate], mmd: Candidate) -> MethodResult:
        """Return the best of several on the holdout, or the MMD network if it is better."""
        task, held, head = self._task, self._held_out, self._head
        candidates = [*trained, mmd] if len(trained) > 1 else trained
        losses: list[np.ndarray] = []
        selection = Selection(candidates[0].name)
        if len(candidates) > 1:
            for candidate in candidates:
                losses.append(held_out_costs(task, candidate.fits[0], held))
            names = [candidate.name for candidate in candidates]
            selection = compare_candidates(names, np.stack(losses))
        best = next(
            i for i, one in enumerate(candidates) if one.name == selection.chosen
        )
        first, *_, final = candidates[best].fits
        assert isinstance(first, NetworkFit) and isinstance(final, NetworkFit)
        if first.loss_net_fit is not None and final.loss_net_fit is not None:
            selection.loss_net = loss_net_predictions(
                task, first.loss_net_fit, held, head, self._loss_kind
            )
            selection.loss_net_errors, selection.notes = loss_net_errors(
                task, final.loss_net_fit, head, self._loss_kind
            )
        return MethodResult(
            final.generator(task),
            selection,
            lambda: losses[best] if losses else held_out_costs(task, first, held),
            scored_costs=losses[best] if losses and task.distribution is None else None,
        )

    def mmd_result(self, mmd: Candidate) -> MethodResult:
        """Return the MMD network, with its MMD losses and costs on the holdout."""
        task, held, head = self._task, self._held_out, self._head
        first, final = mmd.fits[0], mmd.fits[-1]

        def losses() -> np.ndarray:
            scenarios, weights = task.generate_scenarios(mmd.bodies[0], held, head)
            found = torch.as_tensor(scenarios), torch.as_tensor(weights)
            return task.mmd_losses(*found, held).numpy()

        return MethodResult(
            final.generator(task),
            Selection("mmd"),
            losses,
            lambda: held_out_costs(task, first, held),
        )
