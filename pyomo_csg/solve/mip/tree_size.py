"""A forecast of a tree's size, by which a search that would take too long ends early."""

from __future__ import annotations

import math
from dataclasses import dataclass

_LEAST_CLOSED = 0.1  # share of the gap that a first dive must close
_LEAST_VISITED = (
    16  # nodes beside one dive, before decisions are rounded for a forecast
)


@dataclass
class SizeForecast:
    """Forecasts the nodes of a best-first tree from the gap that it has closed so far.

    The number of nodes below a bound grows about exponentially with the bound. So a tree that
    closed a share s of the gap with n nodes needs about n ** (1 / s) nodes in all. A dive to
    the first leaf says nothing of that growth, so its nodes do not count. All numbers come from
    the program itself, never from a clock or from earlier programs.
    """

    root: float  # the bound of the root
    depth: int  # nodes of a dive
    budget: float  # nodes that are worth their time
    visited: int = 0
    _next: int = _LEAST_VISITED  # nodes beside one dive

    @property
    def is_past_a_dive(self) -> bool:
        """Whether more nodes were visited than a dive needs."""
        return self.visited > self.depth

    def is_due(self) -> bool:
        """Whether to look for an incumbent now: after 16 nodes beside a dive, 32, 64, ..."""
        if self.visited - self.depth < self._next:
            return False
        self._next *= 2
        return True

    def highest_value(self, bound: float) -> float:
        """Return the optimal value above which the tree would exceed its budget.

        ``bound`` is the least bound of an open node.
        """
        if self.budget == math.inf:
            return math.inf
        beside = max(1, self.visited - self.depth)
        needed = math.log(beside) / math.log(max(self.budget, beside, 2))
        return self.root + (bound - self.root) / max(_LEAST_CLOSED, needed)
