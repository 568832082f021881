"""csg.TaskLoss and csg.DecisionLayer: the oracle's losses and decisions as torch modules."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pyomo_csg.errors import CsgError, DataError, SolveError
from pyomo_csg.learn.loss_kinds import (
    LossFunction,
    LossKind,
    loss_kind_problems,
    weighted_means,
)
from pyomo_csg.solve import Oracle
from pyomo_csg.stages.inputs import count_axes, known_batch, outcome_batch
from pyomo_csg.validation import Problems, is_one_of

_MOST_ENTRIES = 2**24  # of a stored Jacobian: 128 MB
_ROUNDING = 1e-3  # how far from 1 the sum of weights in single precision may be


class _OracleModule(nn.Module):
    """Sends tensors to an oracle and its answers back."""

    def __init__(
        self,
        model: Any,
        *,
        weights: Any = None,
        on_error: str = "raise",
        fresh: bool = True,
        workers: int = 1,
    ):
        super().__init__()
        if not is_one_of(on_error, ("raise", "record")):
            found = f"on_error is {on_error!r}; give 'raise' or 'record'"
            raise DataError("Unknown way with errors", [found])
        self.oracle = (
            model if isinstance(model, Oracle) else Oracle(model, workers=workers)
        )
        self.failures: tuple[SolveError, ...] = ()
        self.deadline: float | None = None  # of each call, as in Oracle.solve
        self.mip_gap: float | None = None  # the same
        self._weights, self._on_error = weights, on_error
        self._options: dict[str, Any] = {
            "on_error": on_error,
            "fresh": fresh,
            "progress": False,
        }

    def _check(self, scenarios: Any, **others: Any) -> None:
        """Raise if scenarios are not a batch, or if other tensors need gradients."""
        problems = Problems(f"{type(self).__name__} cannot use its arguments")
        if not isinstance(scenarios, Tensor) or not scenarios.is_floating_point():
            is_tensor = isinstance(scenarios, Tensor)
            kind = scenarios.dtype if is_tensor else type(scenarios).__name__
            problems.add(f"scenarios are of type {kind}; give a tensor of floats")
        elif scenarios.ndim != 3:
            problems.add(
                f"scenarios have shape {tuple(scenarios.shape)}; give shape (B, K, p): "
                "cases, scenarios and uncertain numbers"
            )
        for name, values in others.items():
            if isinstance(values, Tensor) and values.requires_grad:
                problems.add(
                    f"{name} require a gradient, but only scenarios have one; "
                    f"give {name}.detach()"
                )
        problems.raise_any()

    def _shares(self, weights: Any) -> Any:
        """Return the weights of scenarios: of this call, or of the module."""
        return _normalize(self._weights if weights is None else weights)


class TaskLoss(_OracleModule):
    """The cost of the decision that scenarios lead to, as a torch loss.

    For each case, zeta-SAA is solved on its scenarios. The loss is the cost of that
    decision under the case's outcomes. Its gradient with respect to the scenarios goes
    through the optimal basis, as in :meth:`Oracle.loss_gradient`.

    Parameters
    ----------
    model : ConcreteModel or Oracle
        An annotated model, or an oracle with settings of your choice.
    loss_kind : {'recourse', 'optimistic', 'pessimistic'} or callable, optional
        As in :meth:`Oracle.loss`. The three are equal where the decision is unique.
        ``'recourse'`` is one solve for value and gradient. The others need a second solve
        and have the gradient of ``'recourse'``. With several outcomes, ``'optimistic'`` is
        the best decision for their mean, and ``'pessimistic'`` the mean of their losses,
        which is an upper bound. Or a function of decisions (B, s), outcomes
        (B, p) and costs (B,) to losses (B,), in torch: gradients go through decisions and
        costs. It is called for every outcome.
    regret : bool, optional
        Whether costs are those above the least cost if the outcome were known, which needs
        one more program for each outcome.
    weights : array (K,), optional
        Weights of the scenarios, if ``forward`` is given none. Default: 1/K.
    on_error : {'raise', 'record'}, optional
        What to do where a program cannot be solved: raise its SolveError, or return NaN
        with a zero gradient and record it in ``failures``.
    fresh : bool, optional
        Whether losses are independent of earlier calls, to the last bit. False is faster.
    workers : int, optional
        Threads of the oracle, if a model is given.

    Attributes
    ----------
    oracle : Oracle
    failures : tuple of SolveError
        Of the last call.

    Examples
    --------
    >>> import torch
    >>> import pyomo_csg as csg
    >>> from pyomo_csg.zoo import newsvendor
    >>> task_loss = csg.TaskLoss(newsvendor.build())
    >>> scenarios = torch.tensor([[[10.0], [20.0]]], requires_grad=True)
    >>> loss = task_loss(scenarios, torch.tensor([[15.0]]))
    >>> loss.sum().backward()
    >>> loss.detach().numpy().round(2), scenarios.grad.flatten().numpy().round(2)
    (array([-0.5], dtype=float32), array([-0.05,  0.  ], dtype=float32))
    """

    def __init__(
        self,
        model: Any,
        loss_kind: str | LossFunction = "recourse",
        *,
        regret: bool = False,
        weights: Any = None,
        on_error: str = "raise",
        fresh: bool = True,
        workers: int = 1,
    ):
        problems = Problems("Unknown loss")
        problems.add(*loss_kind_problems(loss_kind, regret))
        problems.raise_any()
        super().__init__(
            model, weights=weights, on_error=on_error, fresh=fresh, workers=workers
        )
        self.loss_kind, self._kind = loss_kind, LossKind(loss_kind, regret)

    def forward(
        self,
        scenarios: Tensor,
        outcomes: Tensor,
        weights: Any = None,
        outcome_weights: Any = None,
        keys: Any = None,
        known: Any = None,
    ) -> Tensor:
        """Return losses (B,), on the device and of the type of the scenarios.

        Parameters
        ----------
        scenarios : tensor (B, K, p)
            On any device; they are copied to the CPU.
        outcomes : tensor or array (B, p), or (B, M, p)
            With M outcomes, the loss is their weighted mean.
        weights : tensor or array (B, K) or (K,), optional
        outcome_weights : tensor or array (B, M) or (M,), optional
            Default: 1/M.
        keys : tensor or array (B,) of int, optional
            Names of the cases, such as row numbers. With ``fresh=False``, a program
            starts from the last basis of its key.
        known : tensor, array (B, r) or (r,), DataFrame or mapping, optional
            The numbers of the known Params. Default: those of the model.
        """
        limits = {"deadline": self.deadline, "mip_gap": self.mip_gap}
        options = {"keys": _names(keys), **limits, **self._options}
        self._check(
            scenarios,
            outcomes=outcomes,
            weights=weights,
            outcome_weights=outcome_weights,
            known=known,
        )
        known = known_batch(self.oracle.two_stage, _array(known), len(scenarios))
        zetas, omegas = _array(scenarios), _array(outcomes)
        shares, parts = self._shares(weights), _normalize(outcome_weights)
        if count_axes(omegas) != 3:  # a wrong shape is reported as that of one outcome
            omegas = outcome_batch(self.oracle.two_stage, omegas)[:, None]
        settings = {"known": known, **options}
        if callable(self.loss_kind):
            return self._own_losses(scenarios, omegas, shares, parts, settings)
        both = {"weights": shares, "outcome_weights": parts, **settings}
        found = self.oracle.loss_gradient(zetas, omegas, **both)
        self.failures, losses = found.failures, found.loss
        if self.loss_kind != "recourse":
            others = self._other_losses(zetas, omegas, both)
            losses = np.where(np.isnan(losses), np.nan, others)
        least = self._kind.least_costs(self.oracle, omegas, settings)
        losses = losses - weighted_means(least, parts)
        slopes = np.where(np.isnan(losses)[:, None, None], 0.0, found.gradient)
        return _attach(scenarios, losses, slopes)

    def _other_losses(
        self, zetas: Any, omegas: np.ndarray, options: dict[str, Any]
    ) -> np.ndarray:
        """Return optimistic losses of means, or means of pessimistic losses."""
        if self.loss_kind == "optimistic":
            found = self.oracle.loss(zetas, omegas, **options)
            self.failures += tuple(self.oracle.failures)
            return found
        parts, each = options.pop("outcome_weights"), []
        for mine in omegas.swapaxes(0, 1):
            each.append(self.oracle.loss(zetas, mine, "pessimistic", **options))
            self.failures += tuple(self.oracle.failures)
        return np.asarray(weighted_means(np.stack(each, axis=1), parts))

    def _own_losses(
        self,
        scenarios: Tensor,
        omegas: np.ndarray,
        shares: Any,
        parts: Any,
        settings: dict[str, Any],
    ) -> Tensor:
        """Return the user's losses, by decisions and costs that have gradients.

        Each outcome (n, M, p) is solved for by itself, since each cost has its own slope.
        """
        n, count, p = omegas.shape
        layer = DecisionLayer(self.oracle, weights=shares, on_error=self._on_error)
        layer.deadline, layer.mip_gap = self.deadline, self.mip_gap
        decisions = layer(scenarios, keys=settings["keys"], known=settings["known"])
        repeated = scenarios.repeat_interleave(count, dim=0)
        decisions = decisions.repeat_interleave(count, dim=0)
        if shares is not None and np.ndim(shares) == 2:
            shares = np.repeat(shares, count, axis=0)
        known, flat = settings["known"].repeat(count, axis=0), omegas.reshape(-1, p)
        keys = settings["keys"]
        keys = None if keys is None else np.repeat(keys, count)
        options = {**settings, "known": known, "keys": keys, "weights": shares}
        found = self.oracle.loss_gradient(_array(repeated), flat, **options)
        self.failures = tuple(
            one.replace(case=one.case // count) for one in found.failures
        )
        least = self._kind.least_costs(self.oracle, omegas, settings).ravel()
        costs = _attach(repeated, found.loss - least, np.nan_to_num(found.gradient))
        solved = torch.nonzero(torch.isfinite(costs.detach()))[:, 0]
        losses = costs.new_full((n * count,), torch.nan)
        if len(solved):
            mine = _like(scenarios, flat)[solved]
            values = self._kind.call(decisions[solved], mine, costs[solved])
            losses = losses.index_copy(0, solved, values)
        return weighted_means(losses.reshape(n, count), parts)


class DecisionLayer(_OracleModule):
    """Zeta-SAA's decision as a differentiable function of the scenarios.

    Gradients go through the optimal basis. They are exact where the optimum is unique and
    its basis is not degenerate. Elsewhere they are those of the returned basis: a
    one-sided derivative, or that of one of several optimal decisions. Integer variables
    are held at the incumbent, so their gradient is zero. Costs of linear models do not
    move a decision within its basis. Gradients of convex quadratic models come from the
    KKT system and have no such gaps except where the active set changes.

    Parameters
    ----------
    model, weights, on_error, fresh, workers
        As in :class:`TaskLoss`.

    Attributes
    ----------
    oracle : Oracle
    failures : tuple of SolveError
        Of the last call.
    smooth : array (B,) of bool
        Where the gradients of the last call are exact. None after a call without
        gradients.

    Examples
    --------
    >>> import torch
    >>> import pyomo_csg as csg
    >>> from pyomo_csg.zoo import newsvendor
    >>> decide = csg.DecisionLayer(newsvendor.build())
    >>> scenarios = torch.tensor([[[10.0], [20.0]]], requires_grad=True)
    >>> orders = decide(scenarios)
    >>> orders.sum().backward()
    >>> orders.detach().numpy(), scenarios.grad.flatten().numpy()
    (array([[10.]], dtype=float32), array([1., 0.], dtype=float32))
    """

    smooth: np.ndarray | None = None

    def forward(
        self,
        scenarios: Tensor,
        weights: Any = None,
        keys: Any = None,
        known: Any = None,
    ) -> Tensor:
        """Return decisions (B, s), on the device and of the type of the scenarios.

        Parameters
        ----------
        scenarios : tensor (B, K, p)
        weights, keys, known
            As in :meth:`TaskLoss.forward`.
        """
        self._check(scenarios, weights=weights, known=known)
        options = {"keys": _names(keys), "known": _array(known), **self._options}
        options |= {"deadline": self.deadline, "mip_gap": self.mip_gap}
        zetas, shares = _array(scenarios), self._shares(weights)
        if not (torch.is_grad_enabled() and scenarios.requires_grad):
            solution = self.oracle.solve(zetas, shares, **options)
            self.failures, self.smooth = solution.failures, None
            return _like(scenarios, solution.decision)
        width = len(self.oracle.two_stage.first_stage_variables)
        # A large Jacobian is not stored: the backward pass solves again instead.
        slopes = (
            None
            if zetas.size * width <= _MOST_ENTRIES
            else np.zeros((len(zetas), width))
        )
        found = self.oracle.decision_gradient(zetas, slopes, weights=shares, **options)
        self.failures, self.smooth = found.failures, found.smooth
        if slopes is None:
            return _attach(scenarios, found.decision, np.nan_to_num(found.gradient))
        settings = {"weights": shares, **options}
        return _Decisions.apply(scenarios, found.decision, self.oracle, settings)


class _Linearized(torch.autograd.Function):
    """Values with known slopes: values (B, ...), slopes (B, ..., K, p)."""

    @staticmethod
    def forward(ctx: Any, scenarios: Tensor, values: Tensor, slopes: Tensor) -> Tensor:
        ctx.save_for_backward(scenarios, slopes)
        return values

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None, None]:
        scenarios, slopes = ctx.saved_tensors
        gradient = _product(upstream, slopes)
        return _FirstOrder.apply(gradient, scenarios, upstream), None, None


class _Decisions(torch.autograd.Function):
    """Decisions whose vector-Jacobian products are solved for when they are needed."""

    @staticmethod
    def forward(
        ctx: Any, scenarios: Tensor, values: np.ndarray, oracle: Oracle, settings: Any
    ) -> Tensor:
        ctx.save_for_backward(scenarios)
        ctx.oracle, ctx.settings = oracle, settings
        return _like(scenarios, values)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None, None, None]:
        (scenarios,) = ctx.saved_tensors
        found = ctx.oracle.decision_gradient(
            _array(scenarios), _array(upstream), **ctx.settings
        )
        gradient = _like(scenarios, np.nan_to_num(found.gradient))
        return _FirstOrder.apply(gradient, scenarios, upstream), None, None, None


class _FirstOrder(torch.autograd.Function):
    """A gradient that depends on some tensors, but cannot be differentiated again."""

    @staticmethod
    def forward(ctx: Any, gradient: Tensor, *arguments: Tensor) -> Tensor:
        return gradient.clone()

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> Any:
        raise CsgError(
            "Losses and decisions have first derivatives only: the gradient through an "
            "optimal basis cannot be differentiated again. Call backward without "
            "create_graph=True, or detach the gradient"
        )


def _product(upstream: Tensor, slopes: Tensor) -> Tensor:
    """Return the sum of slopes (B, ..., K, p) weighted by upstream (B, ...)."""
    if upstream.ndim == 1:
        return upstream[:, None, None] * slopes
    return torch.einsum("bs,bskp->bkp", upstream, slopes)


def _attach(scenarios: Tensor, values: np.ndarray, slopes: np.ndarray) -> Tensor:
    """Return values as a tensor that has these slopes with respect to the scenarios."""
    found, gradients = _like(scenarios, values), _like(scenarios, slopes)
    result: Tensor = _Linearized.apply(scenarios, found, gradients)
    return result


def _like(scenarios: Tensor, values: np.ndarray) -> Tensor:
    return torch.as_tensor(values).to(scenarios.device, scenarios.dtype)


def _array(values: Any) -> Any:
    """Return a tensor as an array of doubles; the oracle validates anything else."""
    if isinstance(values, Tensor):
        return values.detach().to("cpu", torch.float64).numpy()
    return values


def _names(keys: Any) -> Any:
    return keys.detach().cpu().numpy() if isinstance(keys, Tensor) else keys


def _normalize(weights: Any) -> Any:
    """Return a tensor's weights, which sum to 1 exactly if they do up to rounding."""
    array = _array(weights)
    if not isinstance(weights, Tensor) or array.ndim not in (1, 2):
        return array
    totals = array.sum(axis=-1, keepdims=True)
    return np.where(np.abs(totals - 1) < _ROUNDING, array / totals, array)
