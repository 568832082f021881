"""Families of small random two-stage programs that are hard on solvers."""

import numpy as np

from tests.reliability.exact import Instance


def base(rng, rows=2, y=2, z=2, top=9):
    """Return a covering program with small integer coefficients and paid shortage."""
    recourse = np.hstack([rng.integers(0, 4, (rows, z)), np.eye(rows)]).astype(float)
    q = np.concatenate([rng.integers(2, top, z), rng.integers(20, 40, rows)])
    return Instance(
        c=rng.integers(1, top, y).astype(float),
        q=q.astype(float),
        A=rng.integers(0, 3, (1, y)).astype(float) + 1.0,
        b=np.ones(1),
        T=rng.integers(0, 4, (rows, y)).astype(float),
        W=recourse,
        h=np.zeros(rows),
        H=np.eye(rows),
        u=np.full(y, 20.0),
        v=np.full(z + rows, np.inf),
    )


def outcomes(rng, found, count=2, low=1.0, high=20.0):
    """Return scenarios (K, p) and an outcome (p,)."""
    p = found.H.shape[1]
    drawn = rng.uniform(low, high, (count + 1, p))
    return drawn[:-1], drawn[-1]


def units(rng, powers=10):
    """Rows and columns in units that differ by up to a factor of a million.

    Units are powers of two: rounding by others would break ties.
    """
    found = base(rng)
    row, first = 2.0 ** rng.integers(-powers, powers, (2, 2))
    second = 2.0 ** rng.integers(-powers, powers, len(found.q))
    found.T = row[:, None] * found.T * first
    found.W = row[:, None] * found.W * second
    found.H = row[:, None] * found.H
    found.c, found.q = found.c * first, found.q * second
    found.A, found.u = found.A * first, found.u / first
    return found, *outcomes(rng, found, int(rng.choice([1, 2, 4])))


def coefficients(rng):
    """Coefficients whose sizes vary from 1e-6 to 1e6."""
    found = base(rng)
    for name in ("T", "W", "c", "q"):
        array = getattr(found, name)
        setattr(found, name, array * 10.0 ** rng.uniform(-6, 6, array.shape))
    return found, *outcomes(rng, found, int(rng.choice([1, 2])))


def degenerate(rng):
    """Duplicate rows and tied outcomes: many bases for one point."""
    found = base(rng, rows=2)
    found.T, found.W = np.vstack([found.T] * 2), np.vstack([found.W] * 2)
    found.H, found.h = np.vstack([found.H] * 2), np.zeros(4)
    scenarios, outcome = outcomes(rng, found, 2)
    return found, np.round(scenarios / 5) * 5, np.round(outcome / 5) * 5


def many_optima(rng):
    """Tied costs: many optimal decisions, of which the best counts."""
    found = base(rng)
    found.T = rng.integers(0, 2, found.T.shape) + 1.0
    found.W[:, :2] = found.T
    found.c = np.full(2, float(rng.integers(1, 4)))
    found.q[:2] = found.c
    scenarios, outcome = outcomes(rng, found, 2)
    return found, np.round(scenarios), np.round(outcome)


def many_optima_in_units(rng):
    """The same with rows and columns scaled by powers of two, which keeps the ties."""
    found, scenarios, outcome = many_optima(rng)
    row, first = 2.0 ** rng.integers(-10, 11, (2, 2))
    found.T, found.W = row[:, None] * found.T * first, row[:, None] * found.W
    found.H, found.c = row[:, None] * found.H, found.c * first
    found.A, found.u = found.A * first, found.u / first
    return found, scenarios, outcome


def near_infeasible(rng):
    """Capacity that is just sufficient, to 1e-9, without paid shortage."""
    found = base(rng)
    scenarios, outcome = outcomes(rng, found, 2)
    found.T, found.W = np.eye(2), np.eye(2)
    found.q, found.v = found.q[:2], np.full(2, 3.0)
    need = np.maximum(scenarios.max(axis=0), outcome)
    spare = rng.choice([0.0, 1e-9, 1e-7, 1e-3])
    found.u = (need - 3.0) * (1 + spare)
    found.A, found.b = np.ones((1, 2)), np.zeros(1)
    return found, scenarios, outcome


