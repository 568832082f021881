"""csg.extensive_form, csg.opt_search and csg.recourse, as Pyomo transformations.

The first stage stays at the root of the model; each copy of the recourse has a Block.
"""

from __future__ import annotations

import difflib
from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
from pyomo.common.config import (
    ConfigDict,
    ConfigValue,
    NonNegativeFloat,
    document_class_CONFIG,
)
from pyomo.common.gc_manager import PauseGC
from pyomo.core.base.block import Block, BlockData
from pyomo.core.base.constraint import Constraint
from pyomo.core.base.expression import Expression
from pyomo.core.base.objective import maximize
from pyomo.core.base.param import Param
from pyomo.core.base.set import RangeSet
from pyomo.core.base.transformation import Transformation, TransformationFactory
from pyomo.core.expr.numeric_expr import SumExpression
from pyomo.core.expr.numvalue import polynomial_degree

from pyomo_csg.errors import DataError, ModelError
from pyomo_csg.stages import TwoStageModel
from pyomo_csg.stages.annotation import (
    check_constructed,
    state_risk,
    withdraw_risk,
)
from pyomo_csg.stages.inputs import (
    count_axes,
    decision_vector,
    known_batch,
    outcome_vector,
    scenario_array,
    weight_vector,
)
from pyomo_csg.stages.model_checks import check_feasible, set_params
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
    "outcome_weights": "M weights that sum to 1, of an outcome (M, p). Default: 1/M each.",
    "known": "The known numbers: r of them, or a mapping or Series from Pyomo name to "
    "number. Default: the values in the model.",
    "decision": "The first-stage decision: s numbers, or a mapping or Series from Pyomo "
    "name to number.",
}


def _data_options(transformation: str, *names: str) -> ConfigDict:
    """Return the options of a transformation for scenarios, outcomes and the like."""
    options = ConfigDict(transformation)
    for name in names:
        options.declare(name, ConfigValue(description=_DESCRIPTIONS[name]))
    return options


class ProgramTransformation(Transformation):
    """Base of the transformations: validates the model, the options and the known numbers.

    Subclasses implement ``_build``.
    """

    CONFIG: ConfigDict

    def apply_to(self, model: Any, **kwds: Any) -> None:
        """Transform the model in place."""
        check_constructed(model)
        super().apply_to(model, **kwds)

    def create_using(self, model: Any, **kwds: Any) -> Any:
        """Return the program, built on a clone of the model."""
        check_constructed(model)
        return super().create_using(model, **kwds)

    def _apply_to(self, model: BlockData, **kwds: Any) -> None:
        config = self._config(kwds)
        was_plain = state_risk(model)
        try:
            self._check_and_build(model, config)
        except BaseException:
            if was_plain:
                withdraw_risk(model)
            raise

    def _check_and_build(self, model: BlockData, config: Any) -> None:
        two_stage = TwoStageModel(model)
        problems = Problems(f"The data does not fit '{model.name}'")
        params = two_stage.known_params
        before = [param.value for param in params]
        if config.known is not None:
            known = problems.check("known", known_batch, two_stage, config.known, 1)
            set_params(params, before if known is None else known[0].tolist())
        try:
            self._build(two_stage, config, problems)
        except BaseException:
            set_params(params, before)
            raise

    @abstractmethod
    def _build(self, two_stage: TwoStageModel, config: Any, problems: Problems) -> None:
        """Check the other options, adding to ``problems``, and transform the model."""

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


