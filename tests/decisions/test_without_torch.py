"""A fresh process loads a policy and decides without torch and other large libraries."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import pyomo_csg as csg
from models import cep1
from tests.test_policy import machines

NAMES = ("wind", "price", "rain", "day")
SCRIPT = """
import json, pathlib, sys
import pyomo_csg as csg
from models import cep1

imported = sorted(sys.modules)
policy = csg.load(sys.argv[1], cep1.build())
decisions = [policy.decide(x) for x in json.loads(sys.argv[2])]
report = policy.report()
status = pathlib.Path("/proc/self/status")
lines = status.read_text().splitlines() if status.exists() else []
peak = [int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")]
print(json.dumps({
    "imported": imported,
    "used": sorted(sys.modules),
    "values": [decision.value for decision in decisions],
    "report": report,
    "megabytes": peak,
}))
"""
LARGE = {"torch", "sklearn", "matplotlib", "sympy", "pandas", "scipy"}
CONTEXTS = [
    dict(zip(NAMES, row, strict=True)) for row in ([0.5, -1, 0, 1], [1.0, 1, 1, 1])
]


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """Return a policy, and what the script says in a process of its own."""
    path = tmp_path_factory.mktemp("saved") / "policy.csg"
    policy = csg.Policy(cep1.build(), machines(names=NAMES))
    policy.save(path)
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(path), json.dumps(CONTEXTS)],
        check=True,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    return policy, json.loads(run.stdout)


def test_the_decisions_are_the_same(found):
    policy, said = found
    expected = [policy.decide(x).value for x in CONTEXTS]
    assert said["values"] == pytest.approx(expected, rel=1e-12)
    assert said["report"] == policy.report()


@pytest.mark.parametrize("part", ["imported", "used"])
def test_no_large_library_is_imported(found, part):
    assert LARGE & set(found[1][part]) == set()


@pytest.mark.skipif(sys.platform != "linux", reason="read from /proc")
def test_it_takes_little_memory(found):
    (peak,) = found[1]["megabytes"]
    assert 30 < peak < 150


def test_a_loaded_policy_builds_its_network_when_asked(tmp_path):
    policy = csg.Policy(cep1.build(), machines())
    policy.save(tmp_path / "policy.csg")
    again = csg.load(tmp_path / "policy.csg", cep1.build())
    assert again.network is again.network
    for name, tensor in policy.network.state_dict().items():
        np.testing.assert_array_equal(again.network.state_dict()[name], tensor)
