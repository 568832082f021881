"""Random two-stage programs with known data anywhere, as Pyomo models and as matrices."""

from dataclasses import dataclass, field

import numpy as np
import pyomo.environ as pyo
from scipy.optimize import Bounds, LinearConstraint, milp

import pyomo_csg as csg

SLACK_PRICE = 40.0


@dataclass(frozen=True)
class Number:
    """base + scale * f(omega, known), for numbers and for Pyomo's Params alike."""

    base: float
    scale: float
    form: str
    i: int
    j: int

    def __call__(self, omega, known, exp=np.exp):
        """Return the number, or its expression."""
        a = known[self.j]
        if self.form == "linear":
            moving = a
        elif self.form == "square":
            moving = a**2
        elif self.form == "exp":
            moving = exp(a / 2)
        else:
            moving = a * omega[self.i]
        return self.base + self.scale * moving


@dataclass
class Program:
    """A random program: 'linear', 'quadratic', or integer in 'first', 'recourse' or 'both'.

    Slacks with a price in both stages make it feasible, bounds make it bounded.
    """

    seed: int
    kind: str
    sense: int = 1
    risk: csg.MeanCVaR | None = None
    n1: int = field(init=False)
    n2: int = field(init=False)

    def __post_init__(self):
        rng = np.random.default_rng(self.seed)
        self.n1, self.n2, self.rows = (int(v) for v in rng.integers(1, 4, 3))
        self.p, self.r, self.k = (int(v) for v in rng.integers(1, 4, 3))

        def numbers(low, high, *shape, late=False):
            forms = ["linear", "square", "exp", *(["product"] * 3 if late else [])]
            flat = [
                Number(
                    rng.uniform(low, high),
                    rng.uniform(0.2, 1) if rng.random() < 0.7 else 0.0,
                    str(rng.choice(forms)),
                    int(rng.integers(self.p)),
                    int(rng.integers(self.r)),
                )
                for _ in range(int(np.prod(shape)))
            ]
            return np.array(flat, dtype=object).reshape(shape)

        self.cost = numbers(-1, 3, self.n1)
        self.matrix = numbers(0, 1, 2, self.n1)
        self.right = numbers(2, 5, 2)
        self.upper = numbers(1, 4, self.n1)
        self.late_cost = numbers(-2, 3, self.n2, late=True)
        self.technology = numbers(-2, 1, self.rows, self.n1, late=True)
        self.recourse = numbers(-1, 2, self.rows, self.n2, late=True)
        self.late_right = numbers(0, 4, self.rows, late=True)
        self.late_upper = numbers(1, 4, self.n2, late=self.seed % 2)
        self.constant = numbers(-2, 2, 1, late=True)
        self.curve = numbers(0.5, 1.5, self.n1)
        self.late_curve = numbers(0.5, 1.5, self.n2, late=True)
        self.scenarios = rng.uniform(0, 2, (self.k, self.p))
        self.weights = rng.dirichlet(np.ones(self.k) * 3)
        self.outcome = rng.uniform(0, 2, self.p)
        self.known = rng.uniform(0, 1.5, (3, self.r))

    def model(self, known=None):
        """Return the model; with numbers, these stand in Params that are not annotated."""
        m = pyo.ConcreteModel("program")
        m.omega = pyo.Param(range(self.p), mutable=True, initialize=1.0)
        m.stock = pyo.Param(range(self.r), mutable=True, initialize=0.5)
        early = pyo.Integers if self.kind in ("first", "both") else pyo.Reals
        late = pyo.Integers if self.kind in ("recourse", "both") else pyo.Reals
        spare = pyo.Integers if self.kind == "both" else pyo.Reals

        def on(number):
            return number(m.omega, m.stock, pyo.exp)

        m.y = pyo.Var(
            range(self.n1), within=early, bounds=lambda m, i: (0, on(self.upper[i]))
        )
        m.over = pyo.Var(range(2), within=spare, bounds=(0, 50))
        m.z = pyo.Var(
            range(self.n2), within=late, bounds=lambda m, j: (0, on(self.late_upper[j]))
        )
        m.low = pyo.Var(range(self.rows), bounds=(0, 100))
        m.high = pyo.Var(range(self.rows), bounds=(0, 100))
        m.plan = pyo.Constraint(
            range(2),
            rule=lambda m, i: (
                sum(on(self.matrix[i, j]) * m.y[j] for j in range(self.n1)) - m.over[i]
                <= on(self.right[i])
            ),
        )
        m.react = pyo.Constraint(
            range(self.rows),
            rule=lambda m, i: (
                sum(on(self.technology[i, j]) * m.y[j] for j in range(self.n1))
                + sum(on(self.recourse[i, j]) * m.z[j] for j in range(self.n2))
                + m.low[i]
                - m.high[i]
                == on(self.late_right[i])
            ),
        )
        slack = sum(m.low.values()) + sum(m.high.values()) + sum(m.over.values())
        cost = (
            sum(on(self.cost[j]) * m.y[j] for j in range(self.n1))
            + sum(on(self.late_cost[j]) * m.z[j] for j in range(self.n2))
            + SLACK_PRICE * slack
            + on(self.constant[0])
            + sum(m.omega.values())
            + sum(m.stock.values())  # so that every Param stands somewhere
        )
        if self.kind == "quadratic":
            cost += sum(on(self.curve[j]) * m.y[j] ** 2 for j in range(self.n1))
            cost += sum(on(self.late_curve[j]) * m.z[j] ** 2 for j in range(self.n2))
        m.cost = pyo.Objective(expr=self.sense * cost, sense=self.sense)
        marks = {"known_params": m.stock}
        if known is not None:
            for j, number in enumerate(known):
                m.stock[j] = number
            marks = {}
        csg.annotate(
            m,
            first_stage_variables=[m.y, m.over],
            uncertain_params=m.omega,
            risk=self.risk,
            **marks,
        )
        return m

    def saa(self, known, cut=None):
        """Return the optimal value of the scenarios by scipy; its outcome's, given a cut."""
        data = [*self.scenarios] if cut is None else [*self.scenarios, self.outcome]
        weights = self.weights if cut is None else np.append(self.weights, 0.0)
        return self._solve(data, weights, known, cut)

    def cost_at(self, decision, known):
        """Return the cost of a decision on the outcome, by scipy."""
        return self._solve([self.outcome], np.ones(1), known, None, decision)

    def _solve(self, data, weights, known, cut, decision=None):
        at = np.vectorize(lambda number, w: number(w, known), signature="(),(p)->()")
        width, late = self.n1 + 2, self.n2 + 2 * self.rows
        size = width + len(data) * late
        first = self.outcome  # first-stage numbers depend on known ones alone
        h = np.zeros(size)
        h[: self.n1], h[self.n1 : width] = at(self.cost, first), SLACK_PRICE
        low, high = np.zeros(size), np.full(size, 100.0)
        high[: self.n1], high[self.n1 : width] = at(self.upper, first), 50.0
        kinds = np.zeros(size)
        kinds[: self.n1] = self.kind in ("first", "both")
        kinds[self.n1 : width] = self.kind == "both"
        plan = np.zeros((2, size))
        plan[:, : self.n1] = at(self.matrix, first)
        plan[:, self.n1 : width] = -np.eye(2)
        rows = [LinearConstraint(plan, -np.inf, at(self.right, first))]
        costs, constants, squares = [], [], np.zeros((len(data), size))
        h2 = np.zeros(size)
        h2[: self.n1] = at(self.curve, first) * (self.kind == "quadratic")
        for k, w in enumerate(data):
            start = width + k * late
            z = slice(start, start + self.n2)
            slack = slice(start + self.n2, start + late)
            high[z] = at(self.late_upper, w)
            kinds[z] = self.kind in ("recourse", "both")
            matrix = np.zeros((self.rows, size))
            matrix[:, : self.n1] = at(self.technology, w)
            matrix[:, z] = at(self.recourse, w)
            matrix[:, slack] = np.hstack([np.eye(self.rows), -np.eye(self.rows)])
            side = at(self.late_right, w)
            rows.append(LinearConstraint(matrix, side, side))
            cost = np.zeros(size)
            cost[z], cost[slack] = at(self.late_cost, w), SLACK_PRICE
            squares[k, z] = at(self.late_curve, w) * (self.kind == "quadratic")
            costs.append(cost)
            constants.append(self.constant[0](w, known) + w.sum() + known.sum())
        high[kinds > 0] = np.floor(high[kinds > 0] + 1e-9)
        if decision is not None:
            low[:width] = high[:width] = decision
        costs, constants = np.array(costs), np.array(constants)
        if self.risk is not None and decision is None:
            return self._solve_risk(
                h + costs, constants, weights, rows, cut, bounds=(low, high, kinds)
            )
        saa_cost, saa_constant = h + weights @ costs, weights @ constants
        saa_square = h2 + weights @ squares
        if cut is not None:
            rows.append(LinearConstraint(saa_cost, -np.inf, cut - saa_constant))
            saa_cost, saa_constant = h + costs[-1], constants[-1]
        bounds = Bounds(low, high)
        if self.kind == "quadratic":
            return _minimize(saa_cost, saa_square, rows, bounds) + saa_constant
        return _solved(saa_cost, rows, bounds, kinds).fun + saa_constant

    def _solve_risk(self, costs, constants, weights, rows, cut, bounds):
        """Return the mean-CVaR optimum, as a program with a quantile and its excesses."""
        (n, size), w = costs.shape, self.risk.weight
        share = w / (1 - self.risk.level)
        wide = [
            LinearConstraint(np.pad(row.A, ((0, 0), (0, n + 1))), row.lb, row.ub)
            for row in rows
        ]
        tail = np.hstack([-costs, np.ones((n, 1)), np.eye(n)])
        wide.append(LinearConstraint(tail, constants, np.inf))

        def objective(shares):
            return np.concatenate([(1 - w) * shares @ costs, [w], share * shares])

        goal, constant = objective(weights), (1 - w) * weights @ constants
        if cut is not None:
            wide.append(LinearConstraint(goal, -np.inf, cut - constant))
            last = np.eye(n)[-1]
            goal, constant = objective(last), (1 - w) * constants[-1]
        low, high, kinds = (np.append(one, np.zeros(n + 1)) for one in bounds)
        low[size], high[size:] = -np.inf, np.inf
        return _solved(goal, wide, Bounds(low, high), kinds).fun + constant


