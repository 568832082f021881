"""The MMD loss: how far a few scenarios are from what happened, as distributions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from pyomo_csg.errors import DataError

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


def kernel_of(kernel: Any, numbers: int = 3, bandwidth: float | None = None) -> Kernel:
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


def trainable_kernel_of(
    kernel: Any, numbers: int, bandwidth: float | None = None
) -> Kernel:
    """Return the same if scenarios can be learned by it, also where they coincide."""
    chosen = kernel_of(kernel, numbers, bandwidth)
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
