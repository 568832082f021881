"""Exact answers for small two-stage programs, in rational arithmetic.

Nothing here is shared with the package. An instance is given as arrays, solved by Bland's simplex
method on fractions for every choice of the integers, and built as a Pyomo model from the same
arrays.
"""

from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product

import numpy as np
import pyomo.environ as pyo

import pyomo_csg as csg


class NoOptimumError(Exception):
    """The program is infeasible or unbounded."""


@dataclass
class Instance:
    """Minimize c'y + q'z; A y >= b; T(w) y + W z >= h + H w; 0 <= y <= u, 0 <= z <= v.

    ``uncertain`` are the entries (row, column of y, index) by which T(w) = T + w[index].
    """

    c: np.ndarray
    q: np.ndarray
    A: np.ndarray
    b: np.ndarray
    T: np.ndarray
    W: np.ndarray
    h: np.ndarray
    H: np.ndarray
    u: np.ndarray
    v: np.ndarray
    uncertain: list = field(default_factory=list)
    integer_y: tuple = ()
    integer_z: tuple = ()

    def model(self):
        """Return the annotated Pyomo model."""
        m = pyo.ConcreteModel("exact")
        m.w = pyo.Param(range(self.H.shape[1]), mutable=True, initialize=1.0)
        m.y = pyo.Var(range(len(self.c)), bounds=lambda m, j: _bounds(self.u[j]))
        m.z = pyo.Var(range(len(self.q)), bounds=lambda m, j: _bounds(self.v[j]))
        for variables, integers in ((m.y, self.integer_y), (m.z, self.integer_z)):
            for j in integers:
                variables[j].domain = pyo.NonNegativeIntegers
        m.first = pyo.ConstraintList()
        for row, side in zip(self.A, self.b, strict=True):
            m.first.add(_sum(row, m.y) >= side)
        m.second = pyo.ConstraintList()
        for i in range(len(self.h)):
            body = _sum(self.T[i], m.y) + _sum(self.W[i], m.z)
            body += sum(m.w[n] * m.y[j] for r, j, n in self.uncertain if r == i)
            m.second.add(body >= float(self.h[i]) + _sum(self.H[i], m.w))
        m.cost = pyo.Objective(expr=_sum(self.c, m.y) + _sum(self.q, m.z))
        csg.annotate(m, first_stage_variables=m.y, uncertain_params=m.w)
        return m

    def saa(self, scenarios):
        """Return v* of scenarios (K, p) with equal weights."""
        return min(self._values(scenarios, None))[0]

    def l_opt(self, scenarios, outcome):
        """Return l_opt, exactly: the least cost among the optima of the scenarios."""
        best = self.saa(scenarios)
        value, loss = min(self._values(scenarios, outcome))
        if value > best:
            raise NoOptimumError("no optimal decision has a recourse")
        return loss

    def cost(self, decision, outcome):
        """Return h(y) + Q(y, omega)."""
        y = [Fraction(float(number)) for number in decision]
        found = []
        for z in self._choices(self.integer_z, self.v):
            rows, sides = self._block(outcome, [(0, 1)], 0)
            sides = [
                side - sum(a * x for a, x in zip(row[: len(y)], y, strict=True))
                for row, side in zip(rows, sides, strict=True)
            ]
            rows = [row[len(y) :] for row in rows]
            found += _lexicographic(
                [_fractions(self.q)], rows, sides, _fixed(self.v, self.integer_z, z)
            )
        if not found:
            raise NoOptimumError("no recourse")
        own = sum(a * x for a, x in zip(_fractions(self.c), y, strict=True))
        return own + min(found)[0]

    def _values(self, scenarios, outcome):
        """Return (value on the scenarios, cost of the outcome) for every choice of integers."""
        blocks = [*scenarios] if outcome is None else [*scenarios, outcome]
        count, n2 = len(scenarios), len(self.q)
        places = list(enumerate([len(blocks)] * len(blocks)))
        rows = [[*_fractions(row), *[0] * (n2 * len(blocks))] for row in self.A]
        sides = _fractions(self.b)
        for k, omega in enumerate(blocks):
            more, ends = self._block(omega, places, k)
            rows, sides = rows + more, sides + ends
        share = Fraction(1, count)
        planned = [
            *_fractions(self.c),
            *[share * x for x in _fractions(self.q)] * count,
        ]
        actual = [*_fractions(self.c), *[0] * (n2 * count), *_fractions(self.q)]
        costs = [planned] if outcome is None else [[*planned, *[0] * n2], actual]
        found = []
        for y in self._choices(self.integer_y, self.u):
            for zs in product(
                self._choices(self.integer_z, self.v), repeat=len(blocks)
            ):
                bounds = _fixed(self.u, self.integer_y, y)
                for z in zs:
                    bounds += _fixed(self.v, self.integer_z, z)
                found += _lexicographic(costs, rows, sides, bounds)
        if not found:
            raise NoOptimumError("infeasible")
        return found

    def _block(self, omega, places, k):
        """Return the rows of one outcome's block, and their lower sides."""
        w, n2 = _fractions(omega), len(self.q)
        rows = []
        for i, (own, recourse) in enumerate(zip(self.T, self.W, strict=True)):
            row = [*_fractions(own), *[Fraction(0)] * (n2 * len(places))]
            for r, j, n in self.uncertain:
                row[j] += w[n] * (r == i)
            start = len(self.c) + n2 * k
            row[start : start + n2] = _fractions(recourse)
            rows.append(row)
        sides = [
            Fraction(float(h))
            + sum(a * x for a, x in zip(_fractions(row), w, strict=True))
            for h, row in zip(self.h, self.H, strict=True)
        ]
        return rows, sides

    @staticmethod
    def _choices(integers, upper):
        return list(product(*(range(int(upper[j]) + 1) for j in integers)))


