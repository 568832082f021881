"""Fits of one history, each made once."""

import pytest

from models import newsvendor
from tests.quick import fit, shorten


@pytest.fixture(autouse=True)
def short(monkeypatch):
    shorten(monkeypatch.setattr)


@pytest.fixture(scope="session")
def pairs():
    return newsvendor.sample(40, seed=1)


@pytest.fixture(scope="session")
def fitted(pairs):
    """Return a function from a method to a policy, fitted once."""
    known = {}

    def policy(method):
        if method not in known:
            known[method] = fit(pairs, method=method)
        return known[method]

    return policy
