"""What an evaluation makes of its numbers, by hand."""

import numpy as np
import pandas as pd
import pytest

import pyomo_csg as csg
from tests.evaluation.sample_cases import make_evaluation


def test_gaps_are_relative_to_the_size_of_the_reference():
    evaluation = make_evaluation({"a": [11.0, -9.0, 0.0, 2.0]}, [10.0, -10.0, 0.0, 0.0])
    assert evaluation.gaps["a"].tolist() == pytest.approx([0.1, 0.1, 0.0, np.inf])
    assert evaluation.gaps.index.names == ["trial", "case"]


def test_statistics_are_over_all_cases_of_all_trials():
    rng = np.random.default_rng(0)
    gaps = rng.lognormal(size=(12, 2))
    costs = dict(zip("ab", (1 + gaps).T, strict=True))
    evaluation = make_evaluation(costs, np.ones(12), trials=[0] * 5 + [1] * 7)
    assert evaluation.median().tolist() == pytest.approx(np.median(gaps, axis=0))
    assert evaluation.mean().tolist() == pytest.approx(gaps.mean(axis=0))
    assert evaluation.quantile(0.9).tolist() == pytest.approx(
        np.quantile(gaps, 0.9, axis=0)
    )
    assert list(evaluation.median().index) == ["a", "b"]


def test_without_a_reference_statistics_are_of_costs():
    evaluation = make_evaluation({"a": [3.0, 5.0, 10.0]})
    assert evaluation.median()["a"] == 5 and evaluation.mean()["a"] == 6
    with pytest.raises(csg.DataError, match="reference='2sp'"):
        evaluation.gaps  # noqa: B018


def test_ratios_are_over_a_named_policy_on_the_cases_that_both_have():
    evaluation = make_evaluation(
        {"EV": [2.0, 3.0, 9.0], "mine": [1.5, 1.25, np.nan]}, np.ones(3)
    )
    ratios = evaluation.ratios("EV", ["median", "mean", 1.0])
    assert ratios.loc["EV"].tolist() == [1.0, 1.0, 1.0]
    assert ratios.loc["mine"].tolist() == pytest.approx([0.375 / 1.5] * 2 + [0.5 / 2])
    with pytest.raises(csg.DataError, match="the policies are 'EV', 'mine'"):
        evaluation.ratios("SAA")
    with pytest.raises(csg.DataError, match="give 'median', 'mean', or a quantile"):
        evaluation.ratios("EV", ["mode"])


def test_wins_split_ties_and_lose_what_has_no_cost():
    evaluation = make_evaluation(
        {
            "a": [1.0, 2.0, np.nan, 5.0, np.nan],
            "b": [1.0 + 1e-12, 1.0, 4.0, 5.1, np.nan],
            "c": [1.0 + 1e-6, 3.0, np.nan, 5.0, np.nan],
        }
    )
    assert evaluation.wins().tolist() == pytest.approx([1 / 5, 2.5 / 5, 0.5 / 5])
    assert evaluation.wins(1e-3)["c"] == pytest.approx((1 / 3 + 0.5) / 5)


def test_wins_are_of_negative_costs_too():
    evaluation = make_evaluation({"a": [-2.0, -1.0], "b": [-1.0, -1.0 - 1e-13]})
    assert evaluation.wins().tolist() == [0.75, 0.25]


def test_timing_splits_a_decision_and_tells_the_speed_up():
    evaluation = make_evaluation({"a": [1.0, 2.0], "b": [1.0, np.nan]}, [1.0, 1.0])
    timing = evaluation.timing()
    assert timing.loc["a"].to_dict() == {
        "decision": 1.0,
        "scenarios": 0.25,
        "solve": 0.75,
        "solver": 0.5,
        "full program": 60.0,
        "speed-up": 60.0,
    }
    assert evaluation.timing("mean").loc["b", "speed-up"] == 60


def test_failures_are_listed_and_left_out_of_statistics():
    evaluation = make_evaluation(
        {"a": [2.0, np.nan, 4.0], "b": [2, 2, 2.0]}, np.ones(3)
    )
    assert evaluation.failures.to_dict("records") == [
        {"trial": 0, "case": 1, "policy": "a", "failure": "infeasible"}
    ]
    assert evaluation.mean()["a"] == 2
    assert "left out of statistics and not won: 'a' in 1" in str(evaluation)


