"""zeta-SAA: one program over all scenarios, one first-stage decision."""

from __future__ import annotations

from typing import Any

from pyomo.common.config import document_class_CONFIG
from pyomo.core.base.block import BlockData
from pyomo.core.base.transformation import TransformationFactory

from pyomo_csg.stages import TwoStageModel
from pyomo_csg.transform.program import (
    Program,
    ProgramTransformation,
    check_scenarios,
    data_options,
)
from pyomo_csg.validation import Problems


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
