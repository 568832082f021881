"""A search draws only settings that the fit uses."""

import pytest
from sklearn.model_selection import ParameterSampler
from torch import nn

import pyomo_csg as csg
from pyomo_csg.learn.config import FitConfig
from pyomo_csg.learn.selection.hyperparameter_search import search_space
from pyomo_csg.validation import METHODS

LAYERS = {"hidden", "recurrent"}
LOSS_NET = {"encoder", "head", "loss_epochs", "loss_rate"}


@pytest.mark.parametrize(
    ("network", "panels", "layers"),
    [
        (None, False, {"hidden"}),
        (None, True, {"recurrent"}),
        ("mlp", False, {"hidden"}),
        ("lstm", True, {"recurrent"}),
        ("constant", True, set()),
        (csg.Linear(), False, set()),
        (nn.Linear(2, 2), False, set()),
    ],
)
def test_layers_are_drawn_for_the_network_that_has_them(network, panels, layers):
    assert search_space("mmd", network, panels).keys() & LAYERS == layers


@pytest.mark.parametrize(
    ("method", "follows"),
    [
        ("mmd", False),
        ("direct", False),
        ("static", True),
        ("dynamic", True),
        ("auto", True),
    ],
)
def test_a_loss_net_is_drawn_for_the_methods_that_may_follow_one(method, follows):
    drawn = search_space(method, None, False).keys()

    assert drawn & LOSS_NET == (LOSS_NET if follows else set())
    assert ("task_rate" in drawn) == (method != "mmd")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("panels", [True, False])
def test_all_that_is_drawn_makes_settings(method, panels):
    for one in ParameterSampler(search_space(method, None, panels), 20, random_state=0):
        settings = vars(FitConfig(**one))
        assert {name: settings[name] for name in one} == one
