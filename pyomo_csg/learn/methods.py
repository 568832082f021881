"""The methods by name: from a task to a network."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from sklearn.model_selection import train_test_split
from torch import nn

from pyomo_csg.learn.auto import compared, learn_auto
from pyomo_csg.learn.bodies import free_outcomes, new_body
from pyomo_csg.learn.direct import Direct
from pyomo_csg.learn.dynamic import train_dynamic
from pyomo_csg.learn.folds import Folds
from pyomo_csg.learn.judging import true_losses
from pyomo_csg.learn.keeping import kept
from pyomo_csg.learn.learned import Found
from pyomo_csg.learn.loss_check import loss_check
from pyomo_csg.learn.loss_net import blank_loss_nets
from pyomo_csg.learn.mmd import train_mmd
from pyomo_csg.learn.outcomes import Alike, Own, forest_weights
from pyomo_csg.learn.static import GRID, lambda_of, train_static
from pyomo_csg.learn.task import Task

METHODS = ("auto", "mmd", "static", "dynamic", "direct")
_HOLDOUT = 0.2


class Method:
    """One of the paper's methods, or ``'direct'``, on one task.

    A fifth of the rows is held out to say when the MMD fit is to stop and, where the
    regularization is ``'auto'``, which lambda of a grid decides best; the network that
    counts is trained on all rows beside. With a regularization that is given, static and
    dynamic begin with new weights, as in the paper; with ``'auto'`` at the MMD network.

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
        self._fresh = regularization != "auto"  # as the paper does
        self._grid = (regularization,) if self._fresh else grid
        self._folds = self._split()

    def learn(self) -> Found:
        """Return the network, and what was compared on the way."""
        mmd = self._mmd()
        if self._name == "mmd":
            return Found(
                self._network(mmd[-1]),
                {"chosen": "mmd"},
                lambda: self._mmd_losses(mmd[0]),
            )
        start = [body for _ in self._grid for body in mmd]
        rows = self._folds.rows * len(self._grid)
        bodies, nets = self._trained(start, rows)
        parts = len(self._folds)
        found = [bodies[g * parts : (g + 1) * parts] for g in range(len(self._grid))]
        best, contest, held_out = self._best([pair[0] for pair in found])
        if nets:
            contest["loss_net"] = loss_check(
                self._task,
                nets[best * parts],
                found[best][0],
                self._folds.held_out[0],
                self._head,
            )
        return Found(self._network(found[best][-1]), contest, held_out)

    def _best(
        self, bodies: list[nn.Module]
    ) -> tuple[int, dict[str, Any], Callable[[], np.ndarray]]:
        """Return which lambda decides best on what is held out, and how that was seen."""
        names = [f"lambda {text}" for text in self._grid]
        if len(bodies) == 1:
            return 0, {"chosen": names[0]}, lambda: self._losses(bodies[0])
        losses = [self._losses(body) for body in bodies]
        contest = compared(names, np.stack(losses))
        best = names.index(contest["chosen"])
        return best, contest, lambda: losses[best]

    def _trained(
        self, start: list[nn.Module], rows: list[np.ndarray]
    ) -> tuple[list[nn.Module], list[nn.Module]]:
        """Return the bodies, and the Loss-Nets that they followed, if they did."""
        train = {
            "static": self._static,
            "dynamic": self._dynamic,
            "direct": self._direct,
        }[self._name]
        makes = [*start]
        if self._name != "direct":
            makes += blank_loss_nets(self._task, len(start), self._name)
        found = kept(self._task, self._name, makes, lambda: train(start, rows))
        return found[: len(start)], found[len(start) :]

    def _losses(self, body: nn.Module) -> np.ndarray:
        """Return the costs of a body's decisions on what is held out."""
        return true_losses(self._task, body, self._folds.held_out[0], self._head)

    def _mmd_losses(self, body: nn.Module) -> np.ndarray:
        held = self._folds.held_out[0]
        found = self._task.scenarios_on(body, held, self._head)
        scenarios, weights = map(torch.as_tensor, found)
        return self._task.mmd(scenarios, weights, held).numpy()

    def _mmd(self) -> list[nn.Module]:
        task, folds = self._task, self._folds
        bodies = [
            new_body(task, self._kind, free_outcomes(task, rows), task.rng("mmd"))
            for rows in folds.rows
        ]
        return kept(
            task,
            "mmd",
            bodies,
            lambda: train_mmd(
                task, bodies, folds.rows, folds.held_out, "mmd", head=self._head
            ),
        )

    def _static(
        self, start: list[nn.Module], rows: list[np.ndarray]
    ) -> list[nn.Module]:
        lambdas = self._lambdas(start, rows)
        found = train_static(
            self._task,
            start,
            lambdas,
            rows,
            "static",
            fresh=self._fresh,
            head=self._head,
        )
        return [*found.bodies, *found.loss_nets]

    def _dynamic(
        self, start: list[nn.Module], rows: list[np.ndarray]
    ) -> list[nn.Module]:
        lambdas, config = self._lambdas(start, rows), self._task.config
        found = train_dynamic(
            self._task,
            start,
            lambdas,
            rows,
            "dynamic",
            config.rounds,
            config.buffer,
            fresh=self._fresh,
            head=self._head,
        )
        return [*found.bodies, *found.loss_nets]

    def _direct(
        self, start: list[nn.Module], rows: list[np.ndarray]
    ) -> list[nn.Module]:
        task, outcomes = self._task, self._task.history.outcomes
        seed = int(task.rng("forest").integers(2**31))
        likely = [
            Own(outcomes)
            if task.history.panels
            else Alike(
                outcomes, forest_weights(task.history.contexts, outcomes, r, seed)
            )
            for r in rows
        ]
        heads = None if self._head is None else [self._head] * len(rows)
        weight = float(self._grid[0])
        direct = Direct(task, likely, heads, regularization=weight)
        return direct.train(start, rows, "direct")

    def _lambdas(self, start: list[nn.Module], rows: list[np.ndarray]) -> list[float]:
        parts = len(self._folds)
        texts = [text for text in self._grid for _ in range(parts)]
        return [
            lambda_of(text, self._task, [body], [mine], self._head)
            for text, body, mine in zip(texts, start, rows, strict=True)
        ]

    def _split(self) -> Folds:
        everything = np.arange(len(self._task.history))
        seed = (
            None
            if self._task.history.panels
            else int(self._task.rng("holdout").integers(2**31))
        )
        rows, held = train_test_split(
            everything,
            test_size=_HOLDOUT,
            shuffle=seed is not None,
            random_state=seed,
        )
        return Folds([np.sort(rows), everything], [np.sort(held), everything[:0]])

    def _network(self, body: nn.Module) -> Any:
        return self._task.network(body, self._head)


def learn(
    task: Task, method: str, regularization: Any, kind: Any, head: Any = None
) -> Found:
    """Return the network that a method finds, and what it compared on the way."""
    if method == "auto":
        return learn_auto(task, kind, head)
    return Method(task, method, regularization, kind, head).learn()
