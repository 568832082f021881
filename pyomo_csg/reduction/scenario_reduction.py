"""csg.reduce: from many outcomes to a few scenarios, by the cost of the decision."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pyomo_csg.errors import ModelError
from pyomo_csg.reduction.candidate_sets import (
    cost_sets,
    descend,
    forward_set,
    kmeans_set,
    nearest_set,
    random_sets,
    swap,
)
from pyomo_csg.reduction.decision_costs import (
    Admission,
    DecisionCosts,
    Reference,
    WeightedPoints,
    find_reference,
)
from pyomo_csg.solve import Oracle
from pyomo_csg.stages.inputs import known_batch, scenario_array, weight_vector
from pyomo_csg.validation import Problems, is_one_of

_METHODS = ("problem", "kmeans", "forward")
_REFERENCE_SHARE, _SEARCH_SHARE = 0.25, 0.8  # of the seconds, when each part ends
_SEARCHED, _FINAL = 200, 6  # about how many decisions each part evaluates
_COMPARED = 2  # sets that were found, and decisions on groups of outcomes
_STARTS = 4  # of the gradient
_GRADIENT_OUTCOMES = 500
_LEAST_PER_SCENARIO = 10  # outcomes in a sample
_ROUNDING = 1e-9  # a relative gap that is zero


@dataclass(frozen=True, repr=False)
class Reduction:
    """A few weighted scenarios, and the cost of the decision on them. ``print`` it to read it.

    Costs are minimized whatever the model's sense, as in :class:`Oracle`.

    Attributes
    ----------
    scenarios : array (K, p)
    weights : array (K,)
    decision : array (s,)
        The decision on these scenarios.
    cost : float
        Its expected cost over the outcomes.
    reference : float
        The cost of the decision on all outcomes if ``solved``, otherwise the least cost of
        all decisions that were evaluated.
    bound : float
        A proven lower bound on the expected cost of every decision; -inf if there is none.
    solved : bool
        Whether the program on all outcomes was solved.
    gaps : dict of str to float
        The relative gap of each method's decision to ``reference``; inf where it has no
        decision, or one without a recourse to some outcome.
    method : str
        Which of ``gaps`` these scenarios belong to.
    evaluated : int
        The number of distinct outcomes that costs are computed on. It is less than
        the number given only if evaluating all of them would take too long; costs are
        then estimates from a sample.
    """

    scenarios: np.ndarray
    weights: np.ndarray
    decision: np.ndarray
    cost: float
    reference: float
    bound: float
    solved: bool
    gaps: Mapping[str, float]
    method: str
    evaluated: int
    _outcomes: int

    @property
    def gap(self) -> float:
        """The relative gap of the decision: (cost - reference) / abs(reference)."""
        return self.gaps[self.method]

    @property
    def gap_bound(self) -> float:
        """A proven upper bound on the gap to the best decision; inf if there is none.

        It is an estimate if not all outcomes were evaluated.
        """
        return _relative(self.cost, self.bound)

    def __repr__(self) -> str:
        sizes = f"{self._outcomes} outcomes to {len(self.scenarios)} scenarios"
        return f"<Reduction of {sizes} by '{self.method}': gap {self.gap:.3%}>"

    def __str__(self) -> str:
        known = "the decision on all outcomes" if self.solved else "the best one known"
        lines = [
            f"{self._outcomes} outcomes reduced to {len(self.scenarios)} scenarios",
            f"gap to {known}, by method:",
            *(f"    {name:18s} {gap:10.3%}" for name, gap in self.gaps.items()),
        ]
        if np.isfinite(self.bound):
            lines.append(f"proven gap of '{self.method}': at most {self.gap_bound:.3%}")
        if self.evaluated < self._outcomes:
            lines.append(f"estimated on a sample of {self.evaluated} outcomes")
        return "\n".join(lines)


def reduce(
    model: Any,
    outcomes: Any,
    weights: Any = None,
    *,
    scenarios: int = 5,
    method: str = "problem",
    seed: int = 0,
    seconds: float = 30.0,
    workers: int = 1,
    known: Any = None,
) -> Reduction:
    """Reduce outcomes to a few weighted scenarios.

    ``'problem'`` searches for scenarios whose decision costs little over all outcomes. It
    compares k-means, forward selection, random sets and sets of similar costs, and
    improves the best of them, by the gradient of the cost where there is one, then by
    changing one scenario at a time. It is never worse than ``'kmeans'`` and
    ``'forward'``.

    Parameters
    ----------
    model : ConcreteModel or Oracle
        An annotated model, or an oracle with settings of your choice.
    outcomes : array (m, p) or DataFrame
    weights : array (m,), optional
        They sum to 1. Default: 1/m.
    scenarios : int, optional
        K.
    method : {'problem', 'kmeans', 'forward'}, optional
        Which scenarios to return. ``'kmeans'`` and ``'forward'`` do not search.
    seed : int, optional
    seconds : float, optional
        Time limit of the search. The costs of the last few decisions, including those of
        k-means and forward selection, are computed after it.
    workers : int, optional
        Threads, if a model is given.
    known : array (r,) or mapping, optional
        The numbers of the known Params. Default: those of the model.

    Returns
    -------
    Reduction

    Examples
    --------
    >>> import numpy as np
    >>> import pyomo_csg as csg
    >>> from pyomo_csg.zoo import newsvendor
    >>> demands = np.random.default_rng(0).gamma(2.0, 10.0, (500, 1))
    >>> found = csg.reduce(newsvendor.build(price=2.0), demands, scenarios=2)
    >>> found
    <Reduction of 500 outcomes to 2 scenarios by 'problem': gap ...%>
    >>> found.scenarios.shape, found.weights.shape, found.solved
    ((2, 1), (2,), True)
    >>> found.gap < 0.001 < found.gaps["kmeans"]
    True
    """
    problems = Problems("Cannot reduce the outcomes")
    problems.check_counts(scenarios=scenarios)
    problems.check_seed(seed)
    problems.check_positive(seconds=seconds)
    if not is_one_of(method, _METHODS):
        problems.add(f"method is {method!r}; give one of {_METHODS}")
    problems.raise_any()
    oracle = model if isinstance(model, Oracle) else Oracle(model, workers=workers)
    points = problems.check("outcomes", scenario_array, oracle.two_stage, outcomes)
    shares = problems.check("weights", weight_vector, weights, points)
    if known is not None:
        numbers = problems.check("known", known_batch, oracle.two_stage, known, 1)
        oracle = oracle if numbers is None else oracle.with_known(numbers)
    problems.raise_any()
    distinct = WeightedPoints.distinct(points, shares)
    return _Search(oracle, distinct, scenarios, seed, seconds).run(method)


class _Search:
    """One reduction: its oracle, outcomes, random numbers and clock."""

    def __init__(
        self,
        oracle: Oracle,
        outcomes: WeightedPoints,
        count: int,
        seed: int,
        seconds: float,
    ):
        self._oracle, self._outcomes, self._seed = oracle, outcomes, seed
        self._count = min(count, len(outcomes))
        self._seconds = seconds
        self._rng = np.random.default_rng(seed)
        self._admission = Admission(oracle.two_stage, outcomes)
        self._costs = DecisionCosts(oracle)

    def run(self, method: str) -> Reduction:
        """Return the result of one method, and the gaps of the simple ones."""
        simple = self._simple_sets()
        start = time.monotonic()
        self._costs.deadline = start + _SEARCH_SHARE * self._seconds
        reference = find_reference(
            self._oracle,
            self._outcomes,
            start + _REFERENCE_SHARE * self._seconds,
            self._seed,
        )
        found: list[WeightedPoints] = []
        if method == "problem" and self._count < len(self._outcomes):
            found = self._search(list(simple.values()), reference.bound)
        return self._result(method, simple, found, reference)

    def _simple_sets(self) -> dict[str, WeightedPoints]:
        """Return the sets of k-means and forward selection."""
        if self._count == len(self._outcomes):
            return {"kmeans": self._outcomes, "forward": self._outcomes}
        rng = np.random.default_rng(self._seed)
        return {
            "kmeans": kmeans_set(
                self._outcomes, self._count, self._seed, self._admission
            ),
            "forward": forward_set(self._outcomes, self._count, rng),
        }

    def _search(self, sets: list[WeightedPoints], bound: float) -> list[WeightedPoints]:
        """Return sets whose decisions cost little on a sample, the best first."""
        sets = [
            *sets,
            nearest_set(self._outcomes, sets[0]),
            *random_sets(self._outcomes, self._count, self._rng),
        ]
        decisions = self._costs.decide(sets)
        sample = self._sample(decisions, _SEARCHED, 0.5 * self._seconds)
        found = self._costs.costs(decisions, sample)
        similar = cost_sets(
            sample, self._count, self._costs, self._seed, self._admission
        )
        sets += similar
        others = self._costs.costs(self._costs.decide(similar), sample)
        found = np.concatenate([found, others])
        order = np.argsort(found, kind="stable")
        if len(sample) == len(self._outcomes) and _relative(found.min(), bound) == 0:
            return [sets[order[0]]]
        starts = [sets[i] for i in order if len(sets[i]) == self._count][:_STARTS]
        best = sets[order[0]]
        moved = self._descend(starts, sample)
        if moved:
            reached = self._costs.costs(self._costs.decide(moved), sample)
            if reached.min() < found.min():
                best = moved[int(reached.argmin())]
            found = np.append(found, reached)
        cost = float(found.min())
        best = swap(self._costs, best, cost, sample, self._admission, self._rng)
        return [best, sets[order[0]]]

    def _descend(
        self, starts: list[WeightedPoints], sample: WeightedPoints
    ) -> list[WeightedPoints]:
        """Return sets found by the gradient, if there is one."""
        if self._oracle._compiled is None or not self._admission.admits_means():
            return []
        some = sample.sample(
            max(_GRADIENT_OUTCOMES, _LEAST_PER_SCENARIO * self._count), self._rng
        )
        return descend(self._oracle, self._costs, starts, some, self._rng)

    def _sample(
        self, decisions: np.ndarray, times: int, seconds: float
    ) -> WeightedPoints:
        """Return a sample on which some decisions can be evaluated in time."""
        size = len(self._outcomes)
        solved = decisions[np.isfinite(decisions).all(axis=1)]
        if len(solved):
            size = self._costs.affordable(solved, self._outcomes, times, seconds)
        size = max(size, _LEAST_PER_SCENARIO * self._count)
        return self._outcomes.sample(size, self._rng)

    def _result(
        self,
        method: str,
        simple: dict[str, WeightedPoints],
        found: list[WeightedPoints],
        reference: Reference,
    ) -> Reduction:
        """Evaluate the decisions that are left on all outcomes."""
        names, sets = list(simple), list(simple.values())
        decisions = self._costs.decide([*sets, *found], final=True)
        compared = np.concatenate([decisions, reference.decisions[:_COMPARED]])
        outcomes = self._sample(compared, _FINAL, 0.5 * self._seconds)
        costs = self._costs.costs(compared, outcomes, final=True)
        if not np.isfinite(costs).any():
            raise ModelError(
                f"No decision for '{self._oracle.two_stage.model.name}' was found",
                ["no decision on K scenarios has a recourse to all outcomes"],
            )
        own, others = costs[: len(decisions)], costs[len(decisions) :]
        least = others[0] if reference.is_full else costs.min()
        gaps = {name: _relative(own[i], least) for i, name in enumerate(names)}
        if method == "problem":
            place = int(own.argmin())
            gaps = {"problem": _relative(own[place], least), **gaps}
        else:
            place = names.index(method)
        chosen = [*sets, *found][place]
        return Reduction(
            chosen.points,
            chosen.weights,
            decisions[place],
            float(own[place]),
            float(least),
            reference.bound,
            reference.is_full,
            gaps,
            method,
            len(outcomes),
            len(self._outcomes),
        )


def _relative(cost: float, reference: float) -> float:
    """Return how far a cost is above a reference, relative to the latter."""
    if not np.isfinite(reference):
        return np.inf
    gap = (cost - reference) / max(abs(reference), np.finfo(float).tiny)
    return 0.0 if abs(gap) < _ROUNDING else float(gap)
