"""csg.Decision: what to do now, by the names that the model's own variables have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from pyomo.core.base.block import BlockData

from pyomo_csg.errors import DataError, shortlist
from pyomo_csg.stages.annotation import refuse_unbuilt

_TOLERANCE = 1e-5
_MOST_ROWS = 20
_MOST_SHOWN = 4


@dataclass(frozen=True, eq=False, repr=False)
class Decision(Mapping[str, float]):
    """A first-stage decision: a mapping from each variable's Pyomo name to its value.

    Attributes
    ----------
    names : tuple of str
    vector : array (s,)
        The values, in the order of ``TwoStageModel.first_stage_variables``.
    value : float
        What is expected of it by the scenarios: cost or profit, in the model's own sense.
    scenarios : array (K, p)
        Those that it was optimised for.
    weights : array (K,)
    status : str
        ``'optimal'`` on the scenarios, or the limit that stopped the solver: then it is
        the best decision found by then, NaN if none was.

    Examples
    --------
    >>> decision = Decision(
    ...     ("order",), np.array([15.0]), -0.75, np.array([[15.0]]), np.ones(1)
    ... )
    >>> decision["order"]
    15.0
    >>> print(decision)
    Decision of value -0.75 by 1 scenario
      order  15
    """

    names: tuple[str, ...]
    vector: np.ndarray
    value: float
    scenarios: np.ndarray
    weights: np.ndarray
    status: str = "optimal"

    def __getitem__(self, name: str) -> float:
        return float(self.vector[self._places[name]])

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def load_into(self, model: BlockData) -> None:
        """Set the values of a model's first-stage variables, found by their names.

        Nothing is set if anything is off.

        Parameters
        ----------
        model : ConcreteModel
            The one that was learned for, or another that has these variables.

        Raises
        ------
        AnnotationError
            If it is no model.
        DataError
            Naming the variables that the model lacks, that are fixed at another value,
            or that are integer where the decision is not.
        """
        refuse_unbuilt(model)
        found = {name: model.find_component(name) for name in self.names}
        lacking = [name for name, v in found.items() if not _is_variable(v)]
        problems = []
        if lacking:
            problems.append(
                f"it has no variable {shortlist(lacking)}; give the model that the "
                "policy was learned for"
            )
        problems += [
            f"'{name}' is {self[name]:g}, {fault}"
            for name, v in found.items()
            if name not in lacking and (fault := _fault(v, self[name]))
        ]
        if problems:
            subject = f"The decision cannot be loaded into '{model.name}'"
            raise DataError(subject, problems)
        for name, v in found.items():
            if not v.fixed:
                value = self[name] if v.is_continuous() else round(self[name])
                # As solvers do: it may be off a bound by the solver's tolerance.
                v.set_value(value, skip_validation=True)

    def __repr__(self) -> str:
        shown = [f"{name}={self[name]:.6g}" for name in self.names[:_MOST_SHOWN]]
        shown += ["..."] * (len(self) > _MOST_SHOWN)
        return f"<Decision of value {self.value:.6g}: {', '.join(shown)}>"

    def __str__(self) -> str:
        count = len(self.scenarios)
        plural = "s" * (count != 1)
        shown = self.names[:_MOST_ROWS]
        width = max(map(len, shown), default=0)
        lines = [
            f"Decision of value {self.value:.6g} by {count} scenario{plural}"
            + f" ({self.status})" * (self.status != "optimal"),
            *(f"  {name:{width}}  {self[name]:.6g}" for name in shown),
        ]
        if (more := len(self) - _MOST_ROWS) > 0:
            lines.append(f"  ... and {more} more")
        return "\n".join(lines)

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: place for place, name in enumerate(self.names)}


def _is_variable(component: Any) -> bool:
    if component is None or component.is_indexed():
        return False
    return bool(component.is_variable_type())


def _fault(variable: Any, value: float) -> str:
    """Say why the variable cannot take the value; nothing if it can."""
    if not np.isfinite(value):
        return "which is not a finite number"
    fixed = variable.value if variable.fixed else value
    if fixed is None or abs(fixed - value) > _TOLERANCE:
        return f"but it is fixed at {fixed}; unfix it"
    if not variable.is_continuous() and abs(value - round(value)) > _TOLERANCE:
        return "but it is integer"
    return ""
