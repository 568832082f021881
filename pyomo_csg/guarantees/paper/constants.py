"""The constants of Lemma 2: ranges and Lipschitz constants of costs and of the task loss."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from pyomo.core.base.block import BlockData
from scipy.optimize import linprog

from pyomo_csg.errors import DataError, ModelError
from pyomo_csg.solve.lp.vertices import (
    RightHandSideArrays,
    TooManyBasesError,
    VerticesAndRays,
    enumerate_vertices,
    right_hand_side_arrays,
)
from pyomo_csg.stages import TwoStageModel
from pyomo_csg.validation import Problems

_MAX_BASES = 1_500  # of Opt-Search's dual, whose bases are large
_ZERO = 1e-8  # smaller values of linear programs are 0 up to rounding


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


def cost_range(model: BlockData, support: Any = None) -> tuple[float, float]:
    """Return a lower and an upper bound on all costs.

    The costs are those of decisions that are optimal on some scenarios of the support,
    evaluated on any of its outcomes. Profits count as negative costs.

    Parameters
    ----------
    model, support
        As in :func:`pyomo_csg.guarantees.task_constants`.

    Raises
    ------
    ModelError

    Examples
    --------
    >>> from pyomo_csg.zoo import newsvendor
    >>> low, high = cost_range(newsvendor.build(), (14.0, 16.0))
    >>> round(low, 3), round(high, 3)
    (-0.8, 1.2)
    """
    two_stage = TwoStageModel(model)
    arrays, box = right_hand_side_model(two_stage), read_support(two_stage, support)
    duals = arrays.dual_polyhedron(box)
    return _min_cost(arrays, box), _max_cost(arrays, duals, box)


def _recourse_slope(model: RightHandSideModel, duals: VerticesAndRays) -> float:
    """Return U_Pi, the Lipschitz constant of the recourse cost in the outcome."""
    return float(np.linalg.norm(duals.vertices @ model.slopes, axis=1).max())


def _min_cost(model: RightHandSideModel, support: Support) -> float:
    """Return the least cost, by one program over decision, recourse and outcome."""
    n1, n2, p = len(model.cost), len(model.recourse.cost), len(support.lower)
    first = np.hstack([model.matrix, np.zeros((len(model.matrix), n2 + p))])
    recourse = np.hstack(
        [model.recourse.technology, model.recourse.recourse, -model.slopes]
    )
    free = [(None, None)] * (n1 + n2)
    found = linprog(
        np.concatenate([model.cost, model.recourse.cost, np.zeros(p)]),
        A_ub=-np.vstack([first, recourse]),
        b_ub=-np.concatenate([model.side, model.recourse.side]),
        bounds=[*free, *zip(support.lower, support.upper, strict=True)],
    )
    return float(found.fun) + model.constant if found.status == 0 else -math.inf


def _max_cost(
    model: RightHandSideModel, duals: VerticesAndRays, support: Support
) -> float:
    """Return the smaller of two upper bounds on the cost.

    One holds for every first stage. The other holds for decisions that are optimal on
    scenarios: the cost of the most robust decision, plus the change of the recourse cost
    between a scenario and the outcome.
    """
    slopes = model.cost - duals.vertices @ model.recourse.technology
    levels = duals.vertices @ model.recourse.side + [
        support.maximize(dual @ model.slopes) for dual in duals.vertices
    ]
    if not np.isfinite(levels).all():
        return math.inf
    worst = max(
        level - model.minimize(-slope)
        for level, slope in zip(levels, slopes, strict=True)
    )
    change = _recourse_slope(model, duals) * support.diameter()
    robust = _robust_cost(model, slopes, levels)
    return float(model.constant + min(worst, robust + change))


def _robust_cost(
    model: RightHandSideModel, slopes: np.ndarray, levels: np.ndarray
) -> float:
    """Return the worst-case cost of the most robust decision: min max slope'y + level."""
    epigraph = np.column_stack([slopes, -np.ones(len(slopes))])
    first = np.column_stack([-model.matrix, np.zeros(len(model.matrix))])
    found = linprog(
        np.append(np.zeros(len(model.cost)), 1.0),
        A_ub=np.vstack([epigraph, first]),
        b_ub=np.concatenate([-levels, -model.side]),
        bounds=(None, None),
    )
    return float(found.fun)


@dataclass(frozen=True)
class TaskConstants:
    """The constants of Lemma 2, for linear models with uncertain right-hand sides.

    Norms of scenarios and outcomes are Euclidean, in the units of the Params.

    Attributes
    ----------
    scenarios : int
        K.
    complete : bool
        Whether recourse is complete (Assumption 4). If it is only relatively complete on
        the support, the dual vertices take the place of the paper's bounded set Pi.
    vertices : int
        Number of dual vertices; the dual of an equality is split by its sign.
    u_pi : float
        Lipschitz constant of the recourse cost in the outcome: max norm R'pi over Pi.
    l_v : float
        Lipschitz constant of the optimal value in all scenarios: u_pi / sqrt(K).
    penalty : float
        The largest multiplier of the optimality cut at a vertex of Opt-Search's dual.
        Infinite if there are too many bases to enumerate.
    l_prime : float
        L', the Lipschitz constant of Opt-Search's value in its right-hand sides: the
        largest norm of a dual vertex.
    l_lemma : float
        L' sqrt(1 + L_v^2): Lemma 2's L_opt, which depends on the unit of costs.
    l_scenarios, l_opt : float
        Lipschitz constants of l_opt in the scenarios, and in scenarios and outcome: the
        largest sum of a dual vertex's norm and its cut multiplier times L_v. They never
        exceed ``l_lemma``.
    lower, upper : float
        Bounds of l_opt, with scenarios and outcome in the support.
    """

    scenarios: int
    complete: bool
    vertices: int
    u_pi: float
    l_v: float
    penalty: float
    l_prime: float
    l_lemma: float
    l_scenarios: float
    l_opt: float
    lower: float
    upper: float

    @property
    def u_opt(self) -> float:
        """The largest absolute value of l_opt."""
        return max(abs(self.lower), abs(self.upper))

    @property
    def width(self) -> float:
        """The width of the range of l_opt."""
        return self.upper - self.lower

    def __str__(self) -> str:
        recourse = "complete" if self.complete else "relatively complete"
        rows = {
            "U_Pi": self.u_pi,
            f"L_v, K = {self.scenarios}": self.l_v,
            "largest cut multiplier": self.penalty,
            "L'": self.l_prime,
            "L_opt by Lemma 2": self.l_lemma,
            "L_opt in the scenarios": self.l_scenarios,
            "L_opt in both": self.l_opt,
            "least l_opt": self.lower,
            "largest l_opt": self.upper,
            "U_opt": self.u_opt,
        }
        return "\n".join(
            [
                f"recourse is {recourse}; Pi has {self.vertices} vertices",
                *(f"  {name:24}{value:.6g}" for name, value in rows.items()),
            ]
        )


