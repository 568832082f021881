"""The engine for compiled models: all programs on HiGHS."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from pyomo_csg.solve.compile.assembly import Blocks, evaluate
from pyomo_csg.solve.compile.compiled_model import CompiledModel
from pyomo_csg.solve.engine import (
    CostResult,
    CostTask,
    DecisionResult,
    DecisionTask,
    Found,
    GradientResult,
    GradientTask,
    LossResult,
    LossTask,
    R,
    ScenarioSolver,
    SolveContext,
    SolveResult,
    SolverTrouble,
    SolveTask,
    Stats,
    Task,
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

    def solve(self, task: SolveTask) -> SolveResult:
        """Solve zeta-SAA, as in :meth:`Engine.solve`."""
        task, blocks = _with_keys(task), evaluate(self._compiled, task.scenarios)
        if (bad := blocks.unusable()).any():
            return self._solve_usable(task, bad, self.solve)
        assert task.keys is not None
        solver = self._solver(task.weights.shape[1])
        solved = solver.solve_many(blocks, task.weights, task.keys, certify=False)
        result = SolveResult(
            solved.decisions, solved.values, solved.bounds, troubles=solved.troubles
        )
        if task.gradient:
            self._add_gradients(result, task, blocks)
        return result

    def _solve_usable(
        self, task: Task[R], bad: np.ndarray, solve: Callable[[Any], R]
    ) -> R:
        """Solve only the cases whose data is finite; the others get a trouble."""
        result = task.empty_result(len(self._compiled.first))
        if len(good := np.flatnonzero(~bad)):
            result.put_many(good, solve(task.take(good)))
        result.troubles.update(bad_cases(bad))
        return result

    def _add_gradients(
        self, result: SolveResult, task: SolveTask, blocks: Blocks
    ) -> None:
        """Add the gradients of the values, with integer variables held."""
        gradients = np.full(task.scenarios.shape, np.nan)
        smooth, weights = task.no_case(), task.weights
        for i, zeta in enumerate(task.scenarios):
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
        pairs = (
            np.repeat(made, len(outcomes), axis=0),
            np.tile(outcomes, (len(made), 1)),
        )
        self._recourse.costs(*pairs)
        return self._recourse.known

    def losses(self, task: LossTask) -> LossResult:
        """Return losses, and whether the duals prove that decisions are unique."""
        task, blocks = _with_keys(task), evaluate(self._compiled, task.scenarios)
        weights, outcomes, kind = task.weights, task.outcomes, task.kind
        solver, searches = self._solver(weights.shape[1]), kind != "recourse"
        if searches and not isinstance(solver, LinearSolver):
            losses, troubles = self._search(solver, blocks, weights, outcomes, kind)
            return LossResult(losses, task.no_case(), troubles=troubles)
        if (bad := blocks.unusable()).any():
            return self._solve_usable(task, bad, self.losses)
        assert task.keys is not None
        found = solver.solve_many(blocks, weights, task.keys)
        losses, unique, troubles = task.no_number(), found.unique, found.troubles
        solved = np.ones(len(losses), bool)
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

    def costs(self, task: CostTask) -> CostResult:
        """Return h(y) + Q(y, omega)."""
        costs, troubles = self._recourse.costs(task.decisions, task.outcomes)
        return CostResult(costs, troubles=troubles)

    def gradients(self, task: GradientTask) -> GradientResult:
        """Return mean losses over the outcomes of each case, and their gradients."""
        result, count = task.empty_result(0), task.outcomes.shape[1]
        found = self._optima(task, result)
        if found is None:
            return result
        cases, decisions = found.cases, found.optima.x[:, : len(self._compiled.first)]
        costs, slopes, smooth, failed = self._recourse.gradients(
            np.repeat(decisions, count, axis=0),
            task.outcomes[cases].reshape(-1, task.outcomes.shape[-1]),
            np.repeat(result.smooth[cases], count),
        )
        share = task.outcome_weights[cases].reshape(-1)
        for place, trouble in failed.items():
            if share[place] > 0:
                result.troubles[int(cases[place // count])] = trouble
        unneeded = share == 0
        costs[unneeded], slopes[unneeded], smooth[unneeded] = 0.0, 0.0, True
        shape = (len(cases), count, decisions.shape[1])
        mean = (share[:, None] * slopes).reshape(shape).sum(axis=1)
        losses, gradients = result.losses, result.gradients
        losses[cases] = (share * costs).reshape(len(cases), count).sum(axis=1)
        gradients[cases] = self._pull_back(found, task.scenarios[cases], mean)
        result.smooth[cases] &= smooth.reshape(len(cases), count).all(axis=1)
        gradients[np.isnan(losses)] = np.nan
        result.smooth &= ~np.isnan(losses)
        return result

    def decision_gradients(self, task: DecisionTask) -> DecisionResult:
        """Return decisions and their derivatives, with integer variables held."""
        first, slopes = self._compiled.first, task.slopes
        result = task.empty_result(len(first))
        found = self._optima(task, result)
        if found is None:
            return result
        cases = found.cases
        scenarios, shape = task.scenarios[cases], (len(cases), len(first))
        bounds = first.bounds(scenarios[:, 0])
        result.decisions[cases] = np.clip(found.optima.x[:, : len(first)], *bounds)
        units = np.eye(len(first))[:, None] if slopes is None else slopes[None, cases]
        # A view, so that both kinds of derivatives have one axis for the units.
        derivatives = result.derivatives.reshape(-1, len(units), *scenarios.shape[1:])
        for place, unit in enumerate(units):
            each = np.where(first.integer, 0.0, np.broadcast_to(unit, shape))
            derivatives[cases, place] = self._pull_back(found, scenarios, each)
        result.smooth[list(result.troubles)] = False
        return result

    def _pull_back(
        self, found: _Optima, scenarios: np.ndarray, slopes: np.ndarray
    ) -> np.ndarray:
        """Return the gradients of ``slope @ decision`` by the scenarios (n, K, p)."""
        sensitivity = found.optima.decision_sensitivity(
            self._compiled, found.blocks, slopes
        )
        flat = scenarios.reshape(-1, scenarios.shape[-1])
        gradients = sensitivity.scenario_gradient(self._compiled, flat)
        return gradients.reshape(scenarios.shape)

    def _optima(
        self,
        task: GradientTask | DecisionTask,
        result: GradientResult | DecisionResult,
    ) -> _Optima | None:
        """Return the optima with what their derivatives need; None if there is none.

        Integer variables are held. Sets where the result is smooth, and its troubles.
        """
        blocks, weights = evaluate(self._compiled, task.scenarios), task.weights
        smooth, troubles = result.smooth, result.troubles
        troubles.update(bad_cases(blocks.unusable()))
        if self._compiled.quadratic:
            optima = self._quadratic_optima(blocks, weights, smooth, troubles)
            cases = _solved_cases(len(task), troubles)
            every = len(cases) == len(task)
            return _Optima(
                cases,
                optima if every else optima.select(cases),
                blocks if every else blocks[cases],
            ).unless_empty()
        held = None
        if self._compiled.integer:
            held = self._held_integers(blocks, weights, troubles)
        cases, keys = _solved_cases(len(task), troubles), task.keys
        if not len(cases):
            return None
        if len(cases) < len(task):
            # Else as they are: certain data is recognized by its strides.
            blocks, weights = blocks[cases], weights[cases]
            held = None if held is None else held[cases]
            keys = None if keys is None else keys[cases]
        linear = self._relaxation(weights.shape[1])
        found, smooth[cases], failed = linear.optima(blocks, weights, held, keys)
        if failed:
            troubles.update((int(cases[i]), trouble) for i, trouble in failed.items())
            good = _solved_cases(len(cases), failed)
            cases, found, blocks = cases[good], found.select(good), blocks[good]
        return _Optima(cases, found, blocks).unless_empty()

    def _held_integers(
        self, blocks: Blocks, weights: np.ndarray, troubles: Troubles
    ) -> np.ndarray:
        """Return points (n, columns) whose integers are optimal; add to the troubles."""
        solver = self._solver(weights.shape[1])
        held = np.zeros(
            (len(weights), self._relaxation(weights.shape[1]).layout.columns)
        )
        for i in map(int, _solved_cases(len(weights), troubles)):
            try:
                held[i] = solver.solve(blocks[i], weights[i]).x
            except SolverTrouble as trouble:
                troubles[i] = trouble
        return held

    def _quadratic_optima(
        self,
        blocks: Blocks,
        weights: np.ndarray,
        smooth: np.ndarray,
        troubles: Troubles,
    ) -> QuadraticOptima:
        """Return the optima of quadratic programs; add to where they are smooth, and troubles."""
        solver = self._solver(weights.shape[1])
        assert isinstance(solver, QuadraticSolver)
        optima: list[QuadraticOptimum | None] = [None] * len(weights)
        for i in map(int, _solved_cases(len(weights), troubles)):
            try:
                found = optima[i] = solver.solve(blocks[i], weights[i])
            except SolverTrouble as trouble:
                troubles[i] = trouble
            else:
                smooth[i] = self._is_smooth(found, blocks[i])
        return QuadraticOptima(optima, weights)

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
        return LinearSolver(self._compiled, count, self._context, bases)

    def _relaxation(self, count: int) -> LinearSolver:
        """Return the linear program whose basis gives gradients."""
        if count not in self._relaxations:
            # With integers, the bases are those of other programs: they have their place.
            kind = -count if self._compiled.integer else count
            bases = self._bases.setdefault(kind, {})
            self._relaxations[count] = LinearSolver(
                self._compiled, count, self._context, bases
            )
        return self._relaxations[count]


@dataclass
class _Optima:
    """The cases (m,) that have an optimum, these optima, and their recourse data."""

    cases: np.ndarray
    optima: Optima | QuadraticOptima
    blocks: Blocks

    def unless_empty(self) -> _Optima | None:
        """Return these optima, or None if there are none."""
        return self if len(self.cases) else None


def _solved_cases(count: int, troubles: Troubles) -> np.ndarray:
    """Return the numbers of the cases, out of ``count``, that have no trouble."""
    return np.array([i for i in range(count) if i not in troubles], dtype=int)


T = TypeVar("T", SolveTask, LossTask)


def _with_keys(task: T) -> T:
    """Return the task with the positions of cases as keys, if it has none."""
    return task if task.keys is not None else replace(task, keys=np.arange(len(task)))
