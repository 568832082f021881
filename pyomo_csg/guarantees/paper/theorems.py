"""The paper's bounds on the expected loss of a linear policy, term by term.

Two of the paper's terms are corrected, because its proofs show less than it claims:

- Theorem 2's last term uses a bound M of the absolute loss. McDiarmid's inequality needs
  the width of the loss's range, which can be 2 M; the width is used here.
- The theorem on approximate losses compares the Loss-Net's error on the pairs with its
  expectation for one fixed f, but f depends on the pairs. The term 'for all f at once'
  makes the comparison uniform.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from pyomo_csg.decisions.decider import LearnedDecider
from pyomo_csg.errors import DataError
from pyomo_csg.evaluation.comparison import read_pairs
from pyomo_csg.guarantees.paper.complexity import linear_class
from pyomo_csg.guarantees.paper.constants import (
    Support,
    TaskConstants,
    compute_constants,
    read_support,
    right_hand_side_model,
)
from pyomo_csg.learn.distributions.distances import KERNELS, mmd_loss
from pyomo_csg.learn.tables.history import History
from pyomo_csg.validation import Problems

_SUBJECT = "Cannot compute the bound"
_SAMPLED = 100  # pairs whose gradients show how large L_opt is at least


@dataclass(frozen=True)
class Term:
    """One summand of a bound.

    Attributes
    ----------
    name : str
    value : float
    detail : str
        The constants in it.
    """

    name: str
    value: float
    detail: str = ""


@dataclass(frozen=True)
class Bound:
    """An upper bound on an expected loss, term by term. ``print`` it for a report.

    Attributes
    ----------
    name : str
        The theorem and the loss.
    delta : float
        The bound holds with probability 1 - ``delta``.
    terms : tuple of Term
        The empirical loss first, then the terms that generalization adds.
    largest : float
        An upper bound on every single loss.

    Examples
    --------
    >>> terms = Term("mean loss", 0.25), Term("complexity", 1.5), Term("confidence", 0.1)
    >>> bound = Bound("Theorem 2", 0.05, terms, largest=1.0)
    >>> bound.total, bound.vacuous, bound.culprit.name
    (1.85, True, 'complexity')
    """

    name: str
    delta: float
    terms: tuple[Term, ...]
    largest: float

    @property
    def total(self) -> float:
        """The bound: the sum of its terms."""
        return sum(term.value for term in self.terms)

    @property
    def vacuous(self) -> bool:
        """Whether the bound is no smaller than the largest possible loss."""
        return not self.total < self.largest

    @property
    def culprit(self) -> Term:
        """The largest term after the empirical loss."""
        return max(self.terms[1:], key=lambda term: term.value)

    def __str__(self) -> str:
        width = max(len(term.name) for term in self.terms)
        confidence = f"with {100 * (1 - self.delta):.4g} % confidence"
        return "\n".join(
            [
                f"{self.name}, {confidence}: at most {self.total:.5g}",
                *(
                    f"  {term.name:{width}}{term.value:>12.5g}  {term.detail}".rstrip()
                    for term in self.terms
                ),
                self._verdict(),
            ]
        )

    def _verdict(self) -> str:
        if not self.vacuous:
            return f"Not vacuous: a loss can be as large as {self.largest:.5g}."
        if math.isinf(self.largest):
            return "Vacuous: the loss is not bounded; give a bounded support."
        cause = f"because of '{self.culprit.name}'"
        if self.terms[0].value + self.culprit.value < self.largest:
            cause = "because of all its terms together"
        return f"Vacuous, {cause}: no loss exceeds {self.largest:.5g}."


def mmd_bound(
    policy: LearnedDecider,
    data: Any,
    *,
    support: Any = None,
    delta: float = 0.05,
    radius: float | None = None,
) -> Bound:
    """Return Theorem 2 for the MMD loss of a linear policy on its training pairs.

    Parameters
    ----------
    policy : Policy
        Fitted with ``network=csg.Linear(bound)``.
    data : (contexts, outcomes) or DataFrame
        The pairs that it was fitted to: the theorem holds for its whole class at once.
    support : (lower, upper), optional
        The box of outcomes: numbers or arrays (p,). Default: the domains of the Params.
        If they are unbounded, so is the bound.
    delta : float
        The bound holds with probability 1 - ``delta``.
    radius : float, optional
        The largest norm of a standardized context, extended by a 1, that can occur.
        Default: the largest in the data.

    Returns
    -------
    Bound

    Notes
    -----
    The standardization of contexts and outcomes counts as fixed, although it was computed
    from the data. Lemma 1's bound 2 U of the loss is also the width of its range: from 0
    to 2 U for the energy kernel, from -U to U for the others.

    Examples
    --------
    >>> import pyomo_csg as csg
    >>> from pyomo_csg.zoo import newsvendor
    >>> pairs = newsvendor.sample(60, seed=1)
    >>> policy = csg.fit(
    ...     newsvendor.build(), pairs, scenarios=2, method="mmd", progress=False,
    ...     network=csg.Linear(0.8),
    ... )
    >>> bound = csg.guarantees.mmd_bound(policy, pairs, support=(13.5, 16.5))
    >>> [term.name for term in bound.terms]
    ['mean MMD loss', 'complexity', 'confidence']
    >>> bound = csg.guarantees.task_bound(policy, pairs, support=(13.5, 16.5))
    >>> [term.name for term in bound.terms]
    ['mean task loss', 'complexity', 'confidence']
    """
    setting = _LinearSetting(policy, data, support, radius, delta)
    kernel, unit = _fitted_kernel(policy)
    slope, size, offset = _kernel_constants(kernel, setting.box, unit)
    zetas, omegas = (
        torch.as_tensor(a / unit) for a in (setting.scenarios, setting.pairs.outcomes)
    )
    losses = mmd_loss(zetas, omegas, None, KERNELS[kernel]).numpy()
    lipschitz = 4 * slope / math.sqrt(setting.linear.scenarios)
    return Bound(
        f"Theorem 2 for the MMD loss ({kernel} kernel)",
        delta,
        (
            _empirical("mean MMD loss", losses),
            setting.complexity(lipschitz, "4 L_k / sqrt(K)", unit),
            _confidence(2 * size, len(losses), 1 / delta, "2 U"),
        ),
        2 * size - offset,
    )


def task_bound(
    policy: LearnedDecider,
    data: Any,
    *,
    support: Any = None,
    delta: float = 0.05,
    radius: float | None = None,
) -> Bound:
    """Return Theorem 2 for the task loss l_opt of a linear policy.

    Parameters
    ----------
    policy, data, support, delta, radius
        As in :func:`mmd_bound`.

    Raises
    ------
    ModelError
        If the model is not linear with uncertain right-hand sides only, or an assumption
        of the paper does not hold.

    Examples
    --------
    See :func:`mmd_bound`.
    """
    setting = _LinearSetting(policy, data, support, radius, delta)
    constants = setting.constants
    losses = policy.oracle.loss(
        setting.scenarios, setting.pairs.outcomes, progress=False
    )
    return Bound(
        "Theorem 2 for the task loss",
        delta,
        (
            _empirical("mean task loss", losses),
            setting.task_complexity(),
            _confidence(constants.width, len(losses), 1 / delta, "width of l_opt"),
        ),
        constants.upper,
    )


def approximate_bound(
    policy: LearnedDecider,
    data: Any,
    *,
    support: Any = None,
    delta: float = 0.05,
    radius: float | None = None,
) -> Bound:
    """Return the bound on the task loss of a linear policy trained through a Loss-Net.

    Parameters
    ----------
    policy, data, support, delta, radius
        As in :func:`mmd_bound`, with a policy fitted by ``'static'`` or ``'dynamic'`` and
        the data that it was fitted to.

    Notes
    -----
    The numbers of the Loss-Net are those recorded during its fit. Three of the theorem's
    conditions hold only approximately: the Loss-Net's samples are not independent of the
    pairs, the 1-Wasserstein distance is that of samples, and the Loss-Net's class is that
    of nets with at most its layer norms, as if these had been fixed beforehand.
    """
    setting = _LinearSetting(policy, data, support, radius, delta)
    net = policy.learned.summary.get("loss_net_errors")
    if net is None:
        found = f"method {policy.method!r} trains none; fit by 'static' or 'dynamic'"
        raise DataError("The policy has no Loss-Net", [found])
    if "lipschitz" not in net:
        found = "its Loss-Net is a module of yours; fit without loss_net="
        raise DataError("The Loss-Net has no bounds of its layers", [found])
    n, m = net["pairs"], net["cases"]
    if len(setting.pairs) != n:
        found = (
            f"there are {len(setting.pairs)} pairs, and the policy was fitted to {n}"
        )
        raise DataError(_SUBJECT, [f"{found}; give those"])
    constants = setting.constants
    both = constants.l_opt + net["lipschitz"]
    size = constants.u_opt + setting.loss_net_size(net)
    rademacher = net["complexity"] * setting.loss_net_input_norm()
    return Bound(
        "The bound by an approximate loss",
        delta,
        (
            Term(
                "mean expected loss", net["expected"], f"of the Loss-Net, on {n} pairs"
            ),
            setting.task_complexity(),
            _confidence(constants.width, n, 2 / delta, "width of l_opt"),
            Term("Loss-Net's error", net["error"], f"on its {m} training cases"),
            Term(
                "complexity of Loss-Nets",
                2 * rademacher * (1 / math.sqrt(m) + 1 / math.sqrt(n)),
                "2 (R_m(G) + R_n(G))",
            ),
            Term(
                "shift",
                both * net["wasserstein"],
                f"(L_opt + L_Psi) d_Lip, {constants.l_opt:.4g} + {net['lipschitz']:.4g}, "
                f"d_Lip = {net['wasserstein']:.4g}",
            ),
            _confidence(size, n, 4 / delta, "U_opt + U_Psi", "confidence, pairs"),
            _confidence(size, m, 4 / delta, "U_opt + U_Psi", "confidence, cases"),
            setting.complexity(both, "L_opt + L_Psi", name="for all f at once"),
        ),
        constants.upper,
    )


class _LinearSetting:
    """A linear policy, its pairs, and the box that contains outcomes and scenarios."""

    def __init__(
        self,
        policy: LearnedDecider,
        data: Any,
        support: Any,
        radius: float | None,
        delta: float,
    ):
        self.policy = policy
        self.pairs: History = read_pairs(policy, data)
        self.linear = linear_class(getattr(policy, "network", None))
        seen = self.linear.radius(self.pairs.contexts)
        problems = Problems(_SUBJECT)
        problems.check_fractions(delta=delta)
        if radius is not None:
            problems.check_nonnegative(radius=radius)
            if not problems and radius < seen:
                found = (
                    f"radius is {radius}, but a context in the data has norm {seen:g}"
                )
                problems.add(f"{found}; give at least that")
        problems.raise_any()
        self.radius = seen if radius is None else float(radius)
        outcomes = read_support(policy.two_stage, support)
        _check_inside(outcomes, self.pairs.outcomes)
        self.box = outcomes.enclose(*self.linear.reach(self.radius))
        self.scenarios = policy.scenarios(self.pairs.contexts)

    @cached_property
    def constants(self) -> TaskConstants:
        """Lemma 2's constants on the box."""
        model = right_hand_side_model(self.policy.two_stage)
        return compute_constants(model, self.linear.scenarios, self.box)

    def complexity(
        self,
        lipschitz: float,
        what: str,
        unit: np.ndarray | float = 1.0,
        name: str = "complexity",
    ) -> Term:
        """Return 2 sqrt(2) L R_n."""
        r_n = self.linear.complexity(len(self.pairs), self.radius, unit)
        detail = f"2 sqrt(2) L R_n, L = {lipschitz:.4g} ({what}), R_n = {r_n:.4g}"
        return Term(name, 2 * math.sqrt(2) * lipschitz * r_n, detail)

    def task_complexity(self) -> Term:
        """Return 2 sqrt(2) L_opt R_n; if L_opt is unknown, infinity and a lower bound."""
        lipschitz = self.constants.l_scenarios
        term = self.complexity(lipschitz, "L_opt in the scenarios")
        if math.isfinite(lipschitz):
            return term
        some = slice(_SAMPLED)
        slopes = self.policy.oracle.loss_gradient(
            self.scenarios[some], self.pairs.outcomes[some], progress=False
        ).gradient
        least = float(np.sqrt((slopes**2).sum(axis=(1, 2))).max())
        detail = (
            "2 sqrt(2) L R_n; Opt-Search has too many dual bases to compute L, which is "
            f"at least {least:.4g}, and the term at least "
            f"{self.complexity(least, 'seen').value:.4g}"
        )
        return Term(term.name, math.inf, detail)

    def loss_net_size(self, net: dict[str, float]) -> float:
        """Return U_Psi, a bound on the Loss-Net's absolute value on the box."""
        corner = float(np.linalg.norm(self._farthest()))
        distance = math.sqrt(self.linear.scenarios + 1) * corner
        return abs(net["at_center"]) + net["lipschitz"] * distance

    def loss_net_input_norm(self) -> float:
        """Return the largest norm of a Loss-Net's input: standardized, and a 1."""
        omega: Any = self.policy.network.head.omega
        corner = self._farthest() / omega.spread.numpy()
        return math.sqrt((self.linear.scenarios + 1) * float((corner**2).sum()) + 1)

    def _farthest(self) -> np.ndarray:
        """Return the largest distance (p,) of the box from the mean outcome."""
        center: Any = self.policy.network.head.omega.center.numpy()
        return np.maximum(self.box.upper - center, center - self.box.lower)


