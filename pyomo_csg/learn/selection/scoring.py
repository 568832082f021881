"""Costs of a network's decisions on held-out rows, and paired comparisons of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import norm
from torch import nn

from pyomo_csg.errors import DataError
from pyomo_csg.learn.distributions.samplers import (
    ResidualSampler,
    Sampler,
    evenly_spaced,
)
from pyomo_csg.learn.fit_result import CandidateScore, Selection
from pyomo_csg.learn.task import ORACLE_OPTIONS, Task
from pyomo_csg.solve import Oracle

_ROWS, _DRAWS, _ERRORS = 48, 48, 256
_CLEARLY = 2.0  # standard errors by which a clear difference exceeds zero
_NO_COSTS = (
    "no decision on generated scenarios has a cost on held-out rows; see Oracle.solve "
    "and Oracle.cost on the history for why, and give the model complete recourse"
)


@dataclass(frozen=True, eq=False)
class PairedDifference:
    """How much more something costs than a reference on the same rows."""

    mean: np.ndarray
    standard_error: np.ndarray
    reference_wins: np.ndarray  # the share of rows on which the reference costs less


def paired_difference(
    costs: np.ndarray, reference: np.ndarray, ddof: int = 0
) -> PairedDifference:
    """Compare costs (..., n) with those of a reference (n,), row by row; ties count half."""
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


def compare_candidates(
    names: Sequence[str], losses: np.ndarray, trusted: str | None = None
) -> Selection:
    """Choose the candidate with the least mean cost (candidates, n) on held-out rows.

    NaN, an unsolved program, counts as the worst cost of all. The ``trusted`` candidate is
    chosen unless another one is better by more than two standard errors. The confidence
    assumes normal paired differences.
    """
    if np.isnan(losses).all():
        raise DataError("Nothing could be compared", [_NO_COSTS])
    costs = fill_unsolved(losses)
    means = costs.mean(axis=1)
    order = np.argsort(means, kind="stable")
    best = order[0]
    if trusted in names:
        favorite = names.index(trusted)
        error = paired_difference(costs[favorite], costs[best]).standard_error
        if means[favorite] - means[best] <= _CLEARLY * error:
            best = favorite
    errors = paired_difference(costs, costs[best]).standard_error
    runner_up = next((c for c in order if c != best), best)
    margin = float(means[runner_up] - means[best])
    if errors[runner_up] > 0:
        confidence = float(norm.cdf(margin / errors[runner_up]))
    else:  # constant differences, equal costs, or a single row
        confidence = 1.0 if margin > 0 and losses.shape[1] > 1 else 0.5
    unsolved = np.isnan(losses).sum(axis=1)
    return Selection(
        chosen=names[best],
        margin=margin,
        confidence=confidence,
        pairs_judged=int(losses.shape[1]),
        candidates=[
            CandidateScore(
                names[c], float(means[c]), float(errors[c]), int(unsolved[c])
            )
            for c in order
        ],
    )


def observed_costs(
    task: Task, body: nn.Module, rows: np.ndarray, head: Any = None
) -> np.ndarray:
    """Return the costs (n,) of a body's decisions on rows; NaN if unsolved."""
    decisions = decide_on_rows(task, body, rows, head)
    return decision_costs(task.oracle, decisions, task.history.outcomes[rows])


def decision_costs(
    oracle: Oracle, decisions: np.ndarray, outcomes: np.ndarray
) -> np.ndarray:
    """Return the costs (n,) of decisions (n, s) on outcomes (n, p).

    They are NaN where a decision is NaN, or has no feasible recourse.
    """
    costs = np.full(len(outcomes), np.nan)
    made = np.flatnonzero(np.isfinite(decisions).all(axis=1))
    if len(made):
        costs[made] = oracle.cost(decisions[made], outcomes[made], **ORACLE_OPTIONS)
    return costs


def decide_on_rows(
    task: Task, body: nn.Module, rows: np.ndarray, head: Any = None
) -> np.ndarray:
    """Return a body's decisions (n, s) on rows; NaN where a program was not solved."""
    if not len(rows):
        return np.empty((0, len(task.oracle.two_stage.first_stage_variables)))
    scenarios, weights = task.generate_scenarios(body, rows, head)
    return task.oracle.solve(
        scenarios, task.solver_weights(weights), **ORACLE_OPTIONS
    ).decision


def costs_by_residual(
    task: Task,
    body: nn.Module,
    rows: np.ndarray,
    sampler: ResidualSampler,
    head: Any = None,
) -> np.ndarray:
    """Return the mean cost over some rows under each residual (m,).

    It is NaN if a decision has no feasible recourse.
    """
    some = rows[evenly_spaced(len(rows), _ROWS)]
    outcomes = sampler.every_residual(some, _ERRORS)
    return _costs(task, body, some, outcomes, head).mean(axis=0)


def expected_costs(
    task: Task,
    body: nn.Module,
    rows: np.ndarray,
    sampler: Sampler,
    head: Any = None,
    draws: int | None = None,
) -> np.ndarray:
    """Return the mean costs (n,) of decisions on rows over sampled outcomes.

    They are NaN where a decision has no feasible recourse for one of the outcomes.
    """
    outcomes = sampler.draw(rows, draws or _DRAWS, task.rng("expected losses"))
    return _costs(task, body, rows, outcomes, head).mean(axis=1)


def mean_expected_cost(
    task: Task,
    body: nn.Module,
    rows: np.ndarray,
    sampler: Sampler,
    head: Any = None,
    draws: int | None = None,
) -> float:
    """Return the mean cost of decisions on some of the rows over sampled outcomes."""
    rng = task.rng("mean loss")
    some = rng.choice(rows, min(_ROWS, len(rows)), replace=False)
    losses = expected_costs(task, body, some, sampler, head, draws)
    return float("inf") if np.isnan(losses).any() else float(losses.mean())


def best_body(
    task: Task,
    bodies: Sequence[nn.Module],
    rows: np.ndarray,
    sampler: Sampler,
    head: Any = None,
    draws: int | None = None,
) -> nn.Module:
    """Return the body with the least costly decisions on its training rows."""
    losses = [
        mean_expected_cost(task, body, rows, sampler, head, draws) for body in bodies
    ]
    return bodies[int(np.argmin(losses))]


def _costs(
    task: Task, body: nn.Module, rows: np.ndarray, outcomes: np.ndarray, head: Any
) -> np.ndarray:
    """Return the costs (n, m) of decisions on rows (n,) for outcomes (n, m, p)."""
    n, m, p = outcomes.shape
    decisions = np.repeat(decide_on_rows(task, body, rows, head), m, axis=0)
    return decision_costs(task.oracle, decisions, outcomes.reshape(-1, p)).reshape(n, m)
