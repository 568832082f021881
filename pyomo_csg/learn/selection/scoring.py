"""Costs of candidates' decisions on held-out rows, and paired comparisons of them."""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student

from pyomo_csg.errors import DataError
from pyomo_csg.learn.distributions.features import evenly_spaced
from pyomo_csg.learn.distributions.samplers import ResidualSampler, Sampler
from pyomo_csg.learn.distributions.user_distribution import USERS
from pyomo_csg.learn.fit_result import CandidateScore, Selection
from pyomo_csg.learn.selection.fits import Candidate, Fit
from pyomo_csg.learn.selection.folds import Folds
from pyomo_csg.learn.task import Task

_ROWS, _ERRORS = 48, 256
_CLEARLY = 2.0  # standard errors by which a clear difference exceeds zero
_AS_GOOD = 0.5  # standard errors within which an earlier candidate is preferred
_CONTEXT_PAYS = 1.0  # the same, for candidates that ignore the context
# Where the history cannot separate candidates, earlier ones cost less on later rows of the
# development histories. Atoms are a better reduction of the distribution they start from.
# The user's distribution is first. Networks follow in the order in which they are fitted.
_PREFERRED = (
    USERS,
    "trained atoms",
    "stacked residuals",
    "mixture",
    "boosting residuals",
    "ridge residuals",
    "quadratic residuals",
    "extra trees residuals",
    "forest residuals",
    "extra trees weights",
    "forest weights",
    "neighbors",
    "sample average",
)
_MOST_AVERAGED = 200  # outcomes in one program of the sample average
_DRAWS, _FEW_DRAWS = 50, 10  # of the user's distribution, for each row
_WEEK = 7  # rows over which errors of daily series often repeat
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
    """Compare costs (..., n) with those of a reference (n,), row by row; ties count half.

    Rows are in the order of the history. The standard error allows for neighboring rows
    that are correlated, as days of a time series are.
    """
    apart = costs - reference
    return PairedDifference(
        apart.mean(axis=-1),
        standard_error(apart, ddof),
        (apart > 0).mean(axis=-1) + (apart == 0).mean(axis=-1) / 2,
    )


