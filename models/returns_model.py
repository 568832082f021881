"""The conditional distribution of the next returns, given a panel of past ones.

Two LSTMs predict the mean and the scale of each asset's next return. The residuals of
the whole history, divided by the scale, are the noise.
"""

from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

HOLDOUT = 0.2
EPOCHS, PATIENCE = 40, 8
BATCH, HIDDEN, LEARNING_RATE = 64, 24, 3e-3


@dataclass(frozen=True, eq=False)
class ReturnsModel:
    """Returns ``mean(x) + scale(x) * residual``, with equally likely residuals.

    A context x is a panel (window, d); many are (n, window, d).

    Attributes
    ----------
    mean_network, scale_network : torch.nn.Module
        From contexts (n, window, d) to (n, assets).
    residuals : array (m, assets)
        Of the rows that the model was fitted to, in their order.
    """

    mean_network: nn.Module
    scale_network: nn.Module
    residuals: np.ndarray

    def mean(self, x):
        """Return the next returns without noise: (assets,), or (n, assets)."""
        return _apply(self.mean_network, x)

    def scale(self, x):
        """Return the scale of the noise, above zero: (assets,), or (n, assets)."""
        return _apply(self.scale_network, x)

    def conditional(self, x):
        """Return the outcomes (m, assets), or (n, m, assets), and their weights (m,)."""
        mean, scale = self.mean(x)[..., None, :], self.scale(x)[..., None, :]
        m = len(self.residuals)
        return mean + scale * self.residuals, np.full(m, 1 / m)


def fit(contexts, outcomes, seed=0):
    """Fit the mean and the scale to rows in time order.

    The mean is fitted to the outcomes, then the scale to the absolute errors of the mean,
    both in the L1 norm. Training stops early on the last fifth of the rows.

    Parameters
    ----------
    contexts : array (m, window, d)
        Panels of the past.
    outcomes : array (m, assets)
        The returns that followed.
    seed : int
        Of the networks' initial weights and of the batches. torch's global generator
        is unchanged.

    Returns
    -------
    ReturnsModel
    """
    with _reproducible(seed):
        mean = _fit_network(contexts, outcomes, nn.Identity())
        errors = outcomes - _apply(mean, contexts)
        scale = _fit_network(contexts, np.abs(errors), nn.Softplus())
    residuals = errors / _apply(scale, contexts)
    residuals.setflags(write=False)
    return ReturnsModel(mean, scale, residuals)


class _Recurrent(nn.Module):
    """An LSTM on standardized inputs, with outputs in the units of its targets."""

    def __init__(self, contexts, targets, activation):
        super().__init__()
        self.register_buffer("center", contexts.mean((0, 1)))
        self.register_buffer("spread", _spread(contexts, (0, 1)))
        self.register_buffer("unit", _spread(targets, 0))
        self.lstm = nn.LSTM(contexts.shape[-1], HIDDEN, batch_first=True)
        self.head = nn.Linear(HIDDEN, targets.shape[-1])
        self.activation = activation

    def forward(self, x):
        states, _ = self.lstm((x - self.center) / self.spread)
        return self.unit * self.activation(self.head(states[:, -1]))


def _fit_network(contexts, targets, activation):
    """Return the network of the epoch with the lowest loss on the last fifth."""
    contexts = torch.as_tensor(contexts, dtype=torch.float32)
    targets = torch.as_tensor(targets, dtype=torch.float32)
    n = round(len(contexts) * (1 - HOLDOUT))
    network = _Recurrent(contexts[:n], targets[:n], activation)
    optimizer = torch.optim.Adam(network.parameters(), LEARNING_RATE)

    def loss(rows):
        errors = network(contexts[rows]) - targets[rows]
        return (errors / network.unit).abs().mean()

    least, waited = np.inf, 0
    for _ in range(EPOCHS):
        for rows in torch.randperm(n).split(BATCH):
            optimizer.zero_grad()
            loss(rows).backward()
            optimizer.step()
        with torch.no_grad():
            held_out = loss(slice(n, None)).item()
        waited += 1
        if held_out < least:
            least, best, waited = held_out, deepcopy(network), 0
        if waited == PATIENCE:
            break
    # In double precision a context has the same outputs alone and in a batch.
    return best.double().requires_grad_(False)


def _apply(network, x):
    x = np.asarray(x, dtype=float)
    outputs = network(torch.from_numpy(x.reshape(-1, *x.shape[-2:]))).numpy()
    return outputs.reshape(*x.shape[:-2], outputs.shape[-1])


def _spread(tensor, axes):
    spread = tensor.std(axes)
    return torch.where(spread > 0, spread, 1.0)


@contextmanager
def _reproducible(seed):
    """Seed torch, on one thread since the order of a sum matters; then undo both."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            yield
    finally:
        torch.set_num_threads(threads)
