"""What ``import pyomo_csg`` shows: its public names, and results as one line."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import pyomo_csg as csg
from models import farmer, newsvendor


def test_dir_lists_the_public_names_only():
    names = {name for name in dir(csg) if not name.startswith("__")}
    assert names == set(csg.__all__)


def test_every_public_name_is_there_once():
    assert len(csg.__all__) == len(set(csg.__all__))
    assert all(hasattr(csg, name) for name in csg.__all__)


def test_dir_is_the_same_before_and_after_first_use():
    """Names that are imported later, and modules that they import, change nothing."""
    code = (
        "import pyomo_csg as csg; before = dir(csg); csg.fit; csg.Oracle; "
        "csg.guarantees; csg.Policy; assert dir(csg) == before"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_name_that_is_not_public_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = csg.nothing


@pytest.mark.parametrize("name", csg.__all__)
def test_every_public_name_is_documented(name):
    assert getattr(csg, name).__doc__


@pytest.fixture(scope="module")
def policy():
    pairs = newsvendor.sample(60, seed=1)
    return csg.baselines.SampleAverage(newsvendor.build(), pairs)


def results(policy, folder):
    of, pairs = csg.guarantees, newsvendor.sample(60, seed=2)
    yield policy.two_stage, "<TwoStageModel of 'newsvendor': 1 first-stage and 2"
    yield policy, "<SampleAverage for 'newsvendor': SAA, from 60 pairs>"
    yield csg.reduce(policy.oracle, pairs[1], scenarios=60), "of 60 outcomes to 60"
    yield csg.evaluate({"a": policy}, pairs), "<Evaluation of 1 policy on 60 cases"
    yield of.certify(policy, pairs), "<Certificate for 'newsvendor': the policy costs"
    yield of.values(policy, pairs), "<Values over 30 contexts: VSS "
    yield of.ambiguity(policy, pairs), "on 0% of 60 pairs>"
    table = pd.DataFrame({"row": [0, 0, 1, 1], "policy": ["a", "b"] * 2})
    yield csg.Simulation(table, ()), "<Simulation of 2 policies over 2 rows>"
    m, scenarios = farmer.build(), farmer.scenarios(3)
    csg.write_smps(m, scenarios, None, folder / "farmer")
    yield csg.read_smps(folder / "farmer"), "<SmpsProblem 'farmer': 3 scenarios>"


def test_results_are_shown_in_one_line(policy, tmp_path):
    for found, shown in results(policy, tmp_path):
        assert shown in repr(found) and "\n" not in repr(found)


def test_a_reduction_shows_its_gap(policy):
    outcomes = np.array([[10.0], [12.0], [30.0]])
    found = csg.reduce(policy.oracle, outcomes, scenarios=2, method="forward")
    assert repr(found) == (
        f"<Reduction of 3 outcomes to 2 scenarios by 'forward': gap {found.gap:.3%}>"
    )
