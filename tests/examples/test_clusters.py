"""The examples on a cluster, run as their first lines say, find what one process finds."""

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pyomo_csg as csg
from models import cep1

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def mean_cost():
    contexts, outcomes = cep1.sample(1000, seed=0)
    rng = np.random.default_rng(0)
    scenarios = np.array([rng.choice(cep1.conditional(x)[0], 5) for x in contexts])
    oracle = csg.Oracle(cep1.build())
    return oracle.loss(scenarios, outcomes, progress=False).mean()


def run(*command):
    options = {"capture_output": True, "text": True, "timeout": 300}
    done = subprocess.run(command, check=False, **options)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def printed_numbers(text):
    labels, workers = re.search(r"(\d+) labels by (\d+)", text).groups()
    cost = re.search(r"costs ([\d,]+) on average", text)[1]
    return int(labels), int(workers), int(cost.replace(",", ""))


@pytest.mark.skipif(
    importlib.util.find_spec("distributed") is None, reason="needs the extra dask"
)
def test_two_processes_of_dask(mean_cost):
    text = run(sys.executable, EXAMPLES / "oracle_dask.py")
    assert printed_numbers(text) == (1000, 2, round(mean_cost))


@pytest.mark.skipif(
    importlib.util.find_spec("mpi4py") is None
    or shutil.which("mpiexec", path=Path(sys.executable).parent) is None,
    reason="needs the extra mpi",
)
def test_two_ranks_of_mpi_work_for_a_third(mean_cost):
    mpiexec = shutil.which("mpiexec", path=Path(sys.executable).parent)
    python = sys.executable, "-m", "mpi4py.futures", EXAMPLES / "oracle_mpi.py"
    text = run(mpiexec, "-n", "3", *python)
    assert printed_numbers(text) == (1000, 2, round(mean_cost))
