"""Linear models with uncertain right-hand sides, in the arrays that the paper speaks of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import linprog

from pyomo_csg.errors import DataError, ModelError
from pyomo_csg.solve.compile.assembly import RecourseLayout, evaluate
from pyomo_csg.solve.compile.compiler import CompiledModel, Rows, compile_model
from pyomo_csg.solve.lp.vertices import (
    InequalityForm,
    TooManyBasesError,
    VerticesAndRays,
    to_inequality_form,
)
from pyomo_csg.stages import TwoStageModel


@dataclass(frozen=True, eq=False)
class Support:
    """A box of outcomes.

    Attributes
    ----------
    lower, upper : array (p,)
        Infinite where there is no bound.
    """

    lower: np.ndarray
    upper: np.ndarray

    def diameter(self, unit: np.ndarray | float = 1.0) -> float:
        """Return how far apart two outcomes can be, in some unit."""
        return float(np.linalg.norm((self.upper - self.lower) / unit))

    def most(self, slope: np.ndarray) -> float:
        """Return the largest slope'omega in the box."""
        corner = np.where(slope > 0, self.upper, self.lower)
        return float(np.sum(slope * corner, where=slope != 0))

    def joined(self, lower: np.ndarray, upper: np.ndarray) -> Support:
        """Return the smallest box around this one and another."""
        return Support(np.minimum(self.lower, lower), np.maximum(self.upper, upper))


def support_of(two_stage: TwoStageModel, support: Any = None) -> Support:
    """Return the box that a user gives, or else that of the Params' domains.

    Parameters
    ----------
    two_stage : TwoStageModel
    support : (lower, upper), optional
        Each a number for all, or an array (p,).

    Raises
    ------
    DataError
    """
    params = two_stage.uncertain_params
    if support is None:
        sides = [p.parent_component().domain.get_interval()[:2] for p in params]
        return Support(
            np.array([-np.inf if low is None else low for low, _ in sides], float),
            np.array([np.inf if high is None else high for _, high in sides], float),
        )
    try:
        lower, upper = (
            np.broadcast_to(np.asarray(side, dtype=float), (len(params),))
            for side in support
        )
    except (TypeError, ValueError) as error:
        found = f"support is {support!r:.80}; give (lower, upper), numbers or ({len(params)},)"
        raise DataError("There is no such support", [found]) from error
    if not (lower <= upper).all():
        j = int(np.flatnonzero(~(lower <= upper))[0])
        found = (
            f"'{params[j].name}' is to be between {lower[j]} and {upper[j]}; give the"
        )
        found += " lower end first"
        raise DataError("There is no such support", [found])
    return Support(lower, upper)


_ZERO = 1e-8


@dataclass(frozen=True, eq=False)
class RightHandSideModel:
    """min h'y + q'z where Ay >= b and Wz >= side + R omega - C y.

    Every bound is a row, and every equality two.

    Attributes
    ----------
    name : str
    matrix, side : array (rows, s), (rows,)
        A and b.
    cost : array (s,)
        h.
    constant : float
        What is to be added to costs.
    recourse : OneSided
        W, C, the side at omega = 0, and q.
    slopes : array (rows, p)
        R.
    """

    name: str
    matrix: np.ndarray
    side: np.ndarray
    cost: np.ndarray
    constant: float
    recourse: InequalityForm
    slopes: np.ndarray

    @property
    def subject(self) -> str:
        """What errors are about."""
        return _subject(self.name)

    def least(self, cost: np.ndarray) -> float:
        """Return the least cost'y of a first stage; minus infinity where there is none."""
        found = linprog(cost, A_ub=-self.matrix, b_ub=-self.side, bounds=(None, None))
        return float(found.fun) if found.status == 0 else -np.inf

    def is_dual_feasible(self) -> bool:
        """Whether some pi has W'pi = q, pi >= 0: Assumption 5."""
        matrix, cost = self.recourse.recourse, self.recourse.cost
        found = linprog(np.zeros(len(matrix)), A_eq=matrix.T, b_eq=cost)
        return bool(found.status == 0)

    def is_complete(self) -> bool:
        """Whether there is a recourse whatever the constraints' sides: Assumption 4.

        By Farkas: no combination of rows that no recourse can change says anything of a
        constraint.
        """
        matrix, net = self.recourse.recourse, self.recourse.net
        for row in net:
            for slope in (row, -row):
                found = linprog(
                    -slope,
                    A_eq=matrix.T,
                    b_eq=np.zeros(matrix.shape[1]),
                    bounds=(0, 1),
                )
                if -found.fun > _ZERO:
                    return False
        return True

    def is_relatively_complete(
        self, corners: VerticesAndRays, support: Support
    ) -> bool:
        """Whether each first stage has a recourse to each outcome of a support."""
        for ray in corners.rays:
            side = float(ray @ self.recourse.side)
            moved = support.most(ray @ self.slopes)
            taken = self.least(ray @ self.recourse.technology)
            if side + moved - taken > _ZERO * (
                1 + np.abs(ray * self.recourse.side).sum()
            ):
                return False
        return True

    def corners(self) -> VerticesAndRays:
        """Return the corners of the recourse's dual polyhedron Pi.

        Raises
        ------
        ModelError
            If it is empty, or has too many.
        """
        try:
            found = self.recourse.dual_vertices()
        except TooManyBasesError as error:
            problem = f"its recourse has too many dual bases to visit them: {error}"
            raise ModelError(self.subject, [problem]) from error
        if found is None:
            problem = (
                "no pi has D'pi <= q: its recourse can be unbounded (Assumption 5)"
            )
            raise ModelError(self.subject, [problem])
        return found


