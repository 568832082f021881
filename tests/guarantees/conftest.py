"""Newsvendor policies, fitted once, and the closed form of their costs."""

import numpy as np
import pytest

from models import newsvendor
from tests.quick import fit


@pytest.fixture(scope="session")
def history():
    return newsvendor.sample(60, seed=1)


@pytest.fixture(scope="session")
def policy(history):
    return fit(history, method="mmd")


@pytest.fixture(scope="session")
def held_out():
    return newsvendor.sample(120, seed=2)


@pytest.fixture(scope="session")
def by_hand():
    """Return the newsvendor's cost of orders (n,) when demands (n,) come, in closed form."""

    def cost(orders, demands):
        sold = np.minimum(orders, demands)
        return orders - 1.05 * sold - 0.1 * (orders - sold)

    return cost
