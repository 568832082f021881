"""The bandwidth of a kernel is the median distance between outcomes."""

from itertools import combinations

import numpy as np
import pytest

import pyomo_csg as csg
from models import newsvendor
from pyomo_csg.learn.config import FitConfig, complete_settings, median_distance
from pyomo_csg.learn.tables.history import History

OUTCOMES = np.random.default_rng(0).normal([500.0, 3.0], [200.0, 0.1], (40, 2))
HISTORY = History(np.zeros((40, 1)), OUTCOMES)


@pytest.mark.parametrize(("kernel", "order"), [("gaussian", 2), ("laplacian", 1)])
@pytest.mark.parametrize("units", ["raw", "standard"])
def test_the_bandwidth_is_the_median_distance_in_the_units_of_the_kernel(
    kernel, order, units
):
    seen = OUTCOMES if units == "raw" else OUTCOMES / OUTCOMES.std(axis=0)
    apart = [np.linalg.norm(a - b, order) for a, b in combinations(seen, 2)]

    config = complete_settings(FitConfig(kernel=kernel, units=units), HISTORY)

    assert config.bandwidth == pytest.approx(np.median(apart), rel=1e-5)


@pytest.mark.parametrize(
    "config",
    [
        FitConfig(rows="series"),
        FitConfig(rows="series", kernel=lambda one, other: one @ other.mT),
        FitConfig(rows="series", kernel="gaussian", bandwidth=7.0),
    ],
)
def test_a_bandwidth_that_is_given_or_of_no_use_is_left_as_it_is(config):
    assert complete_settings(config, HISTORY) is config


def test_outcomes_that_come_twice_have_no_part_in_the_bandwidth():
    assert median_distance(np.array([[0.0]] * 9 + [[4.0]]), "euclidean") == 4.0
    assert median_distance(np.ones((5, 1)), "euclidean") == 1.0
    assert median_distance(np.ones((1, 1)), "euclidean") == 1.0


def test_a_long_history_is_looked_at_here_and_there():
    points = np.random.default_rng(1).normal(size=(20_000, 1))

    found = median_distance(points, "euclidean")

    assert found == pytest.approx(0.954, abs=0.1)  # of two standard normal numbers


@pytest.mark.parametrize("kernel", ["gaussian", "laplacian"])
def test_scenarios_learned_in_raw_units_follow_the_outcomes(kernel):
    rng = np.random.default_rng(0)
    contexts = rng.normal(size=(100, 1))
    demands = 5000 + 1000 * contexts + rng.normal(0, 100, (100, 1))
    scenarios = [
        csg.fit(
            newsvendor.build(),
            (contexts, demands),
            scenarios=2,
            method="mmd",
            config={"kernel": kernel, "units": "raw", "bandwidth": bandwidth},
            progress=False,
        ).scenarios(contexts)
        for bandwidth in (None, 1.0)
    ]

    off = [np.abs(found - demands[:, None]).mean() for found in scenarios]

    assert off[0] < 300 < off[1]


def test_the_report_tells_the_bandwidth_that_was_taken():
    pairs = newsvendor.sample(30, seed=1)
    config = {"kernel": "gaussian", "mmd_epochs": 1}

    policy = csg.fit(
        newsvendor.build(), pairs, method="mmd", config=config, progress=False
    )

    expected = median_distance(pairs[1] / pairs[1].std(), "euclidean")
    assert policy.learned.summary["settings"]["bandwidth"] == expected
    assert f"{expected:.6g}" in policy.report()