def standard_error(values: np.ndarray, ddof: int = 0) -> np.ndarray:
    """Return the standard error of the mean of values (..., n) in the order of time.

    The larger of the one for independent values and the one by Newey and West (1987),
    whose lags span at least a week of daily rows if there are enough of them.
    """
    n = values.shape[-1]
    plain = values.std(axis=-1, ddof=ddof) / math.sqrt(n)
    lags = min(n // 8, max(_WEEK, round(n ** (1 / 3))))
    centered = values - values.mean(axis=-1, keepdims=True)
    variance = (centered**2).mean(axis=-1)
    for lag in range(1, lags + 1):
        products = (centered[..., lag:] * centered[..., :-lag]).sum(axis=-1) / n
        variance = variance + 2 * (1 - lag / (lags + 1)) * products
    return np.maximum(plain, np.sqrt(np.maximum(variance, 0.0) / n))


def fill_unsolved(costs: np.ndarray) -> np.ndarray:
    """Return costs in which NaN is replaced by the worst cost of all, or by 0 if none."""
    known = costs[~np.isnan(costs)]
    return np.where(np.isnan(costs), known.max() if known.size else 0.0, costs)


def compare_candidates(
    names: Sequence[str],
    losses: np.ndarray,
    trusted: str | None = None,
    context_free: Container[str] = (),
) -> Selection:
    """Choose the candidate with the least mean cost (candidates, n) on held-out rows.

    Candidates are in the order of preference: an earlier one is chosen if it is within half
    a standard error of the best. Only the ``context_free`` ones compete if one of them is
    within a standard error of the best. The ``trusted`` candidate is chosen unless another
    one is better by more than two. NaN, an unsolved program, counts as the worst cost of
    all, and candidates that have clearly more of them than another do not compete.
    """
    if np.isnan(losses).all():
        raise DataError("Nothing could be compared", [_NO_COSTS])
    costs, competing = fill_unsolved(losses), _reliable(losses)
    means = costs.mean(axis=1)
    order = np.argsort(np.where(competing, means, np.inf), kind="stable")
    free = np.flatnonzero([name in context_free for name in names] & competing)
    if len(free) and len(_about_as_good(costs, free, int(order[0]), _CONTEXT_PAYS)):
        least = free[means[free].argmin()]
        best = _about_as_good(costs, free, int(least), _AS_GOOD)[0]
    else:
        every = np.flatnonzero(competing)
        best = _about_as_good(costs, every, int(order[0]), _AS_GOOD)[0]
    if trusted in names:
        favorite = names.index(trusted)
        error = paired_difference(costs[favorite], costs[best]).standard_error
        if means[favorite] - means[best] <= _CLEARLY * error:
            best = favorite
    errors = paired_difference(costs, costs[best]).standard_error
    # Two candidates may be the same, such as forecasts that fall back on the median.
    others = (c for c in order if not np.array_equal(costs[c], costs[best]))
    runner_up = next(others, best)
    margin = float(means[runner_up] - means[best])
    unsolved = np.isnan(losses).sum(axis=1)
    return Selection(
        chosen=names[best],
        margin=margin,
        confidence=_confidence(margin, float(errors[runner_up]), losses.shape[1]),
        pairs_scored=int(losses.shape[1]),
        candidates=[
            CandidateScore(
                names[c], float(means[c]), float(errors[c]), int(unsolved[c])
            )
            for c in order
        ],
    )


def _reliable(losses: np.ndarray) -> np.ndarray:
    """Return which candidates (c,) do not have clearly more NaN than the one with the fewest."""
    failed = np.isnan(losses).astype(float)
    apart = paired_difference(failed, failed[failed.sum(axis=1).argmin()])
    return apart.mean <= _CLEARLY * apart.standard_error


def _about_as_good(
    costs: np.ndarray, candidates: np.ndarray, best: int, errors: float
) -> list[int]:
    """Return the candidates within some standard errors of the best."""
    apart = paired_difference(costs[candidates], costs[best])
    return candidates[apart.mean <= errors * apart.standard_error].tolist()


def _confidence(margin: float, error: float, rows: int) -> float:
    """Return the probability that the chosen candidate beats the runner-up.

    The winner of a choice tends to look better than it is. A normal prior as wide as the
    standard error corrects for that: it halves the margin's mean and variance.
    """
    if error > 0:
        # The standard error of few rows is uncertain, too.
        return float(student.cdf(margin / error / math.sqrt(2), max(1, rows - 1)))
    # constant differences, equal costs, or a single row
    return 1.0 if margin > 0 and rows > 1 else 0.5


def _preference(name: str) -> int:
    """Return the place of a candidate's name in the order of preference."""
    return _PREFERRED.index(name) if name in _PREFERRED else len(_PREFERRED)


class Scoreboard:
    """The costs of all candidates so far, on the same held-out rows.

    Each row is evaluated by the fold that has not seen it, on its observed outcome or, with
    ``samplers``, on all residuals of its fold's sampler. ``means`` are the mean costs by
    name, which decide how further candidates are trained.
    """

    samplers: Sequence[ResidualSampler] | None = None

    def __init__(self, task: Task, folds: Folds, rows: int):
        self._task = task
        held = sum(map(len, folds.held_out))
        share = min(1.0, rows / held)
        self._rows = [
            mine[evenly_spaced(len(mine), max(1, math.ceil(share * len(mine))))]
            for mine in folds.held_out
            if len(mine)
        ]
        self._order = np.argsort(np.concatenate(self._rows), kind="stable")
        parts = zip(folds.rows, folds.held_out, strict=False)
        self._training = [mine for mine, held in parts if len(held)]
        self.candidates: list[Candidate] = []
        self._costs: list[np.ndarray] = []
        self._unscored: Candidate | None = None

    @property
    def has_candidate(self) -> bool:
        """Whether there is a candidate, scored or not."""
        return self._unscored is not None

    @property
    def means(self) -> Mapping[str, float]:
        """Mean costs by candidate; NaN counts as the worst cost of all."""
        filled = fill_unsolved(np.stack(self._costs)) if self._costs else ()
        pairs = zip(self.candidates, filled, strict=True)
        return {one.name: float(costs.mean()) for one, costs in pairs}

    def keep(self, candidate: Candidate) -> None:
        """Remember the first candidate, to be selected if none is scored."""
        self._unscored = self._unscored or candidate

    def add(self, candidate: Candidate) -> None:
        """Evaluate a candidate; raise TimeUpError if the time is up before the end."""
        self.keep(candidate)
        stage = f"score {candidate.name}"
        stored = self._task.checkpoint.stage(
            stage, lambda: {"costs": self._evaluate(candidate, stage)}
        )
        self.candidates.append(candidate)
        self._costs.append(stored["costs"])
        self._task.log.bar.best = min(self.means, key=self.means.__getitem__)

    def costs_on_some(
        self, candidate: Candidate, most: int
    ) -> Iterator[tuple[int, float]]:
        """Yield some places among the scored rows, with a candidate's costs there."""
        counts = [len(rows) for rows in self._rows]
        folds = np.repeat(np.arange(len(counts)), counts)[self._order]
        rows = np.concatenate(self._rows)[self._order]
        for i in self._task.rng("some rows").permutation(len(rows))[:most]:
            fit = candidate.fits[folds[i]]
            yield int(i), float(held_out_costs(self._task, fit, rows[i : i + 1])[0])

    def select(self, trusted: str | None = None) -> tuple[Candidate, Selection]:
        """Return the best candidate; without scores, the first one."""
        if not self._costs:
            assert self._unscored is not None
            return self._unscored, Selection(self._unscored.name)
        free = [one.name for one in self.candidates if one.is_context_free]
        # The future of a series may differ from its history: the context must pay clearly.
        may_drift = self._task.config.rows == "series" and self.samplers is None
        names = sorted((one.name for one in self.candidates), key=_preference)
        selection = compare_candidates(
            names, self._stacked_costs(names), trusted, free if may_drift else ()
        )
        (winner,) = (one for one in self.candidates if one.name == selection.chosen)
        return winner, selection

    def preferred(self, names: Sequence[str]) -> str | None:
        """Return which of some candidates would be chosen; None if none of them is scored."""
        scored = {one.name for one in self.candidates}
        some = sorted((name for name in names if name in scored), key=_preference)
        if not some or np.isnan(costs := self._stacked_costs(some)).all():
            return None
        return compare_candidates(some, costs).chosen

    def _stacked_costs(self, names: Sequence[str]) -> np.ndarray:
        return np.stack([self.costs(name) for name in names])

    def costs(self, name: str) -> np.ndarray:
        """Return the costs of a candidate on the held-out rows, in their order."""
        names = [one.name for one in self.candidates]
        return self._costs[names.index(name)] if name in names else np.full(1, np.nan)

    def sample_average_competes(self) -> bool:
        """Whether one decision for all contexts is not clearly worse than the best so far.

        The decision of a fold is that on its outcomes, or on some of them evenly spaced.
        """
        task, outcomes = self._task, self._task.history.outcomes
        is_observed = self.samplers is None and task.distribution is None
        if not (is_observed and self._costs):
            return False
        found = []
        for mine, rows in zip(self._training, self._rows, strict=True):
            some = mine[evenly_spaced(len(mine), _MOST_AVERAGED)]
            decision = task.solve(outcomes[some][None]).decision
            costs = task.cost(decision.repeat(len(rows), 0), outcomes[rows], rows)
            found.append(costs)
        best = self._costs[int(np.argmin([*self.means.values()]))]
        costs = fill_unsolved(np.stack([best, np.concatenate(found)[self._order]]))
        apart = paired_difference(costs[1], costs[0])
        return bool(apart.mean <= _CLEARLY * apart.standard_error)

    def observed_costs(self, name: str) -> np.ndarray | None:
        """Return a candidate's costs on the observed outcomes of rows; None if not scored by them."""
        scored = any(one.name == name for one in self.candidates)
        is_observed = self.samplers is None and self._task.distribution is None
        return self.costs(name) if scored and is_observed else None

    def _evaluate(self, candidate: Candidate, stage: str) -> np.ndarray:
        costs = []
        with self._task.log.stage(stage, len(self._rows)) as bar:
            for fold, rows in enumerate(self._rows):
                fit = candidate.fits[fold]
                if self.samplers is None:
                    costs.append(held_out_costs(self._task, fit, rows))
                else:
                    sampler = self.samplers[fold]
                    costs.append(costs_by_residual(self._task, fit, rows, sampler))
                bar.step()
        joined = np.concatenate(costs)
        return joined[self._order] if self.samplers is None else joined


def held_out_costs(task: Task, fit: Fit, rows: np.ndarray) -> np.ndarray:
    """Return the costs (n,) of decisions on observed outcomes, or means over draws.

    Draws are those of the user's distribution.
    """
    sampler = task.target_sampler
    if sampler is None:
        return observed_costs(task, fit, rows)
    draws = _FEW_DRAWS if task.has_integer_recourse else _DRAWS
    return expected_costs(task, fit, rows, sampler, draws)


def observed_costs(task: Task, fit: Fit, rows: np.ndarray) -> np.ndarray:
    """Return the costs (n,) of a fit's decisions on rows; NaN if unsolved."""
    decisions = decide_on_rows(task, fit, rows)
    return task.cost(decisions, task.history.outcomes[rows], rows)


def decide_on_rows(task: Task, fit: Fit, rows: np.ndarray) -> np.ndarray:
    """Return a fit's decisions (n, s) on rows; NaN where a program was not solved."""
    count = len(rows)
    if not count:
        return np.empty((0, len(task.oracle.two_stage.first_stage_variables)))
    scenarios, weights = fit.scenarios(task, rows)
    if isinstance(scenarios, np.ndarray):
        if _are_one_program(scenarios, weights, task.history.known[rows]):
            rows, scenarios = rows[:1], scenarios[:1]
            weights = None if weights is None else weights[:1]
            return task.solve(scenarios, weights, rows).decision.repeat(count, axis=0)
        return task.solve(scenarios, weights, rows).decision
    # Their number differs between contexts.
    cases = zip(scenarios, weights or (), rows[:, None], strict=True)
    return np.stack(
        [task.solve(z[None], w[None], row).decision[0] for z, w, row in cases]
    )


def _are_one_program(*arrays: np.ndarray | None) -> bool:
    """Whether the data of all rows is the same, as that of constant scenarios is."""
    return all((array == array[:1]).all() for array in arrays if array is not None)


def costs_by_residual(
    task: Task, fit: Fit, rows: np.ndarray, sampler: ResidualSampler
) -> np.ndarray:
    """Return the mean cost over some rows under each residual (m,)."""
    some = rows[evenly_spaced(len(rows), _ROWS)]
    outcomes = sampler.every_residual(some, _ERRORS)
    return _costs(task, fit, some, outcomes).mean(axis=0)


def expected_costs(
    task: Task, fit: Fit, rows: np.ndarray, sampler: Sampler, draws: int
) -> np.ndarray:
    """Return the mean costs (n,) of decisions on rows over sampled outcomes.

    They are NaN where a decision has no feasible recourse for one of the outcomes.
    """
    outcomes = sampler.draw(rows, draws, task.rng("expected losses"))
    return _costs(task, fit, rows, outcomes).mean(axis=1)


def best_fit(
    task: Task,
    fits: Sequence[Fit],
    rows: np.ndarray,
    sampler: Sampler,
    draws: int,
    most: int,
) -> int:
    """Return the number of the fit with the least costly decisions on some of its rows."""
    some = task.rng("mean loss").choice(rows, min(most, len(rows)), replace=False)
    means = [expected_costs(task, fit, some, sampler, draws).mean() for fit in fits]
    return int(np.argmin(np.nan_to_num(means, nan=np.inf)))


def _costs(task: Task, fit: Fit, rows: np.ndarray, outcomes: np.ndarray) -> np.ndarray:
    """Return the costs (n, m) of decisions on rows (n,) for outcomes (n, m, p)."""
    n, m, p = outcomes.shape
    decisions = np.repeat(decide_on_rows(task, fit, rows), m, axis=0)
    cases = np.repeat(rows, m)
    return task.cost(decisions, outcomes.reshape(-1, p), cases).reshape(n, m)
