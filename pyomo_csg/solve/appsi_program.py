"""One program in a persistent solver of appsi: numbers in, optimum out."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from typing import Any

import numpy as np
from pyomo.common.errors import PyomoException
from pyomo.common.numeric_types import native_types
from pyomo.common.timing import HierarchicalTimer
from pyomo.contrib.appsi.base import TerminationCondition
from pyomo.core.base.block import BlockData
from pyomo.core.base.constraint import Constraint
from pyomo.core.base.objective import Objective
from pyomo.core.base.var import Var
from pyomo.core.expr.numvalue import value
from pyomo.core.expr.visitor import identify_variables

from pyomo_csg.errors import ModelError
from pyomo_csg.solve.appsi_solvers import SolverKind
from pyomo_csg.solve.engine import SolverTrouble, Stats

_STATUS = {
    TerminationCondition.infeasible: "infeasible",
    TerminationCondition.unbounded: "unbounded",
    TerminationCondition.infeasibleOrUnbounded: "unbounded or infeasible",
    TerminationCondition.maxTimeLimit: "time limit",
    TerminationCondition.maxIterations: "iteration limit",
    TerminationCondition.objectiveLimit: "objective limit",
    TerminationCondition.licensingProblems: "licence",
}
_UNDECIDED = {
    TerminationCondition.infeasibleOrUnbounded,
    TerminationCondition.unknown,
    TerminationCondition.error,
}
_SOLVER_TIMERS = ("optimize", "subprocess", "cplex solve", "MAiNGO solve")


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
    ):
        self.model = model
        self._params = list(params)
        self._what = what
        self._kind = kind
        self._stats = stats
        (self._objective,) = model.component_data_objects(Objective, active=True)
        self._is_constant = not _has_variables(model)
        # HiGHS holds a linear program's time limit against all that its object ever ran.
        self._clock_adds_up = kind.key == "highs" and all(
            v.is_continuous() for v in model.component_data_objects(Var)
        )
        self._solver = kind.make()
        try:
            self._load()
        except (PyomoException, LookupError, RuntimeError, ValueError) as error:
            found = f"of its {what}: {type(error).__name__}: {error}"
            raise ModelError(
                f"'{kind.name}' does not take '{model.name}'",
                [f"{found}; choose another solver"],
            ) from error

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
            results = self._run()
            if results.termination_condition in _UNDECIDED:
                self._loaded = False  # anew: the last basis may be what misleads
                results = self._run(**self._kind.profile.decisive)
            condition = results.termination_condition
            if condition is not TerminationCondition.optimal:
                raise self._trouble(_STATUS.get(condition, condition.name))
            results.solution_loader.load_vars()
            bound = results.best_objective_bound
        found = value(self._objective)
        self.bound = found if bound is None or not np.isfinite(bound) else bound
        return found

    def _load(self) -> None:
        self._solver.set_instance(self.model)
        self._loaded = True
        self._spent = 0.0

    def _run(self, **options: Any) -> Any:
        timer = HierarchicalTimer()
        try:
            if not self._loaded:
                self._load()
            self._kind.set_options(self._solver, **options)
            if self._clock_adds_up and self._kind.time_limit is not None:
                self._solver.config.time_limit = self._kind.time_limit + self._spent
            return self._solver.solve(self.model, timer=timer)
        except subprocess.TimeoutExpired:
            raise self._trouble("time limit") from None
        except Exception as error:  # the solver's own, or appsi's over its answer
            self._loaded = False
            raise self._trouble("error", f": {error}") from error
        finally:
            inside = [t for t in _SOLVER_TIMERS if t in timer.timers]
            seconds = sum(map(timer.get_total_time, inside))
            self._spent += seconds
            self._stats.solves += 1
            self._stats.solver_seconds += seconds

    def _trouble(self, status: str, detail: str = "") -> SolverTrouble:
        return SolverTrouble(status, f"{self._kind.name} on the {self._what}{detail}")


def _has_variables(model: BlockData) -> bool:
    parts = model.component_data_objects((Constraint, Objective), active=True)
    return any(True for p in parts for _ in identify_variables(p.expr, False))
