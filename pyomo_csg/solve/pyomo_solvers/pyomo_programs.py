"""Programs in Pyomo's persistent solvers, in which only mutable Params change."""

from __future__ import annotations

import math
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from pyomo.common.collections import ComponentSet
from pyomo.common.errors import PyomoException
from pyomo.common.numeric_types import native_types
from pyomo.common.timing import HierarchicalTimer
from pyomo.contrib.solver.common.util import IncompatibleModelError
from pyomo.core.base.block import BlockData
from pyomo.core.base.componentuid import ComponentUID
from pyomo.core.base.constraint import Constraint
from pyomo.core.base.objective import Objective
from pyomo.core.base.param import Param
from pyomo.core.base.sos import SOSConstraint
from pyomo.core.base.var import Var
from pyomo.core.expr.numvalue import value
from pyomo.core.expr.visitor import identify_variables, replace_expressions

from pyomo_csg.errors import ModelError
from pyomo_csg.solve.engine import Deadline, SolverTrouble, Stats
from pyomo_csg.solve.pyomo_solvers.interfaces import Answer
from pyomo_csg.solve.pyomo_solvers.solver_kinds import SolverKind
from pyomo_csg.stages import TwoStageModel
from pyomo_csg.transform.transformations import Program

_SOLVER_TIMERS = ("optimize", "subprocess", "cplex solve", "MAiNGO solve", "solve")
# The errors of an interface about the model itself, before its solver runs.
_REFUSALS = (IncompatibleModelError, LookupError, NotImplementedError, ValueError)


class PersistentProgram:
    """A program in a persistent solver; only the values of its Params change between cases.

    ``params`` are the mutable Params of a case's numbers, in their order; numbers among them
    are not changed. ``what`` names the program in messages, and ``bound`` is the proven bound
    of the last optimum. A ModelError is raised if the solver does not accept the program.
    """

    def __init__(
        self,
        model: BlockData,
        params: Iterable[Any],
        what: str,
        kind: SolverKind,
        stats: Stats,
        deadline: Deadline,
    ):
        self.model = model
        self._params = list(params)
        self._what = what
        self._kind = kind
        self._stats, self._deadline = stats, deadline
        (self._objective,) = model.component_data_objects(Objective, active=True)
        self._is_constant = not _has_variables(model)
        # For linear programs, HiGHS compares its time limit with the total of all its runs.
        self._clock_adds_up = kind.brand == "highs" and all(
            v.is_continuous() for v in model.component_data_objects(Var)
        )
        kind.refuse_integers(model)
        self._solver = kind.make()
        try:
            self._load()
        except (PyomoException, LookupError, RuntimeError, ValueError) as error:
            raise self._refusal(error) from error

    def set(self, *numbers: np.ndarray) -> None:
        """Set the Params to the numbers of a case, in the order of the arrays."""
        flat = np.concatenate([array.ravel() for array in numbers]).tolist()
        for param, number in zip(self._params, flat, strict=True):
            if param.__class__ not in native_types:  # a weight that cannot be changed
                param.set_value(number)

    def optimum(self) -> float:
        """Solve, load the point into the variables, and return its recomputed value.

        Raises
        ------
        SolverTrouble
            The program can still be used for the next case.
        """
        bound = None
        if not self._is_constant:
            answer = self._run()
            if not answer.is_decided:
                # Load it again: the last basis may mislead the solver.
                self._loaded = False
                answer = self._run(**self._kind.profile.decisive)
            if answer.status != "optimal":
                raise self._trouble(answer.status)
            answer.load()
            bound = answer.bound
        found = value(self._objective)
        self.bound = found if bound is None or not np.isfinite(bound) else bound
        return found

    def _load(self) -> None:
        self._solver.load(self.model)
        self._loaded = True
        self._spent = 0.0

    def _run(self, **options: Any) -> Answer:
        timer = HierarchicalTimer()
        time_limit = self._kind.time_limit
        if (left := self._deadline.left()) < math.inf:
            time_limit = left if time_limit is None else min(left, time_limit)
        if self._clock_adds_up and time_limit is not None:
            time_limit += self._spent
        try:
            if not self._loaded:
                self._load()
            return self._solver.run(
                self.model, {**self._kind.options, **options}, time_limit, timer
            )
        except subprocess.TimeoutExpired:
            raise self._trouble("time limit") from None
        except Exception as error:  # from the solver, or Pyomo reading its answer
            self._loaded = False
            if isinstance(error, _REFUSALS) and not _inside(timer):
                raise self._refusal(error) from error
            raise self._trouble("error", f": {error}") from error
        finally:
            seconds = sum(map(timer.get_total_time, _inside(timer)))
            self._spent += seconds
            self._stats.solves += 1
            self._stats.solver_seconds += seconds

    def _refusal(self, error: Exception) -> ModelError:
        found = f"of its {self._what}: {type(error).__name__}: {error}"
        return ModelError(
            f"'{self._kind.name}' does not take '{self.model.name}'",
            [f"{found}; choose another solver"],
        )

    def _trouble(self, status: str, detail: str = "") -> SolverTrouble:
        return SolverTrouble(status, f"{self._kind.name} on the {self._what}{detail}")


