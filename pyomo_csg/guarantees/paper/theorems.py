"""The paper's bounds for a policy, term by term: Theorem 2 and that of approximate losses.

Where the paper's proofs fall short of what they claim, the terms are those that hold:

- Theorem 2's last term has a bound M of the absolute loss. McDiarmid's inequality asks for
  the width of its range, which can be 2 M; here it is the width.
- The theorem of approximate losses compares the Loss-Net's error on the pairs and in
  expectation for one f at a time, while f was chosen by these pairs. The term
  'for all f at once' makes up for it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from pyomo_csg.decisions.learned_decider import LearnedDecider
from pyomo_csg.errors import DataError
from pyomo_csg.guarantees.holdout import pairs_of
from pyomo_csg.guarantees.paper.complexity import LinearClass, linear_class
from pyomo_csg.guarantees.paper.constants import TaskConstants, constants_of
from pyomo_csg.guarantees.paper.right_hand_side_model import (
    Support,
    right_hand_side_model,
    support_of,
)
from pyomo_csg.learn.distributions.distances import KERNELS, mmd_loss
from pyomo_csg.learn.history import History
from pyomo_csg.validation import share_problems, size_problems


@dataclass(frozen=True)
class Term:
    """One summand of a bound.

    Attributes
    ----------
    name : str
    value : float
    detail : str
        The constants that it is made of.
    """

    name: str
    value: float
    detail: str = ""


@dataclass(frozen=True)
class Bound:
    """An upper bound of an expected loss, term by term. ``str()`` is a report.

    Attributes
    ----------
    name : str
        The theorem and the loss.
    delta : float
        The chance, at most, that it is wrong.
    terms : tuple of Term
        The first is what was seen; the others are the price of not having seen all.
    largest : float
        What no loss is above.

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
        """The bound."""
        return sum(term.value for term in self.terms)

    @property
    def vacuous(self) -> bool:
        """Whether it says no more than what is true of every loss."""
        return not self.total < self.largest

    @property
    def culprit(self) -> Term:
        """The largest term, apart from what was seen."""
        return max(self.terms[1:], key=lambda term: term.value)

    def __str__(self) -> str:
        width = max(len(term.name) for term in self.terms)
        sure = f"with {100 * (1 - self.delta):.4g} % confidence"
        lines = [
            f"  {term.name:{width}}{term.value:>12.5g}  {term.detail}".rstrip()
            for term in self.terms
        ]
        head = f"{self.name}, {sure}: at most {self.total:.5g}"
        return "\n".join([head, *lines, self._verdict()])

    def _verdict(self) -> str:
        if not self.vacuous:
            return f"It says something: a loss can be {self.largest:.5g}."
        if math.isinf(self.largest):
            return "Vacuous: the loss is not bounded; give a bounded support."
        fault = f"by its term '{self.culprit.name}'"
        if self.terms[0].value + self.culprit.value < self.largest:
            fault = "by all its terms together"
        return f"Vacuous, {fault}: no loss is above {self.largest:.5g} anyway."


_SAMPLED = 100