def _check_scenarios(
    problems: Problems, two_stage: TwoStageModel, config: Any
) -> tuple[Any, Any]:
    """Return the scenarios and weights among the options; record their problems."""
    scenarios = problems.check("scenarios", scenario_array, two_stage, config.scenarios)
    weights = problems.check("weights", weight_vector, config.weights, scenarios)
    return scenarios, weights


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

    def add_outcomes(self, outcomes: np.ndarray, weights: np.ndarray) -> None:
        """Copy the recourse into ``outcome[m]`` for each of several outcomes."""
        numbers = self.csg.outcomes = RangeSet(len(outcomes))
        linear = polynomial_degree(self._two_stage.recourse_cost) in (0, 1)
        weight = self.csg.outcome_weight = Param(
            numbers,
            mutable=linear,
            initialize=dict(enumerate(weights.tolist(), start=1)),
        )
        self._model.outcome = Block(numbers)
        costs = [
            self._recourse.copy_into(self._model.outcome[m], omega)
            for m, omega in enumerate(outcomes.tolist(), start=1)
        ]
        terms = [weight[m] * cost for m, cost in enumerate(costs, start=1)]
        self.csg.outcome_cost = Expression(expr=SumExpression(terms))

    def expected_cost(self) -> Any:
        """Return h(y) plus the weighted recourse cost of the scenarios."""
        weight, cost = self.csg.weight, self.csg.recourse_cost
        recourse = [weight[k] * cost[k] for k in self.csg.scenarios]
        return SumExpression([self.csg.first_stage_cost, *recourse])

    def outcome_cost(self) -> Any:
        """Return h(y) plus the recourse cost of the outcome, or its weighted mean."""
        return self.csg.first_stage_cost + self.csg.outcome_cost

    def optimize(self, cost: Any) -> None:
        """Set the objective to a cost, and remove the original recourse."""
        self._two_stage.objective.set_value(cost)
        self._recourse.round_known_bounds()
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
    stay mutable. Known Params keep their names at the root. Set them to other values to
    solve another case.

    Examples
    --------
    >>> import pyomo.environ as pyo
    >>> from pyomo_csg.zoo import newsvendor
    >>> ef = pyo.TransformationFactory('csg.extensive_form').create_using(
    ...     newsvendor.build(), scenarios=[[10], [14], [30]], weights=[0.1, 0.6, 0.3]
    ... )
    >>> result = pyo.SolverFactory('appsi_highs').solve(ef)
    >>> ef.order.value
    10.0
    >>> ef.scenario[2].demand.value
    14.0
    """

    CONFIG = _data_options("csg.extensive_form", "scenarios", "weights", "known")

    def _build(self, two_stage: TwoStageModel, config: Any, problems: Problems) -> None:
        scenarios, weights = _check_scenarios(problems, two_stage, config)
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

    With M outcomes (M, p) and ``outcome_weights``, the Blocks are ``outcome[m]``, m from 1,
    and the mean cost is minimized.

    Examples
    --------
    >>> import pyomo.environ as pyo
    >>> from pyomo_csg.zoo import newsvendor
    >>> search = pyo.TransformationFactory('csg.opt_search').create_using(
    ...     newsvendor.build(), scenarios=[[10]], outcome=[12], optimal_value=-0.5
    ... )
    >>> result = pyo.SolverFactory('appsi_highs').solve(search)
    >>> print(f"{pyo.value(search.cost):.3f}")
    -0.500
    """

    CONFIG = _data_options(
        "csg.opt_search", "scenarios", "weights", "outcome", "outcome_weights", "known"
    )
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

    def _build(self, two_stage: TwoStageModel, config: Any, problems: Problems) -> None:
        scenarios, weights = _check_scenarios(problems, two_stage, config)
        several = count_axes(config.outcome) == 2
        read = scenario_array if several else outcome_vector
        outcome = problems.check("outcome", read, two_stage, config.outcome)
        shares = None
        if several:
            given = config.outcome_weights
            shares = problems.check("outcome_weights", weight_vector, given, outcome)
        elif config.outcome_weights is not None:
            problems.add(
                "outcome_weights are for several outcomes (M, p); leave them out"
            )
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
            if shares is None:
                program.add_outcome(outcome)
            else:
                program.add_outcomes(outcome, shares)
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
    >>> from pyomo_csg.zoo import newsvendor
    >>> recourse = pyo.TransformationFactory('csg.recourse').create_using(
    ...     newsvendor.build(), decision={'order': 20}, outcome={'demand': 12}
    ... )
    >>> result = pyo.SolverFactory('appsi_highs').solve(recourse)
    >>> recourse.outcome.sold.value, recourse.outcome.salvaged.value
    (12.0, 8.0)
    """

    CONFIG = _data_options("csg.recourse", "decision", "outcome", "known")

    def _build(self, two_stage: TwoStageModel, config: Any, problems: Problems) -> None:
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
