"""Policies and cases, checked at the door: everything that is off, in one error."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
from pyomo.core.base.block import BlockData

from pyomo_csg.errors import DataError, shortlist
from pyomo_csg.stages import TwoStageModel
from pyomo_csg.stages.inputs import scenario_array, weight_vector
from pyomo_csg.validation import Problems, size_problems


@dataclass(frozen=True, eq=False)
class Case:
    """A context with the distribution of outcomes that it makes likely.

    Attributes
    ----------
    context : array, mapping or Series
        One context, as the policies take it.
    outcomes : array (M, p) or DataFrame
        What may happen.
    weights : array (M,), optional
        How likely each is; they sum to 1. Default: 1/M.

    Examples
    --------
    >>> case = Case([0.5, -1.0], outcomes=[[10.0], [14.0], [30.0]])
    >>> case.weights
    array([0.33333333, 0.33333333, 0.33333333])
    """

    context: Any
    outcomes: Any
    weights: Any = None

    def __post_init__(self) -> None:
        count = len(self.outcomes) if hasattr(self.outcomes, "__len__") else 0
        if self.weights is None and count:
            object.__setattr__(self, "weights", np.full(count, 1 / count))

    def digest(self) -> str:
        """Return what tells the distribution from another."""
        numbers = (np.asarray(part, float) for part in (self.outcomes, self.weights))
        content = b"".join(array.tobytes() for array in numbers)
        return hashlib.sha256(content).hexdigest()[:16]


FULL = "2sp"
_SUBJECT = "Cannot evaluate"


def model_of(policies: Any, model: BlockData | None) -> BlockData:
    """Return the model to judge by: the one given, or that of the first policy."""
    if not isinstance(policies, Mapping) or not policies:
        found = f"policies: {policies!r:.80} was given; give a dict from name to policy"
        raise DataError(_SUBJECT, [found])
    if model is not None:
        return model
    for policy in policies.values():
        if hasattr(policy, "two_stage"):
            return policy.two_stage.model
    raise DataError(_SUBJECT, ["model: no policy has one; give it as model="])


def refuse_options(tolerance: Any, trial: Any) -> None:
    """Refuse what is no tolerance and no name of a trial."""
    problems = size_problems(tolerance=tolerance)
    if not isinstance(trial, Real | str):
        problems.append(f"trial is {trial!r:.80}; give a number or a text")
    if problems:
        raise DataError(_SUBJECT, problems)


def checked(
    two_stage: TwoStageModel, policies: Mapping[str, Any], cases: Any, reference: Any
) -> tuple[list[Case], np.ndarray | None]:
    """Return the cases as arrays, and the values (n,) to compare with if they are given.

    Outcomes that have no weight are left out.

    Raises
    ------
    DataError
        Listing all that is wrong with the policies, the cases and the reference.
    """
    problems = Problems(_SUBJECT)
    for name, policy in policies.items():
        for problem in _strangeness(two_stage, policy):
            problems.add_for(f"policies[{name!r}]", problem)
    cases = list(cases) if isinstance(cases, Iterable) else []
    if not cases:
        problems.add_for("cases", "none were given; give a list of csg.Case")
    sound = [_case(problems, two_stage, i, case) for i, case in enumerate(cases)]
    values = problems.check("reference", _values, reference, len(cases))
    problems.raise_any()
    return [case for case in sound if case is not None], values


def _strangeness(two_stage: TwoStageModel, policy: Any) -> Iterator[str]:
    """Say why a policy cannot be judged by this model."""
    if not callable(getattr(policy, "decide", None)):
        yield f"{type(policy).__name__} has no method decide(context)"
        return
    other = getattr(policy, "two_stage", None)
    if other is None:
        return
    for what in ("first_stage_variables", "uncertain_params"):
        mine, theirs = (
            [part.name for part in getattr(one, what)] for one in (two_stage, other)
        )
        if mine != theirs:
            words = what.replace("_", " ").replace("first stage", "first-stage")
            yield (
                f"it is for another model: its {words} are {shortlist(theirs)}; "
                f"expected {shortlist(mine)}"
            )


def _case(
    problems: Problems, two_stage: TwoStageModel, i: int, case: Any
) -> Case | None:
    if not isinstance(case, Case):
        problems.add_for(
            f"cases[{i}]", f"{type(case).__name__} was given, not a csg.Case"
        )
        return None
    outcomes = problems.check(
        f"cases[{i}].outcomes", scenario_array, two_stage, case.outcomes
    )
    weights = problems.check(
        f"cases[{i}].weights", weight_vector, case.weights, outcomes
    )
    if outcomes is None or weights is None:
        return None
    likely = weights > 0
    return replace(case, outcomes=outcomes[likely], weights=weights[likely])


def _values(reference: Any, count: int) -> np.ndarray | None:
    """Return the values (n,) that were given; None if none were."""
    if reference is None or (isinstance(reference, str) and reference == FULL):
        return None
    try:
        values = np.array(reference, dtype=float)
    except (TypeError, ValueError):
        values = np.full(0, np.nan)
    if values.shape != (count,) or not np.isfinite(values).all():
        found = (
            f"{reference!r:.80} was given; give '{FULL}', None, or a finite number for "
            f"each of {count} cases"
        )
        raise DataError(_SUBJECT, [found])
    return values