def _lexicographic(costs, rows, sides, bounds):
    """Return the lexicographic optimum of several costs in a list; empty if infeasible.

    Rows are >= their sides; bounds are (lower, upper or None).
    """
    lower = [Fraction(low) for low, _ in bounds]
    table, right = [], []
    for row, side in zip(rows, sides, strict=True):
        table.append([-a for a in row])
        right.append(-side + sum(a * x for a, x in zip(row, lower, strict=True)))
    for j, (low, high) in enumerate(bounds):
        if high is not None:
            table.append([Fraction(int(i == j)) for i in range(len(bounds))])
            right.append(high - low)
    try:
        simplex = _Simplex(table, right)
        return [
            tuple(
                simplex.minimize(cost)
                + sum(a * x for a, x in zip(cost, lower, strict=True))
                for cost in costs
            )
        ]
    except _InfeasibleError:
        return []


class _InfeasibleError(Exception):
    pass


class _Simplex:
    """The simplex method for Ax <= b, x >= 0 on fractions, with Bland's rule against cycling."""

    def __init__(self, table, right):
        count, width = len(table), len(table[0])
        self._width = width + count
        self._rows = [
            [*map(Fraction, row), *(Fraction(int(i == k)) for k in range(count)), side]
            for i, (row, side) in enumerate(zip(table, right, strict=True))
        ]
        self._basis = [width + i for i in range(count)]
        self._open = list(range(self._width))
        if any(row[-1] < 0 for row in self._rows):
            self._find_feasible()

    def _find_feasible(self):
        """Phase 1: pivot on an artificial column, then remove it."""
        place = self._width
        for row in self._rows:
            row.insert(place, Fraction(-1))
        self._open.append(place)
        worst = min(range(len(self._rows)), key=lambda i: self._rows[i][-1])
        self._pivot(worst, place)
        if self.minimize([0] * place + [1], restrict=False) > 0:
            raise _InfeasibleError
        if place in self._basis:
            i = self._basis.index(place)
            self._pivot(i, next(j for j in range(place) if self._rows[i][j] != 0))
        for row in self._rows:
            del row[place]
        self._open.remove(place)

    def minimize(self, cost, restrict=True):
        """Return the least cost; restrict later costs to its optima."""
        price = [*map(Fraction, cost)]
        price += [Fraction(0)] * (len(self._rows[0]) - len(price))
        for i, j in enumerate(self._basis):
            price = _subtract(price, price[j], self._rows[i])
        while entering := [j for j in self._open if price[j] < 0]:
            j = entering[0]
            ratios = [
                (row[-1] / row[j], self._basis[i], i)
                for i, row in enumerate(self._rows)
                if row[j] > 0
            ]
            if not ratios:
                raise NoOptimumError("unbounded")
            self._pivot(min(ratios)[2], j)
            price = _subtract(price, price[j], self._rows[min(ratios)[2]])
        if restrict:
            self._open = [j for j in self._open if price[j] == 0]
        return -price[-1]

    def _pivot(self, i, j):
        pivot = self._rows[i][j]
        self._rows[i] = [a / pivot if a else a for a in self._rows[i]]
        for k, row in enumerate(self._rows):
            if k != i and row[j]:
                self._rows[k] = _subtract(row, row[j], self._rows[i])
        self._basis[i] = j


def _subtract(row, factor, other):
    if not factor:
        return row
    return [a - factor * b if b else a for a, b in zip(row, other, strict=True)]


def _fixed(upper, integers, values):
    """Return bounds (lower, upper or None) with the integers fixed."""
    bounds = [(0, Fraction(float(u)) if np.isfinite(u) else None) for u in upper]
    for j, number in zip(integers, values, strict=True):
        bounds[j] = (number, Fraction(number))
    return bounds


def _fractions(numbers):
    return [Fraction(float(number)) for number in numbers]


def _bounds(upper):
    return 0, None if np.isinf(upper) else float(upper)


def _sum(numbers, variables):
    return sum(float(a) * variables[j] for j, a in enumerate(numbers) if a) + 0.0
