"""What each active part of the model touches, and so which stage it is in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import networkx as nx
from pyomo.common.numeric_types import native_types
from pyomo.core.base.block import BlockData
from pyomo.core.base.component import ComponentData
from pyomo.core.base.constraint import Constraint
from pyomo.core.base.sos import SOSConstraint
from pyomo.core.expr.visitor import identify_mutable_parameters, identify_variables

FIRST = "first"
RECOURSE = "recourse"


class Uncertainty:
    """Tells whether an expression touches a recourse variable or uncertain Param.

    Parameters
    ----------
    first_stage, uncertain : list of ComponentData
    """

    def __init__(self, first_stage: list[Any], uncertain: list[Any]):
        self._first_stage = {id(v) for v in first_stage}
        self._uncertain = {id(p) for p in uncertain}
        # The node is kept beside its answer: an id alone may be given again to
        # another object once the node is gone.
        self._known: dict[int, tuple[Any, bool]] = {}

    def touches(self, expr: Any) -> bool:
        """Whether the expression (or variable, or Param) belongs to the recourse."""
        if expr.__class__ in native_types:
            return False
        known = self._known.get(id(expr))
        if known is None:
            known = self._known[id(expr)] = (expr, self._look(expr))
        return known[1]

    def _look(self, expr: Any) -> bool:
        if expr.is_expression_type():
            return any(map(self.touches, expr.args))
        if expr.is_variable_type():
            return id(expr) not in self._first_stage
        return id(expr) in self._uncertain


@dataclass(frozen=True)
class Row:
    """An active constraint, or a side of the objective, and what it touches."""

    name: str
    kind: str
    component: ComponentData
    stage: str
    variables: list[ComponentData] = field(repr=False)
    params: list[ComponentData] = field(repr=False)


def constraint_rows(model: BlockData, uncertainty: Uncertainty) -> Iterator[Row]:
    """Yield a row for each active Constraint and SOSConstraint."""
    for con in unique(model.component_data_objects(Constraint, active=True)):
        stage = RECOURSE if uncertainty.touches(con.expr) else FIRST
        yield expression_row(con.name, "constraint", con, stage, con.expr)
    for sos in unique(model.component_data_objects(SOSConstraint, active=True)):
        members = list(sos.get_variables())
        stage = RECOURSE if any(map(uncertainty.touches, members)) else FIRST
        yield Row(sos.name, "constraint", sos, stage, members, [])


def expression_row(
    name: str, kind: str, component: ComponentData, stage: str, expr: Any
) -> Row:
    """Return the row of one expression."""
    return Row(
        name,
        kind,
        component,
        stage,
        list(identify_variables(expr, include_fixed=True)),
        list(identify_mutable_parameters(expr)),
    )


def incidence_graph(
    rows: list[Row], variables: dict[str, list[Any]], params: list[Any]
) -> nx.Graph:
    """Return the bipartite graph of rows on one side, variables and Params on the other.

    Nodes are named as in Pyomo, with ``kind``, ``stage`` and ``component`` as their
    attributes.
    """
    graph = nx.Graph()
    for stage, members in variables.items():
        for v in members:
            graph.add_node(v.name, kind="variable", stage=stage, component=v)
    for p in params:
        graph.add_node(p.name, kind="parameter", stage=RECOURSE, component=p)
    for row in rows:
        graph.add_node(
            row.name, kind=row.kind, stage=row.stage, component=row.component
        )
        for touched in (*row.variables, *row.params):
            if touched.name in graph:
                graph.add_edge(row.name, touched.name)
    return graph


def unique(data: Iterable[Any]) -> Iterator[Any]:
    """Drop what a Reference shows a second time."""
    seen = set()
    for item in data:
        if id(item) not in seen:
            seen.add(id(item))
            yield item
