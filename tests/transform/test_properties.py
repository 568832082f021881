"""Random two-stage programs against matrices built by hand and solved by scipy.

A program has uncertain numbers in any of the places where Pyomo takes them. Slacks with
a price make every program feasible; bounds on all variables make it bounded. Bounds are
whole numbers where they are certain: HiGHS, behind both sides, errs when an integer
variable has another.
"""

from dataclasses import dataclass

import numpy as np
import pyomo.environ as pyo
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

import pyomo_csg as csg
from tests.solving import solve, transform

SLACK_PRICE = 60.0
CUT_TOLERANCE = 1e-6
PLACES = (
    "right_side",
    "left_side",
    "technology",
    "recourse_matrix",
    "first_stage_cost",
    "recourse_cost",
    "constant",
    "recourse_bound",
    "first_stage_bound",
)


@dataclass(frozen=True)
class Number:
    """base + scale * f(omega), as a number and as a Pyomo expression."""

    base: float
    scale: float
    form: str
    i: int
    j: int

    def at(self, omega):
        a, b = omega[self.i], omega[self.j]
        f = {"linear": a, "square": a**2, "product": a * b, "exp": np.exp(a / 2)}
        return self.base + self.scale * f[self.form]

    def on(self, m):
        if self.scale == 0:
            return self.base
        a, b = m.omega[self.i], m.omega[self.j]
        f = {"linear": a, "square": a**2, "product": a * b, "exp": pyo.exp(a / 2)}
        return self.base + self.scale * f[self.form]


@dataclass
class Case:
    """A random program; every entry is a Number."""

    sense: int
    weights: np.ndarray
    scenarios: np.ndarray
    outcome: np.ndarray
    first_matrix: np.ndarray
    first_right: np.ndarray
    first_cost: list
    uncertain_cost: list
    recourse_cost: list
    constant: Number
    technology: list
    recourse: list
    lower: list
    upper: list
    first_bound: list
    recourse_bound: list
    integer_first: bool
    integer_recourse: bool
    named: bool
    kinds: list


@st.composite
def cases(draw):
    """Draw sizes, places and kinds; the numbers follow from a seed."""
    places = draw(st.sets(st.sampled_from(PLACES), min_size=1))
    n1, n2 = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    rows, p, k = (
        draw(st.integers(1, 3)),
        draw(st.integers(1, 3)),
        draw(st.integers(1, 4)),
    )
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))

    def number(place, low, high, least=0.2):
        scale = (
            rng.uniform(least, 1.0) * rng.choice([-1, 1]) if place in places else 0.0
        )
        form = str(rng.choice(["linear", "square", "product", "exp"]))
        i, j = (int(v) for v in rng.integers(0, p, 2))
        base = float(rng.integers(low, high)) if "bound" in place else None
        return Number(base or rng.uniform(low, high), scale, form, i, j)

    weights = rng.uniform(0.2, 1, k)
    lower = [number("left_side", -6, 1) for _ in range(rows)]
    return Case(
        sense=draw(st.sampled_from([1, -1])),
        weights=weights / weights.sum(),
        scenarios=rng.uniform(0, 2, (k, p)),
        outcome=rng.uniform(0, 2, p),
        first_matrix=rng.uniform(0, 1, (2, n1)),
        first_right=rng.uniform(2, 6, 2),
        first_cost=rng.uniform(-2, 4, n1).tolist(),
        uncertain_cost=[number("first_stage_cost", -1, 1) for _ in range(n1)],
        recourse_cost=[number("recourse_cost", -2, 4) for _ in range(n2)],
        constant=number("constant", -5, 5),
        technology=[
            [number("technology", -2, 2) for _ in range(n1)] for _ in range(rows)
        ],
        recourse=[
            [number("recourse_matrix", -2, 2) for _ in range(n2)] for _ in range(rows)
        ],
        lower=lower,
        upper=[
            Number(low.base + 9 + rng.uniform(0, 5), u.scale, u.form, u.i, u.j)
            for low, u in ((low, number("right_side", 0, 1)) for low in lower)
        ],
        first_bound=[number("first_stage_bound", 9, 12) for _ in range(n1)],
        recourse_bound=[number("recourse_bound", 8, 10) for _ in range(n2)],
        integer_first=draw(st.booleans()),
        integer_recourse=draw(st.booleans()),
        named=draw(st.booleans()),
        kinds=[
            draw(st.sampled_from(["ranged", "<=", ">=", "=="])) for _ in range(rows)
        ],
    )