def right_hand_side_model(two_stage: TwoStageModel) -> RightHandSideModel:
    """Return a model's arrays, if the paper's assumptions on its form hold.

    Raises
    ------
    ModelError
        Saying all that is not linear, or uncertain beside right-hand sides.
    """
    compiled, name = compile_model(two_stage), two_stage.model.name or ""
    _refuse_form(name, compiled)
    layout, n1 = RecourseLayout(compiled), len(compiled.first)
    origin, *moved = (
        to_inequality_form(layout, evaluate(compiled, omega)[()])
        for omega in np.vstack([np.zeros(compiled.p), np.eye(compiled.p)])
    )
    own = compiled.first_cost.linear.constant + compiled.recourse_cost.linear.constant
    constants = compiled.first_cost.constant, compiled.recourse_cost.constant
    return RightHandSideModel(
        name,
        *_first_stage(compiled),
        own[:n1],
        float(sum(numbers.constant[0] for numbers in constants)),
        origin,
        np.column_stack([one.side - origin.side for one in moved]),
    )


def _first_stage(compiled: CompiledModel) -> tuple[np.ndarray, np.ndarray]:
    """Return A and b of Ay >= b."""
    width, rows = len(compiled.first), compiled.first_rows
    matrix = np.vstack([_dense(rows, width), np.eye(width)])
    bounds = compiled.first.bounds(np.zeros(compiled.p))
    lower = np.concatenate([rows.lower.constant, bounds[0]])
    upper = np.concatenate([rows.upper.constant, bounds[1]])
    low, high = np.isfinite(lower), np.isfinite(upper)
    return np.vstack([matrix[low], -matrix[high]]), np.concatenate(
        [lower[low], -upper[high]]
    )


def _dense(rows: Rows, width: int) -> np.ndarray:
    matrix = np.zeros((len(rows), width))
    np.add.at(matrix, (rows.row, rows.column), rows.entries.constant)
    return matrix


def _refuse_form(name: str, compiled: CompiledModel) -> None:
    rows, cost = compiled.recourse_rows, compiled.recourse_cost
    sides = (rows.lower, rows.upper, compiled.recourse.lower, compiled.recourse.upper)
    problems = [
        problem
        for wrong, problem in (
            (compiled.integer, "it has integer variables"),
            (compiled.quadratic, "its objective is quadratic"),
            (not rows.entries.certain, "coefficients of its constraints are uncertain"),
            (
                not (cost.linear.certain and cost.constant.certain),
                "costs are uncertain",
            ),
            (
                not all(side.affine for side in sides),
                "its right-hand sides are not affine functions of the uncertain Params",
            ),
        )
        if wrong
    ]
    if problems:
        problems = [f"{problem}; the bounds do without" for problem in problems]
        raise ModelError(_subject(name), problems)


def _subject(name: str) -> str:
    return f"'{name}' is not a model that the paper's bounds are for"
