"""What the paper's bounds need to know of a model: Lemma 2, constant by constant."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from pyomo.core.base.block import BlockData
from scipy.optimize import linprog

from pyomo_csg.errors import DataError, ModelError
from pyomo_csg.guarantees.paper.right_hand_side_model import (
    RightHandSideModel,
    Support,
    right_hand_side_model,
    support_of,
)
from pyomo_csg.solve.lp.vertices import (
    TooManyBasesError,
    VerticesAndRays,
    enumerate_vertices,
)
from pyomo_csg.stages import TwoStageModel
from pyomo_csg.validation import whole_problems


def cost_range(model: BlockData, support: Any = None) -> tuple[float, float]:
    """Return between which numbers all costs are, to be minimised.

    These are costs of decisions that are optimal on some scenarios of the support, when
    one of its outcomes comes.

    Parameters
    ----------
    model, support
        As in :func:`pyomo_csg.guarantees.task_constants`.

    Raises
    ------
    ModelError

    Examples
    --------
    >>> from models import newsvendor
    >>> low, high = cost_range(newsvendor.build(), (14.0, 16.0))
    >>> round(low, 3), round(high, 3)
    (-0.8, 1.2)
    """
    two_stage = TwoStageModel(model)
    arrays, box = right_hand_side_model(two_stage), support_of(two_stage, support)
    duals = checked_duals(arrays, box)
    return least_cost(arrays, box), largest_cost(arrays, duals, box)


def checked_duals(model: RightHandSideModel, support: Support) -> VerticesAndRays:
    """Return Pi's corners, if there is a recourse to all outcomes of the support."""
    duals = model.corners()
    if not model.is_relatively_complete(duals, support):
        found = (
            "some first stage has no recourse to some outcome of the support (Assumption "
            "4); add slack variables at a cost, or give a smaller support"
        )
        raise ModelError(model.subject, [found])
    return duals


def speed(model: RightHandSideModel, duals: VerticesAndRays) -> float:
    """Return U_Pi: how much a unit of outcomes moves the recourse's cost at most."""
    return float(np.linalg.norm(duals.vertices @ model.slopes, axis=1).max())


def least_cost(model: RightHandSideModel, support: Support) -> float:
    """Return the least cost of any decision and outcome: one program for both."""
    n1, n2 = len(model.cost), len(model.recourse.cost)
    first = np.hstack(
        [model.matrix, np.zeros((len(model.matrix), n2 + len(support.lower)))]
    )
    later = np.hstack(
        [model.recourse.technology, model.recourse.recourse, -model.slopes]
    )
    found = linprog(
        np.concatenate([model.cost, model.recourse.cost, np.zeros(len(support.lower))]),
        A_ub=-np.vstack([first, later]),
        b_ub=-np.concatenate([model.side, model.recourse.side]),
        bounds=[
            *[(None, None)] * (n1 + n2),
            *zip(support.lower, support.upper, strict=True),
        ],
    )
    return float(found.fun) + model.constant if found.status == 0 else -math.inf


def largest_cost(
    model: RightHandSideModel, duals: VerticesAndRays, support: Support
) -> float:
    """Return what no decision that is optimal on scenarios of the support costs more than.

    No decision of the first stage does; nor does the optimum on any scenarios, which the
    most robust decision bounds, and what the way from scenarios to the outcome adds.
    """
    slopes = model.cost - duals.vertices @ model.recourse.technology
    levels = duals.vertices @ model.recourse.side + [
        support.most(dual @ model.slopes) for dual in duals.vertices
    ]
    if not np.isfinite(levels).all():
        return math.inf
    of_all = max(
        level - model.least(-slope) for level, slope in zip(levels, slopes, strict=True)
    )
    added = speed(model, duals) * support.diameter()
    return float(model.constant + min(of_all, _robust(model, slopes, levels) + added))


def _robust(model: RightHandSideModel, slopes: np.ndarray, levels: np.ndarray) -> float:
    """Return the least that one decision costs at most: min max slope'y + level."""
    n1, m1 = len(model.cost), len(model.matrix)
    found = linprog(
        np.append(np.zeros(n1), 1.0),
        A_ub=np.vstack(
            [
                np.column_stack([slopes, -np.ones(len(slopes))]),
                np.column_stack([-model.matrix, np.zeros(m1)]),
            ]
        ),
        b_ub=np.concatenate([-levels, -model.side]),
        bounds=(None, None),
    )
    return float(found.fun)


_MOST_BASES = 1_500  # of Opt-Search's dual, whose bases are large


