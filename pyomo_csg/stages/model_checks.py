"""Checks of an annotated model; each problem comes with its remedy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pyomo.common.collections import ComponentSet
from pyomo.core.base.block import Block, BlockData
from pyomo.core.base.component import ComponentData
from pyomo.core.base.objective import Objective
from pyomo.core.base.set import SetData
from pyomo.core.base.var import Var

from pyomo_csg.errors import shortlist
from pyomo_csg.stages.annotation import (
    FIRST_STAGE,
    UNCERTAIN,
    belongs_to,
    read_annotation,
)
from pyomo_csg.stages.stage_inference import Row, group_by_component, unique

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
    ):
        marked = read_annotation(model, name)
        if not marked:
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


def param_problems(params: list[ComponentData], rows: list[Row]) -> Iterator[str]:
    """Yield the problems of uncertain Params, and of Params without a value."""
    used = ComponentSet(p for row in rows for p in row.params)
    for component, members in group_by_component(params):
        domain = component.domain
        if is_discrete(domain):
            yield (
                f"uncertain Param '{component.name}' has the discrete domain "
                f"{domain.name}, but generated scenarios are real numbers; declare it "
                "within=Reals, NonNegativeReals or an interval such as UnitInterval, "
                "and round in the model if it needs whole numbers"
            )
        idle = [p for p in members if p not in used]
        if idle:
            yield (
                f"uncertain Param {_names(idle)} is used in no active constraint, "
                "variable bound or objective; leave it out of uncertain_params, or "
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
