"""Checks of a policy file's content, and of the model that it is loaded with."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from pyomo_csg.errors import shortlist
from pyomo_csg.learn.generators.network_description import custom_parts
from pyomo_csg.learn.generators.scenario_generator import ScenarioGenerator
from pyomo_csg.learn.lineage import LINEAGE, MAX_ENTRIES
from pyomo_csg.stages import TwoStageModel
from pyomo_csg.storage import Arrays
from pyomo_csg.validation import is_number, is_whole

MAX_ROWS = 2000
_MAX_COLUMNS = 200
_MAX_CONTEXT = 10**6
_MAX_STATES = 10**7  # steps of a panel times units of a layer
_LARGEST = 1e100  # of a generator's numbers, so that products stay finite
_BOUNDS = ("lower", "upper")  # may be infinite
_POSITIVE = ("spread", "unit")
_CURVES = ("stage", "step", "loss", "held_out")  # columns of training curves
_FIELDS: dict[str, tuple[type, ...]] = {
    "model": (str,),
    "uncertain_params": (list,),
    "first_stage_variables": (list,),
    "context_shape": (list,),
    "context_names": (list, type(None)),
    "scenarios": (int, type(None)),
    "method": (str,),
    "summary": (dict,),
    "history": (dict,),
    "reach": (int, float),
    "preprocessing": (list, type(None)),
    "generator": (dict,),
}


def content_problem(content: Mapping[str, Any], arrays: Arrays) -> str:
    """Return the first problem with a file's content; empty text if there is none.

    >>> content_problem({"model": "newsvendor"}, {})[:35]
    "it has no valid 'uncertain_params',"
    """
    return (
        _field_problem(content)
        or _shape_problem(content["context_shape"], arrays)
        or _name_problem(content)
        or _history_problem(content["history"])
        or _lineage_problem(content.get("lineage", []))
        or _number_problem(content, arrays)
    )


def _field_problem(content: Mapping[str, Any]) -> str:
    wrong = [
        name
        for name, kinds in _FIELDS.items()
        if name not in content or not isinstance(content[name], kinds)
    ]
    return f"it has no valid {shortlist(wrong)}" if wrong else ""


def _shape_problem(shape: list[Any], arrays: Arrays) -> str:
    is_valid = (
        len(shape) in (1, 2)
        and all(is_whole(size) and size > 0 for size in shape)
        and math.prod(shape) <= _MAX_CONTEXT
    )
    if is_valid and len(shape) == 2:
        widest = max((max(x.shape, default=1) for x in arrays.values()), default=1)
        is_valid = shape[0] * widest <= _MAX_STATES
    return "" if is_valid else f"a context of shape {shape!s:.60} is not plausible"


def _name_problem(content: Mapping[str, Any]) -> str:
    for key in ("uncertain_params", "first_stage_variables", "known_params"):
        names = content.get(key, [])  # older files have no known Params
        if not (isinstance(names, list) and _are_names(names)):
            return f"its {key} are not all text"
    names, size = content["context_names"], content["context_shape"][-1]
    if names is None or _are_names(names) and len({*names}) == len(names) == size:
        return ""
    return f"its context_names are not {size} different names"


def _are_names(names: list[Any]) -> bool:
    return all(isinstance(name, str) for name in names)


def _history_problem(history: Mapping[str, Any]) -> str:
    columns: Any = history.get("columns")
    rows: Any = history.get("rows")
    is_table = isinstance(columns, list) and isinstance(rows, list)
    if not is_table or len(columns) > _MAX_COLUMNS or len(rows) > MAX_ROWS:
        return f"its history is not a table of at most {MAX_ROWS} rows"
    if not _are_names(columns) or len({*columns}) != len(columns):
        return "its history's columns do not have different names"
    for row in rows:
        if not isinstance(row, dict) or not all(map(_is_cell, row.values())):
            return "a row of its history holds more than numbers and text"
        if wrong := [name for name in _CURVES if not _is_plotted(name, columns, row)]:
            return f"a row of its history has no valid {shortlist(wrong)}"
    return ""


def _lineage_problem(lineage: Any) -> str:
    if not isinstance(lineage, list) or len(lineage) > MAX_ENTRIES:
        return f"its lineage is not a list of at most {MAX_ENTRIES} entries"
    for entry in lineage:
        is_valid = isinstance(entry, dict) and all(
            isinstance(entry.get(name), kind) for name, kind in LINEAGE.items()
        )
        if not is_valid:
            return "an entry of its lineage lacks a field"
    return ""


def _is_plotted(name: str, columns: list[str], row: Mapping[str, Any]) -> bool:
    """Whether a training curve can be drawn from a cell; numbers may be missing."""
    if name not in columns or name not in row:
        return name not in columns or name != "stage"
    return isinstance(row[name], str) == (name == "stage")


def _is_cell(cell: Any) -> bool:
    """Whether a cell is text, a boolean, or a number that fits a float."""
    if isinstance(cell, str | bool | float):
        return True
    return is_number(cell) and abs(cell) < _LARGEST


def _number_problem(content: Mapping[str, Any], arrays: Arrays) -> str:
    if not is_number(content["reach"]) or content["reach"] < 0:
        return f"its reach is {content['reach']!r:.40}"
    if custom_parts(content["generator"]):  # a user's module may hold any values
        return ""
    wrong = [name for name, values in arrays.items() if not _is_plausible(name, values)]
    return f"the values of {shortlist(wrong)} are not plausible" if wrong else ""


def _is_plausible(name: str, values: np.ndarray) -> bool:
    if values.dtype.kind != "f":
        return True
    last = name.replace("/", ".").rsplit(".", 1)[-1]
    if last in _BOUNDS:
        return not np.isnan(values).any()
    if last in _POSITIVE and not (values > 1 / _LARGEST).all():
        return False
    return bool((np.abs(values.astype(float)) < _LARGEST).all())


def name_problems(
    content: Mapping[str, Any], two_stage: TwoStageModel
) -> Iterator[str]:
    """Yield how a model's names, or their order, differ from those in a file."""
    for what, key, components in (
        ("uncertain Params", "uncertain_params", two_stage.uncertain_params),
        (
            "first-stage variables",
            "first_stage_variables",
            two_stage.first_stage_variables,
        ),
        ("known Params", "known_params", two_stage.known_params),
    ):
        in_file, in_model = content.get(key, []), [one.name for one in components]
        missing = [name for name in in_file if name not in in_model]
        unknown = [name for name in in_model if name not in in_file]
        if missing:
            yield f"{what} in the file but not in the model: {shortlist(missing)}"
        if unknown:
            yield f"{what} in the model but not in the file: {shortlist(unknown)}"
        if not missing and not unknown and in_file != in_model:
            yield f"{what} are in another order; annotate them as {shortlist(in_file)}"


def domain_problems(
    generator: ScenarioGenerator, two_stage: TwoStageModel
) -> Iterator[str]:
    """Yield the uncertain Params whose domain is narrower than the file's scenarios."""
    for j, param in enumerate(two_stage.uncertain_params):
        lower, upper = float(generator.lower[j]), float(generator.upper[j])
        domain = param.parent_component().domain
        low, high, _ = domain.get_interval()
        is_within = (
            low is None or lower > low or (lower == low and low in domain)
        ) and (high is None or upper < high or (upper == high and high in domain))
        if not is_within:
            ends = [
                -math.inf if low is None else low,
                math.inf if high is None else high,
            ]
            yield (
                f"uncertain Param '{param.name}' is within {domain.name} here, "
                f"[{ends[0]:g}, {ends[1]:g}], but the file's scenarios can be anywhere in "
                f"[{lower:g}, {upper:g}]; declare the Param as it was when the policy was "
                "fitted, or fit again"
            )
