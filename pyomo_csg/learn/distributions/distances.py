"""Kernels, the MMD loss, and distances between distributions of scenarios and outcome."""

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
# From weights (B, K), points (B, K, p), weights (B, M) and points (B, M, p) to (B,).
Distance = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def energy(one: Tensor, other: Tensor) -> Tensor:
    """Return -||a - b|| / 2 for all pairs (..., m, n), the kernel of the energy distance.

    It equals the paper's k_E up to terms that do not depend on the scenarios.
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
# Kernels with a bandwidth, and the scipy metric that the bandwidth refers to.
METRICS = {"gaussian": "euclidean", "laplacian": "cityblock"}


def resolve_kernel(
    kernel: Any, numbers: int = 3, bandwidth: float | None = None
) -> Kernel:
    """Return a kernel by name, or check and return a user's function of ``numbers`` columns."""
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
        "it must map tensors (..., m, p) and (..., n, p) to (..., m, n); for "
        f"(4, 2, {numbers}) and (4, 5, {numbers}) it returned "
    )
    try:
        found = kernel(one, torch.ones(4, 5, numbers, dtype=torch.float64))
    except Exception as error:  # a user's function may raise anything
        failed = f"an error ({type(error).__name__}: {error})"
        raise DataError("The kernel cannot be used", [wanted + failed]) from error
    if not isinstance(found, Tensor) or found.shape != (4, 2, 5):
        shape = getattr(found, "shape", found)
        raise DataError("The kernel cannot be used", [f"{wanted}{shape}"])
    return kernel


def trainable_kernel(
    kernel: Any, numbers: int, bandwidth: float | None = None
) -> Kernel:
    """Return a kernel that has finite gradients, also where points coincide."""
    chosen = resolve_kernel(kernel, numbers, bandwidth)
    if isinstance(kernel, str):
        return chosen
    points = torch.ones(1, 2, numbers, dtype=torch.float64, requires_grad=True)
    try:
        mmd_loss(points, points[:, 0].detach(), None, chosen).sum().backward()
    except RuntimeError as error:  # torch raises these
        found = f"{_name(kernel)} has no gradient ({error}); use torch operations"
        raise DataError("The kernel cannot be used", [found]) from error
    if points.grad is None or not bool(torch.isfinite(points.grad).all()):
        found = (
            f"the gradient of {_name(kernel)} is not finite where points coincide, as "
            "scenarios may; add a small number under the root, such as "
            "torch.sqrt(squares + 1e-12)"
        )
        raise DataError("The kernel cannot be used", [found])
    return chosen


def mmd_loss(
    scenarios: Tensor,
    outcomes: Tensor,
    weights: Tensor | None = None,
    kernel: Kernel = energy,
) -> Tensor:
    """Return the part of the squared MMD that depends on the scenarios, (...).

    Scenarios are (..., K, p), outcomes (..., p), and weights (..., K), by default 1/K.
    """
    return mmd_to_points(scenarios, outcomes[..., None, :], weights, kernel)


def mmd_to_points(
    scenarios: Tensor,
    points: Tensor,
    weights: Tensor | None = None,
    kernel: Kernel = energy,
) -> Tensor:
    """Return :func:`mmd_loss` for a target of equally likely points (..., M, p)."""
    weights = _or_equal(scenarios, weights)
    among = kernel(scenarios, scenarios)
    to_target = kernel(scenarios, points).mean(-1)
    within = torch.einsum("...i,...ij,...j->...", weights, among, weights)
    return within - 2 * (weights * to_target).sum(-1)


def distance_losses(
    scenarios: Tensor, points: Tensor, weights: Tensor | None, distance: Distance
) -> Tensor:
    """Return the user's distances (...) of scenarios from equally likely points (..., M, p)."""
    weights = _or_equal(scenarios, weights)
    shares = points.new_full(points.shape[:-1], 1 / points.shape[-2])
    flat = [weights.flatten(0, -2), scenarios.flatten(0, -3)]
    flat += [shares.flatten(0, -2), points.flatten(0, -3)]
    return distance(*flat).reshape(scenarios.shape[:-2])


