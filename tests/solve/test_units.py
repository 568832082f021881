"""Answers are right in every unit, alone and in shuffled batches, against exact ones."""

from fractions import Fraction

import numpy as np
import pytest

import pyomo_csg as csg
from tests.solve.exact_newsvendor import Newsvendor

KINDS = ("linear", "quadratic", "integer")
CASES = 6


def random_program(kind, rng):
    """Return a newsvendor in units of 1e-6 to 1e9 and costs of 1e-9 to 1e9 a unit."""
    quantity, cost = 10.0 ** rng.uniform(-6, 9), 10.0 ** rng.uniform(-9, 9)
    price = cost / quantity
    order, short, excess = price * rng.choice([1.0, 2.0, 0.5], 3) * [1, 3, 0.25]
    bend = price / quantity * 10.0 ** rng.uniform(-2, 1) if kind == "quadratic" else 0.0
    fixed = cost * 10.0 ** rng.uniform(-1, 0.3) if kind == "integer" else 0.0
    numbers = (order, short, excess, bend, fixed, 3 * quantity)
    return Newsvendor(*map(Fraction, map(float, numbers))), quantity


def random_weights(rng, count):
    weights = 10.0 ** rng.uniform(-13, 0, count)
    weights[rng.integers(count)] = 1.0
    return weights / weights.sum()


def exact(values):
    return [Fraction(float(v)) for v in np.ravel(values)]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", KINDS)
def test_no_answer_is_wrong_in_any_unit(kind, seed, record_property):
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    wrong = refused = 0
    for _ in range(12):
        problem, quantity = random_program(kind, rng)
        oracle = csg.Oracle(problem.model())
        zetas = quantity * rng.uniform(0.2, 2.5, (CASES, 3, 1))
        omegas = quantity * rng.uniform(0.2, 2.5, (CASES, 1))
        weights = random_weights(rng, 3)
        found = oracle.solve(zetas, weights, on_error="record")
        losses = oracle.loss(zetas, omegas, weights=weights, on_error="record")
        order = rng.permutation(CASES)
        again = oracle.loss(
            zetas[order], omegas[order], weights=weights, on_error="record"
        )
        assert again == pytest.approx(losses[order], rel=1e-9, nan_ok=True)
        for i in range(CASES):
            demands, shares = exact(zetas[i]), exact(weights)
            value, _ = problem.optima(demands, shares)
            loss = problem.loss(demands, shares, exact(omegas[i])[0])
            refused += np.isnan(found.value[i]) + np.isnan(losses[i])
            wrong += abs(found.value[i] - float(value)) > 1e-8 * abs(float(value))
            wrong += abs(losses[i] - float(loss)) > 1e-6 * abs(float(loss))
    record_property("wrong", int(wrong))
    print(f"{kind}: {wrong} wrong and {refused} refused of {12 * 2 * CASES}")
    assert wrong == 0
    assert refused == 0
