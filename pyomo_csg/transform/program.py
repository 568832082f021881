"""What the three transformations share: their options, and the program they build.

The first stage stays at the root of the model; each copy of the recourse has a Block.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

import numpy as np
from pyomo.common.config import ConfigDict, ConfigValue
from pyomo.common.gc_manager import PauseGC
from pyomo.core.base.block import Block
from pyomo.core.base.expression import Expression
from pyomo.core.base.param import Param
from pyomo.core.base.set import RangeSet
from pyomo.core.base.transformation import Transformation
from pyomo.core.expr.numeric_expr import SumExpression
from pyomo.core.expr.numvalue import polynomial_degree

from pyomo_csg.errors import DataError, ModelError
from pyomo_csg.stages import TwoStageModel
from pyomo_csg.stages.annotation import check_constructed
from pyomo_csg.stages.inputs import scenario_array, weight_vector
from pyomo_csg.transform.recourse_copy import RecoursePart, RecourseRemoval
from pyomo_csg.validation import Problems

if TYPE_CHECKING:
    from typing import Self

_NAMES = ("scenario", "outcome", "csg")  # of the Blocks that a program adds
_DESCRIPTIONS = {
    "scenarios": "The scenarios: an array (K, p), or a DataFrame with a column for each "
    "uncertain number by its Pyomo name.",
    "weights": "K weights that sum to 1. Default: 1/K each.",
    "outcome": "The outcome: p numbers, or a mapping or Series from Pyomo name to "
    "number.",
    "decision": "The first-stage decision: s numbers, or a mapping or Series from Pyomo "
    "name to number.",
}


def data_options(transformation: str, *names: str) -> ConfigDict:
    """Return the options of a transformation that hold scenarios, outcomes and so on."""
    options = ConfigDict(transformation)
    for name in names:
        options.declare(name, ConfigValue(description=_DESCRIPTIONS[name]))
    return options


def check_scenarios(
    problems: Problems, two_stage: TwoStageModel, config: Any
) -> tuple[Any, Any]:
    """Return the scenarios and weights among the options; record their problems."""
    scenarios = problems.check("scenarios", scenario_array, two_stage, config.scenarios)
    weights = problems.check("weights", weight_vector, config.weights, scenarios)
    return scenarios, weights


class ProgramTransformation(Transformation):
    """Base of the transformations: readable errors for invalid models and options."""

    CONFIG: ConfigDict

    def apply_to(self, model: Any, **kwds: Any) -> None:
        """Transform the model in place."""
        check_constructed(model)
        super().apply_to(model, **kwds)

    def create_using(self, model: Any, **kwds: Any) -> Any:
        """Return the program, built on a clone of the model."""
        check_constructed(model)
        return super().create_using(model, **kwds)

    def _config(self, kwds: dict[str, Any]) -> Any:
        """Return the options, or raise a DataError that names those that are wrong."""
        known = list(self.CONFIG)
        problems = Problems("The options do not fit")
        for name in kwds:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                hint = f"did you mean {near[0]}?" if near else f"give {known}"
                problems.add(f"there is no option '{name}'; {hint}")
        problems.raise_any()
        try:
            return self.CONFIG(kwds)
        except ValueError as error:
            found = " ".join(str(error).split())
            raise DataError("The options do not fit", [found]) from None


class Program:
    """Transforms a model, in place, into a program on scenarios and outcomes.

    The Block ``csg`` holds what is added besides the copies of the recourse:
    ``first_stage_cost``, ``weight[k]`` and ``recourse_cost[k]`` of the scenarios, and
    ``outcome_cost``. The objective keeps its name and place. Use it in a ``with``
    statement, which removes the added Blocks after an error. The TwoStageModel is no
    longer valid afterwards.
    """

    def __init__(self, two_stage: TwoStageModel):
        _check_names(two_stage)
        self._two_stage = two_stage
        self._model = two_stage.model
        self._recourse = RecoursePart(two_stage)
        self._original = RecourseRemoval(two_stage)

    def __enter__(self) -> Self:
        self.csg = self._model.csg = Block()
        self.csg.first_stage_cost = Expression(expr=self._two_stage.first_stage_cost)
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        if error is not None:
            for name in _NAMES:
                if self._model.component(name) is not None:
                    self._model.del_component(name)

    def add_scenarios(self, scenarios: np.ndarray, weights: np.ndarray) -> None:
        """Copy the recourse into ``scenario[k]`` for each scenario."""
        numbers = self.csg.scenarios = RangeSet(len(scenarios))
        # Pyomo's standard_repn finds no quadratic term in p*(x*y) if p is mutable.
        linear = polynomial_degree(self._two_stage.recourse_cost) in (0, 1)
        self.csg.weight = Param(
            numbers,
            mutable=linear,
            initialize=dict(enumerate(weights.tolist(), start=1)),
        )
        self.csg.recourse_cost = Expression(numbers)
        self._model.scenario = Block(numbers)
        with PauseGC():
            for k, zeta in enumerate(scenarios.tolist(), start=1):
                block = self._model.scenario[k]
                self.csg.recourse_cost[k] = self._recourse.copy_into(block, zeta)

    def add_outcome(self, outcome: np.ndarray) -> None:
        """Copy the recourse into ``outcome``."""
        self._model.outcome = Block()
        cost = self._recourse.copy_into(self._model.outcome, outcome.tolist())
        self.csg.outcome_cost = Expression(expr=cost)

    def expected_cost(self) -> Any:
        """Return h(y) plus the weighted recourse cost of the scenarios."""
        weight, cost = self.csg.weight, self.csg.recourse_cost
        recourse = [weight[k] * cost[k] for k in self.csg.scenarios]
        return SumExpression([self.csg.first_stage_cost, *recourse])

    def outcome_cost(self) -> Any:
        """Return h(y) plus the recourse cost of the outcome."""
        return self.csg.first_stage_cost + self.csg.outcome_cost

    def optimize(self, cost: Any) -> None:
        """Set the objective to a cost, and remove the original recourse."""
        self._two_stage.objective.set_value(cost)
        self._original.run()


def _check_names(two_stage: TwoStageModel) -> None:
    problems = [
        f"{found.ctype.__name__} '{found.name}' has a name that the program needs; "
        "rename it"
        for name in _NAMES
        if (found := two_stage.model.component(name)) is not None
    ]
    if problems:
        raise ModelError(f"'{two_stage.model.name}' cannot be transformed", problems)
