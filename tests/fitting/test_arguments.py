"""Bad arguments of csg.fit, each refused by name."""

import numpy as np
import pandas as pd
import pytest

import pyomo_csg as csg
from tests.quick import fit, panels, portfolio

BAD = {
    "no scenarios": ({"scenarios": 0}, "scenarios is 0"),
    "half a scenario": ({"scenarios": 2.5}, "scenarios is 2.5"),
    "true scenarios": ({"scenarios": True}, "scenarios is True"),
    "an array of scenarios": ({"scenarios": np.array([1, 2])}, "scenarios is array"),
    "many": (
        {"scenarios": "many"},
        "'many'; give a whole number from 1 up, 'auto' or 'all'",
    ),
    "a misspelled method": ({"method": "statik"}, "did you mean 'static'"),
    "a method out of nowhere": ({"method": "magic"}, "give one of"),
    "a negative lambda": ({"method": "static", "regularization": -1}, "from 0 up"),
    "a lambda that is none": (
        {"method": "static", "regularization": float("nan")},
        "regularization is nan; give a number from 0 up",
    ),
    "a true lambda": ({"method": "static", "regularization": True}, "is True; give"),
    "a lambda of words": ({"method": "static", "regularization": "much"}, "'0.1x'"),
    "a lambda for mmd": ({"method": "mmd", "regularization": 1.0}, "takes none"),
    "a relative lambda for direct": (
        {"method": "direct", "regularization": "0.1x"},
        "'direct' takes a number",
    ),
    "a seed of words": ({"seed": "x"}, "seed is 'x'"),
    "a network out of nowhere": (
        {"network": "transformer"},
        "network is 'transformer'",
    ),
    "a network that is none": ({"network": 3}, "give a torch.nn.Module"),
    "an lstm for vectors": ({"network": "lstm"}, "contexts are vectors"),
    "settings that are none": ({"config": 3}, "csg.FitConfig or a dict"),
    "a misspelled setting": ({"config": {"epoch": 3}}, "there is no setting 'epoch'"),
    "a setting out of range": ({"config": {"noise": -1}}, "noise is -1"),
    "a device that is none": ({"config": {"device": "tpu"}}, "device is 'tpu'"),
    "a kernel out of nowhere": ({"config": {"kernel": "cosine"}}, "kernel is 'cosine'"),
    "a kernel of another shape": (
        {"config": {"kernel": lambda a, b: a}},
        "(..., m, p) and (..., n, p) to (..., m, n)",
    ),
    "no workers": ({"workers": 0}, "workers is 0"),
    "a callback that cannot be called": ({"callback": 3}, "callback is a int"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_arguments_are_refused_by_name(pairs, name):
    options, words = BAD[name]

    with pytest.raises(csg.CsgError) as caught:
        fit(pairs, **options)

    assert words in str(caught.value)


def test_a_gpu_that_is_not_there_is_told(pairs, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)

    with pytest.raises(csg.DataError, match="torch finds no CUDA here; leave it out"):
        fit(pairs, config={"device": "cuda"})


def test_several_bad_arguments_are_listed_at_once(pairs):
    with pytest.raises(csg.DataError) as caught:
        fit(pairs, scenarios=0, method="magic", seed=-1, config={"noise": -1})

    assert len(caught.value.problems) == 4


def test_an_mlp_for_panels_is_refused():
    with pytest.raises(csg.DataError, match="contexts are panels; give 'lstm'"):
        fit(panels(), portfolio(), network="mlp")


def test_all_that_is_wrong_with_the_data_is_told_at_once():
    frame = pd.DataFrame({"rain": [0.1, np.nan, 0.3], "demand": [5.0, -1.0, np.inf]})
    frame["day"] = ["Mon", "Tue", "Wed"]

    with pytest.raises(csg.DataError) as caught:
        fit(frame, preprocess=None)

    output = str(caught.value)
    for words in (
        "'rain' is nan in row 1",
        "'day' contains text",
        "-1 in row 1",
        "inf in",
    ):
        assert words in output
