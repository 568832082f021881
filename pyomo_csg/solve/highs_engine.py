"""The engine for compiled models: all programs on HiGHS."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pyomo_csg.solve.compile.assembly import Blocks, evaluate
from pyomo_csg.solve.compile.compiler import CompiledModel
from pyomo_csg.solve.engine import (
    CostResult,
    DecisionResult,
    Found,
    GradientResult,
    LossResult,
    ScenarioSolver,
    SolveContext,
    Solved,
    SolveResult,
    SolverTrouble,
    Stats,
    Troubles,
    bad_cases,
)
from pyomo_csg.solve.lp.basis_cache import Basis
from pyomo_csg.solve.lp.linear_solver import LinearSolved, LinearSolver
from pyomo_csg.solve.lp.recourse_blocks import new_recourse_solver
from pyomo_csg.solve.lp.sensitivity import (
    Optima,
    have_equal_bounds,
    is_degenerate,
    value_sensitivity,
)
from pyomo_csg.solve.mip.integer_solver import IntegerSolver
from pyomo_csg.solve.qp.kkt_gradients import QuadraticOptima
from pyomo_csg.solve.qp.quadratic_solver import (
    QuadraticOptimum,
    QuadraticRecourse,
    QuadraticSolver,
)

_MOST_SOLVERS = 16  # each holds a program, which may be large


class HighsEngine:
    """Solves batches of cases of a compiled model; keeps one solver for each K.

    Parameters
    ----------
    compiled : CompiledModel
    options : mapping
        Of HiGHS.
    bases : dict, optional
        Bases of linear programs by K and by the key of the case; engines may share it.
    known : sequence of Basis, optional
        Bases of the recourse, from :meth:`recourse_bases`.
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
            else new_recourse_solver(compiled, self._context, known)
        )
        self._solvers: dict[int, ScenarioSolver] = {}
        self._relaxations: dict[int, LinearSolver] = {}

    def stop_at(self, end: float) -> None:
        """Solve nothing after ``end``, as in :meth:`Engine.stop_at`."""
        self._context.deadline.set_end(end)

    def solve(
        self,
        scenarios: np.ndarray,
        weights: np.ndarray,
        keys: np.ndarray | None = None,
        gradient: bool = False,
    ) -> SolveResult:
        """Solve zeta-SAA, as in :meth:`Engine.solve`."""
        keys = np.arange(len(weights)) if keys is None else keys
        blocks = evaluate(self._compiled, scenarios)
        if (bad := blocks.unusable()).any():
            nothing = Solved.empty(len(bad), len(self._compiled.first))
            result = SolveResult(nothing.decisions, nothing.values, nothing.bounds)
            if gradient:
                result.gradients = np.full(scenarios.shape, np.nan)
                result.smooth = np.zeros(len(bad), bool)
            if len(good := np.flatnonzero(~bad)):
                found = self.solve(scenarios[good], weights[good], keys[good], gradient)
                result.put_many(good, found)
            result.troubles.update(bad_cases(bad))
            return result
        solver = self._solver(weights.shape[1])
        solved = solver.solve_many(blocks, weights, keys, certify=False)
        result = SolveResult(
            solved.decisions, solved.values, solved.bounds, troubles=solved.troubles
        )
        if gradient:
            self._add_gradients(result, scenarios, blocks, weights)
        return result

    def _add_gradients(
        self,
        result: SolveResult,
        scenarios: np.ndarray,
        blocks: Blocks,
        weights: np.ndarray,
    ) -> None:
        """Add the gradients of the values, with integer variables held."""
        gradients = np.full(scenarios.shape, np.nan)
        smooth = np.zeros(len(weights), bool)
        for i, zeta in enumerate(scenarios):
            if i in result.troubles:
                continue
            try:
                found, smooth[i] = self._differentiable_optimum(blocks[i], weights[i])
            except SolverTrouble as trouble:
                result.troubles[i] = trouble
                continue
            sensitivity = value_sensitivity(self._compiled, found, weights[i])
            gradients[i] = sensitivity.scenario_gradient(self._compiled, zeta)
        result.gradients, result.smooth = gradients, smooth

    def _differentiable_optimum(
        self, blocks: Blocks, weights: np.ndarray
    ) -> tuple[Found, bool]:
        """Return an optimum with duals, and whether the value is smooth there."""
        solver, held = self._solver(len(weights)), None
        if isinstance(solver, QuadraticSolver):
            optimum = solver.solve(blocks, weights)
            return optimum, self._is_smooth(optimum, blocks)
        if self._compiled.integer:
            held = solver.solve(blocks, weights).x
        linear = self._relaxation(len(weights))
        found, program = linear.solve(blocks, weights, held), linear.program
        smooth = (
            found.unique
            and not bool(have_equal_bounds(self._compiled, blocks))
            and not is_degenerate(program.highs, found.x, program.arrays)
        )
        return found, smooth

    def recourse_bases(
        self, scenarios: np.ndarray, weights: np.ndarray, outcomes: np.ndarray
    ) -> tuple[Basis, ...]:
        """Return bases of the recourse to outcomes (m, p).

        Decisions are those on scenarios (n, K, p), with integers relaxed. There are no
        bases where the recourse has to be solved case by case.
        """
        if self._compiled.quadratic or not self._recourse.caches:
            return ()
        blocks = evaluate(self._compiled, scenarios)
        good = np.flatnonzero(~blocks.unusable())
        if not len(good):
            return ()
        relaxed = self._relaxation(scenarios.shape[1])
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
        kind: str = "optimistic",
    ) -> LossResult:
        """Return losses, and whether the duals prove that decisions are unique."""
        keys = np.arange(len(weights)) if keys is None else keys
        blocks = evaluate(self._compiled, scenarios)
        solver, searches = self._solver(weights.shape[1]), kind != "recourse"
        if searches and not isinstance(solver, LinearSolver):
            losses, troubles = self._search(solver, blocks, weights, outcomes, kind)
            return LossResult(losses, np.zeros(len(losses), bool), troubles=troubles)
        losses = np.full(len(scenarios), np.nan)
        if (bad := blocks.unusable()).any():
            result = LossResult(losses, np.zeros(len(bad), bool))
            if len(good := np.flatnonzero(~bad)):
                cases = scenarios[good], weights[good], outcomes[good], keys[good]
                result.put_many(good, self.losses(*cases, kind))
            result.troubles.update(bad_cases(bad))
            return result
        found = solver.solve_many(blocks, weights, keys)
        unique, troubles = found.unique, found.troubles
        solved = np.ones(len(scenarios), bool)
        solved[list(troubles)] = False
        direct = np.flatnonzero(solved & unique if searches else solved)
        losses[direct], failed = self._recourse.costs(
            found.decisions[direct], outcomes[direct]
        )
        troubles.update((int(direct[i]), trouble) for i, trouble in failed.items())
        if not searches:
            return LossResult(losses, unique, troubles=troubles)
        self.stats.certified += len(direct) - len(failed)
        # Where this decision has no recourse another optimal one may have it.
        left = np.flatnonzero(solved & np.isnan(losses))
        if len(left):
            if isinstance(found, LinearSolved) and kind == "optimistic":
                losses[left], failed = self._search_faces(
                    found, left, blocks[left], outcomes[left]
                )
            else:
                losses[left], failed = self._search(
                    solver, blocks[left], weights[left], outcomes[left], kind
                )
            for place, i in enumerate(map(int, left)):
                troubles.pop(i, None)
                if place in failed:
                    troubles[i] = failed[place]
        return LossResult(losses, unique, troubles=troubles)

    def _search_faces(
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
        solver = self._solver(blocks.cost.shape[1])
        assert isinstance(solver, LinearSolver)
        losses[good], failed = solver.search_many(
            found, cases[good], blocks[good], reactions[good, None]
        )
        troubles = {int(good[i]): trouble for i, trouble in failed.items()}
        return losses, {**troubles, **bad_cases(bad)}

    def _search(
        self,
        solver: ScenarioSolver,
        blocks: Blocks,
        weights: np.ndarray,
        outcomes: np.ndarray,
        kind: str,
    ) -> tuple[np.ndarray, Troubles]:
        """Solve and search case by case."""
        losses = np.full(len(weights), np.nan)
        reactions = evaluate(self._compiled, outcomes)
        bad = blocks.unusable() | reactions.unusable()
        good, troubles = np.flatnonzero(~bad), bad_cases(bad)
        if isinstance(solver, IntegerSolver):
            losses[good], failed = solver.losses(
                blocks[good], weights[good], reactions[good, None]
            )
            troubles.update((int(good[i]), trouble) for i, trouble in failed.items())
            return losses, troubles
        search = solver.search
        if kind == "pessimistic":
            assert isinstance(solver, LinearSolver)  # the oracle refuses others
            search = solver.search_worst
        for i in map(int, good):
            try:
                found = solver.solve(blocks[i], weights[i])
                if found.unique:
                    losses[i] = self._cost(found, outcomes[i])
                if np.isnan(losses[i]):
                    losses[i] = search(
                        found, blocks[i], weights[i], reactions[i : i + 1]
                    )
            except SolverTrouble as trouble:
                troubles[i] = trouble
        return losses, troubles

    def _cost(self, found: Found, outcome: np.ndarray) -> float:
        """Return the cost of a decision; NaN where it has no recourse."""
        decision = found.x[None, : len(self._compiled.first)]
        costs, failed = self._recourse.costs(decision, outcome[None])
        self.stats.certified += not failed
        return float(costs[0])

    def costs(self, decisions: np.ndarray, outcomes: np.ndarray) -> CostResult:
        """Return h(y) + Q(y, omega)."""
        costs, troubles = self._recourse.costs(decisions, outcomes)
        return CostResult(costs, troubles=troubles)

    def gradients(
        self,
        scenarios: np.ndarray,
        weights: np.ndarray,
        outcomes: np.ndarray,
        outcome_weights: np.ndarray,
        keys: np.ndarray | None = None,
    ) -> GradientResult:
        """Return mean losses over the outcomes of each case, and their gradients."""
        n, count = outcomes.shape[:2]
        blocks = evaluate(self._compiled, scenarios)
        optima, is_smooth, troubles = self._optima(blocks, weights, keys)
        cases = np.array([i for i in range(n) if i not in troubles], dtype=int)
        losses, gradients = np.full(n, np.nan), np.full(scenarios.shape, np.nan)
        if not len(cases):
            return GradientResult(losses, gradients, is_smooth, troubles=troubles)
        if len(cases) < n:
            optima, blocks = optima.select(cases), blocks[cases]
        decisions = optima.x[:, : len(self._compiled.first)]
        costs, slopes, smooth, failed = self._recourse.gradients(
            np.repeat(decisions, count, axis=0),
            outcomes[cases].reshape(-1, outcomes.shape[-1]),
            np.repeat(is_smooth[cases], count),
        )
        share = outcome_weights[cases].reshape(-1)
        for place, trouble in failed.items():
            if share[place] > 0:
                troubles[int(cases[place // count])] = trouble
        unneeded = share == 0
        costs[unneeded], slopes[unneeded], smooth[unneeded] = 0.0, 0.0, True
        shape = (len(cases), count, decisions.shape[1])
        mean = (share[:, None] * slopes).reshape(shape).sum(axis=1)
        losses[cases] = (share * costs).reshape(len(cases), count).sum(axis=1)
        gradients[cases] = self._pull_back(optima, blocks, scenarios[cases], mean)
        is_smooth[cases] &= smooth.reshape(len(cases), count).all(axis=1)
        gradients[np.isnan(losses)] = np.nan
        is_smooth &= ~np.isnan(losses)
        return GradientResult(losses, gradients, is_smooth, troubles=troubles)

    def decision_gradients(
        self,
        scenarios: np.ndarray,
        weights: np.ndarray,
        slopes: np.ndarray | None = None,
        keys: np.ndarray | None = None,
    ) -> DecisionResult:
        """Return decisions and their derivatives, with integer variables held."""
        n, first = len(weights), self._compiled.first
        blocks = evaluate(self._compiled, scenarios)
        optima, is_smooth, troubles = self._optima(blocks, weights, keys)
        cases = np.array([i for i in range(n) if i not in troubles], dtype=int)
        decisions = np.full((n, len(first)), np.nan)
        units = np.eye(len(first))[:, None] if slopes is None else slopes[None, cases]
        shape = (n, len(units), *scenarios.shape[1:])
        derivatives = np.full(shape, np.nan)
        if len(cases):
            if len(cases) < n:
                optima, blocks = optima.select(cases), blocks[cases]
            bounds = first.bounds(scenarios[cases, 0])
            decisions[cases] = np.clip(optima.x[:, : len(first)], *bounds)
            for place, unit in enumerate(units):
                each = np.broadcast_to(unit, (len(cases), len(first)))
                each = np.where(first.integer, 0.0, each)
                derivatives[cases, place] = self._pull_back(
                    optima, blocks, scenarios[cases], each
                )
        if slopes is not None:
            derivatives = derivatives[:, 0]
        is_smooth[list(troubles)] = False
        return DecisionResult(decisions, derivatives, is_smooth, troubles=troubles)

    def _pull_back(
        self,
        optima: Optima | QuadraticOptima,
        blocks: Blocks,
        scenarios: np.ndarray,
        slopes: np.ndarray,
    ) -> np.ndarray:
        """Return the gradients of ``slope @ decision`` by the scenarios (n, K, p)."""
        sensitivity = optima.decision_sensitivity(self._compiled, blocks, slopes)
        flat = scenarios.reshape(-1, scenarios.shape[-1])
        gradients = sensitivity.scenario_gradient(self._compiled, flat)
        return gradients.reshape(scenarios.shape)

    def _optima(
        self, blocks: Blocks, weights: np.ndarray, keys: np.ndarray | None
    ) -> tuple[Optima | QuadraticOptima, np.ndarray, Troubles]:
        """Return all optima with what their derivatives need, integer variables held."""
        bad = blocks.unusable()
        troubles = bad_cases(bad)
        if self._compiled.quadratic:
            return self._quadratic_optima(blocks, weights, troubles)
        linear = self._relaxation(weights.shape[1])
        held = None
        if self._compiled.integer:
            solver = self._solver(weights.shape[1])
            held = np.zeros((len(bad), linear.layout.columns))
            for i in map(int, np.flatnonzero(~bad)):
                try:
                    held[i] = solver.solve(blocks[i], weights[i]).x
                except SolverTrouble as trouble:
                    troubles[i] = trouble
        cases = np.array([i for i in range(len(bad)) if i not in troubles], dtype=int)
        if len(cases) == len(bad):
            return linear.optima(blocks, weights, held, keys)
        layout = linear.layout
        optima = Optima.empty(len(bad), layout.n1, layout.columns, layout.rows)
        smooth = np.zeros(len(bad), bool)
        if not len(cases):
            return optima, smooth, troubles
        found, smooth[cases], failed = linear.optima(
            blocks[cases],
            weights[cases],
            None if held is None else held[cases],
            None if keys is None else keys[cases],
        )
        optima.assign(cases, found)
        troubles.update((int(cases[i]), trouble) for i, trouble in failed.items())
        return optima, smooth, troubles

    def _quadratic_optima(
        self, blocks: Blocks, weights: np.ndarray, troubles: Troubles
    ) -> tuple[QuadraticOptima, np.ndarray, Troubles]:
        solver = self._solver(weights.shape[1])
        assert isinstance(solver, QuadraticSolver)
        optima: list[QuadraticOptimum | None] = [None] * len(weights)
        smooth = np.zeros(len(weights), bool)
        for i in range(len(weights)):
            if i in troubles:
                continue
            try:
                found = optima[i] = solver.solve(blocks[i], weights[i])
            except SolverTrouble as trouble:
                troubles[i] = trouble
            else:
                smooth[i] = self._is_smooth(found, blocks[i])
        return QuadraticOptima(optima, weights), smooth, troubles

    def _is_smooth(self, found: QuadraticOptimum, blocks: Blocks) -> bool:
        assert found.active is not None
        return (
            found.unique
            and found.active.is_strict
            and not bool(have_equal_bounds(self._compiled, blocks))
        )

    def _solver(self, count: int) -> ScenarioSolver:
        """Return the solver for a number of scenarios; the last few are kept."""
        solver = self._solvers.pop(count, None) or self._new_solver(count)
        self._solvers[count] = solver
        if len(self._solvers) > _MOST_SOLVERS:
            del self._solvers[next(iter(self._solvers))]
        return solver

    def _new_solver(self, count: int) -> ScenarioSolver:
        if self._compiled.quadratic:
            return QuadraticSolver(self._compiled, count, self._context)
        if self._compiled.integer:
            return IntegerSolver(self._compiled, count, self._context)
        bases = self._bases.setdefault(count, {})
        return LinearSolver(self._compiled, count, self._context, bases=bases)

    def _relaxation(self, count: int) -> LinearSolver:
        """Return the linear program whose basis gives gradients."""
        if count not in self._relaxations:
            # With integers, the bases are those of other programs: they have their place.
            kind = -count if self._compiled.integer else count
            bases = self._bases.setdefault(kind, {})
            self._relaxations[count] = LinearSolver(
                self._compiled, count, self._context, relaxed=True, bases=bases
            )
        return self._relaxations[count]
