"""Untrained networks that turn a context into the support of a distribution."""

from functools import lru_cache

import numpy as np

_CALIBRATION = 20_000


class RandomNetwork:
    """One hidden ReLU layer, initialized as torch does by default, with scaled outputs.

    Parameters
    ----------
    inputs, outputs : int
    mean, sd : float
        Of the outputs over standard normal contexts.
    seed : int
    hidden : int, optional
    groups : int, optional
        Output i belongs to group i % groups. Each group by itself has this mean and sd; one
        group pools all outputs.
    """

    def __init__(self, inputs, outputs, mean, sd, seed, hidden=64, groups=1):
        rng = np.random.default_rng(seed)
        self._layers = [_layer(rng, inputs, hidden), _layer(rng, hidden, outputs)]
        raw = self._raw(rng.standard_normal((_CALIBRATION, inputs)))
        parts = [raw[:, group::groups] for group in range(groups)]
        repeats = outputs // groups
        self._scale = np.tile([sd / part.std() for part in parts], repeats)
        centers = np.tile([part.mean() for part in parts], repeats)
        self._shift = mean - self._scale * centers

    def __call__(self, x):
        """Return the outputs for contexts (..., inputs), none below zero."""
        return np.maximum(self._scale * self._raw(np.asarray(x)) + self._shift, 0)

    def _raw(self, x):
        (first, first_bias), (last, last_bias) = self._layers
        return np.maximum(x @ first + first_bias, 0) @ last + last_bias


def _layer(rng, inputs, outputs):
    limit = 1 / np.sqrt(inputs)
    return rng.uniform(-limit, limit, (inputs, outputs)), rng.uniform(
        -limit, limit, outputs
    )


@lru_cache(maxsize=64)
def random_network(inputs, outputs, mean, sd, seed, groups=1):
    """Return the network of a seed; cached."""
    return RandomNetwork(inputs, outputs, mean, sd, seed, groups=groups)


def sample_pairs(n, seed, draw_contexts, conditional):
    """Draw contexts, and for each one outcome of its conditional distribution.

    Parameters
    ----------
    n, seed : int
    draw_contexts : callable
        Maps a Generator and a count to contexts (n, d).
    conditional : callable
        Maps a context to (outcomes, weights).

    Returns
    -------
    contexts : array (n, d)
    outcomes : array (n, p)
    """
    rng = np.random.default_rng(seed)
    contexts = draw_contexts(rng, n)
    outcomes = [
        support[rng.choice(len(support), p=weights)]
        for support, weights in map(conditional, contexts)
    ]
    return contexts, np.array(outcomes)
