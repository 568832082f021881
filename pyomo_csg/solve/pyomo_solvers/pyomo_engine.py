"""The engine for every other solver, through Pyomo's interfaces."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from pyomo.core.base.block import BlockData
from pyomo.core.base.componentuid import ComponentUID
from pyomo.core.base.transformation import TransformationFactory
from pyomo.core.expr.numvalue import value

from pyomo_csg.solve.engine import (
    CostResult,
    CostTask,
    Deadline,
    DecisionResult,
    DecisionTask,
    GradientResult,
    GradientTask,
    LossResult,
    LossTask,
    R,
    SolveResult,
    SolverTrouble,
    SolveTask,
    Stats,
    noted,
)
from pyomo_csg.solve.pyomo_solvers.pyomo_programs import (
    PersistentProgram,
    RecourseProgram,
)
from pyomo_csg.solve.pyomo_solvers.solver_kinds import SolverKind
from pyomo_csg.stages import TwoStageModel

# Allowed violation of the cut, in slacks. Solvers violate it by about one slack, which is their
# tolerance. Much more means that a decision is not optimal: at 1e-6, CEP1's loss is 0.5 % off.
_MOST_SLACKS = 10


@dataclass(frozen=True)
class Point:
    """An optimal decision of zeta-SAA; its value and bound are to be minimized."""

    decision: np.ndarray
    value: float
    bound: float


class PyomoSolver:
    """Solves the three programs of a model through Pyomo's solver interfaces.

    The programs are the csg transformations of a copy of the model, one for each number of
    scenarios. Each is built on first use and stays in its own solver; only the values of
    mutable Params change between cases. A solver that is not persistent, such as
    ``'scip_direct'``, translates the program again in every case. ``options`` override the
    default, exact settings; ``time_limit``, in seconds per program, works with every solver.

    The cut of the search has a slack of 1e-9 max(1, abs(v*)). For ``'appsi_cbc'``, whose
    answers have eight digits, it is 1e-7 max(1, abs(v*)), and losses are less exact.

    Examples
    --------
    >>> import numpy as np
    >>> from pyomo_csg.zoo import newsvendor
    >>> engine = PyomoSolver(newsvendor.build(), 'appsi_highs')
    >>> demands, weights = np.array([[10.0], [14.0], [30.0]]), np.full(3, 1 / 3)
    >>> engine.solve(demands, weights).decision
    array([10.])
    >>> print(f"{engine.loss(demands, weights, np.array([12.0])):.3f}")
    -0.500
    >>> engine.stats.solves
    3
    """

    def __init__(
        self,
        model: BlockData,
        solver: str = "appsi_highs",
        options: Mapping[str, Any] | None = None,
    ):
        self.stats, self.deadline = Stats(), Deadline()
        self._kind = SolverKind(solver, options)
        self._model = model.clone()
        two_stage = TwoStageModel(self._model)
        self._sign = int(two_stage.sense)
        self._params = [ComponentUID(p) for p in two_stage.uncertain_params]
        self._known = [ComponentUID(p) for p in two_stage.known_params]
        self.width = len(two_stage.first_stage_variables)
        self._variables = [ComponentUID(v) for v in two_stage.first_stage_variables]
        self._whole = [not v.is_continuous() for v in two_stage.first_stage_variables]
        self._programs: dict[tuple[str, int, int], PersistentProgram] = {}
        self._recourse: RecourseProgram | None = None

    def solve(self, scenarios: np.ndarray, weights: np.ndarray) -> Point:
        """Return an optimum of zeta-SAA on scenarios (K, p + r)."""
        case = self._case(scenarios, weights)
        form = self._program("extensive_form", case)
        form.set(*case.values())
        optimum = form.optimum()
        found = [v.find_component_on(form.model).value for v in self._variables]
        # Adding zero turns -0.0 into 0.0.
        decision = np.where(self._whole, np.round(found), found) + 0.0
        bound = min(self._sign * optimum, self._sign * form.bound)
        return Point(decision, self._sign * optimum, bound)

    def loss(
        self,
        scenarios: np.ndarray,
        weights: np.ndarray,
        outcome: np.ndarray,
        kind: str = "optimistic",
        outcome_weights: np.ndarray | None = None,
    ) -> float:
        """Return l_opt, or for ``kind='recourse'`` the cost of the returned decision.

        With ``outcome_weights`` (M,), outcomes are (M, p + r), and costs are means.
        """
        point = self.solve(scenarios, weights)
        if kind == "recourse":
            if outcome_weights is None:
                return self.cost(point.decision, outcome)
            costs = [self.cost(point.decision, one) for one in outcome]
            return float(np.dot(outcome_weights, costs))
        slack = self._kind.profile.accuracy * max(1.0, abs(point.value))
        bound = point.value + slack
        case = {
            **self._case(scenarios, weights),
            "outcome": outcome[..., : len(self._params)],
        }
        if outcome_weights is not None:
            case["outcome_weights"] = outcome_weights
        search = self._program(
            "opt_search", {**case, "optimal_value": self._sign * point.value}
        )
        search.set(*case.values(), np.array([self._sign * bound]))
        loss = self._sign * search.optimum()
        excess = self._sign * value(search.model.csg.optimality_cut.body) - bound
        if excess > _MOST_SLACKS * slack:
            raise SolverTrouble(
                "cut broken",
                f"{self._kind.name} returned a decision that costs {excess:.3g} more on "
                f"the scenarios than their optimum {point.value:.9g} allows",
            )
        return loss

    def cost(self, decision: np.ndarray, outcome: np.ndarray) -> float:
        """Return h(y) + Q(y, omega)."""
        self.deadline.left()  # raises if there is no time, before anything is built
        if self._recourse is None:
            self._recourse = RecourseProgram(
                self._model, decision, outcome, self._kind, self.stats, self.deadline
            )
        return self._sign * self._recourse.optimum(decision, outcome)

    def _case(self, scenarios: np.ndarray, weights: np.ndarray) -> dict[str, Any]:
        """Return the data of a case for the transformations."""
        p = len(self._params)
        known = {"known": scenarios[0, p:]} if self._known else {}
        return {**known, "scenarios": scenarios[:, :p], "weights": weights}

    def _program(self, name: str, case: Mapping[str, Any]) -> PersistentProgram:
        """Return the program for this number of scenarios, built from this case if it is new."""
        self.deadline.left()
        outcomes = case.get("outcome_weights", ())
        key = name, len(case["scenarios"]), len(outcomes)
        held = self._programs.get(key)
        if held is None or not (
            _has_weights(held.model.csg.weight, case["weights"])
            and (
                not len(outcomes)
                or _has_weights(held.model.csg.outcome_weight, outcomes)
            )
        ):
            transformation = TransformationFactory(f"csg.{name}")
            model = transformation.create_using(self._model, **case)
            what = name.replace("_", " ")
            if name == "opt_search" and not model.csg.weight.mutable:
                what += ", whose cut is not linear (kind='recourse' needs none)"
            held = self._programs[key] = PersistentProgram(
                model, self._data(model), what, self._kind, self.stats, self.deadline
            )
        return held

    def _data(self, model: BlockData) -> list[Any]:
        """Return the Params of a program in the order of a case's numbers."""
        blocks = list(model.scenario.values())
        params = [p.find_component_on(model) for p in self._known]
        params += [p.find_component_on(block) for block in blocks for p in self._params]
        params += model.csg.weight.values()
        if model.component("outcome") is not None:
            ends = list(model.outcome.values())
            params += [
                p.find_component_on(block) for block in ends for p in self._params
            ]
            if model.csg.component("outcome_weight") is not None:
                params += model.csg.outcome_weight.values()
            params.append(model.csg.cut_bound)
        return params


