"""TwoStageModel.to_mpisppy: an annotated model as a scenario_creator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from pyomo.common.modeling import unique_component_name
from pyomo.core.base.block import Block, BlockData
from pyomo.core.base.constraint import Constraint, ConstraintList
from pyomo.core.base.var import Var
from pyomo.core.expr.numvalue import polynomial_degree

from pyomo_csg.errors import CsgError, DataError, shortlist
from pyomo_csg.stages.annotation import FIRST_STAGE, UNCERTAIN, read_annotation
from pyomo_csg.stages.inputs import scenario_array, weight_vector
from pyomo_csg.stages.model_checks import active_objectives
from pyomo_csg.stages.stage_inference import Uncertainty, is_zero, split_cost
from pyomo_csg.validation import Problems

if TYPE_CHECKING:
    from pyomo_csg.stages.two_stage import TwoStageModel

ScenarioCreator = Callable[..., BlockData]


def export(
    two_stage: TwoStageModel, scenarios: Any, weights: Any
) -> tuple[ScenarioCreator, list[str], dict[str, Any]]:
    """Return what :meth:`TwoStageModel.to_mpisppy` does."""
    if find_spec("mpisppy") is None:
        raise CsgError(
            "mpi-sppy is not installed; install it by pip install pyomo-csg[mpi]"
        )
    problems = Problems(f"The data does not fit '{two_stage.model.name}'")
    outcomes = problems.check("scenarios", scenario_array, two_stage, scenarios)
    probabilities = problems.check("weights", weight_vector, weights, outcomes)
    problems.raise_any()
    names = _names(scenarios, len(outcomes))
    kwargs = {
        "model": two_stage.model,
        "outcomes": dict(zip(names, outcomes.tolist(), strict=True)),
        "probabilities": dict(zip(names, probabilities.tolist(), strict=True)),
    }
    return scenario_creator, names, kwargs


def scenario_creator(
    scenario_name: str,
    model: BlockData,
    outcomes: Mapping[str, Sequence[float]],
    probabilities: Mapping[str, float],
) -> BlockData:
    """Return one scenario as mpi-sppy wants it: a model of its own, with its root node.

    Parameters
    ----------
    scenario_name : str
    model : ConcreteModel
        Annotated. It is cloned, not changed.
    outcomes, probabilities : mapping
        From the names of all scenarios to their uncertain numbers and probabilities.
    """
    from mpisppy.utils import sputils  # prints, and starts MPI

    scenario = model.clone()
    first_stage = read_annotation(scenario, FIRST_STAGE) or []
    uncertain = read_annotation(scenario, UNCERTAIN) or []
    for param, number in zip(uncertain, outcomes[scenario_name], strict=True):
        param.set_value(number)
    cost = _separate_stages(scenario, first_stage, uncertain)
    sputils.attach_root_node(scenario, cost, first_stage)
    scenario._mpisppy_probability = probabilities[scenario_name]
    return scenario


def _separate_stages(
    scenario: BlockData, first_stage: list[Any], uncertain: list[Any]
) -> Any:
    """Join a recourse variable to all that is uncertain; return the first-stage cost.

    mpi-sppy's L-shaped method reads the costs, constraints and bounds that hold no
    recourse variable from one scenario alone, and counts a constant of the objective
    once more for each scenario. The scenario's optima do not change.
    """
    stages = Uncertainty(first_stage, uncertain)
    recourse = Uncertainty(first_stage, [])
    block = Block(concrete=True)
    name = unique_component_name(scenario, "uncertain_first_stage")
    scenario.add_component(name, block)
    block.zero = Var()
    block.zero.fix(0)
    block.bounds = ConstraintList()
    for con in list(scenario.component_data_objects(Constraint, active=True)):
        if stages.touches(con.expr) and not recourse.touches(con.expr):
            lower, body, upper = con.to_bounded_expression()
            con.set_value((lower, body + block.zero, upper))
    for v in first_stage:
        if stages.touches(v.lower):
            block.bounds.add(v + block.zero >= v.lower)
            v.setlb(None)
        if stages.touches(v.upper):
            block.bounds.add(v + block.zero <= v.upper)
            v.setub(None)
    return _separate_cost(scenario, block, stages, recourse)


def _separate_cost(
    scenario: BlockData, block: BlockData, stages: Uncertainty, recourse: Uncertainty
) -> Any:
    """Let a recourse variable stand for uncertain first-stage costs and constants.

    If they are linear: an equation with quadratic terms is more than most solvers take.
    """
    (objective,) = active_objectives(scenario)
    first, second = split_cost(objective.expr, stages)
    constant, first = split_cost(first, Uncertainty([], []))
    early, second = split_cost(second, recourse)
    moved = constant + early
    if not is_zero(moved) and polynomial_degree(moved) in (0, 1):
        block.cost = Var()
        block.equation = Constraint(expr=block.cost == moved)
        objective.set_value(first + block.cost + second)
    return first


def _names(scenarios: Any, count: int) -> list[str]:
    """Return a DataFrame's labels if they are text, as mpi-sppy's names are."""
    labels = list(scenarios.index) if hasattr(scenarios, "columns") else []
    if not labels or not all(isinstance(label, str) for label in labels):
        return [f"scenario{k}" for k in range(1, count + 1)]
    twice = [label for label, number in Counter(labels).items() if number > 1]
    if twice:
        raise DataError(
            "The scenarios do not fit mpi-sppy",
            [f"the label {shortlist(twice)} stands for several; give each its own"],
        )
    return labels
