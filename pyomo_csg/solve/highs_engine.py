"""The engine for compiled models: all programs on HiGHS."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from pyomo_csg.solve.compile.assembly import Blocks, evaluate
from pyomo_csg.solve.compile.compiled_model import CompiledModel
from pyomo_csg.solve.derivatives import Derivatives
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
    SolveTask,
    Stats,
    Task,
    Troubles,
    bad_cases,
    bad_data,
    noted,
)
from pyomo_csg.solve.lp.basis_cache import Basis
from pyomo_csg.solve.lp.linear_solver import LinearSolved, LinearSolver
from pyomo_csg.solve.lp.recourse_blocks import new_recourse_solver
from pyomo_csg.solve.mip.integer_solver import IntegerSolver
from pyomo_csg.solve.qp.quadratic_recourse import QuadraticRecourse
from pyomo_csg.solve.qp.quadratic_solver import QuadraticSolver

_MOST_SOLVERS = 16  # each holds a program, which may be large


class HighsEngine:
    """Solves batches of cases of a compiled model; keeps one solver for each K.

    Engines may share ``bases``, those of linear programs by K and by the key of the case.
    ``known`` are bases of the recourse, from :meth:`recourse_bases`.
    """

    def __init__(
        self,
        compiled: CompiledModel,
        options: Mapping[str, Any],
        bases: dict[int, dict[int, Any]] | None = None,
        known: Sequence[Basis] = (),
    ):
        self._compiled = compiled
        self.stats = Stats()
        self._context = SolveContext(self.stats, options)
        self._recourse: Any = (
            QuadraticRecourse(compiled, self._context)
            if compiled.quadratic
            else new_recourse_solver(compiled, self._context, known)
        )
        self._solvers = SolverPool(
            compiled, self._context, {} if bases is None else bases
        )
        self._derivatives = Derivatives(compiled, self._solvers, self._recourse)

    def stop_at(self, end: float) -> None:
        """Solve nothing after ``end``, as in :meth:`Engine.stop_at`."""
        self._context.deadline.set_end(end)

    def solve(self, task: SolveTask) -> SolveResult:
        """Solve zeta-SAA, as in :meth:`Engine.solve`."""
        task, blocks = _with_keys(task), evaluate(self._compiled, task.scenarios)
        if (bad := blocks.unusable()).any():
            return self._solve_usable(task, bad, self.solve)
        assert task.keys is not None
        solver = self._solvers.solver(task.weights.shape[1])
        solved = solver.solve_many(blocks, task.weights, task.keys, certify=False)
        result = SolveResult(
            solved.decisions + 0.0,  # zero has no sign
            solved.values,
            solved.bounds,
            troubles=solved.troubles,
        )
        if task.gradient:
            self._derivatives.add_value_gradients(result, task, blocks)
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
        relaxed = self._solvers.relaxation(scenarios.shape[1])
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
        task = _with_keys(task)
        if task.outcome_weights is not None:
            return self._mean_losses(task)
        blocks = evaluate(self._compiled, task.scenarios)
        weights, outcomes, kind = task.weights, task.outcomes, task.kind
        solver, searches = self._solvers.solver(weights.shape[1]), kind != "recourse"
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
        # Where this decision has no recourse, another optimal one may have one.
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

    def _mean_losses(self, task: LossTask) -> LossResult:
        """Return losses of mean costs over the outcomes (n, M, p + r) of each case."""
        weights, shares = task.weights, task.outcome_weights
        assert shares is not None and task.keys is not None
        blocks, result = evaluate(self._compiled, task.scenarios), task.empty_result(0)
        if (bad := blocks.unusable()).any():
            return self._solve_usable(task, bad, self.losses)
        solver = self._solvers.solver(weights.shape[1])
        found = solver.solve_many(blocks, weights, task.keys)
        result.troubles.update(found.troubles)
        for i in (i for i in range(len(weights)) if i not in found.troubles):
            used, result.unique[i] = shares[i] > 0, found.unique[i]
            outcomes, mine = task.outcomes[i, used], shares[i, used]
            if found.unique[i] or task.kind != "optimistic":
                decisions = found.decisions[i, None].repeat(len(mine), axis=0)
                costs, failed = self._recourse.costs(decisions, outcomes)
                result.losses[i] = mine @ costs
                if not failed:
                    continue
                if task.kind != "optimistic":
                    result.troubles[i] = failed[min(failed)]
                    continue
            # Where this decision has no recourse, another optimal one may have one.
            reactions = evaluate(self._compiled, outcomes[None])
            if reactions.unusable()[0]:
                result.troubles[i] = bad_data()
                continue
            with noted(result.troubles, i):
                optimum = solver.solve(blocks[i], weights[i])
                result.losses[i] = solver.search(
                    optimum, blocks[i], weights[i], reactions[0], mine
                )
        return result

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
        solver = self._solvers.solver(blocks.cost.shape[1])
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
        search: Callable[..., float] = solver.search
        if kind == "pessimistic":
            assert isinstance(solver, LinearSolver)  # the oracle refuses others
            search = solver.search_worst
        for i in map(int, good):
            with noted(troubles, i):
                found = solver.solve(blocks[i], weights[i])
                if found.unique:
                    losses[i] = self._cost(found, outcomes[i])
                if np.isnan(losses[i]):
                    losses[i] = search(
                        found, blocks[i], weights[i], reactions[i : i + 1]
                    )
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
        return self._derivatives.loss_gradients(task)

    def decision_gradients(self, task: DecisionTask) -> DecisionResult:
        """Return decisions and their derivatives, with integer variables held."""
        return self._derivatives.decision_gradients(task)


class SolverPool:
    """Solvers of a compiled model by K; ``bases`` are those of cases, by K and by key."""

    def __init__(
        self,
        compiled: CompiledModel,
        context: SolveContext,
        bases: dict[int, dict[int, Any]],
    ):
        self._compiled, self._context, self._bases = compiled, context, bases
        self._solvers: dict[int, ScenarioSolver] = {}
        self._relaxations: dict[int, LinearSolver] = {}

    def solver(self, count: int) -> ScenarioSolver:
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

    def relaxation(self, count: int) -> LinearSolver:
        """Return the linear program whose basis gives gradients."""
        if count not in self._relaxations:
            # With integers, the bases are those of other programs: they have their place.
            kind = -count if self._compiled.integer else count
            bases = self._bases.setdefault(kind, {})
            self._relaxations[count] = LinearSolver(
                self._compiled, count, self._context, bases
            )
        return self._relaxations[count]


T = TypeVar("T", SolveTask, LossTask)


def _with_keys(task: T) -> T:
    """Return the task with the positions of cases as keys, if it has none."""
    return task if task.keys is not None else replace(task, keys=np.arange(len(task)))
