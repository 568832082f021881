"""Derivatives of values, losses and decisions of a compiled model, through its optima."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pyomo_csg.solve.compile.assembly import Blocks, evaluate
from pyomo_csg.solve.compile.compiled_model import CompiledModel
from pyomo_csg.solve.engine import (
    DecisionResult,
    DecisionTask,
    Found,
    GradientResult,
    GradientTask,
    SolveResult,
    SolveTask,
    Troubles,
    bad_cases,
    noted,
)
from pyomo_csg.solve.lp.sensitivity import (
    Optima,
    have_equal_bounds,
    is_degenerate,
    value_sensitivity,
)
from pyomo_csg.solve.qp.kkt_gradients import QuadraticOptima
from pyomo_csg.solve.qp.quadratic_solver import QuadraticOptimum, QuadraticSolver

if TYPE_CHECKING:
    from pyomo_csg.solve.highs_engine import SolverPool


class Derivatives:
    """Differentiates optima: of linear programs by their bases, of quadratic ones by KKT.

    Integer variables are held at their optimal values.
    """

    def __init__(self, compiled: CompiledModel, solvers: SolverPool, recourse: Any):
        self._compiled, self._solvers, self._recourse = compiled, solvers, recourse

    def add_value_gradients(
        self, result: SolveResult, task: SolveTask, blocks: Blocks
    ) -> None:
        """Add the gradients of the values, with integer variables held."""
        gradients = np.full(task.scenarios.shape, np.nan)
        smooth, weights = task.no_case(), task.weights
        for i, zeta in enumerate(task.scenarios):
            if i in result.troubles:
                continue
            with noted(result.troubles, i):
                found, smooth[i] = self._differentiable_optimum(blocks[i], weights[i])
                sensitivity = value_sensitivity(self._compiled, found, weights[i])
                gradients[i] = sensitivity.scenario_gradient(self._compiled, zeta)
        result.gradients, result.smooth = gradients, smooth

    def _differentiable_optimum(
        self, blocks: Blocks, weights: np.ndarray
    ) -> tuple[Found, bool]:
        """Return an optimum with duals, and whether the value is smooth there."""
        solver, held = self._solvers.solver(len(weights)), None
        if isinstance(solver, QuadraticSolver):
            optimum = solver.solve(blocks, weights)
            return optimum, self._is_smooth(optimum, blocks)
        if self._compiled.integer:
            held = solver.solve(blocks, weights).x
        linear = self._solvers.relaxation(len(weights))
        found, program = linear.solve(blocks, weights, held), linear.program
        sizes = program.rescaled.checker.place_sizes(program.arrays)
        smooth = (
            found.unique
            and not bool(have_equal_bounds(self._compiled, blocks))
            and not is_degenerate(program.highs, found.x, program.arrays, sizes)
        )
        return found, smooth

    def loss_gradients(self, task: GradientTask) -> GradientResult:
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
            **self._moving(found, count),
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

    def _moving(self, found: _Optima, count: int) -> dict[str, np.ndarray]:
        """Return which decisions of quadratic programs can move, ``count`` times each."""
        if not isinstance(found.optima, QuadraticOptima):
            return {}
        moves = found.optima.moving(len(self._compiled.first))
        return {"moves": np.repeat(moves, count, axis=0)}

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
        linear = self._solvers.relaxation(weights.shape[1])
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
        solver = self._solvers.solver(weights.shape[1])
        held = np.zeros(
            (len(weights), self._solvers.relaxation(weights.shape[1]).layout.columns)
        )
        for i in map(int, _solved_cases(len(weights), troubles)):
            with noted(troubles, i):
                held[i] = solver.solve(blocks[i], weights[i]).x
        return held

    def _quadratic_optima(
        self,
        blocks: Blocks,
        weights: np.ndarray,
        smooth: np.ndarray,
        troubles: Troubles,
    ) -> QuadraticOptima:
        """Return the optima of quadratic programs; add to where they are smooth, and troubles."""
        solver = self._solvers.solver(weights.shape[1])
        assert isinstance(solver, QuadraticSolver)
        optima: list[QuadraticOptimum | None] = [None] * len(weights)
        for i in map(int, _solved_cases(len(weights), troubles)):
            with noted(troubles, i):
                found = optima[i] = solver.solve(blocks[i], weights[i])
                smooth[i] = self._is_smooth(found, blocks[i])
        return QuadraticOptima(optima, weights)

    def _is_smooth(self, found: QuadraticOptimum, blocks: Blocks) -> bool:
        assert found.active is not None
        return (
            found.unique
            and bool(found.active.are_strict)
            and not bool(have_equal_bounds(self._compiled, blocks))
        )


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