def task_constants(
    model: BlockData, scenarios: int, support: Any = None
) -> TaskConstants:
    """Return the constants of Lemma 2.

    Parameters
    ----------
    model : ConcreteModel
        Annotated, linear and continuous, with uncertain right-hand sides only.
    scenarios : int
        K.
    support : (lower, upper), optional
        The box of outcomes and scenarios: numbers or arrays (p,). Default: the domains
        of the Params.

    Raises
    ------
    ModelError
        If an assumption of the paper does not hold, or there are too many dual vertices.

    Examples
    --------
    >>> from pyomo_csg.zoo import newsvendor
    >>> found = task_constants(newsvendor.build(), scenarios=2, support=(10.0, 20.0))
    >>> round(found.u_pi, 3), round(found.penalty, 3), found.complete
    (0.95, 18.0, False)
    """
    problems = Problems("Cannot compute the constants")
    problems.check_counts(scenarios=scenarios)
    problems.raise_any()
    two_stage = TwoStageModel(model)
    return compute_constants(
        right_hand_side_model(two_stage), scenarios, read_support(two_stage, support)
    )


def compute_constants(
    model: RightHandSideModel, scenarios: int, support: Support
) -> TaskConstants:
    """Return the constants of a model given by its matrices."""
    duals = model.dual_polyhedron(support)
    u_pi = _recourse_slope(model, duals)
    l_v = u_pi / math.sqrt(scenarios)
    penalty, l_prime, l_scenarios, l_opt = _opt_search_constants(model, scenarios, l_v)
    return TaskConstants(
        scenarios=scenarios,
        complete=model.has_complete_recourse(),
        vertices=len(duals.vertices),
        u_pi=u_pi,
        l_v=l_v,
        penalty=penalty,
        l_prime=l_prime,
        l_lemma=l_prime * math.sqrt(1 + l_v**2),
        l_scenarios=l_scenarios,
        l_opt=l_opt,
        lower=_min_cost(model, support),
        upper=_max_cost(model, duals, support),
    )


def _opt_search_constants(
    model: RightHandSideModel, scenarios: int, l_v: float
) -> tuple[float, ...]:
    """Return penalty, L', l_scenarios and l_opt; infinite if there are too many bases.

    Opt-Search's value is a maximum over its dual vertices. Each changes with scenarios
    and outcome by its duals, and with the optimal value v* by its cut multiplier.
    """
    try:
        duals, cut = _opt_search_duals(model, scenarios)
    except TooManyBasesError:
        return (math.inf,) * 4
    squares = (duals**2).sum(axis=2)
    scenario_norm, norm = (
        np.sqrt(squares[:, :-1].sum(axis=1)),
        np.sqrt(squares.sum(axis=1)),
    )
    l_prime = np.sqrt(norm**2 + cut**2)
    found = cut, l_prime, scenario_norm + cut * l_v, norm + cut * l_v
    return tuple(float(numbers.max()) for numbers in found)


def _opt_search_duals(
    model: RightHandSideModel, scenarios: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the dual vertices' prices (v, K + 1, p) of omega, and cut multipliers (v,).

    Columns are y, the K scenarios' recourse and the outcome's; rows are those of the
    first stage, those of each block, and the cut.
    """
    blocks = scenarios + 1
    recourse, rows = model.recourse.recourse, len(model.recourse.recourse)
    n1, n2, m1 = len(model.cost), len(model.recourse.cost), len(model.matrix)
    outcome = n1 + scenarios * n2  # first column of the outcome's recourse
    matrix = np.zeros((m1 + blocks * rows + 1, n1 + blocks * n2))
    matrix[:m1, :n1] = model.matrix
    matrix[m1:-1, :n1] = np.tile(model.recourse.technology, (blocks, 1))
    matrix[m1:-1, n1:] = np.kron(np.eye(blocks), recourse)
    matrix[-1, :n1] = -model.cost
    matrix[-1, n1:outcome] = np.tile(-model.recourse.cost / scenarios, scenarios)
    cost = np.zeros(matrix.shape[1])
    cost[:n1], cost[outcome:] = model.cost, model.recourse.cost
    found = enumerate_vertices(matrix.T, cost, most=_MAX_BASES)
    if found is None:
        raise model.error("zeta-SAA can be unbounded; bound the first-stage variables")
    duals = found.vertices[:, m1:-1].reshape(-1, blocks, rows) @ model.slopes
    return duals, found.vertices[:, -1]
