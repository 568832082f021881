"""csg.Decision: first-stage values by Pyomo name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from pyomo.core.base.block import BlockData

from pyomo_csg.errors import DataError, shortlist
from pyomo_csg.stages.annotation import check_constructed

_TOLERANCE = 1e-5
_MAX_ROWS = 20  # printed
_MAX_IN_REPR = 4


@dataclass(frozen=True, eq=False, repr=False)
class Decision(Mapping[str, float]):
    """A first-stage decision: a mapping from each variable's Pyomo name to its value.

    Attributes
    ----------
    names : tuple of str
    vector : array (s,)
        The values, in the order of ``TwoStageModel.first_stage_variables``.
    value : float
        Expected cost or profit over the scenarios, in the model's own sense.
    scenarios : array (K, p)
        The scenarios it was optimized for.
    weights : array (K,)
    status : str
        ``'optimal'``, or the limit that stopped the solver. In that case the values are
        the best found so far, or NaN.
    value_at_risk : float or None
        For a model with a risk measure: the cost, over the scenarios, where its tail
        begins; of a maximized model, the profit.

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
    value_at_risk: float | None = None

    def __getitem__(self, name: str) -> float:
        return float(self.vector[self._positions[name]])

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def load_into(self, model: BlockData) -> None:
        """Set a model's first-stage variables, found by name.

        If there is any problem, no variable is set.

        Parameters
        ----------
        model : ConcreteModel
            The policy's model, or another with the same variables.

        Raises
        ------
        AnnotationError
            If ``model`` is not a model.
        DataError
            If variables are missing, fixed at another value, or integer where the
            decision is not.
        """
        check_constructed(model)
        found = {name: model.find_component(name) for name in self.names}
        missing = [name for name, v in found.items() if not _is_variable(v)]
        problems = []
        if missing:
            problems.append(
                f"it has no variable {shortlist(missing)}; pass the model that the "
                "policy was fitted for"
            )
        problems += [
            f"'{name}' is {self[name]:g}, {fault}"
            for name, v in found.items()
            if name not in missing and (fault := _conflict(v, self[name]))
        ]
        if problems:
            subject = f"The decision cannot be loaded into '{model.name}'"
            raise DataError(subject, problems)
        for name, v in found.items():
            if not v.fixed:
                value = self[name] if v.is_continuous() else round(self[name])
                # The value may violate a bound by the solver's tolerance.
                v.set_value(value, skip_validation=True)

    def __repr__(self) -> str:
        shown = [f"{name}={self[name]:.6g}" for name in self.names[:_MAX_IN_REPR]]
        shown += ["..."] * (len(self) > _MAX_IN_REPR)
        return f"<Decision of value {self.value:.6g}: {', '.join(shown)}>"

    def __str__(self) -> str:
        count = len(self.scenarios)
        plural = "s" * (count != 1)
        shown = self.names[:_MAX_ROWS]
        width = max(map(len, shown), default=0)
        lines = [
            f"Decision of value {self.value:.6g} by {count} scenario{plural}"
            + f" ({self.status})" * (self.status != "optimal"),
            *(f"  {name:{width}}  {self[name]:.6g}" for name in shown),
        ]
        if self.value_at_risk is not None:
            lines.append(f"  (value at risk  {self.value_at_risk:.6g})")
        if (more := len(self) - _MAX_ROWS) > 0:
            lines.append(f"  ... and {more} more")
        return "\n".join(lines)

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {name: j for j, name in enumerate(self.names)}


def _is_variable(component: Any) -> bool:
    if component is None or component.is_indexed():
        return False
    return bool(component.is_variable_type())


def _conflict(variable: Any, value: float) -> str:
    """Return why the variable cannot take the value; empty if it can."""
    if not np.isfinite(value):
        return "which is not a finite number"
    fixed = variable.value if variable.fixed else value
    if fixed is None or abs(fixed - value) > _TOLERANCE:
        return f"but it is fixed at {fixed}; unfix it"
    if not variable.is_continuous() and abs(value - round(value)) > _TOLERANCE:
        return "but it is integer"
    return ""
