"""Intervals: against a plain recomputation, against scipy, and how often they cover."""

import numpy as np
import pytest
from scipy import stats

import pyomo_csg as csg
from tests.evaluation.sample_cases import make_evaluation


def gaps_of(rng, n, policies="ab"):
    return {policy: 1 + rng.lognormal(size=n) for policy in policies}


@pytest.mark.parametrize("statistic", ["median", "mean", 0.9])
def test_cases_are_drawn_where_there_is_one_trial(statistic):
    costs = gaps_of(np.random.default_rng(1), 15)
    evaluation = make_evaluation(costs, np.ones(15))
    found = evaluation.interval(statistic, level=0.8, seed=4, draws=50)
    function = {"median": np.median, "mean": np.mean}.get(
        statistic, lambda values: np.quantile(values, 0.9)
    )
    rng = np.random.default_rng(4)
    drawn = [rng.integers(15, size=15) for _ in range(50)]
    for policy, cost in costs.items():
        every = [function((cost - 1)[rows]) for rows in drawn]
        assert found.loc[policy].tolist() == pytest.approx(
            [np.quantile(every, 0.1), np.quantile(every, 0.9)]
        )
    assert found.columns.name == "bootstrap over cases"


def test_whole_trials_are_drawn_where_there_are_several():
    trials = [0] * 4 + [1] * 6 + [2] * 5
    costs = gaps_of(np.random.default_rng(2), 15)
    costs["b"][4:10] = np.nan  # missing in a trial
    evaluation = make_evaluation(costs, np.ones(15), trials=trials)
    found = evaluation.interval("mean", seed=7, draws=40)
    rng, every = np.random.default_rng(7), {"a": [], "b": []}
    for _ in range(40):
        chosen = rng.integers(3, size=3)
        for policy, cost in costs.items():
            pooled = [g for t in chosen for g in (cost - 1)[np.array(trials) == t]]
            kept = [gap for gap in pooled if not np.isnan(gap)]
            every[policy].append(np.mean(kept) if kept else np.nan)
    for policy, means in every.items():
        known = [mean for mean in means if not np.isnan(mean)]
        assert found.loc[policy].tolist() == pytest.approx(
            np.quantile(known, [0.025, 0.975]).tolist()
        )
    assert found.columns.name == "bootstrap over trials"


def test_a_policy_of_few_trials_is_drawn_from_these():
    rng, trials = np.random.default_rng(9), [0] * 6 + [1] * 6 + [2] * 6
    parts = {"EV": 18, "two": 12, "one": 6}
    costs = gaps_of(rng, 18, parts)
    joined = csg.Evaluation.join(
        make_evaluation({policy: costs[policy][:n]}, np.ones(n), trials=trials[:n])
        for policy, n in parts.items()
    )
    for to in (None, "EV"):
        found = joined.interval("mean", to=to, draws=30)
        assert found.columns.name == "bootstrap over trials or cases"
        for policy, n in parts.items():
            both = {name: costs[name][:n] for name in ("EV", policy)}
            alone = make_evaluation(both, np.ones(n), trials=trials[:n])
            expected = alone.interval("mean", to=to, draws=30).loc[policy]
            assert found.loc[policy].tolist() == expected.tolist()
    assert found.loc["one", "low"] < found.loc["one", "high"]


def test_the_interval_is_that_of_scipy_but_for_chance():
    rng = np.random.default_rng(3)
    evaluation = make_evaluation({"a": 1 + rng.exponential(size=60)}, np.ones(60))
    found = evaluation.interval("mean", level=0.9, draws=4000).loc["a"]
    theirs = stats.bootstrap(
        (evaluation.gaps["a"].to_numpy(),),
        np.mean,
        n_resamples=4000,
        confidence_level=0.9,
        method="percentile",
        random_state=0,
    ).confidence_interval
    width = theirs.high - theirs.low
    assert found["low"] == pytest.approx(theirs.low, abs=0.08 * width)
    assert found["high"] == pytest.approx(theirs.high, abs=0.08 * width)


def test_an_interval_covers_about_as_often_as_it_says():
    rng, covered = np.random.default_rng(5), 0
    for _ in range(10):
        costs = dict(enumerate(1 + rng.exponential(size=(20, 50))))
        found = make_evaluation(costs, np.ones(50)).interval("mean", 0.8, draws=200)
        covered += ((found["low"] <= 1) & (1 <= found["high"])).sum()
    assert (
        140 <= covered <= 172
    )  # 160 of 200, less what the bootstrap lacks, and chance


def test_a_ratio_has_an_interval_in_which_common_chance_cancels():
    common = np.random.default_rng(6).exponential(size=30)
    costs = {"EV": 1 + common, "half": 1 + 0.5 * common}
    evaluation = make_evaluation(costs, np.ones(30))
    ratio = evaluation.interval("mean", to="EV", draws=100)
    assert ratio.loc["half"].tolist() == pytest.approx([0.5, 0.5])
    alone = evaluation.interval("mean", draws=100).loc["half"]
    assert alone["high"] > 1.3 * alone["low"]


def test_the_same_seed_gives_the_same_interval():
    evaluation = make_evaluation(gaps_of(np.random.default_rng(8), 20), np.ones(20))
    one, other = (evaluation.interval(seed=3, draws=30) for _ in range(2))
    assert one.equals(other)
    assert not one.equals(evaluation.interval(seed=4, draws=30))
    with pytest.raises(csg.DataError, match="level is 95"):
        evaluation.interval(level=95)


def test_a_policy_without_any_cost_has_no_interval():
    evaluation = make_evaluation({"a": [2.0, 3.0], "b": [np.nan] * 2}, np.ones(2))
    assert evaluation.interval(draws=20).loc["b"].isna().all()
    assert np.isnan(evaluation.median()["b"])
