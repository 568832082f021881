"""What a network's decisions cost, on rows that it has not seen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import nn

from pyomo_csg.learn.distributions.samplers import Errors, Likely, evenly
from pyomo_csg.learn.task import Task
from pyomo_csg.solve import Oracle

_ROWS, _DRAWS, _ERRORS = 48, 48, 256


def true_losses(
    task: Task, body: nn.Module, rows: np.ndarray, head: Any = None
) -> np.ndarray:
    """Return the costs (n,) of a body's decisions on rows; NaN where there is none."""
    decisions = decisions_on(task, body, rows, head)
    return costs_of(task.oracle, decisions, task.history.outcomes[rows])


def costs_of(oracle: Oracle, decisions: np.ndarray, outcomes: np.ndarray) -> np.ndarray:
    """Return what decisions (n, s) cost when outcomes (n, p) happen.

    NaN where a decision is NaN, or has no recourse.
    """
    costs = np.full(len(outcomes), np.nan)
    made = np.flatnonzero(np.isfinite(decisions).all(axis=1))
    if len(made):
        costs[made] = oracle.cost(
            decisions[made],
            outcomes[made],
            on_error="record",
            progress=False,
            fresh=True,
        )
    return costs


def decisions_on(
    task: Task, body: nn.Module, rows: np.ndarray, head: Any = None
) -> np.ndarray:
    """Return a body's decisions (n, s) on rows; NaN where there is none."""
    if not len(rows):
        return np.empty((0, len(task.oracle.two_stage.first_stage_variables)))
    scenarios, weights = task.generate_scenarios(body, rows, head)
    return task.oracle.solve(
        scenarios,
        task.solver_weights(weights),
        on_error="record",
        progress=False,
        fresh=True,
    ).decision


def losses_by_error(
    task: Task,
    body: nn.Module,
    rows: np.ndarray,
    errors: Errors,
    head: Any = None,
) -> np.ndarray:
    """Return what each of a forecast's errors costs (m,), in the mean over some rows.

    NaN for an error after which some decision has no recourse.
    """
    some = rows[evenly(len(rows), _ROWS)]
    outcomes = errors.each(some, _ERRORS)
    return _costs(task, body, some, outcomes, head).mean(axis=0)


def expected_losses(
    task: Task,
    body: nn.Module,
    rows: np.ndarray,
    likely: Likely,
    head: Any = None,
    draws: int | None = None,
) -> np.ndarray:
    """Return what decisions on rows cost (n,), in the mean over likely outcomes.

    NaN where a decision has no recourse for one of them.
    """
    outcomes = likely.draw(rows, draws or _DRAWS, task.rng("expected losses"))
    return _costs(task, body, rows, outcomes, head).mean(axis=1)


def mean_loss(
    task: Task,
    body: nn.Module,
    rows: np.ndarray,
    likely: Likely,
    head: Any = None,
    draws: int | None = None,
) -> float:
    """Return what decisions on some of the rows cost over many likely outcomes."""
    rng = task.rng("mean loss")
    some = rng.choice(rows, min(_ROWS, len(rows)), replace=False)
    losses = expected_losses(task, body, some, likely, head, draws)
    return float("inf") if np.isnan(losses).any() else float(losses.mean())


def best_of(
    task: Task,
    bodies: Sequence[nn.Module],
    rows: np.ndarray,
    likely: Likely,
    head: Any = None,
    draws: int | None = None,
) -> nn.Module:
    """Return the body whose decisions cost least on the rows that it learned from."""
    losses = [mean_loss(task, body, rows, likely, head, draws) for body in bodies]
    return bodies[int(np.argmin(losses))]


def _costs(
    task: Task, body: nn.Module, rows: np.ndarray, outcomes: np.ndarray, head: Any
) -> np.ndarray:
    """Return what decisions on rows (n,) cost (n, m) when outcomes (n, m, p) happen."""
    n, m, p = outcomes.shape
    decisions = np.repeat(decisions_on(task, body, rows, head), m, axis=0)
    return costs_of(task.oracle, decisions, outcomes.reshape(-1, p)).reshape(n, m)
