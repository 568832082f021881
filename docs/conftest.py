"""Skip the page on real data where the package that carries the data is not installed."""

import importlib.util

import pytest

NEEDS_ISLP = "every_morning.md"


def pytest_collection_modifyitems(items):
    if importlib.util.find_spec("ISLP") is not None:
        return
    for item in items:
        if item.path.name == NEEDS_ISLP:
            reason = "the data come with ISLP: pip install --no-deps ISLP"
            item.add_marker(pytest.mark.skip(reason))
