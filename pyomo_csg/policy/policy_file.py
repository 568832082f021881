"""Whether the model that is given is one for the policy in a file."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pyomo_csg.errors import shortlist
from pyomo_csg.learn.networks.architecture import custom_parts
from pyomo_csg.learn.networks.domains import Omega, domain_bounds
from pyomo_csg.stages import TwoStageModel
from pyomo_csg.validation import is_number, is_whole

MOST_ROWS = 2000
_MOST_COLUMNS = 200
_MOST_CONTEXT = 10**6
_MOST_STATES = 10**7  # steps of a panel times units of a layer
_LARGEST = 1e100  # of a network's number, so that products are finite
_BOUNDS = ("omega.lower", "omega.upper")  # which may be infinite
_POSITIVE = ("spread", "unit")
_FIELDS: dict[str, tuple[type, ...]] = {
    "model": (str,),
    "uncertain_params": (list,),
    "first_stage_variables": (list,),
    "context_shape": (list,),
    "context_names": (list, type(None)),
    "scenarios": (int,),
    "method": (str,),
    "summary": (dict,),
    "history": (dict,),
    "reach": (int, float),
    "network": (dict,),
}


def fault_of(content: Any, tensors: Mapping[str, Tensor]) -> str:
    """Say what of a file's content is not to be believed; nothing if all is.

    Parameters
    ----------
    content : dict
        What JSON made of the file's text.
    tensors : mapping of str to Tensor

    Examples
    --------
    >>> fault_of({"model": "newsvendor"}, {})[:35]
    "there is no sound 'uncertain_params"
    """
    return (
        _fields_fault(content)
        or _shape_fault(content["context_shape"], tensors)
        or _names_fault(content)
        or _history_fault(content["history"])
        or _numbers_fault(content, tensors)
    )


def _fields_fault(content: Any) -> str:
    content = content if isinstance(content, dict) else {}
    wrong = [
        name
        for name, kinds in _FIELDS.items()
        if not isinstance(content.get(name), kinds)
    ]
    return f"there is no sound {shortlist(wrong)} in it" if wrong else ""


def _shape_fault(shape: list[Any], tensors: Mapping[str, Tensor]) -> str:
    sizes = all(is_whole(size) and size > 0 for size in shape)
    sound = len(shape) in (1, 2) and sizes and math.prod(shape) <= _MOST_CONTEXT
    if sound and len(shape) == 2:
        widest = max((max(x.shape, default=1) for x in tensors.values()), default=1)
        sound = shape[0] * widest <= _MOST_STATES
    return "" if sound else f"a context of shape {shape!s:.60} is not credible"


def _names_fault(content: Mapping[str, Any]) -> str:
    names, numbers = content["context_names"], content["context_shape"][-1]
    for key in ("uncertain_params", "first_stage_variables"):
        if not all(isinstance(name, str) for name in content[key]):
            return f"some of its {key} is no name"
    if names is None:
        return ""
    different = all(isinstance(name, str) for name in names) and len({*names})
    if different == len(names) == numbers:
        return ""
    return f"its context_names are not {numbers} different names"


def _history_fault(history: Mapping[str, Any]) -> str:
    columns: Any = history.get("columns")
    rows: Any = history.get("rows")
    listed = isinstance(columns, list) and isinstance(rows, list)
    if not listed or len(columns) > _MOST_COLUMNS or len(rows) > MOST_ROWS:
        return f"its history is not a table of at most {MOST_ROWS} rows"
    named = all(isinstance(name, str) for name in columns)
    if not named or len({*columns}) != len(columns):
        return "the columns of its history have no names of their own"
    for row in rows:
        plain = isinstance(row, dict) and all(
            isinstance(cell, str | bool) or _is_float(cell) for cell in row.values()
        )
        if not plain:
            return "a row of its history is not made of numbers and text"
    return ""


def _is_float(cell: Any) -> bool:
    """Whether it is a number that a float can be; infinite ones, too."""
    return isinstance(cell, float) or is_number(cell) and abs(cell) < _LARGEST


def _numbers_fault(content: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> str:
    if not is_number(content["reach"]) or content["reach"] < 0:
        return f"its reach is {content['reach']!r:.40}"
    if custom_parts(content["network"]):  # which may keep what they like
        return ""
    wrong = [name for name, numbers in tensors.items() if not _sound(name, numbers)]
    return f"the numbers of {shortlist(wrong)} are not credible" if wrong else ""


def _sound(name: str, numbers: Tensor) -> bool:
    if not numbers.is_floating_point():
        return True
    if name.endswith(_BOUNDS):
        return not bool(torch.isnan(numbers).any())
    if name.endswith(_POSITIVE) and not bool((numbers > 1 / _LARGEST).all()):
        return False
    return bool((numbers.abs() < _LARGEST).all())


def name_problems(
    content: Mapping[str, Any], two_stage: TwoStageModel
) -> Iterator[str]:
    """Yield how a model's names, or their order, differ from those in a file."""
    for what, mine in (
        ("uncertain Params", two_stage.uncertain_params),
        ("first-stage variables", two_stage.first_stage_variables),
    ):
        key = what.replace("-", "_").replace(" ", "_").lower()
        theirs, here = content[key], [component.name for component in mine]
        yield from _differences(what, [str(name) for name in theirs], here)


def domain_problems(omega: Omega, two_stage: TwoStageModel) -> Iterator[str]:
    """Yield the uncertain Params that do not take all that a file's policy may generate.

    Parameters
    ----------
    omega : Omega
        Of the file.
    two_stage : TwoStageModel
        Whose uncertain Params have the file's names.
    """
    lower, upper = omega.lower.numpy(), omega.upper.numpy()
    low, high = domain_bounds(two_stage, omega.spread.numpy())
    for j in np.flatnonzero((low > lower) | (high < upper)):
        param = two_stage.uncertain_params[j]
        yield (
            f"uncertain Param '{param.name}' is within "
            f"{param.parent_component().domain.name} here, [{low[j]:g}, {high[j]:g}], "
            f"but scenarios of the file are anywhere in [{lower[j]:g}, {upper[j]:g}]; "
            "declare it as it was when the policy was fitted, or fit anew"
        )


def _differences(what: str, theirs: list[str], mine: list[str]) -> list[str]:
    if theirs == mine:
        return []
    problems = []
    if missing := [name for name in theirs if name not in mine]:
        problems.append(f"{what} of the file, not of the model: {shortlist(missing)}")
    if unknown := [name for name in mine if name not in theirs]:
        problems.append(f"{what} of the model, not of the file: {shortlist(unknown)}")
    if not problems:
        problems.append(
            f"{what} are in another order; annotate them as {shortlist(theirs)}"
        )
    return problems