def _has_weights(weight: Any, weights: np.ndarray) -> bool:
    """Whether the Param of a program has these weights, or mutable ones.

    If the recourse cost is not linear, weights are numbers that cannot be changed.
    """
    return weight.mutable or np.allclose(list(weight.values()), weights, 1e-12, 1e-15)


class PyomoEngine:
    """Solves batches case by case, with a :class:`PyomoSolver`."""

    def __init__(self, model: BlockData, solver: str, options: Mapping[str, Any]):
        self._solver = PyomoSolver(model, solver, options)
        self.stats = self._solver.stats

    def stop_at(self, end: float) -> None:
        """Solve nothing after ``end``, as in :meth:`Engine.stop_at`."""
        self._solver.deadline.set_end(end)

    def solve(self, task: SolveTask) -> SolveResult:
        """Solve zeta-SAA; keys are not used, and the oracle refuses gradients."""

        def solve(i: int) -> None:
            point = self._solver.solve(task.scenarios[i], task.weights[i])
            result.decisions[i], result.values[i] = point.decision, point.value
            result.bounds[i] = point.bound

        result = task.empty_result(self._solver.width)
        return _each_case(solve, result)

    def losses(self, task: LossTask) -> LossResult:
        """Return losses; no decision is proven to be unique."""

        def solve(i: int) -> None:
            shares = task.outcome_weights
            result.losses[i] = self._solver.loss(
                task.scenarios[i],
                task.weights[i],
                task.outcomes[i],
                task.kind,
                None if shares is None else shares[i],
            )

        result = task.empty_result(self._solver.width)
        return _each_case(solve, result)

    def costs(self, task: CostTask) -> CostResult:
        """Return h(y) + Q(y, omega)."""

        def solve(i: int) -> None:
            result.costs[i] = self._solver.cost(task.decisions[i], task.outcomes[i])

        result = task.empty_result(self._solver.width)
        return _each_case(solve, result)

    def gradients(self, task: GradientTask) -> GradientResult:
        """Not available: gradients need HiGHS's basis. The oracle raises an error before."""
        raise NotImplementedError

    def decision_gradients(self, task: DecisionTask) -> DecisionResult:
        """Not available, as :meth:`gradients`."""
        raise NotImplementedError


def _each_case(solve: Callable[[int], None], result: R) -> R:
    """Return the result after ``solve`` has filled in each case, or its trouble."""
    for i in range(len(result)):
        with noted(result.troubles, i):
            solve(i)
    return result
