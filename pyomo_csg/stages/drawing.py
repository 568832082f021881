"""A picture of which constraint touches which variable, stage by stage."""

from __future__ import annotations

import os

import networkx as nx

from pyomo_csg.errors import DataError
from pyomo_csg.plotting import new_figure, save_figure

_MOST_NODES = 150
_COLUMNS = {
    ("first", False): (0, "first-stage constraints, h"),
    ("first", True): (1, "first-stage variables"),
    ("recourse", False): (2, "recourse constraints, q"),
    ("recourse", True): (3, "recourse variables, uncertain Params"),
}
_COLOURS = {
    ("variable", "first"): "#1f77b4",
    ("variable", "recourse"): "#ff7f0e",
    ("parameter", "recourse"): "#d62728",
}


def draw(graph: nx.Graph, path: str | os.PathLike[str], title: str) -> None:
    """Draw the graph of :attr:`TwoStageModel.graph` in four columns."""
    if len(graph) > _MOST_NODES:
        found = (
            f"its graph has {len(graph)} nodes and a picture stays readable up to "
            f"{_MOST_NODES}; draw a part of two_stage.graph with networkx"
        )
        raise DataError(f"'{title}' is too large to draw", [found])
    columns = {node: _column(graph.nodes[node]) for node in graph}
    tallest = max(sum(c == k for c in columns.values()) for k in range(len(_COLUMNS)))
    figure = new_figure(12, max(3.0, 0.35 * tallest + 1.2))
    axes = figure.add_subplot()
    positions = _positions(columns)
    colours = [
        _COLOURS.get((data["kind"], data["stage"]), "#7f7f7f")
        for _, data in graph.nodes(data=True)
    ]
    nx.draw_networkx_edges(graph, positions, ax=axes, edge_color="#cccccc")
    nx.draw_networkx_nodes(graph, positions, ax=axes, node_color=colours, node_size=60)
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
