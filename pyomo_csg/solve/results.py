"""What the oracle answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Solution:
    """Decisions of zeta-SAA: optimal, or the best that a limit left time to find.

    Attributes
    ----------
    decision : array (s,), or (n, s) for a batch
        In the order of ``TwoStageModel.first_stage_variables``.
    value : float, or array (n,)
        In the model's own sense.
    status : str, or array (n,) of str
        ``'optimal'``, or what was wrong where ``on_error='record'``.
    gradient : array (K, p), or (n, K, p), or None
        Of the value with respect to the scenarios, where it was asked for.
    smooth : bool, or array (n,) of bool, or None
        Whether the gradient is the only one; as in :class:`LossGradient`.
    bound : float, or array (n,)
        What no decision does better than, as far as it is proven, in the model's own
        sense. It is the value, but for integer programs that were solved up to a gap
        or a limit only. After a limit it may be known where no decision is.
    """

    decision: np.ndarray
    value: Any
    status: Any
    gradient: np.ndarray | None = None
    smooth: Any = None
    bound: Any = None


@dataclass(frozen=True)
class LossGradient:
    """Losses and how they move with the scenarios.

    Attributes
    ----------
    loss : array (n,)
    gradient : array (n, K, p)
    smooth : array (n,) of bool
        False where the loss has a kink (a basis that is degenerate, or a decision that is
        not unique); the gradient is then one element of the generalised gradient.
    """

    loss: np.ndarray
    gradient: np.ndarray
    smooth: np.ndarray


@dataclass(frozen=True)
class Audit:
    """How far the cost of the decision at hand is above l_opt.

    Attributes
    ----------
    certified : int
        Cases whose decision is unique, by its duals: the two are equal.
    cases : int
        Others, on which the two were compared.
    worst : float
        How far they were apart there, relative to max(1, abs(l_opt)).
    """

    certified: int
    cases: int
    worst: float
