"""What a network's decisions cost, on rows that it has not seen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import nn

from pyomo_csg.learn.distributions.samplers import (
    ResidualSampler,
    Sampler,
    evenly_spaced,
)
from pyomo_csg.learn.task import Task
from pyomo_csg.solve import Oracle

_ROWS, _DRAWS, _ERRORS = 48, 48, 256


@dataclass(frozen=True, eq=False)
class PairedDifference:
    """How much more something costs than a reference on the same pairs.

    Attributes
    ----------
    mean, standard_error : array
        Of the differences.
    reference_wins : array
        The share of pairs on which the reference costs less; ties count half.
    """

    mean: np.ndarray
    standard_error: np.ndarray
    reference_wins: np.ndarray


def paired_difference(
    costs: np.ndarray, reference: np.ndarray, ddof: int = 0
) -> PairedDifference:
    """Compare costs (..., n) with those of a reference (n,), pair by pair.

    Fill missing costs first, with :func:`fill_unsolved` for example.

    Examples
    --------
    >>> found = paired_difference(np.array([3.0, 5.0, 7.0]), np.array([3.0, 4.0, 5.0]))
    >>> float(found.mean), round(float(found.reference_wins), 2)
    (1.0, 0.83)
    """
    apart = costs - reference
    return PairedDifference(
        apart.mean(axis=-1),
        apart.std(axis=-1, ddof=ddof) / math.sqrt(apart.shape[-1]),
        (apart > 0).mean(axis=-1) + (apart == 0).mean(axis=-1) / 2,
    )


def fill_unsolved(costs: np.ndarray) -> np.ndarray:
    """Return costs in which NaN is replaced by the worst cost of all, or by 0 if none."""
    known = costs[~np.isnan(costs)]
    return np.where(np.isnan(costs), known.max() if known.size else 0.0, costs)


def observed_costs(
    task: Task, body: nn.Module, rows: np.ndarray, head: Any = None
) -> np.ndarray:
    """Return the costs (n,) of a body's decisions on rows; NaN where there is none."""
    decisions = decide_on_rows(task, body, rows, head)
    return decision_costs(task.oracle, decisions, task.history.outcomes[rows])


def decision_costs(
    oracle: Oracle, decisions: np.ndarray, outcomes: np.ndarray
) -> np.ndarray:
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


def decide_on_rows(
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


def costs_by_residual(
    task: Task,
    body: nn.Module,
    rows: np.ndarray,
    errors: ResidualSampler,
    head: Any = None,
) -> np.ndarray:
    """Return what each of a forecast's errors costs (m,), in the mean over some rows.

    NaN for an error after which some decision has no recourse.
    """
    some = rows[evenly_spaced(len(rows), _ROWS)]
    outcomes = errors.every_residual(some, _ERRORS)
    return _costs(task, body, some, outcomes, head).mean(axis=0)


def expected_costs(
    task: Task,
    body: nn.Module,
    rows: np.ndarray,
    likely: Sampler,
    head: Any = None,
    draws: int | None = None,
) -> np.ndarray:
    """Return what decisions on rows cost (n,), in the mean over likely outcomes.

    NaN where a decision has no recourse for one of them.
    """
    outcomes = likely.draw(rows, draws or _DRAWS, task.rng("expected losses"))
    return _costs(task, body, rows, outcomes, head).mean(axis=1)


def mean_expected_cost(
    task: Task,
    body: nn.Module,
    rows: np.ndarray,
    likely: Sampler,
    head: Any = None,
    draws: int | None = None,
) -> float:
    """Return what decisions on some of the rows cost over many likely outcomes."""
    rng = task.rng("mean loss")
    some = rng.choice(rows, min(_ROWS, len(rows)), replace=False)
    losses = expected_costs(task, body, some, likely, head, draws)
    return float("inf") if np.isnan(losses).any() else float(losses.mean())


def best_body(
    task: Task,
    bodies: Sequence[nn.Module],
    rows: np.ndarray,
    likely: Sampler,
    head: Any = None,
    draws: int | None = None,
) -> nn.Module:
    """Return the body whose decisions cost least on the rows that it learned from."""
    losses = [
        mean_expected_cost(task, body, rows, likely, head, draws) for body in bodies
    ]
    return bodies[int(np.argmin(losses))]


def _costs(
    task: Task, body: nn.Module, rows: np.ndarray, outcomes: np.ndarray, head: Any
) -> np.ndarray:
    """Return what decisions on rows (n,) cost (n, m) when outcomes (n, m, p) happen."""
    n, m, p = outcomes.shape
    decisions = np.repeat(decide_on_rows(task, body, rows, head), m, axis=0)
    return decision_costs(task.oracle, decisions, outcomes.reshape(-1, p)).reshape(n, m)
