"""Random small integer programs agree with brute-force enumeration."""

from itertools import product

import numpy as np
import pyomo.environ as pyo
import pytest

import pyomo_csg as csg

_MOST = 3  # the largest value of a general integer in the first stage
_BIG = 8  # of an integer in the recourse


class Program:
    """A random two-stage program whose data are small integers, so costs tie often.

    The first stage has two binaries and a general integer; the recourse has two general
    integers and a shortage. Half of the programs have an equality row in the recourse, and
    half maximize.
    """

    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        self.sense = -1 if seed % 2 else 1
        self.has_equality = bool(seed // 2 % 2)
        self.fixed, self.price = rng.integers(2, 7, 3), rng.integers(3, 8, 2)
        self.tech, self.matrix = rng.integers(1, 5, (2, 3)), rng.integers(1, 4, (2, 2))
        self.penalty = int(rng.integers(4, 9))

    def build(self):
        """Return the Pyomo model."""
        m = pyo.ConcreteModel()
        m.w = pyo.Param([0, 1], initialize=1.0, mutable=True)
        m.on = pyo.Var([0, 1], within=pyo.Binary)
        m.size = pyo.Var(within=pyo.NonNegativeIntegers, bounds=(0, _MOST))
        m.z = pyo.Var([0, 1], within=pyo.NonNegativeIntegers, bounds=(0, _BIG))
        m.short = pyo.Var([0, 1], within=pyo.NonNegativeReals)
        y, z = [m.on[0], m.on[1], m.size], [m.z[0], m.z[1]]
        m.budget = pyo.Constraint(expr=m.on[0] + m.on[1] + m.size <= 4)

        @m.Constraint([0, 1])
        def cover(m, i):
            made = sum(int(a) * v for a, v in zip(self.tech[i], y, strict=True))
            bought = sum(int(a) * v for a, v in zip(self.matrix[i], z, strict=True))
            return made + bought + m.short[i] >= m.w[i]

        if self.has_equality:
            m.same = pyo.Constraint(expr=m.z[0] + m.on[0] == m.z[1] + m.on[1])
        cost = sum(int(c) * v for c, v in zip(self.fixed, y, strict=True))
        cost += sum(int(c) * v for c, v in zip(self.price, z, strict=True))
        cost += self.penalty * (m.short[0] + m.short[1])
        sense = pyo.maximize if self.sense < 0 else pyo.minimize
        m.cost = pyo.Objective(expr=self.sense * cost, sense=sense)
        csg.annotate(m, first_stage_variables=[m.on, m.size], uncertain_params=[m.w])
        return m

    def decisions(self):
        """Return all feasible decisions (n, 3)."""
        grid = np.array(list(product((0, 1), (0, 1), range(_MOST + 1))))
        return grid[grid.sum(axis=1) <= 4]

    def costs(self, decisions, outcomes):
        """Return the costs (n, m), as a minimization, from an enumeration of the recourse."""
        z = np.array(list(product(range(_BIG + 1), repeat=2)))
        made = decisions @ self.tech.T
        lacking = outcomes[None, :, None] - made[:, None, None] - z @ self.matrix.T
        recourse = z @ self.price + self.penalty * np.maximum(lacking, 0).sum(axis=-1)
        if self.has_equality:
            shift = decisions[:, 0] - decisions[:, 1]
            broken = z[:, 0] + shift[:, None] != z[:, 1]
            recourse = np.where(broken[:, None], np.inf, recourse)
        return (decisions @ self.fixed)[:, None] + recourse.min(axis=-1)


@pytest.mark.parametrize("seed", range(24))
def test_values_and_losses_agree_with_enumeration(seed):
    program = Program(seed)
    rng = np.random.default_rng([seed, 1])
    step = 1.0 if seed % 3 else 0.1  # whole demands tie more often
    scenarios = step * rng.integers(0, 12 / step, (6, 3, 2))
    outcomes = step * rng.integers(0, 12 / step, (6, 2))
    oracle = csg.Oracle(program.build())
    decisions = program.decisions()

    found = oracle.solve(scenarios)
    losses = oracle.loss(scenarios, outcomes)
    at_hand = oracle.loss(scenarios, outcomes, kind="recourse")

    for i in range(6):
        means = program.costs(decisions, scenarios[i]).mean(axis=1)
        under = program.costs(decisions, outcomes[i][None])[:, 0]
        ties = means <= means.min() + 1e-7
        assert program.sense * found.value[i] == pytest.approx(means.min(), abs=1e-7)
        assert losses[i] == pytest.approx(under[ties].min(), abs=1e-7)
        here = (decisions == found.decision[i]).all(axis=1)
        assert here.sum() == 1 and ties[here].all()
        assert under[ties].min() - 1e-7 <= at_hand[i] <= under[ties].max() + 1e-7


@pytest.mark.parametrize("gap", [None, 0.05])
def test_integers_of_a_decision_are_exact_and_zero_has_no_sign(gap):
    options = {} if gap is None else {"mip_rel_gap": gap}
    for seed in range(6):
        program = Program(seed)
        scenarios = np.random.default_rng(seed).uniform(0, 12, (8, 3, 2))
        found = csg.Oracle(program.build(), options=options).solve(scenarios)
        assert (found.decision == np.rint(found.decision)).all()
        assert not np.signbit(found.decision).any()