def pyomo_model(case):
    """Write the case as a Pyomo user would."""
    m = pyo.ConcreteModel("random")
    rows, n1, n2 = len(case.lower), len(case.first_cost), len(case.recourse_cost)
    p = case.scenarios.shape[1]
    m.omega = pyo.Param(range(p), mutable=True, initialize=1.0)
    m.y = pyo.Var(
        range(n1),
        within=pyo.Integers if case.integer_first else pyo.Reals,
        bounds=lambda m, j: (0, case.first_bound[j].on(m)),
    )
    m.z = pyo.Var(
        range(n2),
        within=pyo.Integers if case.integer_recourse else pyo.Reals,
        bounds=lambda m, j: (-1, case.recourse_bound[j].on(m)),
    )
    m.slack = pyo.Var(range(rows), [0, 1], bounds=(0, 1000))

    @m.Constraint(range(2))
    def first(m, i):
        left = sum(case.first_matrix[i, j] * m.y[j] for j in range(n1))
        return left <= case.first_right[i]

    @m.Expression(range(rows))
    def body(m, i):
        return (
            sum(case.technology[i][j].on(m) * m.y[j] for j in range(n1))
            + sum(case.recourse[i][j].on(m) * m.z[j] for j in range(n2))
            + (m.slack[i, 0] - m.slack[i, 1])
        )

    @m.Constraint(range(rows))
    def second(m, i):
        expr = m.body[i] if case.named else m.body[i].expr
        low, high = case.lower[i].on(m), case.upper[i].on(m)
        return {
            "ranged": pyo.inequality(low, expr, high),
            "<=": expr <= high,
            ">=": expr >= low,
            "==": expr == high,
        }[case.kinds[i]]

    price = case.sense * SLACK_PRICE
    m.later = pyo.Expression(
        expr=sum(case.recourse_cost[j].on(m) * m.z[j] for j in range(n2))
        + price * sum(m.slack.values())
        + case.constant.on(m)
    )
    m.cost = pyo.Objective(
        expr=sum(case.first_cost[j] * m.y[j] for j in range(n1))
        + sum(case.uncertain_cost[j].on(m) * m.y[j] for j in range(n1))
        + (m.later if case.named else m.later.expr),
        sense=case.sense,
    )
    used = [m.omega[i] for i in used_numbers(case)]
    csg.annotate(m, first_stage_variables=m.y, uncertain_params=used)
    return m


def numbers(case):
    """Yield every Number of a case."""
    lower = [n for n, k in zip(case.lower, case.kinds, strict=True) if k in "ranged>="]
    upper = [n for n, k in zip(case.upper, case.kinds, strict=True) if k != ">="]
    for row in [
        case.uncertain_cost,
        case.recourse_cost,
        [case.constant],
        *case.technology,
        *case.recourse,
        lower,
        upper,
        case.first_bound,
        case.recourse_bound,
    ]:
        yield from row


def uses(number, i):
    """Whether a Number depends on uncertain number i."""
    return number.scale != 0 and (
        number.i == i or (number.form == "product" and number.j == i)
    )


def used_numbers(case):
    """Return which of the uncertain numbers the model uses."""
    p = case.scenarios.shape[1]
    return [i for i in range(p) if any(uses(number, i) for number in numbers(case))]


def columns(case, values):
    """Keep, of the uncertain numbers, those that the model uses."""
    return values[..., used_numbers(case)]


