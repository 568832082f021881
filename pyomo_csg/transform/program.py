"""The frame of the three programs: first stage at the root, recourse in blocks."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

import numpy as np
from pyomo.common.config import ConfigDict
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
from pyomo_csg.transform.recourse_copy import RecoursePart, RecourseRemoval

if TYPE_CHECKING:
    from typing import Self


class ProgramTransformation(Transformation):
    """A transformation that speaks for itself where Pyomo's own would fail."""

    CONFIG: ConfigDict

    def apply_to(self, model: Any, **kwds: Any) -> None:
        """Turn the model, in place, into the program."""
        check_constructed(model)
        super().apply_to(model, **kwds)

    def create_using(self, model: Any, **kwds: Any) -> Any:
        """Return the program, made of a clone of the model."""
        check_constructed(model)
        return super().create_using(model, **kwds)

    def _config(self, kwds: dict[str, Any]) -> Any:
        """Return the options, or raise a DataError that names what is off."""
        known, problems = list(self.CONFIG), []
        for name in kwds:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                hint = f"did you mean {near[0]}?" if near else f"give {known}"
                problems.append(f"there is no option '{name}'; {hint}")
        if problems:
            raise DataError("The options do not fit", problems)
        try:
            return self.CONFIG(kwds)
        except ValueError as error:
            found = " ".join(str(error).split())
            raise DataError("The options do not fit", [found]) from None


_NAMES = ("scenario", "outcome", "csg")


class Program:
    """Turns a model, in place, into a program on given scenarios and outcomes.

    What is ours and not the user's stands in the Block ``csg``: ``first_stage_cost``,
    for the scenarios ``weight[k]`` and ``recourse_cost[k]``, for an outcome
    ``outcome_cost``. The objective keeps its name and place.

    Use it in a ``with`` statement: if something fails in it, what was added to the model
    is taken away again.

    Parameters
    ----------
    two_stage : TwoStageModel
        A view of the model to change, spent afterwards.
    """

    def __init__(self, two_stage: TwoStageModel):
        _refuse_taken_names(two_stage)
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
        # Of p*(x*y), p being mutable, Pyomo's standard_repn makes no quadratic term.
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
        """Give the model's own objective its new expression; remove the original."""
        self._two_stage.objective.set_value(cost)
        self._original.run()


def _refuse_taken_names(two_stage: TwoStageModel) -> None:
    taken = [
        f"{found.ctype.__name__} '{found.name}' has a name that the program needs for "
        "itself; rename it"
        for name in _NAMES
        if (found := two_stage.model.component(name)) is not None
    ]
    if taken:
        raise ModelError(f"'{two_stage.model.name}' cannot be transformed", taken)