@dataclass(frozen=True)
class TaskConstants:
    """The constants of Lemma 2 for linear models with uncertain right-hand sides.

    Lengths of scenarios and outcomes are Euclidean, in the Params' own units.

    Attributes
    ----------
    scenarios : int
        K.
    complete : bool
        Whether recourse is complete (Assumption 4). Where it is only relatively so, for
        all first stages and outcomes of the support, dual vertices do what the bounded
        set Pi does in the paper.
    vertices : int
        Points that a maximum over Pi is among; an equality's price is split by its sign.
    u_pi : float
        How fast the recourse's cost moves with the outcome: max norm R'pi over Pi.
    l_v : float
        How fast the optimal value moves with all scenarios: u_pi / sqrt(K).
    penalty : float
        The largest multiplier of the optimality cut at a vertex of Opt-Search's dual:
        what a unit of suboptimality on the scenarios can save under the outcome.
        Infinite where there are too many bases to visit.
    l_prime : float
        L', how fast Opt-Search's value moves with its right-hand sides: the largest
        norm of a dual vertex.
    l_lemma : float
        L' sqrt(1 + L_v^2): L_opt as Lemma 2 has it, which depends on the unit of costs.
    l_scenarios, l_opt : float
        How fast l_opt moves with the scenarios, and with scenarios and outcome together:
        the largest sum of a dual vertex's norm and its cut multiplier times L_v, which is
        never more than ``l_lemma``.
    lower, upper : float
        Between which numbers l_opt is, with scenarios and outcome in the support.
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

    def __str__(self) -> str:
        recourse = "complete" if self.complete else "relatively complete"
        return "\n".join(
            [
                f"recourse is {recourse}; maxima over Pi are at {self.vertices} points",
                *(
                    f"  {name:24}{value:.6g}"
                    for name, value in (
                        ("U_Pi", self.u_pi),
                        (f"L_v, K = {self.scenarios}", self.l_v),
                        ("largest cut multiplier", self.penalty),
                        ("L'", self.l_prime),
                        ("L_opt by Lemma 2", self.l_lemma),
                        ("L_opt in the scenarios", self.l_scenarios),
                        ("L_opt in both", self.l_opt),
                        ("least l_opt", self.lower),
                        ("largest l_opt", self.upper),
                        ("U_opt", self.u_opt),
                    )
                ),
            ]
        )


def task_constants(
    model: BlockData, scenarios: int, support: Any = None
) -> TaskConstants:
    """Return the constants of Lemma 2.

    Parameters
    ----------
    model : ConcreteModel
        Annotated, linear and continuous, uncertain in right-hand sides alone.
    scenarios : int
        K.
    support : (lower, upper), optional
        The box that outcomes and scenarios are in, numbers or arrays (p,). Default: the
        Params' domains.

    Raises
    ------
    ModelError
        If an assumption of the paper does not hold, or there are too many dual vertices.

    Examples
    --------
    >>> from models import newsvendor
    >>> found = task_constants(newsvendor.build(), scenarios=2, support=(10.0, 20.0))
    >>> round(found.u_pi, 3), round(found.penalty, 3), found.complete
    (0.95, 18.0, False)
    """
    if problems := whole_problems(scenarios=scenarios):
        raise DataError("There are no such constants", problems)
    two_stage = TwoStageModel(model)
    return constants_of(
        right_hand_side_model(two_stage), scenarios, support_of(two_stage, support)
    )


def constants_of(
    model: RightHandSideModel, scenarios: int, support: Support
) -> TaskConstants:
    """Return the constants of a model in arrays."""
    duals = checked_duals(model, support)
    u_pi = speed(model, duals)
    l_v = u_pi / math.sqrt(scenarios)
    penalty, l_prime, l_scenarios, l_opt = _search_constants(model, scenarios, l_v)
    return TaskConstants(
        scenarios,
        model.is_complete(),
        len(duals.vertices),
        u_pi,
        l_v,
        penalty,
        l_prime,
        l_prime * math.sqrt(1 + l_v**2),
        l_scenarios,
        l_opt,
        least_cost(model, support),
        largest_cost(model, duals, support),
    )


def _search_constants(
    model: RightHandSideModel, scenarios: int, l_v: float
) -> tuple[float, ...]:
    """Return the largest cut multiplier, L' and l_opt's two constants; or infinity.

    Opt-Search's value is a maximum over its dual's vertices, each of which moves by its
    prices of scenarios and outcome, and by its multiplier of the cut as v* moves.
    """
    try:
        prices, cut = _search_duals(model, scenarios)
    except TooManyBasesError:
        return (math.inf,) * 4
    squares = (prices**2).sum(axis=2)
    own, both = np.sqrt(squares[:, :-1].sum(axis=1)), np.sqrt(squares.sum(axis=1))
    l_prime = np.sqrt(both**2 + cut**2)
    found = cut, l_prime, own + cut * l_v, both + cut * l_v
    return tuple(float(numbers.max()) for numbers in found)


def _search_duals(
    model: RightHandSideModel, scenarios: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return prices (v, K + 1, p) of Opt-Search's dual vertices, and of its cut (v,).

    Columns are y, the K scenarios' recourse and the outcome's; rows are those of the
    first stage, those of each block, and the cut.
    """
    blocks = scenarios + 1
    recourse, rows = model.recourse.recourse, len(model.recourse.recourse)
    n1, n2, m1 = len(model.cost), len(model.recourse.cost), len(model.matrix)
    matrix = np.zeros((m1 + blocks * rows + 1, n1 + blocks * n2))
    matrix[:m1, :n1] = model.matrix
    matrix[m1:-1, :n1] = np.tile(model.recourse.technology, (blocks, 1))
    matrix[m1:-1, n1:] = np.kron(np.eye(blocks), recourse)
    matrix[-1, :n1] = -model.cost
    matrix[-1, n1 : n1 + scenarios * n2] = np.tile(
        -model.recourse.cost / scenarios, scenarios
    )
    cost = np.zeros(matrix.shape[1])
    cost[:n1], cost[n1 + scenarios * n2 :] = model.cost, model.recourse.cost
    found = enumerate_vertices(matrix.T, cost, most=_MOST_BASES)
    if found is None:
        problem = "zeta-SAA can be unbounded; bound the first-stage variables"
        raise ModelError(model.subject, [problem])
    prices = found.vertices[:, m1:-1].reshape(-1, blocks, rows) @ model.slopes
    return prices, found.vertices[:, -1]