class Matrices:
    """The program on a list of outcomes, dense, by hand; minimized."""

    def __init__(self, case, outcomes):
        self.case = case
        self.n1 = len(case.first_cost)
        self.n2 = len(case.recourse_cost)
        self.rows = len(case.lower)
        self.width = self.n2 + 2 * self.rows
        self.size = self.n1 + len(outcomes) * self.width
        self.outcomes = outcomes
        self.bounds = [self.first_bounds(j) for j in range(self.n1)]
        self.a_ub, self.b_ub = [], []
        for row, right in zip(case.first_matrix, case.first_right, strict=True):
            self.add({j: row[j] for j in range(self.n1)}, right)
        for k, omega in enumerate(outcomes):
            self.add_recourse(k, omega)

    def first_bounds(self, j):
        """The tightest of the bounds that the outcomes set."""
        return 0, min(self.case.first_bound[j].at(omega) for omega in self.outcomes)

    def add(self, entries, right):
        row = np.zeros(self.size)
        for column, entry in entries.items():
            row[column] = entry
        self.a_ub.append(row)
        self.b_ub.append(right)

    def add_recourse(self, k, omega):
        case, start = self.case, self.n1 + k * self.width
        for j in range(self.n2):
            self.bounds.append((-1, case.recourse_bound[j].at(omega)))
        self.bounds += [(0, 1000)] * (2 * self.rows)
        for i in range(self.rows):
            entries = {j: case.technology[i][j].at(omega) for j in range(self.n1)}
            for j in range(self.n2):
                entries[start + j] = case.recourse[i][j].at(omega)
            entries[start + self.n2 + 2 * i] = 1.0
            entries[start + self.n2 + 2 * i + 1] = -1.0
            low, high = case.lower[i].at(omega), case.upper[i].at(omega)
            if case.kinds[i] == "==":
                low = high
            if case.kinds[i] != ">=":
                self.add(entries, high)
            if case.kinds[i] != "<=":
                self.add({c: -e for c, e in entries.items()}, -low)

    def cost(self, weights):
        """The cost row of weighted outcomes, in the sense of minimizing, and constant."""
        case, row, constant = self.case, np.zeros(self.size), 0.0
        row[: self.n1] = np.array(case.first_cost)
        for k, (weight, omega) in enumerate(zip(weights, self.outcomes, strict=True)):
            start = self.n1 + k * self.width
            row[: self.n1] += weight * np.array(
                [c.at(omega) for c in case.uncertain_cost]
            )
            row[start : start + self.n2] = [
                weight * c.at(omega) for c in case.recourse_cost
            ]
            row[start + self.n2 : start + self.width] = (
                weight * case.sense * SLACK_PRICE
            )
            constant += weight * case.constant.at(omega)
        return case.sense * row, case.sense * constant

    def solve(self, weights):
        """Return the optimal value, in the case's own sense, and the first stage."""
        row, constant = self.cost(weights)
        integrality = np.concatenate(
            [
                np.full(self.n1, self.case.integer_first),
                np.tile(
                    [self.case.integer_recourse] * self.n2 + [False] * 2 * self.rows,
                    len(self.outcomes),
                ),
            ]
        )
        bounds = [
            (low, np.floor(high + 1e-9)) if whole else (low, high)
            for (low, high), whole in zip(self.bounds, integrality, strict=True)
        ]
        result = self.minimize(row, bounds, integrality)
        if integrality.any():
            # scipy takes 1e-6 off a whole number for one: fix them and solve again.
            whole = np.round(result.x)
            bounds = [
                (whole[j], whole[j]) if integrality[j] else bound
                for j, bound in enumerate(bounds)
            ]
            result = self.minimize(row, bounds, None)
        return self.case.sense * (result.fun + constant), result.x[: self.n1]

    def minimize(self, row, bounds, integrality):
        """Call scipy, as tight as it goes."""
        tight = {
            "primal_feasibility_tolerance": 1e-9,
            "dual_feasibility_tolerance": 1e-9,
        }
        ways = [tight]
        if integrality is not None:
            # scipy before 1.17 calls some feasible integer programs infeasible, some of
            # them with presolve and others without.
            ways = [{"mip_rel_gap": 0, "presolve": on} for on in (False, True)]
        for options in ways:
            result = linprog(
                row,
                A_ub=np.array(self.a_ub),
                b_ub=self.b_ub,
                bounds=bounds,
                integrality=integrality,
                method="highs",
                options=options,
            )
            if result.status == 0:
                break
        assert result.status == 0, result.message
        return result


def feasible(case):
    """Whether integer bounds leave room and the rows' two sides are in order."""
    points = [*case.scenarios, case.outcome]
    in_order = all(
        low.at(w) <= high.at(w)
        for w in points
        for low, high in zip(case.lower, case.upper, strict=True)
    )
    roomy = all(
        bound.at(w) >= 0
        for w in points
        for bound in case.first_bound + case.recourse_bound
    )
    return in_order and roomy


def usable_model(case):
    """Return the case's Pyomo model; pass over what is not a program to compare."""
    assume(feasible(case) and used_numbers(case))
    return pyomo_model(case)


@settings(max_examples=60)
@given(cases())
def test_the_extensive_form_has_the_value_of_hand_made_matrices(case):
    model = usable_model(case)
    zetas = columns(case, case.scenarios)
    ours = solve(
        transform("extensive_form", model, scenarios=zetas, weights=case.weights)
    )
    theirs, _ = Matrices(case, case.scenarios).solve(case.weights)
    assert ours == pytest.approx(theirs, rel=1e-6, abs=1e-6)


@settings(max_examples=60)
@given(cases())
def test_the_recourse_has_the_value_of_hand_made_matrices(case):
    model = usable_model(case)
    everything = [*case.scenarios, case.outcome]
    _, decision = Matrices(case, everything).solve([*(0.5 * case.weights), 0.5])
    matrices = Matrices(case, [case.outcome])
    decision = np.round(decision) if case.integer_first else decision
    matrices.bounds[: matrices.n1] = [(x, x) for x in decision]
    theirs, _ = matrices.solve([1.0])
    ours = solve(
        transform(
            "recourse", model, decision=decision, outcome=columns(case, case.outcome)
        )
    )
    assert ours == pytest.approx(theirs, rel=1e-6, abs=1e-6)


@settings(max_examples=60)
@given(cases())
def test_the_search_has_the_value_of_hand_made_matrices(case):
    model = usable_model(case)
    optimum, _ = Matrices(case, case.scenarios).solve(case.weights)
    matrices = Matrices(case, [*case.scenarios, case.outcome])
    row, constant = matrices.cost([*case.weights, 0.0])
    slack = CUT_TOLERANCE * max(1, abs(optimum))
    matrices.a_ub.append(row)
    matrices.b_ub.append(case.sense * optimum + slack - constant)
    theirs, _ = matrices.solve([*np.zeros(len(case.weights)), 1.0])
    search = transform(
        "opt_search",
        model,
        scenarios=columns(case, case.scenarios),
        weights=case.weights,
        outcome=columns(case, case.outcome),
        optimal_value=optimum,
        tolerance=CUT_TOLERANCE,
    )
    assert solve(search) == pytest.approx(theirs, rel=1e-6, abs=1e-6)
