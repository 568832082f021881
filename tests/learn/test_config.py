"""Wrong settings are refused, all at once."""

import pytest

import pyomo_csg as csg
from pyomo_csg.learn.config import read_config

BAD = {
    "hidden": (8, "units are not a number"),
    "recurrent": (),
    "encoder": (),
    "head": (0,),
    "weights": "some",
    "units": "feet",
    "batch": 0,
    "mmd_epochs": 0,
    "task_epochs": 1.5,
    "loss_epochs": -1,
    "mmd_rate": 0.0,
    "task_rate": "fast",
    "loss_rate": float("inf"),
    "decay": -1e-3,
    "rounds": -1,
    "buffer": 0,
    "noise": float("nan"),
    "draws": 0,
    "folds": 1,
    "starts": 0,
    "search": -1,
    "seconds": 0,
    "device": "tpu",
}
EDGES = {
    "hidden": (),
    "head": (),
    "weights": "learned",
    "units": "raw",
    "decay": 0,
    "rounds": 0,
    "noise": 0.0,
    "folds": 2,
    "search": 1,
    "seconds": 0.5,
    "device": "auto",
}


@pytest.mark.parametrize("name", BAD)
def test_a_setting_out_of_range_is_refused_by_name(name):
    with pytest.raises(csg.DataError) as caught:
        csg.FitConfig(**{name: BAD[name]})

    (problem,) = caught.value.problems
    assert problem.startswith(f"{name} is {BAD[name]!r}; give ")


def test_all_that_is_off_is_listed_at_once():
    with pytest.raises(csg.DataError) as caught:
        csg.FitConfig(**BAD)

    assert len(caught.value.problems) == len(BAD)


@pytest.mark.parametrize("name", EDGES)
def test_a_setting_at_the_edge_of_its_range_is_taken(name):
    assert getattr(csg.FitConfig(**{name: EDGES[name]}), name) == EDGES[name]


def test_settings_may_be_a_mapping_or_nothing():
    assert read_config({"noise": 0.5}) == csg.FitConfig(noise=0.5)
    assert read_config(None) == csg.FitConfig()
    mine = csg.FitConfig(batch=7)
    assert read_config(mine) is mine


def test_misspelled_settings_are_told_with_what_was_meant():
    with pytest.raises(csg.DataError) as caught:
        read_config({"nois": 1, "epochs_mmd": 3, "zzz": 0})

    first, second, third = caught.value.problems
    assert "there is no setting 'nois'; did you mean noise" in first
    assert "'epochs_mmd'" in second
    assert third == "there is no setting 'zzz'; see csg.FitConfig"


@pytest.mark.parametrize("wrong", [0, -1.0, float("nan"), float("inf"), "wide", True])
def test_a_bandwidth_is_a_number_above_zero(wrong):
    with pytest.raises(csg.DataError) as caught:
        csg.FitConfig(kernel="gaussian", bandwidth=wrong)

    (problem,) = caught.value.problems
    assert problem == f"bandwidth is {wrong!r}; give a number above 0, or None"


@pytest.mark.parametrize("kernel", ["energy", lambda one, other: one @ other.mT])
def test_a_bandwidth_for_a_kernel_that_has_none_is_refused(kernel):
    with pytest.raises(csg.DataError, match=r"only the kernels .* leave it out"):
        csg.FitConfig(kernel=kernel, bandwidth=2.0)
