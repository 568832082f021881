"""How far apart two laws of scenarios and outcome are: 1-Wasserstein and joint MMD."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist
from torch import Tensor

from pyomo_csg.errors import DataError
from pyomo_csg.stages.inputs import float_array

Kernel = Callable[[Tensor, Tensor], Tensor]


def energy(one: Tensor, other: Tensor) -> Tensor:
    """Return -||a - b|| / 2 for all pairs (..., m, n): the energy distance's kernel.

    It differs from the paper's k_E by terms that cancel in the loss but for the norm of
    the outcome, which no scenario changes.
    """
    return -0.5 * _distances(one, other)


def gaussian(one: Tensor, other: Tensor, bandwidth: float = 1.0) -> Tensor:
    """Return exp(-||a - b||^2 / (2 h^2)) for all pairs, h the bandwidth."""
    return torch.exp(-0.5 * (_distances(one, other) / bandwidth) ** 2)


def laplacian(one: Tensor, other: Tensor, bandwidth: float = 1.0) -> Tensor:
    """Return exp(-||a - b||_1 / h) for all pairs, h the bandwidth."""
    apart = (one[..., :, None, :] - other[..., None, :, :]).abs().sum(-1)
    return torch.exp(-apart / bandwidth)


KERNELS: dict[str, Callable[..., Tensor]] = {
    "energy": energy,
    "gaussian": gaussian,
    "laplacian": laplacian,
}
# Those that have a bandwidth, and the distance that it is one of, as scipy calls it.
METRICS = {"gaussian": "euclidean", "laplacian": "cityblock"}


def resolve_kernel(
    kernel: Any, numbers: int = 3, bandwidth: float | None = None
) -> Kernel:
    """Return a kernel by its name, or the user's own function of p numbers, checked."""
    if isinstance(kernel, str) and kernel in KERNELS:
        chosen = KERNELS[kernel]
        return chosen if bandwidth is None else partial(chosen, bandwidth=bandwidth)
    if not callable(kernel):
        raise DataError(
            "Unknown kernel",
            [f"kernel is {kernel!r}; give one of {sorted(KERNELS)} or a function"],
        )
    one = torch.zeros(4, 2, numbers, dtype=torch.float64)
    wanted = (
        "it must take tensors (..., m, p) and (..., n, p) to (..., m, n); for "
        f"(4, 2, {numbers}) and (4, 5, {numbers}) it gave "
    )
    try:
        found = kernel(one, torch.ones(4, 5, numbers, dtype=torch.float64))
    except Exception as error:  # a user's own function may raise anything
        failed = f"an error ({type(error).__name__}: {error})"
        raise DataError("The kernel does not fit", [wanted + failed]) from error
    if not isinstance(found, Tensor) or found.shape != (4, 2, 5):
        shape = getattr(found, "shape", found)
        raise DataError("The kernel does not fit", [f"{wanted}{shape}"])
    return kernel


def trainable_kernel(
    kernel: Any, numbers: int, bandwidth: float | None = None
) -> Kernel:
    """Return the same if scenarios can be learned by it, also where they coincide."""
    chosen = resolve_kernel(kernel, numbers, bandwidth)
    if isinstance(kernel, str):
        return chosen
    points = torch.ones(1, 2, numbers, dtype=torch.float64, requires_grad=True)
    try:
        mmd_loss(points, points[:, 0].detach(), None, chosen).sum().backward()
    except RuntimeError as error:  # as torch's are
        found = f"{_name(kernel)} has no gradient ({error}); give a function of torch's"
        raise DataError("The kernel does not fit", [found]) from error
    if points.grad is None or not bool(torch.isfinite(points.grad).all()):
        found = (
            f"the gradient of {_name(kernel)} is not finite where points coincide, as "
            "scenarios may; add a small number under a root, such as "
            "torch.sqrt(squares + 1e-12)"
        )
        raise DataError("The kernel does not fit", [found])
    return chosen


def mmd_loss(
    scenarios: Tensor,
    outcomes: Tensor,
    weights: Tensor | None = None,
    kernel: Kernel = energy,
) -> Tensor:
    """Return the part of the squared MMD that depends on the scenarios, (...).

    Parameters
    ----------
    scenarios : tensor (..., K, p)
    outcomes : tensor (..., p)
        What happened.
    weights : tensor (..., K), optional
        Of the scenarios. Default: 1/K.
    kernel : callable
    """
    if weights is None:
        count = scenarios.shape[-2]
        weights = scenarios.new_full(scenarios.shape[:-1], 1 / count)
    among = kernel(scenarios, scenarios)
    to_outcome = kernel(scenarios, outcomes[..., None, :])[..., 0]
    own = torch.einsum("...i,...ij,...j->...", weights, among, weights)
    return own - 2 * (weights * to_outcome).sum(-1)


def _distances(one: Tensor, other: Tensor) -> Tensor:
    return torch.cdist(one, other, compute_mode="donot_use_mm_for_euclid_dist")


def _name(kernel: Any) -> str:
    return f"'{getattr(kernel, '__name__', type(kernel).__name__)}'"


_SUBJECT = "There is no distance"


def wasserstein(one: Any, other: Any) -> float:
    """Return the 1-Wasserstein distance of two samples of as many points, each (n, ...).

    Distances are Euclidean, over all numbers of a point.

    Examples
    --------
    >>> wasserstein([[0.0], [1.0], [2.0]], [[2.0], [3.0], [1.0]])
    1.0
    """
    first, second = (float_array("samples", part, _SUBJECT) for part in (one, other))
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
    chosen = resolve_kernel(kernel, law.atoms.shape[2])
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
    chosen = resolve_kernel(kernel, first.atoms.shape[2])
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
    zetas = float_array("scenarios", scenarios, _SUBJECT)
    omegas = float_array("outcomes", outcomes, _SUBJECT)
    omegas = omegas[:, None] if omegas.ndim == 2 else omegas
    n, count, numbers = (*zetas.shape, 0, 0, 0)[:3]
    if weights is None:
        shares = np.full((n, count), 1 / max(count, 1))
    else:
        shares = float_array("weights", weights, _SUBJECT)
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
