"""A newsvendor whose answers are known exactly, in rational numbers.

Order y at ``order`` a unit, plus ``fixed`` if anything is ordered. A shortage s costs
``short * s + bend * s**2 / 2``, an excess e costs ``excess * e + bend * e**2 / 2``.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from fractions import Fraction

import pyomo.environ as pyo

import pyomo_csg as csg


@dataclass(frozen=True)
class Newsvendor:
    """Prices as exact fractions of the floats that the model has."""

    order: Fraction
    short: Fraction
    excess: Fraction
    bend: Fraction
    fixed: Fraction
    most: Fraction

    def model(self) -> pyo.ConcreteModel:
        m = pyo.ConcreteModel(name="exact")
        m.demand = pyo.Param(initialize=1.0, mutable=True, within=pyo.Reals)
        m.y = pyo.Var(bounds=(0, float(self.most)))
        m.s = pyo.Var(bounds=(0, None))
        m.e = pyo.Var(bounds=(0, None))
        m.balance = pyo.Constraint(expr=m.y + m.s - m.e == m.demand)
        cost = (
            float(self.order) * m.y + float(self.short) * m.s + float(self.excess) * m.e
        )
        if self.bend:
            cost += float(self.bend) / 2 * (m.s**2 + m.e**2)
        first = [m.y]
        if self.fixed:
            m.open = pyo.Var(domain=pyo.Binary)
            m.limit = pyo.Constraint(expr=m.y <= float(self.most) * m.open)
            cost += float(self.fixed) * m.open
            first.append(m.open)
        m.cost = pyo.Objective(expr=cost)
        csg.annotate(m, first_stage_variables=first, uncertain_params=m.demand)
        return m

    def cost(self, y: Fraction, demand: Fraction) -> Fraction:
        s, e = max(demand - y, Fraction(0)), max(y - demand, Fraction(0))
        setup = self.fixed if y > 0 else Fraction(0)
        bent = self.bend / 2 * (s * s + e * e)
        return self.order * y + self.short * s + self.excess * e + bent + setup

    def mean(
        self, y: Fraction, demands: list[Fraction], weights: list[Fraction]
    ) -> Fraction:
        return sum(
            (w * self.cost(y, d) for d, w in zip(demands, weights, strict=True)),
            Fraction(0),
        )

    def optima(
        self, demands: list[Fraction], weights: list[Fraction]
    ) -> tuple[Fraction, list[Fraction]]:
        """Return the optimal value and the ends of the intervals of optimal orders."""
        ends = sorted(
            {Fraction(0), self.most, *(d for d in demands if 0 < d < self.most)}
        )
        candidates = list(ends)
        if self.bend:
            for low, high in itertools.pairwise(ends):
                candidates.append(
                    min(max(self._root(low, high, demands, weights), low), high)
                )
        values = {y: self.mean(y, demands, weights) for y in candidates}
        best = min(values.values())
        return best, sorted(y for y, value in values.items() if value == best)

    def _root(
        self,
        low: Fraction,
        high: Fraction,
        demands: list[Fraction],
        weights: list[Fraction],
    ) -> Fraction:
        """Return where the derivative on an interval between demands is zero."""
        slope, middle = self.order, (low + high) / 2
        for d, w in zip(demands, weights, strict=True):
            slope += (
                w * (-self.short if d > middle else self.excess) - w * self.bend * d
            )
        return -slope / (self.bend * sum(weights))

    def loss(
        self, demands: list[Fraction], weights: list[Fraction], outcome: Fraction
    ) -> Fraction:
        """Return l_opt: the least cost of an optimal order under the outcome.

        The cost is convex on each side of 0, where the fixed cost sets in.
        """
        _, orders = self.optima(demands, weights)
        tried = list(orders)
        if not self.bend and len(orders) > 1 and not (self.fixed and orders[0] == 0):
            tried.append(min(max(outcome, orders[0]), orders[-1]))
        return min(self.cost(y, outcome) for y in tried)
