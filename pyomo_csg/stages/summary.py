"""How a TwoStageModel is shown: a text summary, and a drawing of its graph."""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import groupby
from typing import TYPE_CHECKING, Any

from pyomo_csg.errors import DataError
from pyomo_csg.plotting import new_figure, save_figure

if TYPE_CHECKING:
    import networkx as nx

    from pyomo_csg.stages.two_stage import TwoStageModel

_WIDTH = 72


def summarize(two_stage: TwoStageModel) -> str:
    """Return the summary that ``str(two_stage)`` prints."""
    stages = (two_stage.first_stage_variables, two_stage.recourse_variables)
    lines = [
        f"Two-stage model '{two_stage.model.name}', {two_stage.sense}",
        f"{'':17}{'first stage':>11}{'recourse':>10}",
        _row("variables", map(len, stages)),
        _row("  integer", (sum(not v.is_continuous() for v in s) for s in stages)),
        _row("  fixed", (sum(v.fixed for v in s) for s in stages)),
        _row(
            "constraints",
            (
                len(two_stage.first_stage_constraints),
                len(two_stage.recourse_constraints),
            ),
        ),
        _row("  blocks", (0, _count_blocks(two_stage.graph))),
        "",
        *_labeled_lines("first-stage variables", _components(stages[0])),
        *_labeled_lines("uncertain numbers", _params(two_stage.uncertain_params)),
        *_labeled_lines("known numbers", _params(two_stage.known_params)),
        *_labeled_lines("uncertain bounds", _components(two_stage.uncertain_bounds)),
        *_labeled_lines("known bounds", _components(two_stage.known_bounds)),
        *_labeled_lines("risk", [str(two_stage.risk)] if two_stage.risk else []),
        *_labeled_lines("h(y)", [_shorten(two_stage.first_stage_cost)]),
        *_labeled_lines("q(y, z, omega)", [_shorten(two_stage.recourse_cost)]),
    ]
    return "\n".join(line for line in lines if line is not None)


def _count_blocks(graph: nx.Graph) -> int:
    """Return the number of independent blocks of the recourse; 0 if it has only one."""
    recourse = [
        node
        for node, data in graph.nodes(data=True)
        if data["stage"] == "recourse" and data["kind"] in ("variable", "constraint")
    ]
    import networkx as nx

    kinds = nx.get_node_attributes(graph, "kind")
    components = nx.connected_components(graph.subgraph(recourse))
    count = sum(len({kinds[node] for node in part}) == 2 for part in components)
    return count if count > 1 else 0


def _row(label: str, counts: Iterable[int]) -> str | None:
    """Return a line of the table; None for an indented label with zeros only."""
    first, recourse = counts
    if label.startswith(" ") and not first and not recourse:
        return None
    return f"  {label:15}{first:11}{recourse:10}"


def _labeled_lines(label: str, items: Iterable[str], most: int = 8) -> list[str]:
    items = list(items)
    if len(items) > most:
        items[most:] = [f"... and {len(items) - most} more"]
    labels = [label] + [""] * (len(items) - 1)
    return [f"  {name:23}{item}" for name, item in zip(labels, items, strict=False)]


def _components(data: list[Any]) -> list[str]:
    """Return the name of each component, with the number of its members."""
    return [_describe_members(members) for members in _split_by_component(data)]


def _params(params: list[Any]) -> list[str]:
    items = []
    for members in _split_by_component(params):
        component = members[0].parent_component()
        domain = component.domain.name
        values = [p.value for p in members]
        low, high = min(values), max(values)
        now = f"{low:g}" if low == high else f"{low:g} to {high:g}"
        reals = " (any real number)" if domain == "Any" else ""
        items.append(f"{_describe_members(members)} in {domain}{reals}, now {now}")
    return items


def _split_by_component(data: list[Any]) -> list[list[Any]]:
    """Split at each change of the component that owns the members."""
    by_owner = groupby(data, key=lambda member: id(member.parent_component()))
    return [list(members) for _, members in by_owner]


def _describe_members(members: list[Any]) -> str:
    component = members[0].parent_component()
    if not component.is_indexed():
        return component.name
    if len(members) == len(component):
        return f"{component.name} ({len(members)})"
    return ", ".join(m.name for m in members[:4]) + (", ..." if members[4:] else "")


def _shorten(expr: Any) -> str:
    text = str(expr)
    return text if len(text) <= _WIDTH else f"{text[:_WIDTH].rsplit(' ', 1)[0]} ..."


_MOST_NODES = 150
_COLUMNS = {
    ("first", False): (0, "first-stage constraints, h"),
    ("first", True): (1, "first-stage variables"),
    ("recourse", False): (2, "recourse constraints, q"),
    ("recourse", True): (3, "recourse variables, uncertain Params"),
}
_COLORS = {
    ("variable", "first"): "#1f77b4",
    ("variable", "recourse"): "#ff7f0e",
    ("parameter", "recourse"): "#d62728",
}


def draw(graph: nx.Graph, path: str | os.PathLike[str], title: str) -> None:
    """Draw the graph of :attr:`TwoStageModel.graph` in four columns."""
    if len(graph) > _MOST_NODES:
        found = (
            f"its graph has {len(graph)} nodes, and a drawing is readable up to "
            f"{_MOST_NODES}; draw a part of two_stage.graph with networkx"
        )
        raise DataError(f"'{title}' is too large to draw", [found])
    columns = {node: _column(graph.nodes[node]) for node in graph}
    tallest = max(sum(c == k for c in columns.values()) for k in range(len(_COLUMNS)))
    figure = new_figure(12, max(3.0, 0.35 * tallest + 1.2))
    axes = figure.add_subplot()
    positions = _positions(columns)
    colors = [
        _COLORS.get((data["kind"], data["stage"]), "#7f7f7f")
        for _, data in graph.nodes(data=True)
    ]
    import networkx as nx

    nx.draw_networkx_edges(graph, positions, ax=axes, edge_color="#cccccc")
    nx.draw_networkx_nodes(graph, positions, ax=axes, node_color=colors, node_size=60)
    for node, (x, y) in positions.items():
        axes.annotate(node, (x, y), (0, 5), textcoords="offset points", ha="center")
    for column, heading in _COLUMNS.values():
        axes.annotate(heading, (column, 1.06), ha="center", weight="bold")
    axes.set_title(title)
    axes.set_xlim(-0.5, 3.5)
    axes.set_ylim(-0.08, 1.12)
    axes.set_axis_off()
    save_figure(figure, path, dpi=120)


def _column(node: dict) -> int:
    return _COLUMNS[node["stage"], node["kind"] in ("variable", "parameter")][0]


def _positions(columns: dict[str, int]) -> dict[str, tuple[float, float]]:
    """Spread the nodes of each column evenly from top to bottom."""
    positions = {}
    for column in set(columns.values()):
        nodes = [node for node, c in columns.items() if c == column]
        for place, node in enumerate(nodes):
            positions[node] = (float(column), 1 - (place + 0.5) / len(nodes))
    return positions
