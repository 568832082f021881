"""What is learned once for all tests of reliability."""

import pytest

from tests.reliability.scene import Learned


@pytest.fixture(scope="session")
def learned(tmp_path_factory):
    """Return policies and files; whoever changed them is found at the end."""
    made = Learned(tmp_path_factory.mktemp("learned"))
    before = made.state()
    yield made
    assert made.state() == before
