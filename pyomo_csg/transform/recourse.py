"""The recourse to one outcome after one decision."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyomo.common.config import document_class_CONFIG
from pyomo.core.base.block import BlockData
from pyomo.core.base.sos import SOSConstraint
from pyomo.core.base.transformation import TransformationFactory
from pyomo.core.expr.numvalue import value
from pyomo.core.expr.visitor import replace_expressions

from pyomo_csg.errors import DataError
from pyomo_csg.stages import TwoStageModel
from pyomo_csg.stages.inputs import decision_vector, outcome_vector
from pyomo_csg.transform.program import Program, ProgramTransformation, data_options
from pyomo_csg.validation import Problems

_TOLERANCE = 1e-6


@TransformationFactory.register(
    "csg.recourse", doc="The recourse of an annotated two-stage model to one outcome."
)
@document_class_CONFIG(methods=["apply_to", "create_using"])
class Recourse(ProgramTransformation):
    """Turn an annotated model into the recourse to an outcome, after a decision.

    .. code::

        h(y) + min  q(y, z, omega)
               s.t. z in Z(y, omega)

    The first-stage variables stay at the root, fixed at the decision; the Block
    ``outcome`` holds the recourse. The decision must satisfy the first-stage constraints.
    They are then deactivated, because some solvers reject constraints without variables.

    Examples
    --------
    >>> import pyomo.environ as pyo
    >>> from models import newsvendor
    >>> recourse = pyo.TransformationFactory('csg.recourse').create_using(
    ...     newsvendor.build(), decision={'order': 20}, outcome={'demand': 12}
    ... )
    >>> result = pyo.SolverFactory('appsi_highs').solve(recourse)
    >>> recourse.outcome.sold.value, recourse.outcome.salvaged.value
    (12.0, 8.0)
    """

    CONFIG = data_options("csg.recourse", "decision", "outcome")

    def _apply_to(self, model: BlockData, **kwds: Any) -> None:
        config = self._config(kwds)
        two_stage = TwoStageModel(model)
        problems = Problems(f"The data does not fit '{model.name}'")
        decision = problems.check(
            "decision", decision_vector, two_stage, config.decision
        )
        outcome = problems.check("outcome", outcome_vector, two_stage, config.outcome)
        if decision is not None:
            problems.check("decision", check_feasible, two_stage, decision.tolist())
        problems.raise_any()
        with Program(two_stage) as program:
            program.add_outcome(outcome)
            program.optimize(program.outcome_cost())
        for v, x in zip(
            two_stage.first_stage_variables, decision.tolist(), strict=True
        ):
            v.fix(x, skip_validation=True)
        for con in two_stage.first_stage_constraints:
            con.deactivate()


def check_feasible(two_stage: TwoStageModel, decision: list[float]) -> None:
    """Raise if a decision violates a first-stage bound, fixed value or constraint."""
    variables = two_stage.first_stage_variables
    problems = [
        f"'{v.name}' is {x:g}, but it is {rule}"
        for v, x in zip(variables, decision, strict=True)
        for rule in _violated_bounds(two_stage, v, x)
    ]
    values = {id(v): x for v, x in zip(variables, decision, strict=True)}
    for con in two_stage.first_stage_constraints:
        violation = (
            _sos_violation if con.ctype is SOSConstraint else _constraint_violation
        )
        if found := violation(con, values):
            problems.append(
                f"it breaks the first-stage constraint '{con.name}': {found}"
            )
    if problems:
        raise DataError("The decision is not feasible", problems)


def _violated_bounds(two_stage: TwoStageModel, v: Any, x: float) -> Iterator[str]:
    if v.fixed and _outside(x, v.value, v.value):
        yield f"fixed at {v.value:g}"
    moves = two_stage.uncertainty.touches
    lower = None if moves(v.lower) else value(v.lower)
    upper = None if moves(v.upper) else value(v.upper)
    if _outside(x, lower, upper):
        yield f"bounded by ({lower}, {upper})"


def _constraint_violation(con: Any, values: dict[int, float]) -> str | None:
    try:
        body = value(replace_expressions(con.body, values))
    except (ValueError, ZeroDivisionError, OverflowError) as error:
        return f"{con.expr} cannot be evaluated ({error})"
    if _outside(body, value(con.lower), value(con.upper)):
        return f"{con.expr} with {body:g} in the middle"
    return None


def _sos_violation(sos: Any, values: dict[int, float]) -> str | None:
    ordered = sorted(sos.get_items(), key=lambda item: item[1])
    used = [k for k, (v, _) in enumerate(ordered) if abs(values[id(v)]) > _TOLERANCE]
    if used and used[-1] - used[0] >= sos.level:
        return f"at most {sos.level} neighbors may differ from 0"
    return None


def _outside(x: float, lower: float | None, upper: float | None) -> bool:
    slack = _TOLERANCE * max(1.0, abs(x))
    below = lower is not None and x < lower - slack
    above = upper is not None and x > upper + slack
    return below or above