def tiny_outcomes(rng, size=1e-4):
    """Coefficients of 1e-4, such as returns in a CVaR portfolio."""
    assets = 3
    found = Instance(
        c=np.array([0.0] * assets + [1.0, -1.0]),
        q=np.array([10.0]),
        A=np.array([[1.0] * assets + [0, 0], [-1.0] * assets + [0, 0]]),
        b=np.array([1.0, -1.0]),
        T=np.array([[0.0] * assets + [1.0, -1.0]]),
        W=np.ones((1, 1)),
        h=np.zeros(1),
        H=np.zeros((1, assets)),
        u=np.array([1.0] * assets + [1.0, 1.0]),
        v=np.array([np.inf]),
        uncertain=[(0, j, j) for j in range(assets)],
    )
    drawn = size * rng.normal(size=(5, assets))
    return found, drawn[:4], drawn[4]


def tiny_sides(rng):
    """Right-hand sides of 1e-7."""
    found = base(rng)
    found.b = found.b * 1e-7
    return found, *outcomes(rng, found, 2, 1e-7, 2e-6)


def huge_costs(rng):
    """Shortage costs of 1e10 beside costs of a few units."""
    found = base(rng)
    found.q[2:] = found.q[2:] * 1e9
    found.u = np.full(2, 3.0)
    return found, *outcomes(rng, found, 2)


def big_m(rng):
    """Big-M constraints with M up to 1e6."""
    found = base(rng)
    big = float(rng.choice([1e3, 1e6]))
    found.A = np.array([[-1.0, 0, big, 0], [0, -1.0, 0, big]])
    found.b = np.zeros(2)
    found.c = np.concatenate([found.c, rng.integers(5, 60, 2)])
    found.T = np.hstack([found.T, np.zeros((2, 2))])
    found.u = np.array([20.0, 20.0, 1.0, 1.0])
    found.integer_y = (2, 3)
    return found, *outcomes(rng, found, 2)


def integer_recourse(rng):
    """Integer recourse with rows and columns in units that differ by up to a million."""
    found = base(rng)
    found.v[:2], found.integer_z = 2.0, (0, 1)
    row, first = 2.0 ** rng.integers(-10, 11, (2, 2))
    found.T, found.W = row[:, None] * found.T * first, row[:, None] * found.W
    found.H, found.c = row[:, None] * found.H, found.c * first
    found.A, found.u = found.A * first, found.u / first
    return found, *outcomes(rng, found, 1)


def near_ties(rng):
    """Integer plants that cost nearly the same, at costs from 1e-12 to 1e9.

    Decisions within 1e-9 of the optimal value count as tied, so no difference is as small.
    """
    found = base(rng, y=3)
    found.A, found.b = np.ones((1, 3)), np.zeros(1)
    found.u = np.full(3, float(rng.integers(1, 4)))
    found.integer_y = tuple(range(int(rng.integers(1, 4))))
    found.T[:, 1] = found.W[:, 0] = found.T[:, 0]
    found.c[1] = found.c[0] * (1 + rng.choice([0.0, 1e-5, 1e-6, 1e-7]))
    found.q[0] = found.c[0] * (1 + rng.choice([0.0, 1e-5, -1e-6, 1e-7]))
    price = 10.0 ** rng.integers(-12, 10)
    found.c, found.q = found.c * price, found.q * price
    return found, *outcomes(rng, found, int(rng.choice([1, 2])), 1, 12)


LINEAR = (
    units,
    coefficients,
    degenerate,
    many_optima,
    many_optima_in_units,
    near_infeasible,
    tiny_outcomes,
    tiny_sides,
    huge_costs,
)
INTEGER = (big_m, integer_recourse, near_ties)