def _inside(timer: HierarchicalTimer) -> list[str]:
    """Return the names of the timers of the solver itself."""
    return [name for name in _SOLVER_TIMERS if name in timer.timers]


def _has_variables(model: BlockData) -> bool:
    parts = model.component_data_objects((Constraint, Objective), active=True)
    return any(True for p in parts for _ in identify_variables(p.expr, False))


_TOLERANCE = 1e-6  # as for csg.recourse
Rule = tuple[str, Any, Any, Any]


class RecourseProgram:
    """The recourse to any outcome after any decision, in one persistent solver.

    It is the program of ``csg.recourse``, on a copy of the model, with mutable Params instead
    of first-stage variables. With fixed variables, Pyomo would rebuild every row that
    contains one, in every case. Rows without variables are checked here, since some solvers
    reject them.
    """

    def __init__(
        self,
        model: BlockData,
        decision: np.ndarray,
        outcome: np.ndarray,
        kind: SolverKind,
        stats: Stats,
        deadline: Deadline,
    ):
        model = model.clone()
        two_stage = TwoStageModel(model)
        variables = two_stage.first_stage_variables
        names = [ComponentUID(p) for p in two_stage.uncertain_params]
        known = two_stage.known_params
        with Program(two_stage) as program:
            program.add_outcome(outcome[: len(names)])
            program.optimize(program.outcome_cost())
        program.csg.decision = Param(
            range(len(variables)),
            mutable=True,
            initialize=dict(enumerate(decision.tolist())),
        )
        decided = list(program.csg.decision.values())
        pairs = list(zip(variables, decided, strict=True))
        self._rules = [_bound(v, param) for v, param in pairs]
        self._rules += _rows_without_variables(
            model, {id(v): param for v, param in pairs}
        )
        _bind_ordered_sets(model, pairs)
        outcomes = [name.find_component_on(model.outcome) for name in names]
        self._program = PersistentProgram(
            model,
            [*decided, *outcomes, *known],
            "recourse program",
            kind,
            stats,
            deadline,
        )

    def optimum(self, decision: np.ndarray, outcome: np.ndarray) -> float:
        """Return h(y) + Q(y, omega) in the model's own sense.

        Raises
        ------
        SolverTrouble
            Also with status ``'infeasible'`` if the decision violates the first stage.
        """
        self._program.set(decision, outcome)
        for name, body, lower, upper in self._rules:
            x = value(body)
            slack = _TOLERANCE * max(1.0, abs(x))
            below = lower is not None and x < value(lower) - slack
            above = upper is not None and x > value(upper) + slack
            if below or above:
                raise SolverTrouble("infeasible", f"the decision violates '{name}'")
        return self._program.optimum()


def _bound(v: Any, param: Any) -> Rule:
    # Expressions, not numbers: they may depend on known Params.
    lower, upper = (v.value, v.value) if v.fixed else (v.lower, v.upper)
    return v.name, param, lower, upper


def _bind_ordered_sets(model: BlockData, pairs: list[tuple[Any, Any]]) -> None:
    """Fix members of special ordered sets by bounds, since a set cannot hold Params."""
    sets = model.component_data_objects(SOSConstraint, active=True)
    members = ComponentSet(v for sos in sets for v in sos.get_variables())
    for v, param in pairs:
        if v in members:
            unit = v.parent_component().get_units()
            bound = param if unit is None else param * unit
            v.unfix()
            v.bounds = (bound, bound)


def _rows_without_variables(
    model: BlockData, params: Mapping[int, Any]
) -> Iterator[Rule]:
    """Replace variables by Params; yield and deactivate rows without other variables."""
    parts = model.component_data_objects((Constraint, Objective), active=True)
    for part in list(parts):
        expr = replace_expressions(
            part.expr,
            params,
            descend_into_named_expressions=True,
            remove_named_expressions=True,
        )
        part.set_value(expr)
        free = next(identify_variables(expr, include_fixed=False), None)
        if free is None and part.ctype is Constraint:
            yield part.name, part.body, part.lower, part.upper
            part.deactivate()
