"""The paper's model class: linear programs with uncertain right-hand sides in a box."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import linprog

from pyomo_csg.errors import DataError, ModelError
from pyomo_csg.solve.lp.right_hand_sides import (
    RightHandSideArrays,
    right_hand_side_arrays,
)
from pyomo_csg.solve.lp.vertices import TooManyBasesError, VerticesAndRays
from pyomo_csg.stages import TwoStageModel

_ZERO = 1e-8


@dataclass(frozen=True, eq=False)
class Support:
    """A box of outcomes: arrays (p,) that are infinite where there is no bound."""

    lower: np.ndarray
    upper: np.ndarray

    def diameter(self, unit: np.ndarray | float = 1.0) -> float:
        """Return the length of the diagonal, measured in ``unit``."""
        return float(np.linalg.norm((self.upper - self.lower) / unit))

    def maximize(self, slope: np.ndarray) -> float:
        """Return the largest slope'omega in the box."""
        corner = np.where(slope > 0, self.upper, self.lower)
        return float(np.sum(slope * corner, where=slope != 0))

    def enclose(self, lower: np.ndarray, upper: np.ndarray) -> Support:
        """Return the smallest box that contains this one and another."""
        return Support(np.minimum(self.lower, lower), np.maximum(self.upper, upper))


def read_support(two_stage: TwoStageModel, support: Any = None) -> Support:
    """Return the box (lower, upper) of a user, or that of the Params' domains."""
    params = two_stage.uncertain_params
    if support is None:
        sides = [p.parent_component().domain.get_interval()[:2] for p in params]
        return Support(
            np.array([-np.inf if low is None else low for low, _ in sides], float),
            np.array([np.inf if high is None else high for _, high in sides], float),
        )
    subject = "The support is not valid"
    try:
        lower, upper = (
            np.broadcast_to(np.asarray(side, dtype=float), (len(params),))
            for side in support
        )
    except (TypeError, ValueError) as error:
        found = f"support is {support!r:.80}"
        remedy = f"give (lower, upper), each a number or an array ({len(params)},)"
        raise DataError(subject, [f"{found}; {remedy}"]) from error
    if not (lower <= upper).all():
        j = int(np.flatnonzero(~(lower <= upper))[0])
        found = f"for '{params[j].name}' it is from {lower[j]} to {upper[j]}"
        raise DataError(subject, [f"{found}; give the lower end first"])
    return Support(lower, upper)


class RightHandSideModel(RightHandSideArrays):
    """The model's matrices, with checks of the paper's assumptions."""

    def error(self, problem: str) -> ModelError:
        """Return a ModelError for an assumption that does not hold."""
        return ModelError(
            f"The paper's bounds do not apply to '{self.name}'", [problem]
        )

    def minimize(self, cost: np.ndarray) -> float:
        """Return the least cost'y over the first stage, or minus infinity."""
        found = linprog(cost, A_ub=-self.matrix, b_ub=-self.side, bounds=(None, None))
        return float(found.fun) if found.status == 0 else -np.inf

    def has_complete_recourse(self) -> bool:
        """Whether recourse exists for every right-hand side of the constraints.

        By Farkas' lemma it does unless some nonnegative combination of rows in which z
        cancels has a net multiplier on a constraint. (Assumption 4)
        """
        matrix, net = self.recourse.recourse, self.recourse.net
        zeros = np.zeros(matrix.shape[1])
        return not any(
            -linprog(-slope, A_eq=matrix.T, b_eq=zeros, bounds=(0, 1)).fun > _ZERO
            for row in net
            for slope in (row, -row)
        )

    def dual_polyhedron(self, support: Support) -> VerticesAndRays:
        """Return the vertices and rays of Pi, the recourse's dual polyhedron.

        Raises a ModelError if it is empty (Assumption 5), too large, or if some first
        stage has no recourse to an outcome of the support (Assumption 4).
        """
        try:
            duals = self.recourse.dual_vertices()
        except TooManyBasesError as error:
            found = f"its recourse has too many dual bases to enumerate: {error}"
            raise self.error(found) from error
        if duals is None:
            found = "no pi has D'pi <= q: its recourse can be unbounded (Assumption 5)"
            raise self.error(found)
        if not self._has_recourse_on(support, duals.rays):
            raise self.error(
                "some first stage has no recourse to some outcome of the support "
                "(Assumption 4); add slack variables at a cost, or give a smaller support"
            )
        return duals

    def _has_recourse_on(self, support: Support, rays: np.ndarray) -> bool:
        """Whether no ray proves that some y and omega have no recourse."""
        for ray in rays:
            violation = (
                float(ray @ self.recourse.side)
                + support.maximize(ray @ self.slopes)
                - self.minimize(ray @ self.recourse.technology)
            )
            if violation > _ZERO * (1 + np.abs(ray * self.recourse.side).sum()):
                return False
        return True


def right_hand_side_model(two_stage: TwoStageModel) -> RightHandSideModel:
    """Return the model's matrices, or raise a ModelError if it is not of this class."""
    return RightHandSideModel(**vars(right_hand_side_arrays(two_stage)))