def _solved(cost, rows, bounds, kinds=None):
    options = {"mip_rel_gap": 0}
    found = milp(
        cost, constraints=rows, bounds=bounds, integrality=kinds, options=options
    )
    assert found.success, found.message
    return found


def _minimize(cost, square, rows, bounds):
    """Return the least cost'x + square'x**2, by tangents of the squares (Kelley)."""
    size, curved = len(cost), np.flatnonzero(square)
    wide = [
        LinearConstraint(np.pad(row.A, ((0, 0), (0, len(curved)))), row.lb, row.ub)
        for row in rows
    ]
    limits = Bounds(
        np.append(bounds.lb, np.zeros(len(curved))),
        np.append(bounds.ub, np.full(len(curved), np.inf)),
    )
    full = np.append(cost, square[curved])
    for _ in range(60):
        found = _solved(full, wide, limits)
        x = found.x[:size]
        if cost @ x + square @ x**2 - found.fun < 1e-6:
            return found.fun
        tangent = np.zeros((len(curved), size + len(curved)))
        tangent[np.arange(len(curved)), curved] = -2 * x[curved]
        tangent[:, size:] = np.eye(len(curved))
        wide.append(LinearConstraint(tangent, -(x[curved] ** 2), np.inf))
    raise AssertionError("the tangents do not close in")
