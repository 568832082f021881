"""A two-stage model in words that a person can check at a glance."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
        "",
        *_listed("first-stage variables", _components(stages[0])),
        *_listed("uncertain numbers", _params(two_stage.uncertain_params)),
        *_listed("uncertain bounds", _components(two_stage.uncertain_bounds)),
        *_listed("h(y)", [_short(two_stage.first_stage_cost)]),
        *_listed("q(y, z, omega)", [_short(two_stage.recourse_cost)]),
    ]
    return "\n".join(line for line in lines if line is not None)


def _row(label: str, counts: Iterable[int]) -> str | None:
    """A line of the table; None for a detail (indented label) that is all zero."""
    first, recourse = counts
    if label.startswith(" ") and not first and not recourse:
        return None
    return f"  {label:15}{first:11}{recourse:10}"


def _listed(label: str, items: Iterable[str], most: int = 8) -> list[str]:
    items = list(items)
    if len(items) > most:
        items[most:] = [f"... and {len(items) - most} more"]
    labels = [label] + [""] * (len(items) - 1)
    return [f"  {name:23}{item}" for name, item in zip(labels, items, strict=False)]


def _components(data: list[Any]) -> list[str]:
    """One item a component: its name, and how many of its members are meant."""
    return [_named(members) for members in _grouped(data)]


def _params(params: list[Any]) -> list[str]:
    items = []
    for members in _grouped(params):
        component = members[0].parent_component()
        domain = component.domain.name
        values = [p.value for p in members]
        low, high = min(values), max(values)
        now = f"{low:g}" if low == high else f"{low:g} to {high:g}"
        reals = " (any real number)" if domain == "Any" else ""
        items.append(f"{_named(members)} in {domain}{reals}, now {now}")
    return items


def _grouped(data: list[Any]) -> list[list[Any]]:
    """Split at each change of the component that owns the members."""
    by_owner = groupby(data, key=lambda member: id(member.parent_component()))
    return [list(members) for _, members in by_owner]


def _named(members: list[Any]) -> str:
    component = members[0].parent_component()
    if not component.is_indexed():
        return component.name
    if len(members) == len(component):
        return f"{component.name} ({len(members)})"
    return ", ".join(m.name for m in members[:4]) + (", ..." if members[4:] else "")


def _short(expr: Any) -> str:
    text = str(expr)
    return text if len(text) <= _WIDTH else f"{text[:_WIDTH].rsplit(' ', 1)[0]} ..."