def mmd_bound(
    policy: LearnedDecider,
    data: Any,
    *,
    support: Any = None,
    delta: float = 0.05,
    radius: float | None = None,
) -> Bound:
    """Return Theorem 2 for the MMD loss of a linear policy on the pairs it learned from.

    Parameters
    ----------
    policy : Policy
        Fitted with ``network=csg.Linear(bound)``.
    data : (contexts, outcomes) or DataFrame
        What it was fitted to: the theorem holds for all of its class at once.
    support : (lower, upper), optional
        The box that outcomes are in, numbers or arrays (p,). Default: the Params'
        domains, which may be unbounded; then so is the bound.
    delta : float
        The chance, at most, that the bound is wrong.
    radius : float, optional
        The largest norm of a context that can come, standardised and with a 1. Default:
        the largest in the data.

    Returns
    -------
    Bound

    Notes
    -----
    How contexts and outcomes are standardised is taken as given, though it was read off
    the data. Lemma 1's bound 2 U of the loss is the width of its range, too: with an
    energy kernel it is between 0 and 2 U, with another between -U and U.
    """
    setting = _Setting(policy, data, support, radius, delta)
    kernel, unit = _kernel(policy)
    speed, size, offset = _kernel_constants(kernel, setting.box, unit)
    zetas, omegas = (
        torch.as_tensor(a / unit) for a in (setting.scenarios, setting.pairs.outcomes)
    )
    losses = mmd_loss(zetas, omegas, None, KERNELS[kernel]).numpy()
    lipschitz = 4 * speed / math.sqrt(setting.map.scenarios)
    return Bound(
        f"Theorem 2 for the MMD loss ({kernel} kernel)",
        delta,
        (
            _seen("mean MMD loss", losses),
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
        If the model is not linear with uncertain right-hand sides alone, or an assumption
        of the paper does not hold.
    """
    setting = _Setting(policy, data, support, radius, delta)
    constants = setting.constants()
    losses = policy.oracle.loss(
        setting.scenarios, setting.pairs.outcomes, progress=False
    )
    width = constants.upper - constants.lower
    return Bound(
        "Theorem 2 for the task loss",
        delta,
        (
            _seen("mean task loss", losses),
            setting.task_complexity(constants),
            _confidence(width, len(losses), 1 / delta, "width of l_opt"),
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
    """Return the bound of the task loss of a linear policy that followed a Loss-Net.

    Parameters
    ----------
    policy, data, support, delta, radius
        As in :func:`mmd_bound`; the policy by ``'static'`` or ``'dynamic'``, the data
        what it was fitted to.

    Notes
    -----
    The Loss-Net's numbers are those of its fit. The theorem has its samples independent
    of the pairs, which they are not; the 1-Wasserstein distance is that of samples; and
    the Loss-Net's class is that of nets whose layers have at most its norms, as if these
    had been fixed beforehand.
    """
    setting = _Setting(policy, data, support, radius, delta)
    net = policy.learned.summary.get("trust")
    if net is None:
        found = f"method {policy.method!r} has none; fit by 'static' or 'dynamic'"
        raise DataError("There is no Loss-Net to speak of", [found])
    n, m = net["pairs"], net["cases"]
    if len(setting.pairs) != n:
        found = (
            f"there are {len(setting.pairs)} pairs, and the policy was fitted to {n}"
        )
        raise DataError("There is no bound", [f"{found}; give those"])
    constants = setting.constants()
    both = constants.l_opt + net["lipschitz"]
    apart = constants.u_opt + setting.loss_net_size(net)
    richness = net["complexity"] * setting.standard_length()
    width = constants.upper - constants.lower
    return Bound(
        "The bound by an approximate loss",
        delta,
        (
            Term(
                "mean expected loss", net["expected"], f"of the Loss-Net, on {n} pairs"
            ),
            setting.task_complexity(constants),
            _confidence(width, n, 2 / delta, "width of l_opt"),
            Term("Loss-Net's error", net["error"], f"on its own {m} cases"),
            Term(
                "complexity of Loss-Nets",
                2 * richness * (1 / math.sqrt(m) + 1 / math.sqrt(n)),
                "2 (R_m(G) + R_n(G))",
            ),
            Term(
                "shift",
                both * net["wasserstein"],
                f"(L_opt + L_Psi) d_Lip, {constants.l_opt:.4g} + {net['lipschitz']:.4g}, "
                f"d_Lip = {net['wasserstein']:.4g}",
            ),
            _confidence(apart, n, 4 / delta, "U_opt + U_Psi", "confidence, pairs"),
            _confidence(apart, m, 4 / delta, "U_opt + U_Psi", "confidence, cases"),
            setting.complexity(both, "L_opt + L_Psi", name="for all f at once"),
        ),
        constants.upper,
    )


class _Setting:
    """A policy of the linear class, its pairs, and the box that all is in."""

    def __init__(
        self,
        policy: LearnedDecider,
        data: Any,
        support: Any,
        radius: float | None,
        delta: float,
    ):
        self.policy = policy
        self.pairs: History = pairs_of(policy, data)
        self.map: LinearClass = linear_class(getattr(policy, "network", None))
        seen = self.map.radius(self.pairs.contexts)
        problems = share_problems(delta=delta)
        if radius is not None:
            problems += size_problems(radius=radius)
        if problems:
            raise DataError("There is no bound", problems)
        if radius is not None and radius < seen:
            found = f"radius is {radius}, but a context in the data is {seen:g} away"
            raise DataError("There is no bound", [found])
        self.radius = seen if radius is None else float(radius)
        outcomes = support_of(policy.two_stage, support)
        _refuse_outside(outcomes, self.pairs)
        self.box: Support = outcomes.joined(*self.map.reach(self.radius))
        self.scenarios = policy.scenarios(self.pairs.contexts)

    def constants(self) -> TaskConstants:
        """Return Lemma 2's constants on the box."""
        model = right_hand_side_model(self.policy.two_stage)
        return constants_of(model, self.map.scenarios, self.box)

    def complexity(
        self,
        lipschitz: float,
        what: str,
        unit: np.ndarray | float = 1.0,
        name: str = "complexity",
    ) -> Term:
        """Return 2 sqrt(2) L R_n."""
        own = self.map.complexity(len(self.pairs), self.radius, unit)
        detail = f"2 sqrt(2) L R_n, L = {lipschitz:.4g} ({what}), R_n = {own:.4g}"
        return Term(name, 2 * math.sqrt(2) * lipschitz * own, detail)

    def task_complexity(self, constants: TaskConstants) -> Term:
        """Return 2 sqrt(2) L_opt R_n, with what is known of L_opt where it is not."""
        term = self.complexity(constants.l_scenarios, "L_opt in the scenarios")
        if math.isfinite(constants.l_scenarios):
            return term
        some = slice(_SAMPLED)
        slopes = self.policy.oracle.loss_gradient(
            self.scenarios[some], self.pairs.outcomes[some], progress=False
        ).gradient
        least = float(np.sqrt((slopes**2).sum(axis=(1, 2))).max())
        known = self.complexity(least, "seen").value
        detail = (
            f"2 sqrt(2) L R_n; Opt-Search has too many dual bases to know L, which is at "
            f"least {least:.4g}, and the term at least {known:.4g}"
        )
        return Term(term.name, math.inf, detail)

    def loss_net_size(self, net: dict[str, float]) -> float:
        """Return U_Psi: how large a Loss-Net can be on the box."""
        center: Any = self.policy.network.head.omega.center.numpy()
        corner = np.maximum(self.box.upper - center, center - self.box.lower)
        away = math.sqrt(self.map.scenarios + 1) * float(np.linalg.norm(corner))
        return abs(net["at_center"]) + net["lipschitz"] * away

    def standard_length(self) -> float:
        """Return the largest norm of what a Loss-Net reads: standardised, and a 1."""
        omega: Any = self.policy.network.head.omega
        center, spread = omega.center.numpy(), omega.spread.numpy()
        corner = np.maximum(self.box.upper - center, center - self.box.lower) / spread
        return math.sqrt((self.map.scenarios + 1) * float((corner**2).sum()) + 1)


def _kernel(policy: LearnedDecider) -> tuple[str, np.ndarray]:
    """Return the kernel that a policy was fitted with, and its unit of outcomes.

    A bandwidth is part of the unit: what is left is the kernel of bandwidth 1.
    """
    settings = policy.learned.summary.get("settings", {})
    kernel = settings.get("kernel", "energy")
    if kernel not in KERNELS:
        found = f"its kernel is {kernel!r}, whose constants are not known"
        raise DataError(
            "There is no bound", [f"{found}; give one of {sorted(KERNELS)}"]
        )
    omega: Any = policy.network.head.omega
    spread = omega.spread.numpy()
    unit = np.ones_like(spread) if settings.get("units") == "raw" else spread
    return kernel, unit * (settings.get("bandwidth") or 1.0)


def _kernel_constants(
    kernel: str, box: Support, unit: np.ndarray
) -> tuple[float, float, float]:
    """Return L_k, U, and how far the largest MMD loss is below 2 U."""
    if kernel == "energy":  # -norm(a - b) / 2
        return 0.5, box.diameter(unit) / 2, 0.0
    speed = math.exp(-0.5) if kernel == "gaussian" else math.sqrt(len(unit))
    return speed, 1.0, 1.0


def _seen(name: str, losses: np.ndarray) -> Term:
    return Term(name, float(losses.mean()), f"on {len(losses)} pairs")


def _confidence(
    width: float, count: int, odds: float, what: str, name: str = "confidence"
) -> Term:
    """Return width sqrt(log(odds) / 2 n)."""
    value = width * math.sqrt(math.log(odds) / (2 * count))
    return Term(name, value, f"{width:.4g} ({what}) sqrt(log({odds:.4g}) / 2 n)")


def _refuse_outside(support: Support, pairs: History) -> None:
    low, high = pairs.outcomes.min(axis=0), pairs.outcomes.max(axis=0)
    if (low >= support.lower).all() and (high <= support.upper).all():
        return
    j = int(np.flatnonzero((low < support.lower) | (high > support.upper))[0])
    found = (
        f"outcomes of number {j} are between {low[j]:g} and {high[j]:g}, but the support "
        f"is from {support.lower[j]:g} to {support.upper[j]:g}"
    )
    raise DataError("There is no bound", [found])
