"""Checks of an annotated model, and of a decision against its first stage."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyomo.common.collections import ComponentSet
from pyomo.core.base.block import Block, BlockData
from pyomo.core.base.component import ComponentData
from pyomo.core.base.objective import Objective
from pyomo.core.base.set import SetData
from pyomo.core.base.sos import SOSConstraint
from pyomo.core.base.var import Var
from pyomo.core.expr.numvalue import value
from pyomo.core.expr.visitor import replace_expressions

from pyomo_csg.errors import DataError, shortlist
from pyomo_csg.stages.annotation import (
    FIRST_STAGE,
    KNOWN,
    UNCERTAIN,
    belongs_to,
    read_annotation,
)
from pyomo_csg.stages.stage_inference import Row, group_by_component, unique

if TYPE_CHECKING:
    from pyomo_csg.stages.two_stage import TwoStageModel

_TOLERANCE = 1e-6  # relative; the feasibility tolerance of most solvers
_SUPPORTED = {
    *("Var", "BooleanVar", "Param", "Set", "RangeSet", "SetOf", "Expression"),
    *("Constraint", "SOSConstraint", "Objective", "Block", "Suffix"),
    *("BuildAction", "BuildCheck", "ExternalFunction", "Port", "ContinuousSet"),
}
_REFORMULATIONS = {
    kind: f"apply TransformationFactory('{name}') first"
    for kind, name in {
        "Disjunction": "gdp.bigm",
        "Disjunct": "gdp.bigm",
        "LogicalConstraint": "core.logical_to_linear",
        "Arc": "network.expand_arcs",
        "DerivativeVar": "dae.finite_difference",
        "Integral": "dae.finite_difference",
        "Complementarity": "mpec.simple_disjunction",
    }.items()
}


def annotation_problems(model: BlockData) -> Iterator[str]:
    """Yield the problems of the annotation itself."""
    for name, what in (
        (FIRST_STAGE, "first-stage variable"),
        (UNCERTAIN, "uncertain Param"),
        (KNOWN, "known Param"),
    ):
        marked = read_annotation(model, name) or []
        if not marked and name != KNOWN:
            yield (
                f"no {what} is annotated; call csg.annotate(model, "
                "first_stage_variables=..., uncertain_params=...)"
            )
            continue
        gone = [data for data in marked if not belongs_to(model, data)]
        if gone:
            yield (
                f"{what} {_names(gone)} was annotated but has left the model since; "
                "annotate again"
            )


def objective_problems(objectives: list[ComponentData]) -> Iterator[str]:
    """Yield a problem unless exactly one objective is active."""
    if not objectives:
        yield "no Objective is active; activate the one to optimize"
    elif len(objectives) > 1:
        yield (
            f"{len(objectives)} Objectives are active ({_names(objectives)}); "
            "deactivate all but one"
        )


def unknown_component_problems(model: BlockData) -> Iterator[str]:
    """Yield a problem for each active component that is not algebraic."""
    for block in model.block_data_objects(active=True):
        for component in block.component_objects(active=True, descend_into=False):
            kind = component.ctype.__name__
            if kind not in _SUPPORTED:
                remedy = _REFORMULATIONS.get(
                    kind, "reformulate it into Constraints first"
                )
                yield f"{kind} '{component.name}' is not algebraic; {remedy}"


def param_problems(
    uncertain: list[ComponentData], known: list[ComponentData], rows: list[Row]
) -> Iterator[str]:
    """Yield the problems of annotated Params, and of Params without a value."""
    used = ComponentSet(p for row in rows for p in row.params)
    params = [*uncertain, *known]
    for component, _ in group_by_component(uncertain):
        domain = component.domain
        if is_discrete(domain):
            yield (
                f"uncertain Param '{component.name}' has the discrete domain "
                f"{domain.name}, but generated scenarios are real numbers; declare it "
                "within=Reals, NonNegativeReals or an interval such as UnitInterval, "
                "and round in the model if it needs whole numbers"
            )
    for marked, word in ((uncertain, "uncertain"), (known, "known")):
        for _, members in group_by_component(marked):
            if idle := [p for p in members if p not in used]:
                yield (
                    f"{word} Param {_names(idle)} is used in no active constraint, "
                    f"variable bound or objective; leave it out of {word}_params, or "
                    "make sure that the expressions use the Param itself and not "
                    "value(param)"
                )
    empty = [p for p in unique([*params, *used]) if p(exception=False) is None]
    for component, members in group_by_component(empty):
        yield (
            f"Param {_names(members)} has no value; give it one with "
            f"Param(..., initialize=...) or model.{component.name} = ..."
        )


def variable_problems(
    variables: list[ComponentData], first_stage: list[ComponentData], rows: list[Row]
) -> Iterator[str]:
    """Yield a problem for each free variable that nothing refers to.

    A partly used recourse Var is accepted: Piecewise creates these, and dense index sets
    leave x[i, i] unused. An unused first-stage variable is a problem.
    """
    used, first_stage = ComponentSet(_used_variables(rows)), ComponentSet(first_stage)
    idle = [v for v in variables if v not in used and not v.fixed]
    for component, members in group_by_component(idle):
        decisions = [v for v in members if v in first_stage]
        members = members if len(members) == len(component) else decisions
        if not members:
            continue
        whole = (
            f" ({len(members)} of its {len(component)})" if len(component) > 1 else ""
        )
        yield (
            f"Var {_names(members)}{whole} is used in no active constraint or "
            "objective; fix it, or leave it out of the model (an index set of the "
            "members in use keeps a Var sparse)"
        )


def foreign_problems(model: BlockData, rows: list[Row]) -> Iterator[str]:
    """Yield a problem for each variable or Param in use that is in another model."""
    used = {id(c): (c, row) for row in rows for c in (*row.variables, *row.params)}
    for component, row in used.values():
        if not belongs_to(model, component):
            yield (
                f"'{row.name}' refers to '{component.name}', which is outside "
                f"'{model.name}'; annotate the model that holds both"
            )


def active_objectives(model: BlockData) -> list[ComponentData]:
    """Return the active objectives, each once."""
    return list(unique(model.component_data_objects(Objective, active=True)))


def model_variables(model: BlockData, rows: list[Row]) -> list[ComponentData]:
    """Return the variables of active Blocks and any other that a row refers to."""
    declared = model.component_data_objects(Var, active=True, descend_into=Block)
    return list(unique([*declared, *_used_variables(rows)]))


def is_discrete(domain: SetData) -> bool:
    """Return True if a domain has gaps between its values."""
    return domain.isdiscrete() or domain.get_interval()[2] not in (0, None)


def _used_variables(rows: list[Row]) -> Iterator[ComponentData]:
    return (v for row in rows for v in row.variables)


def _names(data: Iterable[Any]) -> str:
    return shortlist(item.name for item in data)


def check_feasible(
    two_stage: TwoStageModel, decision: list[float], known: Sequence[float] = ()
) -> None:
    """Raise if a decision violates a first-stage bound, fixed value or constraint.

    Known Params have the values in the model, or the numbers ``known`` (r,).
    """
    before = [param.value for param in two_stage.known_params]
    set_params(two_stage.known_params, known or before)
    try:
        _check_first_stage(two_stage, decision)
    finally:
        set_params(two_stage.known_params, before)


def set_params(params: Iterable[Any], numbers: Iterable[float]) -> None:
    """Set Params to numbers."""
    for param, number in zip(params, numbers, strict=True):
        param.set_value(number)


def _check_first_stage(two_stage: TwoStageModel, decision: list[float]) -> None:
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
        return f"{con.expr}, where the expression is {body:g}"
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
