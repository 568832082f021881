"""How far apart two laws of scenarios and outcome are: 1-Wasserstein and joint MMD."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from pyomo_csg.errors import DataError
from pyomo_csg.learn.kernels import Kernel, kernel_of
from pyomo_csg.stages.arrays import numbers_of

_SUBJECT = "There is no distance"


def wasserstein(one: Any, other: Any) -> float:
    """Return the 1-Wasserstein distance of two samples of as many points, each (n, ...).

    Distances are Euclidean, over all numbers of a point.

    Examples
    --------
    >>> wasserstein([[0.0], [1.0], [2.0]], [[2.0], [3.0], [1.0]])
    1.0
    """
    first, second = (numbers_of("samples", part, _SUBJECT) for part in (one, other))
    if first.shape != second.shape or not first.size or not first.ndim:
        found = f"samples are of shapes {first.shape} and {second.shape}"
        raise DataError(_SUBJECT, [f"{found}; give as many of each"])
    if not (np.isfinite(first).all() and np.isfinite(second).all()):
        raise DataError(_SUBJECT, ["samples: not all are finite; drop the others"])
    apart = cdist(first.reshape(len(first), -1), second.reshape(len(first), -1))
    return float(apart[linear_sum_assignment(apart)].mean())


@dataclass(frozen=True)
class JointMMD:
    """The squared MMD between scenarios and what happened, split in two.

    Attributes
    ----------
    total : float
        Mean over contexts of the squared MMD between scenarios and outcomes.
    bias : float
        The squared MMD, by the joint kernel kappa, between the law of (scenarios,
        outcome) and that of scenarios drawn as the outcome is: what is off in the mean
        over all contexts.
    variance : float
        What is off from context to context: ``total - bias``.
    noisy : bool
        Whether there was one outcome a context, so that ``total`` and ``variance`` have
        the outcomes' own spread in them.
    """

    total: float
    bias: float
    variance: float
    noisy: bool


def joint_mmd(
    scenarios: Any, outcomes: Any, weights: Any = None, kernel: Any = "energy"
) -> JointMMD:
    """Return the joint-kernel MMD of generated scenarios, with its two parts.

    Parameters
    ----------
    scenarios : array (n, K, p)
    outcomes : array (n, p), or (n, M, p)
        What happened after each context; M independent draws where its law is known.
    weights : array (n, K), optional
    kernel : str or callable
        As in :class:`pyomo_csg.FitConfig`, of bandwidth 1.

    Notes
    -----
    Estimates are unbiased, so that they may be negative where there is little to see.
    """
    law = _signed(scenarios, outcomes, weights)
    if len(law.atoms) < 2:
        raise DataError(_SUBJECT, ["there is 1 case; give at least two"])
    chosen = kernel_of(kernel, law.atoms.shape[2])
    gram, noisy = law.gram(law, chosen), law.draws == 1
    n, own = len(gram), np.diag(gram)
    bias = float((gram.sum() - own.sum()) / (n * (n - 1)))
    total = float(np.mean(own if noisy else own + law.correction(chosen)))
    return JointMMD(total, bias, total - bias, noisy)


def kappa_distance(
    one: tuple[Any, ...], other: tuple[Any, ...], kernel: Any = "energy"
) -> float:
    """Return the MMD by the joint kernel kappa between two laws of scenarios and outcome.

    Parameters
    ----------
    one, other : tuple of arrays
        Scenarios (n, K, p), outcomes (n, p) and, if they are not equal, weights (n, K).
    kernel : str or callable
    """
    first, second = (_signed(*_padded(part)) for part in (one, other))
    if first.atoms.shape[2] != second.atoms.shape[2]:
        found = (
            f"{first.atoms.shape[2]} numbers an outcome, and {second.atoms.shape[2]}"
        )
        raise DataError("The laws are not of one space", [f"{found}; give as many"])
    chosen = kernel_of(kernel, first.atoms.shape[2])
    squared = (
        first.gram(first, chosen).mean()
        + second.gram(second, chosen).mean()
        - 2 * first.gram(second, chosen).mean()
    )
    return float(np.sqrt(max(squared, 0.0)))


@dataclass(frozen=True, eq=False)
class _Signed:
    """Cases as signed measures: scenarios count by their weights, outcomes against.

    Attributes
    ----------
    atoms : array (n, K + M, p)
    signs : array (n, K + M)
    draws : int
        M.
    """

    atoms: np.ndarray
    signs: np.ndarray
    draws: int

    def gram(self, other: _Signed, kernel: Kernel) -> np.ndarray:
        """Return kappa (n, m) of all pairs of cases."""
        theirs = torch.as_tensor(other.atoms.reshape(1, -1, other.atoms.shape[2]))
        rows = []
        for atoms, signs in zip(self.atoms, self.signs, strict=True):
            values = kernel(torch.as_tensor(atoms[None]), theirs)[0].numpy()
            seen = (signs @ values).reshape(other.signs.shape)
            rows.append((seen * other.signs).sum(axis=1))
        return np.array(rows)

    def correction(self, kernel: Kernel) -> np.ndarray:
        """Return what (n,) makes kappa of a case with itself unbiased in its outcomes.

        An outcome's kernel with itself is left out, and the others count for it.
        """
        outcomes = torch.as_tensor(self.atoms[:, -self.draws :])
        among = kernel(outcomes, outcomes).numpy()
        alone = np.einsum("imm->i", among)
        both, draws = among.sum(axis=(1, 2)), self.draws
        return (both - alone) / (draws * (draws - 1)) - both / draws**2


def _signed(scenarios: Any, outcomes: Any, weights: Any) -> _Signed:
    zetas = numbers_of("scenarios", scenarios, _SUBJECT)
    omegas = numbers_of("outcomes", outcomes, _SUBJECT)
    omegas = omegas[:, None] if omegas.ndim == 2 else omegas
    n, count, numbers = (*zetas.shape, 0, 0, 0)[:3]
    if weights is None:
        shares = np.full((n, count), 1 / max(count, 1))
    else:
        shares = numbers_of("weights", weights, _SUBJECT)
    problems = []
    if zetas.ndim != 3 or not zetas.size:
        problems.append(f"scenarios are of shape {zetas.shape}; give (n, K, p)")
    elif (omegas.ndim, *omegas.shape[::2]) != (3, n, numbers) or not omegas.size:
        found = f"outcomes are of shape {np.shape(outcomes)}"
        problems.append(f"{found}; give ({n}, {numbers}) or ({n}, M, {numbers})")
    elif shares.shape != (n, count):
        problems.append(f"weights are of shape {shares.shape}; give ({n}, {count})")
    if problems:
        raise DataError(_SUBJECT, problems)
    draws = omegas.shape[1]
    return _Signed(
        np.concatenate([zetas, omegas], axis=1),
        np.concatenate([shares, np.full((n, draws), -1 / draws)], axis=1),
        draws,
    )


def _padded(part: tuple[Any, ...]) -> tuple[Any, Any, Any]:
    if not (isinstance(part, tuple | list) and len(part) in (2, 3)):
        size = f" of {len(part)}" if isinstance(part, tuple | list) else ""
        found = f"a {type(part).__name__}{size} was given"
        raise DataError(_SUBJECT, [f"{found}; give (scenarios, outcomes[, weights])"])
    scenarios, outcomes, *weights = part
    return scenarios, outcomes, weights[0] if weights else None
