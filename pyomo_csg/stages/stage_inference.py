"""Infer the stage of constraints and cost terms from the data that they refer to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any

from pyomo.common.collections import ComponentMap
from pyomo.common.numeric_types import native_numeric_types, native_types
from pyomo.core.base.block import BlockData
from pyomo.core.base.component import ComponentData
from pyomo.core.base.constraint import Constraint
from pyomo.core.base.sos import SOSConstraint
from pyomo.core.expr import numeric_expr as ex

if TYPE_CHECKING:
    import networkx as nx

FIRST = "first"
RECOURSE = "recourse"


class Uncertainty:
    """Finds the expressions that refer to a recourse variable or an uncertain Param."""

    def __init__(self, first_stage: list[Any], uncertain: list[Any]):
        self._first_stage = {id(v) for v in first_stage}
        self._uncertain = {id(p) for p in uncertain}
        # The node is stored with its answer: Python may reuse the id of a deleted node.
        self._known: dict[int, tuple[Any, bool]] = {}

    def touches(self, expr: Any) -> bool:
        """Return True if the expression, variable or Param belongs to the recourse."""
        if expr.__class__ in native_types:
            return False
        known = self._known.get(id(expr))
        return self._search(expr) if known is None else known[1]

    def _search(self, expr: Any) -> bool:
        # An explicit stack: long chains of named Expressions exceed the recursion limit.
        stack, known = [expr], self._known
        while stack:
            node = stack[-1]
            if not node.is_expression_type():
                known[id(node)] = (stack.pop(), self.is_recourse(node))
                continue
            args = [arg for arg in node.args if arg.__class__ not in native_types]
            unknown = [arg for arg in args if id(arg) not in known]
            if unknown:
                stack.extend(unknown)
            else:
                touches = any(known[id(arg)][1] for arg in args)
                known[id(node)] = (stack.pop(), touches)
        return known[id(expr)][1]

    def is_recourse(self, leaf: Any) -> bool:
        """Return True for a recourse variable or an uncertain Param."""
        if leaf.is_variable_type():
            return id(leaf) not in self._first_stage
        return id(leaf) in self._uncertain


@dataclass(frozen=True)
class Row:
    """An active constraint, or a side of the objective, and the data that it refers to."""

    name: str
    kind: str
    component: ComponentData
    stage: str
    variables: list[ComponentData] = field(repr=False)
    params: list[ComponentData] = field(repr=False)


def constraint_rows(model: BlockData, uncertainty: Uncertainty) -> Iterator[Row]:
    """Yield a row for each active Constraint and SOSConstraint."""
    for con in unique(model.component_data_objects(Constraint, active=True)):
        variables, params = leaves(con.expr)
        stage = _stage(uncertainty, variables, params)
        yield Row(con.name, "constraint", con, stage, variables, params)
    for sos in unique(model.component_data_objects(SOSConstraint, active=True)):
        members = list(sos.get_variables())
        stage = _stage(uncertainty, members, [])
        yield Row(sos.name, "constraint", sos, stage, members, [])


def _stage(uncertainty: Uncertainty, *data: list[Any]) -> str:
    recourse = any(map(uncertainty.is_recourse, chain(*data)))
    return RECOURSE if recourse else FIRST


def expression_row(
    name: str, kind: str, component: ComponentData, stage: str, expr: Any
) -> Row:
    """Return the row of one expression."""
    variables, params = leaves(expr)
    return Row(name, kind, component, stage, variables, params)


def leaves(expr: Any) -> tuple[list[Any], list[Any]]:
    """Return the variables, fixed ones too, and mutable Params of an expression.

    One simple walk: with Pyomo's identify_variables and identify_mutable_parameters,
    this would take most of the time of the analysis.
    """
    variables: dict[int, Any] = {}
    params: dict[int, Any] = {}
    stack = [expr]
    while stack:
        node = stack.pop()
        if node.__class__ in native_types:
            continue
        if node.is_expression_type():
            stack.extend(node.args)
        elif node.is_variable_type():
            variables[id(node)] = node
        elif node.is_parameter_type():
            params[id(node)] = node
    return list(variables.values())[::-1], list(params.values())[::-1]


def incidence_graph(
    rows: list[Row], variables: dict[str, list[Any]], params: dict[str, list[Any]]
) -> nx.Graph:
    """Return the bipartite graph of rows on one side, variables and Params on the other.

    Nodes are named as in Pyomo, with ``kind``, ``stage`` and ``component`` as their
    attributes.
    """
    import networkx as nx  # checks of a model do without

    graph = nx.Graph()
    for stage, members in variables.items():
        for v in members:
            graph.add_node(v.name, kind="variable", stage=stage, component=v)
    for stage, members in params.items():
        for p in members:
            graph.add_node(p.name, kind="parameter", stage=stage, component=p)
    for row in rows:
        graph.add_node(
            row.name, kind=row.kind, stage=row.stage, component=row.component
        )
        for data in (*row.variables, *row.params):
            if data.name in graph:
                graph.add_edge(row.name, data.name)
    return graph


def unique(data: Iterable[Any]) -> Iterator[Any]:
    """Yield each item once; a Reference lists data a second time."""
    seen = set()
    for item in data:
        if id(item) not in seen:
            seen.add(id(item))
            yield item


def group_by_component(data: Iterable[Any]) -> list[tuple[Any, list[Any]]]:
    """Return each component with its members among the data, in the order of the data."""
    groups = ComponentMap()
    for item in data:
        groups.setdefault(item.parent_component(), []).append(item)
    return list(groups.items())


def split_cost(expr: Any, uncertainty: Uncertainty) -> tuple[Any, Any]:
    """Split an expression into first-stage and recourse terms, whose sum it is.

    Sums are expanded through negations, constant factors and named Expressions. An
    expression that belongs to one stage is returned unchanged.
    """
    try:
        return _split(expr, uncertainty)
    except RecursionError:  # a very long chain of named Expressions
        return (0, expr) if uncertainty.touches(expr) else (expr, 0)


def _split(expr: Any, uncertainty: Uncertainty) -> tuple[Any, Any]:
    if not uncertainty.touches(expr):
        return expr, 0
    terms = _terms(expr, uncertainty)
    if terms is None:
        return 0, expr
    sides = [_split(term, uncertainty) for term in terms]
    first_stage = [h for h, _ in sides if not is_zero(h)]
    if not first_stage:
        return 0, expr
    recourse = [q for _, q in sides if not is_zero(q)]
    return ex.SumExpression(first_stage), ex.SumExpression(recourse)


def is_zero(expr: Any) -> bool:
    """Return True for the number 0."""
    return expr.__class__ in native_numeric_types and expr == 0


def _terms(expr: Any, uncertainty: Uncertainty) -> list[Any] | None:
    """Return the terms of an expression, or None if it is not a sum."""
    if not expr.is_expression_type():
        return None
    if isinstance(expr, ex.SumExpression):
        return list(expr.args)
    if expr.is_named_expression_type():
        return _scale_terms(expr.args[0], uncertainty, lambda term: term)
    if isinstance(expr, ex.NegationExpression):
        return _scale_terms(expr.args[0], uncertainty, lambda term: -term)
    if isinstance(expr, ex.DivisionExpression):
        above, below = expr.args
        if _is_constant(below, uncertainty):
            return _scale_terms(above, uncertainty, lambda term: term / below)
    elif isinstance(expr, ex.ProductExpression):
        for factor, other in (expr.args, expr.args[::-1]):
            if _is_constant(factor, uncertainty):
                return _scale_terms(other, uncertainty, lambda term, c=factor: c * term)
    return None


def _scale_terms(inner: Any, uncertainty: Uncertainty, scale: Any) -> list[Any] | None:
    if inner.__class__ in native_numeric_types:
        return None
    terms = _terms(inner, uncertainty)
    return None if terms is None else [scale(term) for term in terms]


def _is_constant(factor: Any, uncertainty: Uncertainty) -> bool:
    if factor.__class__ in native_numeric_types:
        return True
    return not factor.is_potentially_variable() and not uncertainty.touches(factor)