def _fitted_kernel(policy: LearnedDecider) -> tuple[str, np.ndarray]:
    """Return the kernel of the fit, and the unit (p,) in which its bandwidth is 1."""
    settings = policy.learned.summary.get("settings", {})
    kernel = settings.get("kernel", "energy")
    if kernel not in KERNELS:
        found = f"its kernel is {kernel!r}, whose constants are unknown"
        raise DataError(_SUBJECT, [f"{found}; fit with one of {sorted(KERNELS)}"])
    omega: Any = policy.network.head.omega
    spread = omega.spread.numpy()
    unit = np.ones_like(spread) if settings.get("units") == "raw" else spread
    return kernel, unit * (settings.get("bandwidth") or 1.0)


def _kernel_constants(
    kernel: str, box: Support, unit: np.ndarray
) -> tuple[float, float, float]:
    """Return L_k, U, and the difference between 2 U and the largest MMD loss."""
    if kernel == "energy":  # -norm(a - b) / 2
        return 0.5, box.diameter(unit) / 2, 0.0
    slope = math.exp(-0.5) if kernel == "gaussian" else math.sqrt(len(unit))
    return slope, 1.0, 1.0


def _empirical(name: str, losses: np.ndarray) -> Term:
    return Term(name, float(losses.mean()), f"on {len(losses)} pairs")


def _confidence(
    width: float, count: int, odds: float, what: str, name: str = "confidence"
) -> Term:
    """Return width sqrt(log(odds) / 2 n)."""
    value = width * math.sqrt(math.log(odds) / (2 * count))
    return Term(name, value, f"{width:.4g} ({what}) sqrt(log({odds:.4g}) / 2 n)")


def _check_inside(support: Support, outcomes: np.ndarray) -> None:
    """Raise a DataError if an outcome is outside the support."""
    low, high = outcomes.min(axis=0), outcomes.max(axis=0)
    outside = np.flatnonzero((low < support.lower) | (high > support.upper))
    if len(outside):
        j = int(outside[0])
        found = (
            f"outcomes of number {j} are between {low[j]:g} and {high[j]:g}, but the "
            f"support is from {support.lower[j]:g} to {support.upper[j]:g}"
        )
        raise DataError(_SUBJECT, [found])
