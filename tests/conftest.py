"""Settings that every test shares."""

import gc
import os
import signal
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import settings

# One thread for each process of tests; before anything imports numpy or torch.
os.environ["OMP_NUM_THREADS"] = "1"

# PuLP brings a release of CBC, which appsi looks for on the PATH. The package cbcbox brings
# a development build, whose version appsi cannot read.
if find_spec("pulp"):
    import pulp

    _cbc = Path(pulp.PULP_CBC_CMD.pulp_cbc_path).resolve().parent
    os.environ["PATH"] += f"{os.pathsep}{_cbc}"

# A shell's background job ignores Ctrl-C, and so would whatever the tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci")


@pytest.fixture(scope="module", autouse=True)
def _quick_collections():
    """Leave what was there before, imports above all, out of garbage collections."""
    gc.collect()
    gc.freeze()
