"""Searches over fits with made-up losses: which one is chosen."""

import numpy as np
import pytest

from pyomo_csg.learn.config import FitConfig
from pyomo_csg.learn.fit_result import MethodResult, Selection
from pyomo_csg.learn.progress import TimeUpError, TrainingLog
from pyomo_csg.learn.selection.hyperparameter_search import search, search_space

NAN = float("nan")
SPACE = search_space("mmd", None, panels=False)


def found(losses):
    return MethodResult(None, Selection("mmd"), lambda: np.array(losses))


def test_a_search_takes_the_settings_that_did_best_on_what_was_held_out():
    log, tried = TrainingLog(), []
    losses = [[5.0, 5.0], [4.0, NAN], [4.0, 5.0], [9.0, 9.0]]

    def fit(settings, name):
        tried.append((settings, name))
        return found(losses[len(tried) - 1])

    config = FitConfig(search=4, noise=0.123)
    best = search(config, SPACE, 0, log, fit)

    assert [name for _, name in tried] == [f"search {i}" for i in range(4)]
    assert tried[0][0] is config
    assert all(settings.noise == 0.123 for settings, _ in tried)
    assert len({settings.mmd_rate for settings, _ in tried}) == 4
    assert best.holdout_losses().tolist() == [4.0, 5.0]  # no decision is as bad as 9
    assert best.selection.searched == 4
    won = {"number": 3, "loss": 4.5, "loss_as_given": 5.0}
    assert best.selection.search_won == won
    assert best.selection.settings["mmd_rate"] == tried[2][0].mmd_rate
    assert len(log.entries) == 4


def test_a_search_draws_by_its_seed():
    def rates(seed):
        drawn = []
        search(
            FitConfig(search=3),
            SPACE,
            seed,
            TrainingLog(),
            lambda settings, _: drawn.append(settings.mmd_rate) or found([1.0]),
        )
        return drawn

    assert rates(0) == rates(0) != rates(1)


def test_a_search_of_one_takes_the_settings_as_they_are():
    config = FitConfig(search=1)
    best = search(config, SPACE, 0, TrainingLog(), lambda settings, _: found([1.0]))
    assert best.selection.settings["batch"] == config.batch


def time_is_up():
    raise TimeUpError


@pytest.mark.parametrize("number", [0, 1])
def test_a_search_that_is_cut_short_returns_what_it_has(number):
    late = MethodResult(None, Selection("mmd"), time_is_up)
    fits = [found([1.0, 2.0]), found([1.0, 1.0])]
    fits[number] = late

    best = search(
        FitConfig(search=2),
        SPACE,
        0,
        TrainingLog(),
        lambda settings, name: fits[int(name.removeprefix("search "))],
    )

    assert best is fits[0]
    assert best.selection.searched == (None if number == 0 else 1)
