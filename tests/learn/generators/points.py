"""Tiny generators without a network: the same scenarios always, or as many as x says."""

from dataclasses import dataclass

import numpy as np

from pyomo_csg.errors import DataError
from pyomo_csg.learn.generators import restoration


@dataclass(frozen=True, eq=False)
class ConstantPoints:
    """The same points (K, p) with unequal weights (K,) for every context (d,)."""

    points: np.ndarray
    shares: np.ndarray
    contexts: int = 2

    is_weighted = True

    @property
    def count(self):
        return len(self.points)

    @property
    def context_shape(self):
        return (self.contexts,)

    @property
    def center(self):
        return np.zeros(self.contexts)

    @property
    def spread(self):
        return np.ones(self.contexts)

    @property
    def lower(self):
        return self.points.min(axis=0)

    @property
    def upper(self):
        return self.points.max(axis=0)

    def __call__(self, contexts):
        n = len(contexts)
        return np.tile(self.points, (n, 1, 1)), np.tile(self.shares, (n, 1))

    def to_arrays(self):
        description = {"kind": "constant points", "contexts": self.contexts}
        return description, {"points": self.points, "shares": self.shares}


class VaryingPoints(ConstantPoints):
    """The first points only: as many as the first number of the context says, at least 1."""

    count = None

    def __call__(self, contexts):
        counts = np.clip(contexts[:, 0].astype(int), 1, len(self.points))
        shares = [self.shares[:k] / self.shares[:k].sum() for k in counts]
        return [self.points[:k].copy() for k in counts], shares

    def to_arrays(self):
        description, arrays = super().to_arrays()
        return {**description, "kind": "varying points"}, arrays


def _restorer(kind):
    def restore(description, arrays):
        if set(arrays) != {"points", "shares"}:
            raise DataError("The points cannot be restored", ["arrays are missing"])
        return kind(arrays["points"], arrays["shares"], int(description["contexts"]))

    return restore


def register(monkeypatch):
    """Make both kinds known for a test."""
    for name, kind in (("constant", ConstantPoints), ("varying", VaryingPoints)):
        monkeypatch.setitem(restoration.RESTORERS, f"{name} points", _restorer(kind))
