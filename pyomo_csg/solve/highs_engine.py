"""All programs of a compiled model, in batches, on HiGHS."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from pyomo_csg.solve.compile.assembly import Blocks, evaluate
from pyomo_csg.solve.compile.compiler import CompiledModel
from pyomo_csg.solve.engine import (
    Found,
    SolveContext,
    Solved,
    SolverTrouble,
    Stats,
    Strategy,
    Troubles,
    bad_data,
    solve_each,
)
from pyomo_csg.solve.lp.basis_cache import Basis
from pyomo_csg.solve.lp.linear_solver import LinearSolved, LinearSolver
from pyomo_csg.solve.lp.recourse_costs import RecourseSolver
from pyomo_csg.solve.lp.sensitivity import (
    Optima,
    decision_sensitivity,
    have_equal_bounds,
    is_degenerate,
    value_sensitivity,
)
from pyomo_csg.solve.mip.integer_solver import IntegerSolver
from pyomo_csg.solve.quadratic import QuadraticRecourse, QuadraticSolver

_MOST_STRATEGIES = 16  # each holds a program, which may be large


class HighsEngine:
    """Answers batches of cases; keeps one strategy, with its solvers, for each K.

    Parameters
    ----------
    compiled : CompiledModel
    options : mapping
        Of HiGHS.
    bases : dict, optional
        Bases of linear programs by K and by the case's key; engines may share it.
    known : sequence of Basis, optional
        Of the recourse, as :meth:`rehearsed` returns them.

    Notes
    -----
    In every method ``first`` is the number that the first case has in its batch. It and
    those after it are the keys by which cases find their last basis, if none are given.
    """

    def __init__(
        self,
        compiled: CompiledModel,
        options: Mapping[str, Any],
        bases: dict[int, dict[int, Any]] | None = None,
        known: Sequence[Basis] = (),
    ):
        self._compiled = compiled
        self._bases = {} if bases is None else bases
        self.stats = Stats()
        self._context = SolveContext(self.stats, options)
        self._recourse: Any = (
            QuadraticRecourse(compiled, self._context)
            if compiled.quadratic
            else RecourseSolver(compiled, self._context, known)
        )
        self._strategies: dict[int, Strategy] = {}
        self._linear: dict[int, LinearSolver] = {}

    def solve(
        self,
        scenarios: np.ndarray,
        weights: np.ndarray,
        keys: np.ndarray | None = None,
        *,
        gradient: bool,
        first: int = 0,
    ) -> tuple[Any, ...]:
        """Return decisions (n, s), values and bounds (n,), gradients (n, K, p), smooth.

        The last is the dictionary of troubles.
        """
        blocks = evaluate(self._compiled, scenarios)
        keys = _keys(keys, first, len(weights))
        solved = self._solve_many(blocks, weights, keys, certify=False)
        found, troubles = (
            (solved.decisions, solved.values, solved.bounds),
            solved.troubles,
        )
        smooth = np.zeros(len(weights), bool)
        if not gradient:
            return *found, np.empty((len(weights), 0)), smooth, troubles
        gradients = np.full(scenarios.shape, np.nan)
        for i in range(len(scenarios)):
            try:
                if i not in troubles:
                    gradients[i], smooth[i] = self._value_gradient(
                        scenarios[i], blocks[i], weights[i]
                    )
            except SolverTrouble as trouble:
                troubles[i] = trouble
        return *found, gradients, smooth, troubles

    def _value_gradient(
        self, zeta: np.ndarray, blocks: Blocks, weights: np.ndarray
    ) -> tuple[np.ndarray, bool]:
        found = self._held_found(blocks, weights)
        sensitivity = value_sensitivity(self._compiled, found, weights)
        gradient = sensitivity.scenario_gradient(self._compiled, zeta)
        return gradient, self._is_smooth(found, blocks)

    def rehearsed(
        self, scenarios: np.ndarray, weights: np.ndarray, outcomes: np.ndarray
    ) -> tuple[Basis, ...]:
        """Return the bases by which the recourse answers outcomes (m, p).

        Decisions are those on scenarios (n, K, p), integers taken as continuous. There are
        none where each case of the recourse has to be solved.
        """
        if self._compiled.quadratic or not self._recourse.caches:
            return ()
        blocks = evaluate(self._compiled, scenarios)
        good = np.flatnonzero(~blocks.unusable())
        if not len(good):
            return ()
        relaxed = self._held(scenarios.shape[1])
        found = relaxed.solve_many(blocks[good], weights[good], good, certify=False)
        made = found.decisions[np.isfinite(found.decisions).all(axis=1)]
        self.costs(
            np.repeat(made, len(outcomes), axis=0), np.tile(outcomes, (len(made), 1))
        )
        return self._recourse.known

    def losses(
        self,
        scenarios: np.ndarray,
        weights: np.ndarray,
        outcomes: np.ndarray,
        keys: np.ndarray | None = None,
        *,
        kind: str,
        first: int = 0,
    ) -> tuple[np.ndarray, np.ndarray, Troubles]:
        """Return losses (n,) and whether decisions (n,) are certified to be unique.

        ``kind`` is as in :meth:`pyomo_csg.Oracle.loss`.
        """
        search, worst = kind != "recourse", kind == "pessimistic"
        blocks = evaluate(self._compiled, scenarios)
        strategy = self._strategy(scenarios.shape[1])
        if search and not isinstance(strategy, LinearSolver):
            return self._searched(strategy, blocks, weights, outcomes, kind)
        keys = _keys(keys, first, len(weights))
        found = self._solve_many(blocks, weights, keys)
        decisions, unique, troubles = found.decisions, found.unique, found.troubles
        losses = np.full(len(scenarios), np.nan)
        solved = np.ones(len(scenarios), bool)
        solved[list(troubles)] = False
        at_hand = np.flatnonzero(solved & unique if search else solved)
        losses[at_hand], failed = self._recourse.costs(
            decisions[at_hand], outcomes[at_hand]
        )
        troubles.update((int(at_hand[i]), trouble) for i, trouble in failed.items())
        if not search:
            return losses, unique, troubles
        self.stats.certified += len(at_hand) - len(failed)
        # Where the decision at hand has no recourse another optimum may have one.
        left = np.flatnonzero(solved & np.isnan(losses))
        if len(left):
            if isinstance(found, LinearSolved) and not worst:
                losses[left], failed = self._on_faces(
                    found, left, blocks[left], outcomes[left]
                )
            else:
                losses[left], _, failed = self._searched(
                    strategy, blocks[left], weights[left], outcomes[left], kind
                )
            for place, i in enumerate(map(int, left)):
                troubles.pop(i, None)
                if place in failed:
                    troubles[i] = failed[place]
        return losses, unique, troubles

    def _on_faces(
        self,
        found: LinearSolved,
        cases: np.ndarray,
        blocks: Blocks,
        outcomes: np.ndarray,
    ) -> tuple[np.ndarray, Troubles]:
        """Search the optimal faces of linear programs just solved."""
        losses = np.full(len(cases), np.nan)
        reactions = evaluate(self._compiled, outcomes)
        bad = reactions.unusable()
        good = np.flatnonzero(~bad)
        strategy = self._strategy(blocks.cost.shape[1])
        assert isinstance(strategy, LinearSolver)
        losses[good], failed = strategy.search_many(
            found, cases[good], blocks[good], reactions[good, None]
        )
        troubles = {int(good[i]): trouble for i, trouble in failed.items()}
        return losses, {**troubles, **_marked(bad)}

    def _searched(
        self,
        strategy: Strategy,
        blocks: Blocks,
        weights: np.ndarray,
        outcomes: np.ndarray,
        kind: str,
    ) -> tuple[np.ndarray, np.ndarray, Troubles]:
        """Solve and search case by case."""
        losses, bad = np.full(len(weights), np.nan), blocks.unusable()
        reactions = evaluate(self._compiled, outcomes)
        bad |= reactions.unusable()
        troubles: Troubles = _marked(bad)
        if isinstance(strategy, IntegerSolver):
            good = np.flatnonzero(~bad)
            losses[good], failed = strategy.losses(
                blocks[good], weights[good], reactions[good, None]
            )
            troubles.update((int(good[i]), trouble) for i, trouble in failed.items())
            return losses, np.zeros(len(weights), bool), troubles
        for i in map(int, np.flatnonzero(~bad)):
            try:
                found = strategy.solve(blocks[i], weights[i])
                if found.unique:
                    losses[i] = self._cost(found, outcomes[i])
                if np.isnan(losses[i]):
                    case = found, blocks[i], weights[i], reactions[i : i + 1]
                    losses[i] = _search(strategy, kind)(*case)
            except SolverTrouble as trouble:
                troubles[i] = trouble
        return losses, np.zeros(len(weights), bool), troubles

    def _cost(self, found: Found, outcome: np.ndarray) -> float:
        """Return the cost of a decision; NaN where it has no recourse."""
        decision = found.x[None, : len(self._compiled.first)]
        costs, failed = self._recourse.costs(decision, outcome[None])
        self.stats.certified += not failed
        return float(costs[0])

    def costs(
        self, decisions: np.ndarray, outcomes: np.ndarray, first: int = 0
    ) -> tuple[np.ndarray, Troubles]:
        """Return h(y) + Q(y, omega) (n,)."""
        return self._recourse.costs(decisions, outcomes)

    def loss_gradients(
        self,
        scenarios: np.ndarray,
        weights: np.ndarray,
        outcomes: np.ndarray,
        shares: np.ndarray,
        first: int = 0,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, Troubles]:
        """Return losses (n,), d loss / d zeta (n, K, p) and whether each is smooth.

        Outcomes are (n, M, p); a loss is the mean over them by ``shares`` (n, M).
        """
        n, count = outcomes.shape[:2]
        blocks = evaluate(self._compiled, scenarios)
        optima, is_smooth, troubles = self._optima(blocks, weights)
        cases = np.array([i for i in range(n) if i not in troubles], dtype=int)
        losses, gradients = np.full(n, np.nan), np.full(scenarios.shape, np.nan)
        if not len(cases):
            return losses, gradients, is_smooth, troubles
        if len(cases) < n:
            optima, blocks = optima.select(cases), blocks[cases]
        decisions = optima.x[:, : len(self._compiled.first)]
        costs, slopes, smooth, failed = self._recourse.gradients(
            np.repeat(decisions, count, axis=0),
            outcomes[cases].reshape(-1, outcomes.shape[-1]),
            np.repeat(is_smooth[cases], count),
        )
        share = shares[cases].reshape(-1)
        for place, trouble in failed.items():
            if share[place] > 0:
                troubles[int(cases[place // count])] = trouble
        unneeded = share == 0
        costs[unneeded], slopes[unneeded], smooth[unneeded] = 0.0, 0.0, True
        shape = (len(cases), count, decisions.shape[1])
        mean = (share[:, None] * slopes).reshape(shape).sum(axis=1)
        sensitivity = decision_sensitivity(self._compiled, blocks, optima, mean)
        flat = scenarios[cases].reshape(-1, scenarios.shape[-1])
        losses[cases] = (share * costs).reshape(len(cases), count).sum(axis=1)
        gradients[cases] = sensitivity.scenario_gradient(self._compiled, flat).reshape(
            len(cases), *scenarios.shape[1:]
        )
        is_smooth[cases] &= smooth.reshape(len(cases), count).all(axis=1)
        gradients[np.isnan(losses)] = np.nan
        is_smooth &= ~np.isnan(losses)
        return losses, gradients, is_smooth, troubles

    def _optima(
        self, blocks: Blocks, weights: np.ndarray
    ) -> tuple[Optima, np.ndarray, Troubles]:
        """Return the optima of all cases as those of linear programs, integers held."""
        bad = blocks.unusable()
        troubles = _marked(bad)
        linear = self._held(weights.shape[1])
        held = np.zeros((len(bad), linear.layout.columns))
        for i in map(int, np.flatnonzero(~bad) if self._compiled.integer else ()):
            try:
                held[i] = (
                    self._strategy(weights.shape[1]).solve(blocks[i], weights[i]).x
                )
            except SolverTrouble as trouble:
                troubles[i] = trouble
        cases = np.array([i for i in range(len(bad)) if i not in troubles], dtype=int)
        if len(cases) == len(bad):
            return linear.optima(
                blocks, weights, held if self._compiled.integer else None
            )
        optima = Optima.empty(
            len(bad), linear.layout.n1, linear.layout.columns, linear.layout.rows
        )
        smooth = np.zeros(len(bad), bool)
        found, smooth[cases], failed = linear.optima(
            blocks[cases],
            weights[cases],
            held[cases] if self._compiled.integer else None,
        )
        optima.assign(cases, found)
        troubles.update((int(cases[i]), trouble) for i, trouble in failed.items())
        return optima, smooth, troubles

    def _is_smooth(self, found: Found, blocks: Blocks) -> bool:
        program = self._held(len(blocks.row_lower)).program
        return (
            found.unique
            and not bool(have_equal_bounds(self._compiled, blocks))
            and not is_degenerate(program.highs, found.x, program.arrays)
        )

    def _solve_many(
        self,
        blocks: Blocks,
        weights: np.ndarray,
        keys: np.ndarray,
        certify: bool = True,
    ) -> Solved:
        bad = blocks.unusable()
        if bad.any():
            return self._without(bad, blocks, weights, keys)
        strategy = self._strategy(weights.shape[1])
        if isinstance(strategy, LinearSolver):
            return strategy.solve_many(blocks, weights, keys, certify)
        if isinstance(strategy, IntegerSolver):
            return strategy.solve_many(blocks, weights)
        return solve_each(strategy, blocks, weights, len(self._compiled.first))

    def _without(
        self, bad: np.ndarray, blocks: Blocks, weights: np.ndarray, keys: np.ndarray
    ) -> Solved:
        """Solve the cases whose data can be computed; mark the others."""
        good = np.flatnonzero(~bad)
        solved = Solved.nothing(len(bad), len(self._compiled.first))
        solved.troubles.update((int(i), bad_data()) for i in np.flatnonzero(bad))
        if len(good):
            found = self._solve_many(blocks[good], weights[good], keys[good])
            solved.put_many(good, found)
        return solved

    def _strategy(self, count: int) -> Strategy:
        """Return the strategy for a number of scenarios; those used last are kept."""
        strategy = self._strategies.pop(count, None) or self._new_strategy(count)
        self._strategies[count] = strategy
        if len(self._strategies) > _MOST_STRATEGIES:
            del self._strategies[next(iter(self._strategies))]
        return strategy

    def _new_strategy(self, count: int) -> Strategy:
        arguments = (self._compiled, count, self._context)
        if self._compiled.quadratic:
            return QuadraticSolver(*arguments)
        if self._compiled.integer:
            return IntegerSolver(*arguments)
        bases = self._bases.setdefault(count, {})
        return LinearSolver(*arguments, bases=bases)

    def _held(self, count: int) -> LinearSolver:
        """The linear program that gradients are read off."""
        if count not in self._linear:
            self._linear[count] = LinearSolver(
                self._compiled, count, self._context, relaxed=True
            )
        return self._linear[count]

    def _held_found(self, blocks: Blocks, weights: np.ndarray) -> Found:
        """Return zeta-SAA's optimum as one of a linear program, the integers held."""
        held = None
        if self._compiled.integer:
            held = self._strategy(len(weights)).solve(blocks, weights).x
        return self._held(len(weights)).solve(blocks, weights, held)


def _marked(bad: np.ndarray) -> Troubles:
    """Return the troubles of cases (n,) whose data cannot be computed."""
    return {int(i): bad_data() for i in np.flatnonzero(bad)}


def _search(strategy: Strategy, kind: str) -> Callable[..., float]:
    """Return how to search among zeta-SAA's optima."""
    if kind == "optimistic":
        return strategy.search
    assert isinstance(strategy, LinearSolver)  # the oracle refuses others
    return strategy.search_worst


def _keys(keys: np.ndarray | None, first: int, count: int) -> np.ndarray:
    return np.arange(first, first + count) if keys is None else keys
