"""The methods by name: from a task to a network."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import torch
from sklearn.model_selection import train_test_split
from torch import nn

from pyomo_csg.learn.checkpoint import train_or_restore
from pyomo_csg.learn.distributions.samplers import (
    ObservedSampler,
    WeightedSampler,
    forest_weights,
)
from pyomo_csg.learn.fit_result import MethodResult, Selection
from pyomo_csg.learn.methods.direct import Direct
from pyomo_csg.learn.methods.dynamic import train_dynamic
from pyomo_csg.learn.methods.mmd import train_mmd
from pyomo_csg.learn.methods.static import (
    GRID,
    LossNetFit,
    load_loss_net_fits,
    resolve_lambda,
    save_loss_net_fits,
    standard_lambda,
    train_static,
)
from pyomo_csg.learn.methods.surrogate_diagnostics import (
    loss_net_predictions,
    loss_net_trust,
)
from pyomo_csg.learn.networks.initialization import new_body, unconstrained_outcomes
from pyomo_csg.learn.progress import TimeUpError
from pyomo_csg.learn.selection.auto import learn_auto
from pyomo_csg.learn.selection.candidates import Candidate, FoldFit
from pyomo_csg.learn.selection.folds import Folds, make_folds_from, row_groups
from pyomo_csg.learn.selection.scoring import compare_candidates, observed_costs
from pyomo_csg.learn.task import Task

_HOLDOUT = 0.2


def learn(
    task: Task, method: str, regularization: Any, kind: Any, head: Any = None
) -> MethodResult:
    """Return the network that a method finds, and what it compared."""
    if method != "mmd":  # which solves no programs
        task.warm_up_oracle()
    if method == "auto":
        return learn_auto(task, kind, head)
    return Method(task, method, regularization, kind, head).learn()


class Method:
    """One of the paper's methods, or ``'direct'``, on one task.

    There are two folds: one holds out a fifth of the rows, for early stopping of the MMD
    fit and the choice of lambda; the last one trains on all rows. With a regularization
    of the user's, static and dynamic start from new weights, as in the paper; with
    ``'auto'`` or 0 they start from the MMD network.

    Parameters
    ----------
    task : Task
    name : str
    regularization : float or str
    kind : str or Module
        The body.
    head : Head, optional
        Default: the task's.
    """

    def __init__(
        self, task: Task, name: str, regularization: Any, kind: Any, head: Any = None
    ):
        self._task, self._name, self._kind, self._head = task, name, kind, head
        self._chooses = regularization == "auto"
        # Without MMD, only the start keeps a network near the data.
        self._fresh = regularization not in ("auto", 0)
        grid = GRID if name in ("static", "dynamic") else (0.0,)
        self._grid = grid if self._chooses else (regularization,)
        self._folds = self._split()

    def learn(self) -> MethodResult:
        """Return the network; the MMD network if the time is up before the method ends."""
        mmd = self._train_mmd()
        if self._name != "mmd":
            with suppress(TimeUpError):
                trained = (
                    self._train_direct(mmd)
                    if self._name == "direct"
                    else self._train_on_loss_nets(mmd)
                )
                return self._select(trained, mmd)
        return MethodResult(
            self._task.network(mmd.fits[-1].body, self._head),
            Selection("mmd"),
            lambda: self._mmd_losses(mmd),
            lambda: self._held_out_costs(mmd),
        )

    def _train_mmd(self) -> Candidate:
        task, folds = self._task, self._folds
        bodies = []
        for rows in folds.rows:
            points = unconstrained_outcomes(task, rows)
            bodies.append(new_body(task, self._kind, points, task.rng("mmd")))
        trained = train_or_restore(
            task,
            "mmd",
            bodies,
            lambda: train_mmd(
                task, bodies, folds.rows, folds.held_out, "mmd", head=self._head
            ),
        )
        return Candidate("mmd", [FoldFit(body, self._head) for body in trained])

    def _train_direct(self, mmd: Candidate) -> list[Candidate]:
        """Return the MMD network after training on the task loss."""
        task, rows = self._task, self._folds.rows

        def train() -> list[nn.Module]:
            outcomes = task.history.outcomes
            seed = int(task.rng("forest").integers(2**31))
            samplers = [
                ObservedSampler(outcomes)
                if task.history.has_panels
                else WeightedSampler(
                    outcomes, forest_weights(task.history.contexts, outcomes, r, seed)
                )
                for r in rows
            ]
            heads = None if self._head is None else [self._head] * len(rows)
            weight = float(self._grid[0])
            direct = Direct(task, samplers, heads, regularization=weight)
            return direct.train(mmd.bodies, rows, "direct")

        bodies = train_or_restore(task, "direct", mmd.bodies, train)
        fits = [FoldFit(body, self._head) for body in bodies]
        return [Candidate(f"lambda {self._grid[0]}", fits)]

    def _train_on_loss_nets(self, mmd: Candidate) -> list[Candidate]:
        """Return one candidate per lambda, trained on a Loss-Net."""
        task = self._task
        members = [
            (regularization, body, rows)
            for regularization in self._grid
            for body, rows in zip(mmd.bodies, self._folds.rows, strict=True)
        ]
        start = [body for _, body, _ in members]
        fits: list[LossNetFit] | None = load_loss_net_fits(task, self._name, start)
        if fits is None:
            first_entry = len(task.log.entries)
            lambdas = [self._lambda(*member) for member in members]
            rows = [mine for _, _, mine in members]
            options: dict[str, Any] = {"fresh": self._fresh, "head": self._head}
            if self._name == "static":
                fits = train_static(task, start, lambdas, rows, "static", **options)
            else:
                length = task.config.rounds, task.config.buffer
                fits = [
                    *train_dynamic(
                        task, start, lambdas, rows, "dynamic", *length, **options
                    )
                ]
            save_loss_net_fits(task, self._name, fits, first_entry)
        remaining = iter(fits)  # in the order of the members
        return [
            Candidate(
                f"lambda {regularization}",
                [
                    FoldFit(fit.body, self._head, fit)
                    for _, fit in zip(mmd.fits, remaining, strict=False)
                ],
            )
            for regularization in self._grid
        ]

    def _lambda(self, regularization: Any, body: nn.Module, rows: np.ndarray) -> float:
        if self._chooses:
            return standard_lambda(regularization, self._task)
        return resolve_lambda(regularization, self._task, [body], [rows], self._head)

    def _select(self, trained: list[Candidate], mmd: Candidate) -> MethodResult:
        """Return the best candidate on the holdout, or the MMD network if it is better."""
        if len(trained) == 1:
            (winner,) = trained
            selection = Selection(winner.name)
            costs = None
        else:
            candidates = [*trained, mmd]
            names = [candidate.name for candidate in candidates]
            losses = np.stack([self._held_out_costs(one) for one in candidates])
            selection = compare_candidates(names, losses)
            winner = candidates[names.index(selection.chosen)]
            costs = losses[names.index(selection.chosen)]
        first, final = winner.fits[0], winner.fits[-1]
        if first.loss_net_fit is not None and final.loss_net_fit is not None:
            held = self._folds.held_out[0]
            selection.loss_net = loss_net_predictions(
                self._task, first.loss_net_fit, held, self._head
            )
            trust = loss_net_trust(self._task, final.loss_net_fit, self._head)
            selection.trust, selection.notes = trust.get("trust"), trust.get("notes")
        return MethodResult(
            self._task.network(final.body, self._head),
            selection,
            lambda: self._held_out_costs(winner) if costs is None else costs,
        )

    def _held_out_costs(self, candidate: Candidate) -> np.ndarray:
        """Return the costs of decisions on the holdout."""
        body, held = candidate.fits[0].body, self._folds.held_out[0]
        return observed_costs(self._task, body, held, self._head)

    def _mmd_losses(self, mmd: Candidate) -> np.ndarray:
        """Return the MMD losses on the holdout."""
        held = self._folds.held_out[0]
        found = self._task.generate_scenarios(mmd.fits[0].body, held, self._head)
        scenarios, weights = map(torch.as_tensor, found)
        return self._task.mmd_losses(scenarios, weights, held).numpy()

    def _split(self) -> Folds:
        groups = row_groups(self._task)
        in_time = self._task.history.has_panels or self._task.config.rows == "series"
        seed = None if in_time else int(self._task.rng("holdout").integers(2**31))
        _, held = train_test_split(
            np.arange(groups.max() + 1),
            test_size=_HOLDOUT,
            shuffle=not in_time,
            random_state=seed,
        )
        return make_folds_from([held], groups)
