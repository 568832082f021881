"""The methods by name: from a task to a network."""

from __future__ import annotations

from collections.abc import Callable
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
from pyomo_csg.learn.fit_result import MethodResult
from pyomo_csg.learn.methods.direct import Direct
from pyomo_csg.learn.methods.dynamic import DynamicResult, train_dynamic
from pyomo_csg.learn.methods.loss_net_stages import TrainedOnLossNet, kept_followed
from pyomo_csg.learn.methods.mmd import train_mmd
from pyomo_csg.learn.methods.static import (
    GRID,
    StaticResult,
    resolve_lambda,
    standard_lambda,
    train_static,
)
from pyomo_csg.learn.methods.surrogate_diagnostics import (
    loss_net_predictions,
    loss_net_trust,
)
from pyomo_csg.learn.networks.initialization import new_body, unconstrained_outcomes
from pyomo_csg.learn.progress import TimeUpError
from pyomo_csg.learn.selection.auto import compared, learn_auto
from pyomo_csg.learn.selection.folds import Folds, make_folds_from, row_groups
from pyomo_csg.learn.selection.scoring import observed_costs
from pyomo_csg.learn.task import Task

_HOLDOUT = 0.2


class Method:
    """One of the paper's methods, or ``'direct'``, on one task.

    A fifth of the rows is held out to say when the MMD fit is to stop and, where the
    regularization is ``'auto'``, which lambda of a grid decides best; the network that
    counts is trained on all rows beside. With a regularization that is given, static and
    dynamic begin with new weights, as in the paper; with ``'auto'`` or 0 at the MMD network.

    Parameters
    ----------
    task : Task
    name : str
    regularization : float or str
    kind : str or Module
        Of the body.
    head : Head, optional
        Default: the task's.
    """

    def __init__(
        self, task: Task, name: str, regularization: Any, kind: Any, head: Any = None
    ):
        self._task, self._name, self._kind, self._head = task, name, kind, head
        grid = GRID if name in ("static", "dynamic") else (0.0,)
        # As the paper does; without MMD nothing but the start keeps a network near the data.
        self._fresh = regularization not in ("auto", 0)
        self._chooses = regularization == "auto"
        self._grid = grid if self._chooses else (regularization,)
        self._folds = self._split()

    def learn(self) -> MethodResult:
        """Return the network, and what was compared on the way.

        When the time is up before the method is through, that is the MMD network.
        """
        mmd = self._mmd()
        if self._name != "mmd":
            with suppress(TimeUpError):
                return self._beyond(mmd)
        return MethodResult(
            self._network(mmd[-1]),
            {"chosen": "mmd"},
            lambda: self._mmd_losses(mmd[0]),
            lambda: self._losses(mmd[0]),
        )

    def _beyond(self, mmd: list[nn.Module]) -> MethodResult:
        """Return what the method makes of the MMD networks."""
        start = [body for _ in self._grid for body in mmd]
        rows = self._folds.rows * len(self._grid)
        if self._name == "direct":
            bodies = train_or_restore(
                self._task, self._name, start, lambda: self._direct(start, rows)
            )
            best, contest, held_out = self._best(bodies, mmd)
        else:
            followed = kept_followed(
                self._task, self._name, start, lambda: self._followed(start, rows)
            )
            bodies = followed.bodies
            best, contest, held_out = self._best(bodies, mmd)
            if best < len(bodies):  # the MMD network trusted none
                contest.update(self._checked(followed, best))
        return MethodResult(self._network([*bodies, *mmd][best]), contest, held_out)

    def _best(
        self, bodies: list[nn.Module], mmd: list[nn.Module]
    ) -> tuple[int, dict[str, Any], Callable[[], np.ndarray]]:
        """Return whose lambda decides best on what is held out, and how that was seen.

        It is the place of the body that learned from all rows; beyond the bodies, where
        none of them decides as well as the MMD networks that they started from.
        """
        parts, names = len(self._folds), [f"lambda {one}" for one in self._grid]
        if len(names) == 1:
            chosen = {"chosen": names[0]}
            return parts - 1, chosen, lambda: self._losses(bodies[0])
        names.append("mmd")
        losses = [self._losses(body) for body in [*bodies[::parts], mmd[0]]]
        contest = compared(names, np.stack(losses))
        best = names.index(contest["chosen"])
        return (best + 1) * parts - 1, contest, lambda: losses[best]

    def _checked(self, followed: TrainedOnLossNet, best: int) -> dict[str, Any]:
        """Return how far the Loss-Nets of the best lambda are to be trusted."""
        unseen = best - len(self._folds) + 1  # the fit that rows were held out from
        check = loss_net_predictions(
            self._task,
            followed.loss_nets[unseen],
            followed.bodies[unseen],
            self._folds.held_out[0],
            self._head,
        )
        return {
            "loss_net": check,
            **loss_net_trust(self._task, followed, best, self._head),
        }

    def _losses(self, body: nn.Module) -> np.ndarray:
        """Return the costs of a body's decisions on what is held out."""
        return observed_costs(self._task, body, self._folds.held_out[0], self._head)

    def _mmd_losses(self, body: nn.Module) -> np.ndarray:
        held = self._folds.held_out[0]
        found = self._task.generate_scenarios(body, held, self._head)
        scenarios, weights = map(torch.as_tensor, found)
        return self._task.mmd_losses(scenarios, weights, held).numpy()

    def _mmd(self) -> list[nn.Module]:
        task, folds = self._task, self._folds
        bodies = [
            new_body(
                task, self._kind, unconstrained_outcomes(task, rows), task.rng("mmd")
            )
            for rows in folds.rows
        ]
        return train_or_restore(
            task,
            "mmd",
            bodies,
            lambda: train_mmd(
                task, bodies, folds.rows, folds.held_out, "mmd", head=self._head
            ),
        )

    def _followed(
        self, start: list[nn.Module], rows: list[np.ndarray]
    ) -> TrainedOnLossNet:
        """Return bodies that followed a Loss-Net, with what they followed."""
        config, lambdas = self._task.config, self._lambdas(start, rows)
        what = self._task, start, lambdas, rows, self._name
        how: dict[str, Any] = {"fresh": self._fresh, "head": self._head}
        found: StaticResult | DynamicResult
        if self._name == "static":
            found = train_static(*what, **how)
        else:
            found = train_dynamic(*what, config.rounds, config.buffer, **how)
        return TrainedOnLossNet(found.bodies, found.loss_nets, found.samples)

    def _direct(
        self, start: list[nn.Module], rows: list[np.ndarray]
    ) -> list[nn.Module]:
        task, outcomes = self._task, self._task.history.outcomes
        seed = int(task.rng("forest").integers(2**31))
        likely = [
            ObservedSampler(outcomes)
            if task.history.has_panels
            else WeightedSampler(
                outcomes, forest_weights(task.history.contexts, outcomes, r, seed)
            )
            for r in rows
        ]
        heads = None if self._head is None else [self._head] * len(rows)
        weight = float(self._grid[0])
        direct = Direct(task, likely, heads, regularization=weight)
        return direct.train(start, rows, "direct")

    def _lambdas(self, start: list[nn.Module], rows: list[np.ndarray]) -> list[float]:
        each = [one for one in self._grid for _ in range(len(self._folds))]
        if self._chooses:
            return [standard_lambda(factor, self._task) for factor in each]
        return [
            resolve_lambda(one, self._task, [body], [mine], self._head)
            for one, body, mine in zip(each, start, rows, strict=True)
        ]

    def _split(self) -> Folds:
        numbers = row_groups(self._task)
        seed = (
            None
            if self._task.history.has_panels or self._task.config.rows == "series"
            else int(self._task.rng("holdout").integers(2**31))
        )
        _, held = train_test_split(
            np.arange(numbers.max() + 1),
            test_size=_HOLDOUT,
            shuffle=seed is not None,
            random_state=seed,
        )
        return make_folds_from([held], numbers)

    def _network(self, body: nn.Module) -> Any:
        return self._task.network(body, self._head)


def learn(
    task: Task, method: str, regularization: Any, kind: Any, head: Any = None
) -> MethodResult:
    """Return the network that a method finds, and what it compared on the way."""
    if method != "mmd":  # which solves nothing
        task.warm_up_oracle()
    if method == "auto":
        return learn_auto(task, kind, head)
    return Method(task, method, regularization, kind, head).learn()
