"""csg.extensive_form, csg.opt_search and csg.recourse, as Pyomo transformations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyomo.common.config import ConfigValue, NonNegativeFloat, document_class_CONFIG
from pyomo.core.base.block import BlockData
from pyomo.core.base.constraint import Constraint
from pyomo.core.base.objective import maximize
from pyomo.core.base.param import Param
from pyomo.core.base.sos import SOSConstraint
from pyomo.core.base.transformation import TransformationFactory
from pyomo.core.expr.numvalue import value
from pyomo.core.expr.visitor import replace_expressions

from pyomo_csg.errors import DataError
from pyomo_csg.stages import TwoStageModel
from pyomo_csg.stages.inputs import decision_vector, outcome_vector
from pyomo_csg.transform.program import (
    Program,
    ProgramTransformation,
    check_scenarios,
    data_options,
)
from pyomo_csg.validation import Problems

_TOLERANCE = 1e-6  # relative; the feasibility tolerance of most solvers


@TransformationFactory.register(
    "csg.extensive_form", doc="The extensive form of an annotated two-stage model."
)
@document_class_CONFIG(methods=["apply_to", "create_using"])
class ExtensiveForm(ProgramTransformation):
    """Turn an annotated model into its extensive form on K scenarios.

    .. code::

        min   h(y) + sum_k w_k q(y, z_k, zeta_k)
        s.t.  y in Y,  z_k in Z(y, zeta_k)  for k = 1..K

    First-stage variables keep their names at the root. The Block ``scenario[k]``, k from
    1, holds scenario k under the names of the model, with its uncertain Params, which
    stay mutable.

    Examples
    --------
    >>> import pyomo.environ as pyo
    >>> from models import newsvendor
    >>> ef = pyo.TransformationFactory('csg.extensive_form').create_using(
    ...     newsvendor.build(), scenarios=[[10], [14], [30]], weights=[0.1, 0.6, 0.3]
    ... )
    >>> result = pyo.SolverFactory('appsi_highs').solve(ef)
    >>> ef.order.value
    10.0
    >>> ef.scenario[2].demand.value
    14.0
    """

    CONFIG = data_options("csg.extensive_form", "scenarios", "weights")

    def _apply_to(self, model: BlockData, **kwds: Any) -> None:
        config = self._config(kwds)
        two_stage = TwoStageModel(model)
        problems = Problems(f"The data does not fit '{model.name}'")
        scenarios, weights = check_scenarios(problems, two_stage, config)
        problems.raise_any()
        with Program(two_stage) as program:
            program.add_scenarios(scenarios, weights)
            program.optimize(program.expected_cost())


@TransformationFactory.register(
    "csg.opt_search", doc="The search among the optimal decisions of an extensive form."
)
@document_class_CONFIG(methods=["apply_to", "create_using"])
class OptSearch(ProgramTransformation):
    """Turn an annotated model into the program of the optimistic loss l_opt.

    .. code::

        min   h(y) + q(y, z, omega)
        s.t.  h(y) + sum_k w_k q(y, z_k, zeta_k) <= v + tolerance * max(1, |v|)
              y in Y,  z in Z(y, omega),  z_k in Z(y, zeta_k)  for k = 1..K

    The Blocks ``scenario[k]`` hold the scenarios as in the extensive form; the Block
    ``outcome`` holds the recourse to the outcome. ``csg.optimality_cut`` is the cut, with
    the mutable Param ``csg.cut_bound`` as its bound. If the model is maximized, the cut
    is a lower bound.

    Examples
    --------
    >>> import pyomo.environ as pyo
    >>> from models import newsvendor
    >>> search = pyo.TransformationFactory('csg.opt_search').create_using(
    ...     newsvendor.build(), scenarios=[[10]], outcome=[12], optimal_value=-0.5
    ... )
    >>> result = pyo.SolverFactory('appsi_highs').solve(search)
    >>> print(f"{pyo.value(search.cost):.3f}")
    -0.500
    """

    CONFIG = data_options("csg.opt_search", "scenarios", "weights", "outcome")
    CONFIG.declare(
        "optimal_value",
        ConfigValue(
            description="The optimal value of the extensive form on these scenarios "
            "and weights, in the model's own sense."
        ),
    )
    CONFIG.declare(
        "tolerance",
        ConfigValue(
            default=1e-9,
            domain=NonNegativeFloat,
            description="Slack of the optimality cut, relative to "
            "max(1, |optimal_value|).",
        ),
    )

    def _apply_to(self, model: BlockData, **kwds: Any) -> None:
        config = self._config(kwds)
        two_stage = TwoStageModel(model)
        problems = Problems(f"The data does not fit '{model.name}'")
        scenarios, weights = check_scenarios(problems, two_stage, config)
        outcome = problems.check("outcome", outcome_vector, two_stage, config.outcome)
        optimum = problems.check(
            "optimal_value",
            _finite,
            config.optimal_value,
            "give the optimal value of csg.extensive_form on the same scenarios",
        )
        tolerance = problems.check(
            "tolerance", _finite, config.tolerance, "give a number such as 1e-9"
        )
        problems.raise_any()
        sense = two_stage.sense
        with Program(two_stage) as program:
            program.add_scenarios(scenarios, weights)
            program.add_outcome(outcome)
            bound = optimum + sense * tolerance * max(1.0, abs(optimum))
            program.csg.cut_bound = Param(mutable=True, initialize=bound)
            low, high = program.expected_cost(), program.csg.cut_bound
            if sense == maximize:
                low, high = high, low
            program.csg.optimality_cut = Constraint(expr=low <= high)
            program.optimize(program.outcome_cost())


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


def _finite(option: Any, remedy: str) -> float:
    """Return a finite number, or raise a DataError with the remedy."""
    try:
        number = float(option)
    except (TypeError, ValueError):
        number = float("nan")
    if abs(number) < float("inf"):
        return number
    raise DataError("The cut needs a bound", [f"it is {option!r}; {remedy}"])


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
    touches = two_stage.uncertainty.touches
    lower = None if touches(v.lower) else value(v.lower)
    upper = None if touches(v.upper) else value(v.upper)
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
