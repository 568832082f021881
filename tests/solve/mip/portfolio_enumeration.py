"""The CVaR portfolio by brute force: an LP for each set of assets that may be held."""

from itertools import combinations

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import block_diag


def by_enumeration(returns, outcome, most_held=5, aversion=10.0, level=0.9):
    """Return v* and l_opt of the CVaR portfolio from an LP for each support.

    The LPs share no column, so they are solved as one block-diagonal LP.
    """
    supports = [list(s) for s in combinations(range(returns.shape[1]), most_held)]
    programs = [Support(returns[:, held], aversion, level) for held in supports]
    count, first = len(programs), programs[0]
    costs = np.array([program.cost for program in programs])
    x = minimize(
        costs.ravel(),
        block_diag([program.rows for program in programs], "csr"),
        block_diag([first.invested] * count, "csr"),
        first.bounds * count,
    )
    values = (costs * x.reshape(costs.shape)).sum(axis=1)
    return values.min(), min(
        programs[i].loss(outcome[supports[i]], values[i])
        for i in np.flatnonzero(values <= values.min() + 1e-10)
    )


def minimize(cost, rows, equations, bounds, right=0.0):
    """Return the best x with rows @ x <= right and equations @ x == 1."""
    tight = {
        "primal_feasibility_tolerance": 1e-10,
        "dual_feasibility_tolerance": 1e-10,
    }
    right, ones = np.broadcast_to(right, rows.shape[0]), np.ones(equations.shape[0])
    return linprog(cost, rows, right, equations, ones, bounds, options=tight).x


class Support:
    """The LP of the assets that are held: x is holdings, value at risk and excesses."""

    def __init__(self, returns, aversion, level):
        count, held = returns.shape
        self.aversion, self.tail = aversion, aversion / (1 - level)
        self.cost = np.concatenate(
            [-returns.mean(axis=0), [aversion], np.full(count, self.tail / count)]
        )
        self.rows = np.hstack([-returns, -np.ones((count, 1)), -np.eye(count)])
        self.invested = np.concatenate([np.ones(held), np.zeros(1 + count)])[None]
        self.bounds = [(0, None)] * held + [(None, None)] + [(0, None)] * count

    def loss(self, outcome, value):
        """Return l_opt: adds a column, the outcome's excess, and a row, the cut."""
        count = len(self.rows)
        price = np.concatenate(
            [-outcome, [self.aversion], np.zeros(count), [self.tail]]
        )
        more = np.concatenate([-outcome, [-1], np.zeros(count), [-1]])
        wide = np.hstack([np.vstack([self.rows, self.cost]), np.zeros((count + 1, 1))])
        x = minimize(
            price,
            np.vstack([wide, more]),
            np.append(self.invested, 0)[None],
            [*self.bounds, (0, None)],
            np.concatenate([np.zeros(count), [value + 1e-13, 0]]),
        )
        return price @ x
