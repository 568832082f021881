"""Whether the model that is given is one for the policy in a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from pyomo_csg.errors import shortlist
from pyomo_csg.learn.omega import Omega, bounds_of
from pyomo_csg.stages import TwoStageModel


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
    low, high = bounds_of(two_stage, omega.spread.numpy())
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