def check_distance(distance: Any, count: int, numbers: int) -> None:
    """Raise a DataError unless a distance gives finite losses with finite gradients."""
    subject = "The distance cannot be used"
    generator = torch.Generator().manual_seed(0)
    size = (3, count, numbers)
    scenarios = torch.randn(size, generator=generator, dtype=torch.float64)
    points = torch.randn((3, 2, numbers), generator=generator, dtype=torch.float64)
    # Scenarios may coincide with each other and with outcomes.
    scenarios[0] = points[0, 0]
    scenarios.requires_grad_(True)
    called = (
        f"for weights (3, {count}), scenarios {size}, weights (3, 2) and outcomes "
        f"(3, 2, {numbers}) it "
    )
    try:
        found = distance_losses(scenarios, points, None, distance)
        found.sum().backward()
    except Exception as error:  # a user's function may raise anything
        failed = f"{called}gave an error ({type(error).__name__}: {error})"
        remedy = "return a tensor (3,), made by torch operations"
        raise DataError(subject, [f"{failed:.400}; {remedy}"]) from error
    if not bool(torch.isfinite(found).all()):
        raise DataError(subject, [f"{called}gave {found.tolist()}; return numbers"])
    if scenarios.grad is None or not bool(torch.isfinite(scenarios.grad).all()):
        problem = f"{called}has a gradient that is not finite where points coincide"
        remedy = "add a small number under roots, such as torch.sqrt(squares + 1e-12)"
        raise DataError(subject, [f"{problem}; {remedy}"])


def _or_equal(scenarios: Tensor, weights: Tensor | None) -> Tensor:
    """Return weights (..., K), by default 1/K."""
    if weights is not None:
        return weights
    return scenarios.new_full(scenarios.shape[:-1], 1 / scenarios.shape[-2])


def _distances(one: Tensor, other: Tensor) -> Tensor:
    return torch.cdist(one, other, compute_mode="donot_use_mm_for_euclid_dist")


def _name(kernel: Any) -> str:
    return f"'{getattr(kernel, '__name__', type(kernel).__name__)}'"


_SUBJECT = "Cannot compute the distance"


def wasserstein(one: Any, other: Any) -> float:
    """Return the 1-Wasserstein distance between two samples of equal size, each (n, ...).

    Distances between points are Euclidean, over all their numbers.

    Examples
    --------
    >>> wasserstein([[0.0], [1.0], [2.0]], [[2.0], [3.0], [1.0]])
    1.0
    """
    first, second = (float_array("samples", part, _SUBJECT) for part in (one, other))
    if first.shape != second.shape or not first.size or not first.ndim:
        found = f"samples have shapes {first.shape} and {second.shape}"
        raise DataError(_SUBJECT, [f"{found}; pass samples of the same shape"])
    if not (np.isfinite(first).all() and np.isfinite(second).all()):
        raise DataError(
            _SUBJECT, ["samples contain values that are not finite; drop those rows"]
        )
    apart = cdist(first.reshape(len(first), -1), second.reshape(len(first), -1))
    return float(apart[linear_sum_assignment(apart)].mean())


@dataclass(frozen=True)
class JointMMD:
    """The squared MMD between scenarios and outcomes, split into bias and variance.

    Attributes
    ----------
    total : float
        Mean over contexts of the squared MMD between scenarios and outcomes.
    bias : float
        The squared MMD, by the joint kernel kappa, between the distribution of
        (scenarios, outcome) and that of scenarios distributed as the outcome: the error
        on average over all contexts.
    variance : float
        The error that varies from context to context: ``total - bias``.
    noisy : bool
        Whether each context has one outcome only, so that ``total`` and ``variance``
        include the spread of the outcomes.
    """

    total: float
    bias: float
    variance: float
    noisy: bool


