"""Kinds of losses: those of the oracle, regrets, and functions of the user's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pyomo_csg.errors import DataError
from pyomo_csg.solve import Oracle

LOSS_KINDS = ("optimistic", "pessimistic", "recourse")
_SUBJECT = "The loss cannot be used"
# From decisions (B, s), outcomes (B, p) and costs (B,) to losses (B,), all tensors.
LossFunction = Callable[[Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class LossKind:
    """Which loss a decision has: the oracle's by name, or the user's function.

    With ``regret``, the costs are those above the least cost under each outcome.
    """

    kind: str | LossFunction = "optimistic"
    regret: bool = False

    def losses(
        self,
        oracle: Oracle,
        scenarios: np.ndarray,
        outcomes: np.ndarray,
        options: Mapping[str, Any],
        weights: np.ndarray | None = None,
    ) -> np.ndarray:
        """Return losses (n,) of scenarios (n, K, p) on outcomes (n, p), without gradients.

        Unsolved programs, which ``options`` say to record, have NaN. The known numbers
        (n, r) are among the options.
        """
        best = self.least_costs(oracle, outcomes, options)
        if isinstance(self.kind, str):
            # An audit would search among ties after all.
            options = {**options, "weights": weights, "audit": False}
            return oracle.loss(scenarios, outcomes, self.kind, **options) - best
        decisions = oracle.solve(scenarios, weights, **options).decision
        found = np.full(len(outcomes), np.nan)
        made = np.flatnonzero(np.isfinite(decisions).all(axis=1))
        if not len(made):
            return found
        known = {"known": options["known"][made]}
        costs = oracle.cost(decisions[made], outcomes[made], **{**options, **known})
        costs -= best[made]
        is_solved = np.isfinite(costs)
        solved = made[is_solved]
        if len(solved):
            arrays = decisions[solved], outcomes[solved], costs[is_solved]
            with torch.no_grad():
                found[solved] = self.call(*map(torch.as_tensor, arrays)).numpy()
        return found

    def least_costs(
        self, oracle: Oracle, outcomes: np.ndarray, options: Mapping[str, Any]
    ) -> np.ndarray:
        """Return the least costs (n, ...) if the outcomes (n, ..., p) were known.

        They are 0 without regret. The known numbers (n, r) are among the options.
        """
        shape = outcomes.shape[:-1]
        if not self.regret:
            return np.zeros(shape)
        flat = outcomes.reshape(-1, 1, outcomes.shape[-1])
        known = options["known"].repeat(len(flat) // len(outcomes), axis=0)
        found = oracle.solve(flat, **{**options, "keys": None, "known": known})
        return int(oracle.two_stage.sense) * np.asarray(found.value).reshape(shape)

    def call(self, decisions: Tensor, outcomes: Tensor, costs: Tensor) -> Tensor:
        """Return the losses (B,) of the user's function, checked."""
        assert callable(self.kind)
        count = len(costs)
        called = (
            f"for decisions {tuple(decisions.shape)}, outcomes {tuple(outcomes.shape)} "
            f"and costs ({count},), loss_kind gave"
        )
        try:
            found = self.kind(decisions, outcomes, costs)
        except Exception as error:  # a user's function may raise anything
            failed = f"{called} an error ({type(error).__name__}: {error})"
            raise DataError(_SUBJECT, [f"{failed:.400}; return ({count},)"]) from error
        if not isinstance(found, Tensor) or found.shape != (count,):
            kind = f"a {type(found).__name__} of shape {tuple(getattr(found, 'shape', ()))}"
            raise DataError(_SUBJECT, [f"{called} {kind}; return a tensor ({count},)"])
        if costs.requires_grad and not found.requires_grad:
            problem = f"{called} a tensor without a gradient"
            remedy = "make it of decisions and costs by torch operations"
            raise DataError(_SUBJECT, [f"{problem}; {remedy}"])
        wrong = torch.nonzero(~torch.isfinite(found.detach()))
        if len(wrong):
            case = int(wrong[0, 0])
            problem = f"{called} {float(found[case].detach()):g} in case {case}"
            raise DataError(_SUBJECT, [f"{problem}; return finite numbers"])
        return found


def weighted_means(values: Any, weights: Any) -> Any:
    """Return means (n,) of values (n, M), an array or a tensor; NaN at weight 0 is no matter."""
    if weights is None:
        return values.mean(-1)
    shares: Any = np.broadcast_to(np.asarray(weights, dtype=float), tuple(values.shape))
    if not isinstance(values, Tensor):
        return np.where(shares > 0, shares * values, 0.0).sum(axis=-1)
    shares = torch.tensor(shares).to(values)
    return torch.where(shares > 0, shares * values, torch.zeros_like(values)).sum(-1)


def loss_kind_problems(kind: Any, regret: Any) -> list[str]:
    """Return what is wrong with ``loss_kind=`` and ``regret=``."""
    problems = []
    if not (callable(kind) or isinstance(kind, str) and kind in LOSS_KINDS):
        found = f"loss_kind is {kind!r:.80}; give one of {LOSS_KINDS}, or a function of"
        problems.append(f"{found} decisions (B, s), outcomes (B, p) and costs (B,)")
    if not isinstance(regret, bool):
        problems.append(f"regret is {regret!r:.80}; give True or False")
    return problems
