"""Opt-Search: the best of zeta-SAA's optimal decisions for one outcome."""

from __future__ import annotations

from typing import Any

from pyomo.common.config import ConfigValue, NonNegativeFloat, document_class_CONFIG
from pyomo.core.base.block import BlockData
from pyomo.core.base.constraint import Constraint
from pyomo.core.base.objective import maximize
from pyomo.core.base.param import Param
from pyomo.core.base.transformation import TransformationFactory

from pyomo_csg.errors import DataError
from pyomo_csg.stages import TwoStageModel
from pyomo_csg.stages.inputs import outcome_vector
from pyomo_csg.transform.program import (
    Program,
    ProgramTransformation,
    check_scenarios,
    data_options,
)
from pyomo_csg.validation import Problems

_VALUE = "give the optimal value of csg.extensive_form on the same scenarios"
_TOLERANCE = "give a number such as 1e-9"


@TransformationFactory.register(
    "csg.opt_search", doc="The search among the optimal decisions of an extensive form."
)
@document_class_CONFIG(methods=["apply_to", "create_using"])
class OptSearch(ProgramTransformation):
    """Turn an annotated model into the search whose optimum is l_opt(zeta, omega).

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
        value = problems.check("optimal_value", _finite, config.optimal_value, _VALUE)
        tolerance = problems.check("tolerance", _finite, config.tolerance, _TOLERANCE)
        problems.raise_any()
        sense = two_stage.sense
        with Program(two_stage) as program:
            program.add_scenarios(scenarios, weights)
            program.add_outcome(outcome)
            bound = value + sense * tolerance * max(1.0, abs(value))
            program.csg.cut_bound = Param(mutable=True, initialize=bound)
            worse, better = program.expected_cost(), program.csg.cut_bound
            if sense == maximize:
                worse, better = better, worse
            program.csg.optimality_cut = Constraint(expr=worse <= better)
            program.optimize(program.outcome_cost())


def _finite(value: Any, remedy: str) -> float:
    """Return a finite number, or raise a DataError with the remedy."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = float("nan")
    if abs(number) < float("inf"):
        return number
    raise DataError("The cut needs a bound", [f"it is {value!r}; {remedy}"])
