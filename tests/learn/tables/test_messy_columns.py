"""Columns as people keep them are used, or refused by name, with what was found."""

import numpy as np
import pandas as pd
import pytest

import pyomo_csg as csg
from models import newsvendor
from tests.quick import fit

N = 60


def table(cells):
    rng = np.random.default_rng(0)
    rows = {"a": rng.normal(size=N), "c": cells, "demand": rng.uniform(20, 60, N)}
    return pd.DataFrame(rows)


def encoded(cells, *contexts):
    """Return the numbers of column c for contexts that differ in it."""
    baseline = csg.baselines.SampleAverage(newsvendor.build(), table(cells))
    rows = [{"a": 0.0, "c": cell} for cell in contexts]
    found = [baseline.read_contexts(row)[0][0] for row in rows]
    return [row[1:].tolist() for row in found]


@pytest.mark.parametrize(
    ("cells", "problem"),
    [
        ([None] * N, "column 'c' is empty in every row; leave it out"),
        ([np.nan] * N, "column 'c' is empty in every row; leave it out"),
        (
            [f"1,{200 + i}" for i in range(N)],
            "'c' contains numbers with separators or units ('1,200', row 0); write",
        ),
        ([f"{i}%" for i in range(N)], "numbers with separators or units ('0%', row 0)"),
        ([950] * 20 + ["1,200"] * 40, "separators or units ('1,200', row 20)"),
        (["n/a", *range(N - 1)], "'c' contains text among numbers ('n/a', row 0)"),
        ([[1, 2]] * N, "column 'c' contains a list ([1, 2], row 0); give numbers"),
    ],
)
def test_what_cannot_be_used_is_refused_by_column_and_row(cells, problem):
    with pytest.raises(csg.DataError) as error:
        fit(table(cells), method="mmd")
    assert problem in str(error.value)


def test_numbers_as_text_are_numbers():
    cells = [str(i % 5) for i in range(N)]
    assert encoded(cells, 3, "4", 2.0) == [[3], [4], [2]]
    assert encoded(pd.array(cells, dtype="string"), "4") == [[4]]


def test_durations_are_seconds():
    hours = pd.to_timedelta(np.arange(N), "h")
    assert encoded(hours, pd.Timedelta("3h")) == [[3 * 3600]]


def test_separators_in_categories_are_names():
    cells = pd.Categorical(["1,200", "2,400"] * (N // 2))
    assert encoded(cells, "1,200", "2,400") == [[1, 0], [0, 1]]


def test_booleans_with_gaps_are_numbers_with_an_indicator():
    cells = np.array([True, True, False] * (N // 3), dtype=object)
    cells[4] = None
    for column in (cells, pd.array(cells, dtype="boolean")):
        assert encoded(column, True, False, None) == [[1, 0], [0, 0], [1, 1]]


def test_mixed_types_are_levels_by_their_text():
    cells = np.array(["x", 5] * (N // 2), dtype=object)
    assert encoded(cells, "x", 5, "5", 5.0) == [[0, 1], [1, 0], [1, 0], [1, 0]]


def test_categories_with_gaps_have_a_level_for_them():
    cells = pd.Categorical(["x", "y", None] * (N // 3))
    assert encoded(cells, "x", None) == [[0, 1, 0], [1, 0, 0]]


def test_text_that_never_repeats_is_left_out_with_a_warning(caplog):
    cells = [f"order {i}" for i in range(N)]
    assert encoded(cells, "order 7", None) == [[], []]
    assert "column 'c' has 60 values in 60 rows" in caplog.text


def test_a_constant_column_does_no_harm():
    policy = fit(table(["same"] * N), method="mmd")
    assert np.isfinite(policy.decide({"a": 0.0, "c": "same"})["order"])


def test_columns_of_several_levels_are_contexts_at_decisions_too():
    frame = table(["x", "y"] * (N // 2))
    frame.columns = pd.MultiIndex.from_tuples([("w", "a"), ("w", "c"), ("demand", "")])
    policy = fit(frame, method="mmd")
    assert policy.context_names[0] == "w[a]"
    decided = policy.decide(frame[["w"]].iloc[:3])
    one = policy.decide({("w", "a"): frame.iloc[1, 0], ("w", "c"): "y"})
    assert decided["order"].iloc[1] == pytest.approx(one["order"])
    plain = fit(frame[[("w", "a"), ("demand", "")]], method="mmd")
    assert plain.decide(frame[["w"]].iloc[:3]).shape == (3, 1)


def test_few_rows_are_evaluated_though_a_column_is_empty_in_them():
    frame = table([None if i % 3 else 1.0 * i for i in range(N)])
    baseline = csg.baselines.SampleAverage(newsvendor.build(), frame)
    found = csg.evaluate({"SAA": baseline}, frame.iloc[1:3], progress=False)
    assert len(found.costs) == 2