def joint_mmd(
    scenarios: Any, outcomes: Any, weights: Any = None, kernel: Any = "energy"
) -> JointMMD:
    """Return the joint-kernel MMD of generated scenarios, with its bias and variance.

    Parameters
    ----------
    scenarios : array (n, K, p)
    outcomes : array (n, p), or (n, M, p)
        The outcome given each context, or M independent draws if its distribution is
        known.
    weights : array (n, K), optional
    kernel : str or callable
        As in :class:`pyomo_csg.FitConfig`, of bandwidth 1.

    Notes
    -----
    Estimates are unbiased, so they may be negative.
    """
    cases = _signed_points(scenarios, outcomes, weights)
    if len(cases.atoms) < 2:
        raise DataError(_SUBJECT, ["there is 1 case; pass at least two"])
    chosen = resolve_kernel(kernel, cases.atoms.shape[2])
    gram, noisy = cases.gram(cases, chosen), cases.draws == 1
    n, diagonal = len(gram), np.diag(gram)
    bias = float((gram.sum() - diagonal.sum()) / (n * (n - 1)))
    total = float(np.mean(diagonal if noisy else diagonal + cases.correction(chosen)))
    return JointMMD(total, bias, total - bias, noisy)


def kappa_distance(
    one: tuple[Any, ...], other: tuple[Any, ...], kernel: Any = "energy"
) -> float:
    """Return the MMD by the joint kernel kappa between two samples of (scenarios, outcome).

    Parameters
    ----------
    one, other : tuple of arrays
        Scenarios (n, K, p), outcomes (n, p), and weights (n, K) unless they are equal.
    kernel : str or callable
    """
    first, second = (_signed_points(*_with_weights(part)) for part in (one, other))
    if first.atoms.shape[2] != second.atoms.shape[2]:
        found = (
            f"outcomes have {first.atoms.shape[2]} and {second.atoms.shape[2]} columns"
        )
        raise DataError(_SUBJECT, [f"{found}; pass the same number of columns"])
    chosen = resolve_kernel(kernel, first.atoms.shape[2])
    squared = (
        first.gram(first, chosen).mean()
        + second.gram(second, chosen).mean()
        - 2 * first.gram(second, chosen).mean()
    )
    return float(np.sqrt(max(squared, 0.0)))


@dataclass(frozen=True, eq=False)
class _Signed:
    """Cases as signed measures: scenarios with their weights, M outcomes with -1/M."""

    atoms: np.ndarray  # (n, K + M, p)
    signs: np.ndarray  # (n, K + M)
    draws: int  # M

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
        """Return the correction (n,) that makes the diagonal of the Gram matrix unbiased.

        It replaces the mean over all pairs of outcomes by that over distinct ones.
        """
        outcomes = torch.as_tensor(self.atoms[:, -self.draws :])
        among = kernel(outcomes, outcomes).numpy()
        alone = np.einsum("imm->i", among)
        both, draws = among.sum(axis=(1, 2)), self.draws
        return (both - alone) / (draws * (draws - 1)) - both / draws**2


def _signed_points(scenarios: Any, outcomes: Any, weights: Any) -> _Signed:
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
        problems.append(f"scenarios have shape {zetas.shape}; pass (n, K, p)")
    elif (omegas.ndim, *omegas.shape[::2]) != (3, n, numbers) or not omegas.size:
        found = f"outcomes have shape {np.shape(outcomes)}"
        problems.append(f"{found}; pass ({n}, {numbers}) or ({n}, M, {numbers})")
    elif shares.shape != (n, count):
        problems.append(f"weights have shape {shares.shape}; pass ({n}, {count})")
    if problems:
        raise DataError(_SUBJECT, problems)
    draws = omegas.shape[1]
    return _Signed(
        np.concatenate([zetas, omegas], axis=1),
        np.concatenate([shares, np.full((n, draws), -1 / draws)], axis=1),
        draws,
    )


def _with_weights(part: tuple[Any, ...]) -> tuple[Any, Any, Any]:
    if not (isinstance(part, tuple | list) and len(part) in (2, 3)):
        size = f" of {len(part)}" if isinstance(part, tuple | list) else ""
        found = f"got a {type(part).__name__}{size}"
        raise DataError(_SUBJECT, [f"{found}; pass (scenarios, outcomes[, weights])"])
    scenarios, outcomes, *weights = part
    return scenarios, outcomes, weights[0] if weights else None
