"""The recourse program with the decision as data, so that it changes like data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from pyomo.common.collections import ComponentSet
from pyomo.core.base.block import BlockData
from pyomo.core.base.componentuid import ComponentUID
from pyomo.core.base.constraint import Constraint
from pyomo.core.base.objective import Objective
from pyomo.core.base.param import Param
from pyomo.core.base.sos import SOSConstraint
from pyomo.core.expr.numvalue import value
from pyomo.core.expr.visitor import identify_variables, replace_expressions

from pyomo_csg.solve.appsi_program import PersistentProgram
from pyomo_csg.solve.appsi_solvers import SolverKind
from pyomo_csg.solve.engine import SolverTrouble, Stats
from pyomo_csg.stages import TwoStageModel
from pyomo_csg.transform.program import Program

_TOLERANCE = 1e-6  # as for csg.recourse
Rule = tuple[str, Any, Any, Any]


class RecourseProgram:
    """The recourse to any outcome after any decision, in one persistent solver.

    It is the program of ``csg.recourse`` with mutable Params in the place of the
    first-stage variables. Were these fixed instead, appsi would take out and rebuild
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
    """

    def __init__(
        self,
        model: BlockData,
        decision: np.ndarray,
        outcome: np.ndarray,
        kind: SolverKind,
        stats: Stats,
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
            model, [*decided, *outcomes], "recourse program", kind, stats
        )

    def optimum(self, decision: np.ndarray, outcome: np.ndarray) -> float:
        """Return h(y) + Q(y, omega) in the model's own sense.

        Raises
        ------
        SolverTrouble
            ``'infeasible'`` too if the decision breaks a rule of the first stage.
        """
        self._program.set(decision, outcome)
        for name, body, lower, upper in self._rules:
            x = value(body)
            slack = _TOLERANCE * max(1.0, abs(x))
            below = lower is not None and x < value(lower) - slack
            above = upper is not None and x > value(upper) + slack
            if below or above:
                raise SolverTrouble("infeasible", f"the decision breaks '{name}'")
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
