"""Example contexts and nearby outcomes."""

import numpy as np
import pytest

from pyomo_csg.evaluation.comparison import read_pairs
from pyomo_csg.report.policy_plots import example_contexts, nearby_outcomes
from tests.report.conftest import days


def test_nearby_outcomes_follow_the_nearest_contexts(mmd):
    pairs = read_pairs(mmd, days(150, 3))
    x = np.array([0.3, -0.4])

    found = nearby_outcomes(mmd, x, pairs)

    spread = mmd.network.spread.numpy()
    distance = np.linalg.norm((pairs.contexts - x) / spread, axis=1)
    expected = pairs.outcomes[np.argsort(distance)[:15]]  # a tenth of 150
    assert sorted(found.ravel()) == pytest.approx(sorted(expected.ravel()))


@pytest.mark.parametrize(("pairs", "near"), [(4, 4), (30, 10), (900, 60)])
def test_nearby_outcomes_are_a_tenth_within_limits(mmd, pairs, near):
    assert (
        len(nearby_outcomes(mmd, np.zeros(2), read_pairs(mmd, days(pairs, 3)))) == near
    )


def test_example_contexts_differ(mmd):
    pairs = read_pairs(mmd, days(200, 3))

    shown = np.stack([one.context for one in example_contexts(mmd, pairs)])

    known = {tuple(x) for x in pairs.contexts}
    assert len(shown) == 6 and {tuple(x) for x in shown} <= known
    apart = np.linalg.norm(shown[:, None] - shown, axis=2) + 9 * np.eye(6)
    closest = np.linalg.norm(pairs.contexts[:, None] - pairs.contexts, axis=2)
    assert apart.min() > np.median(closest) / 4


def test_few_contexts_are_all_shown_once(mmd):
    pairs = read_pairs(mmd, days(8, 3).iloc[[0, 1, 1, 2, 0]])

    assert len(example_contexts(mmd, pairs)) == 3


def test_without_pairs_contexts_around_the_mean_are_shown(mmd):
    shown = example_contexts(mmd, None)

    center, spread = mmd.network.center.numpy(), mmd.network.spread.numpy()
    assert [one.name for one in shown] == [
        "the mean context",
        "rain one standard deviation below",
        "rain one standard deviation above",
        "price one standard deviation below",
        "price one standard deviation above",
    ]
    assert shown[0].context == pytest.approx(center)
    assert shown[3].context == pytest.approx(center - [0, spread[1]])