def test_what_it_hands_out_can_be_changed_and_it_does_not():
    evaluation = make_evaluation({"a": [2.0, 3.0]}, [1.0, 1.0])
    for frame in (evaluation.costs, evaluation.records, evaluation.reference):
        frame.iloc[0, 0] = -1.0
    assert evaluation.costs["a"].tolist() == [2, 3]
    assert evaluation.reference["value"].tolist() == [1, 1]
    with pytest.raises(AttributeError):
        evaluation.costs = None


def test_only_some_policies_keep_the_reference():
    costs = {"a": [2.0, 3.0], "b": [1.0, 1.0], "c": [3.0, 2.0]}
    part = make_evaluation(costs, [1.0, 1.0]).only(["c", "a"])
    assert part.policies == ["c", "a"]
    assert part.wins().tolist() == [0.5, 0.5]
    assert part.gaps["a"].tolist() == [1, 2]
    with pytest.raises(csg.DataError, match="'d' was given; the policies are 'c', 'a'"):
        part.only(["d"])


def test_joined_trials_may_lack_policies():
    one = make_evaluation({"a": [2.0, 4.0], "b": [1.5, 3.0]}, [1.0, 2.0])
    two = make_evaluation({"b": [6.0]}, [3.0], trials=["second"])
    both = csg.Evaluation.join([one, two])
    assert both.trials == [0, "second"] and both.policies == ["a", "b"]
    assert both.gaps["a"].tolist() == pytest.approx([1, 1, np.nan], nan_ok=True)
    assert both.median().tolist() == [1.0, 0.5]
    assert both.wins().to_dict() == {"a": 0.0, "b": 1.0}
    assert both.failures.empty


def test_joined_policies_of_one_trial_share_the_best_reference():
    one = make_evaluation({"a": [2.0, 4.0]}, [1.0, 2.0], bounds=[0.9, 1.0])
    two = make_evaluation({"b": [1.5, 3.0]}, [0.9, 2.5], bounds=[0.8, 2.0])
    both = csg.Evaluation.join([one, two])
    assert both.reference["value"].tolist() == [0.9, 2.0]
    assert both.reference["bound"].tolist() == [0.9, 2.0]
    assert both.gaps.loc[(0, 1)].tolist() == [1.0, 0.5]


@pytest.mark.parametrize(
    "others, words",
    [
        ([], "none were given"),
        ([make_evaluation({"a": [1.0]}, [1.0])] * 2, "occurs twice, the first for 'a'"),
        (
            [make_evaluation({"a": [1.0]}), make_evaluation({"b": [1.0]}, [1.0])],
            "some have a reference",
        ),
    ],
)
def test_what_does_not_belong_together_is_not_joined(others, words):
    with pytest.raises(csg.DataError, match=words):
        csg.Evaluation.join(others)


def test_a_case_that_is_not_the_same_is_not_joined():
    one, two = (make_evaluation({p: [1.0]}, [1.0]) for p in "ab")
    other = csg.Evaluation(two.records, two.reference.assign(digest="else"))
    with pytest.raises(csg.DataError, match="case 0 of trial 0 is not the same in all"):
        csg.Evaluation.join([one, other])


def test_a_file_gives_the_evaluation_back(tmp_path):
    costs = {"NA": [1 / 3, np.nan], "b, 'c'": [1e-17, 2.0]}
    evaluation = make_evaluation(costs, [0.1, 1.5], [0.05, np.nan], trials=[3, 4])
    path = tmp_path / "all.csv"
    evaluation.to_csv(path)
    again = csg.Evaluation.from_csv(path)
    pd.testing.assert_frame_equal(again.records, evaluation.records, check_exact=True)
    pd.testing.assert_frame_equal(
        again.reference, evaluation.reference, check_exact=True
    )
    tidy = pd.read_csv(path, keep_default_na=False)
    assert len(tidy) == 4
    assert list(tidy.columns[:8]) == [
        "trial",
        "case",
        "policy",
        "cost",
        "gap",
        "value",
        "bound",
        "seconds",
    ]
    assert float(tidy["gap"][0]) == (1 / 3 - 0.1) / 0.1


@pytest.mark.parametrize("content", ["", "trial,case\n0,1\n", "a,b\n1,2,3\n4\n"])
def test_another_file_is_refused(tmp_path, content):
    path = tmp_path / "other.csv"
    path.write_text(content)
    with pytest.raises(csg.DataError, match="give a file that Evaluation.to_csv wrote"):
        csg.Evaluation.from_csv(path)
