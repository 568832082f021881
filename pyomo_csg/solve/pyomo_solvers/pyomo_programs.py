"""Programs that stay in a solver of Pyomo's while their data changes."""

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
from pyomo_csg.transform.program import Program

_SOLVER_TIMERS = ("optimize", "subprocess", "cplex solve", "MAiNGO solve", "solve")
# The errors of an interface about the model itself, before its solver runs.
_REFUSALS = (IncompatibleModelError, LookupError, NotImplementedError, ValueError)


class PersistentProgram:
    """A program that stays in a solver; from case to case only its Params change.

    Parameters
    ----------
    model : BlockData
        With the first case's data.
    params : iterable of ParamData
        Where the numbers of a case go; what is a plain number stays.
    what : str
        Which program it is, for messages.
    kind : SolverKind
    stats : Stats
        Where solves are counted.
    deadline : Deadline
        That of the call.

    Attributes
    ----------
    bound : float
        What is proven of the last optimum: no point of the program does better.

    Raises
    ------
    ModelError
        If the solver does not take the program.
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
        # HiGHS holds a linear program's time limit against all that its object ever ran.
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
        """Set the numbers of a case, one array after the other."""
        flat = np.concatenate([array.ravel() for array in numbers]).tolist()
        for param, number in zip(self._params, flat, strict=True):
            if param.__class__ not in native_types:  # a weight that cannot be changed
                param.set_value(number)

    def optimum(self) -> float:
        """Solve, leave the point on the variables and return its value, computed anew.

        Raises
        ------
        SolverTrouble
            The next case can be solved all the same.
        """
        bound = None
        if not self._is_constant:
            answer = self._run()
            if not answer.is_decided:
                self._loaded = False  # anew: the last basis may be what misleads
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
        except Exception as error:  # the solver's own, or Pyomo's over its answer
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
    """Return the timers that ran while the solver itself did."""
    return [name for name in _SOLVER_TIMERS if name in timer.timers]


def _has_variables(model: BlockData) -> bool:
    parts = model.component_data_objects((Constraint, Objective), active=True)
    return any(True for p in parts for _ in identify_variables(p.expr, False))


_TOLERANCE = 1e-6  # as for csg.recourse
Rule = tuple[str, Any, Any, Any]


class RecourseProgram:
    """The recourse to any outcome after any decision, in one persistent solver.

    It is the program of ``csg.recourse`` with mutable Params in the place of the
    first-stage variables. Were these fixed instead, Pyomo would take out and rebuild
    every row that holds one, in every case. Rows that are left without a variable trouble
    solvers; they are looked at here.

    Parameters
    ----------
    model : ConcreteModel
        Annotated; a copy is transformed.
    decision, outcome : arrays (s,), (p,)
        Of the first case.
    kind : SolverKind
    stats : Stats
    deadline : Deadline
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
        with Program(two_stage) as program:
            program.add_outcome(outcome)
            program.optimize(program.outcome_cost())
        program.csg.decision = Param(
            range(len(variables)),
            mutable=True,
            initialize=dict(enumerate(decision.tolist())),
        )
        decided = list(program.csg.decision.values())
        pairs = list(zip(variables, decided, strict=True))
        self._rules = [_bound(v, param) for v, param in pairs]
        self._rules += _settled_rows(model, {id(v): param for v, param in pairs})
        _bind_ordered_sets(model, pairs)
        outcomes = [name.find_component_on(model.outcome) for name in names]
        self._program = PersistentProgram(
            model, [*decided, *outcomes], "recourse program", kind, stats, deadline
        )

    def optimum(self, decision: np.ndarray, outcome: np.ndarray) -> float:
        """Return h(y) + Q(y, omega) in the model's own sense.

        Raises
        ------
        SolverTrouble
            ``'infeasible'`` too if the decision violates the first stage.
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
    lower, upper = (v.value, v.value) if v.fixed else v.bounds
    return v.name, param, lower, upper


def _bind_ordered_sets(model: BlockData, pairs: list[tuple[Any, Any]]) -> None:
    """Bound the variables of special ordered sets by the Params they cannot take."""
    sets = model.component_data_objects(SOSConstraint, active=True)
    members = ComponentSet(v for sos in sets for v in sos.get_variables())
    for v, param in pairs:
        if v in members:
            unit = v.parent_component().get_units()
            bound = param if unit is None else param * unit
            v.unfix()
            v.bounds = (bound, bound)


def _settled_rows(model: BlockData, params: Mapping[int, Any]) -> Iterator[Rule]:
    """Put Params for variables; take out the rows that have no other variable."""
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
