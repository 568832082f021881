"""Results of the oracle."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pyomo_csg.errors import SolveError


@dataclass(frozen=True)
class Solution:
    """Decisions of zeta-SAA: optimal, or the incumbent when a limit was reached.

    Attributes
    ----------
    decision : array (s,), or (n, s) for a batch
        In the order of ``TwoStageModel.first_stage_variables``.
    value : float, or array (n,)
        In the model's own sense.
    status : str, or array (n,) of str
        ``'optimal'``, or the solver's status where ``on_error='record'``.
    gradient : array (K, p), or (n, K, p), or None
        Of the value with respect to the scenarios, with ``gradient=True``.
    smooth : bool, or array (n,) of bool, or None
        Whether the gradient is unique; as in :class:`LossGradient`.
    bound : float, or array (n,)
        The proven bound, in the model's own sense. It equals the value except for integer
        programs solved to a gap or a limit. After a limit there may be a bound without
        a decision.
    failures : tuple of SolveError
        The cases that could not be solved, where ``on_error='record'``.
    """

    decision: np.ndarray
    value: Any
    status: Any
    gradient: np.ndarray | None = None
    smooth: Any = None
    bound: Any = None
    failures: Any = field(default=(), repr=False, compare=False)


@dataclass(frozen=True)
class LossGradient:
    """Losses and their gradients with respect to the scenarios.

    Attributes
    ----------
    loss : array (n,)
    gradient : array (n, K, p)
    smooth : array (n,) of bool
        False where the loss has a kink (a degenerate basis, or a decision that is not
        unique); the gradient is then one element of the generalized gradient.
    failures : tuple of SolveError
        The cases that could not be solved, where ``on_error='record'``.
    """

    loss: np.ndarray
    gradient: np.ndarray
    smooth: np.ndarray
    failures: tuple[SolveError, ...] = field(default=(), repr=False, compare=False)


@dataclass(frozen=True)
class DecisionGradient:
    """Decisions and their derivatives with respect to the scenarios.

    Attributes
    ----------
    decision : array (n, s)
    gradient : array (n, K, p), or (n, s, K, p)
        Of ``slopes @ decision``; without slopes, of each decision variable.
    smooth : array (n,) of bool
        False where the basis is degenerate or the decision is not unique. The derivatives
        are then those of the decision's basis; another basis may have others.
    failures : tuple of SolveError
        The cases that could not be solved, where ``on_error='record'``.
    """

    decision: np.ndarray
    gradient: np.ndarray
    smooth: np.ndarray
    failures: tuple[SolveError, ...] = field(default=(), repr=False, compare=False)


@dataclass(frozen=True)
class Audit:
    """How far the cost of the returned decision is above l_opt.

    Attributes
    ----------
    certified : int
        Cases whose duals prove a unique decision, so that the two are equal.
    cases : int
        Other cases, on which the two were compared.
    worst : float
        The largest difference on those, relative to max(1, abs(l_opt)).
    """

    certified: int
    cases: int
    worst: float
