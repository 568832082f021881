"""The data of csg.fit: what is accepted as a history, and every error."""

import logging
from datetime import date
from decimal import Decimal

import numpy as np
import pandas as pd
import pyomo.environ as pyo
import pytest
import torch

import pyomo_csg as csg
from models import cep1, newsvendor
from pyomo_csg.learn.tables.columns import Columns
from pyomo_csg.learn.tables.context_reader import read_contexts
from pyomo_csg.learn.tables.history import History, read_history
from tests.zoo import ZOO, scenarios

DEMANDS = ["demand[1]", "demand[2]", "demand[3]"]
X = np.arange(8.0).reshape(4, 2)
Y = np.arange(12.0).reshape(4, 3)
NAMES = ("price", "rain")
NAN, INF = np.nan, np.inf


@pytest.fixture(scope="module")
def parts():
    """CEP1, of three uncertain demands."""
    return csg.TwoStageModel(cep1.build())


@pytest.fixture(scope="module")
def papers():
    """The newsvendor, of one."""
    return csg.TwoStageModel(newsvendor.build())


def frame(**changes):
    """Return a DataFrame that fits CEP1, with some columns changed, or None dropped."""
    columns = {
        "price": X[:, 0],
        "rain": X[:, 1],
        **dict(zip(DEMANDS, Y.T, strict=True)),
    }
    columns |= changes
    return pd.DataFrame({k: v for k, v in columns.items() if v is not None})


def refused(two_stage, data, context=None):
    """Return the problems for which a history is refused."""
    with pytest.raises(csg.DataError) as error:
        read_history(two_stage, data, context, preprocess=None)
    return error.value.problems


def same(history, contexts, outcomes, names=None):
    """Assert that a history contains these, as arrays of its own."""
    np.testing.assert_array_equal(history.contexts, contexts, strict=True)
    np.testing.assert_array_equal(history.outcomes, outcomes, strict=True)
    assert history.context_names == names
    assert history.contexts.flags.c_contiguous and history.outcomes.flags.c_contiguous


def masked(array, *places):
    """Return an array with these places masked."""
    mask = np.zeros(array.shape, bool)
    mask[tuple(zip(*places, strict=True))] = True
    return np.ma.MaskedArray(array, mask)


@pytest.mark.parametrize("model", [newsvendor, cep1])
def test_a_sample_of_a_model_is_a_history_as_it_is(model):
    contexts, outcomes = model.sample(20, seed=1)
    history = read_history(csg.TwoStageModel(model.build()), (contexts, outcomes))
    same(history, contexts, outcomes)
    assert len(history) == 20 and not history.has_panels
    history.contexts[0] = history.outcomes[0] = 7
    assert not (contexts[0] == 7).any() and not (outcomes[0] == 7).any()


@pytest.mark.parametrize("name", ZOO)
def test_names_and_positions_say_the_same_for_every_model_of_the_zoo(name):
    model = ZOO[name]()
    two_stage, outcomes = csg.TwoStageModel(model), scenarios(model, count=4)
    names = [p.name for p in two_stage.uncertain_params]
    table = pd.DataFrame(outcomes, columns=names).iloc[:, ::-1]
    same(read_history(two_stage, (X, outcomes)), X, outcomes)
    same(read_history(two_stage, (X, table)), X, outcomes)
    table.insert(1, "price", X[:, 0])
    table["rain"] = X[:, 1]
    same(read_history(two_stage, table), X, outcomes, NAMES)


def test_panels_are_kept_as_they_are(parts):
    panels = np.random.default_rng(0).normal(size=(4, 5, 2))
    history = read_history(parts, (panels, Y))
    same(history, panels, Y)
    assert history.has_panels


@pytest.mark.parametrize(
    "contexts",
    [
        X,
        X.astype(np.float32),
        X.astype(">f8"),
        X.astype(int),
        np.asfortranarray(X),
        X.tolist(),
        X.astype(object),
        [[Decimal(int(a)), b] for a, b in X],
        np.ma.MaskedArray(X),
        torch.tensor(X),
    ],
)
def test_contexts_come_in_all_that_numpy_reads(parts, contexts):
    same(read_history(parts, (contexts, Y.tolist())), X, Y)


@pytest.mark.parametrize("wrap", [np.array, list, pd.Series, torch.tensor])
def test_one_number_a_row_may_have_one_dimension(papers, wrap):
    contexts, outcomes = [1.0, 2.0, 3.0], [4.0, 5.0, 6.0]
    history = read_history(papers, (wrap(contexts), wrap(outcomes)))
    same(history, np.array([contexts]).T, np.array([outcomes]).T)


def test_a_series_keeps_its_name_as_a_context_and_needs_none_as_an_outcome(papers):
    table = pd.DataFrame({"rain": [0.0, 1.0], "sales": [5.0, 4.0]})
    history = read_history(papers, (table["rain"], table["sales"]))
    same(history, np.array([[0.0], [1.0]]), np.array([[5.0], [4.0]]), ("rain",))


def test_numbers_of_every_pandas_kind_are_contexts(papers):
    table = pd.DataFrame(
        {
            "demand": pd.array([15, 16], dtype="Int64"),
            "yes": [True, False],
            "maybe": pd.array([False, True], dtype="boolean"),
            "whole": np.array([3, 4], dtype=np.uint8),
            "half": pd.array([0.5, 1.5], dtype="Float64"),
            "rare": pd.arrays.SparseArray([0, 1]),
            "mixed": pd.Series([True, 2.5], dtype=object),
            7: [8, 9],
        }
    )
    numbers = [[1, 0, 3, 0.5, 0, 1, 8], [0, 1, 4, 1.5, 1, 2.5, 9]]
    names = ("yes", "maybe", "whole", "half", "rare", "mixed", "7")
    outcomes = np.array([[15.0], [16.0]])
    same(read_history(papers, table), np.array(numbers, dtype=float), outcomes, names)


@pytest.mark.parametrize(
    "context, names",
    [
        (None, ("price", "rain")),
        ("rain", ("rain",)),
        (np.str_("rain"), ("rain",)),
        (["rain", "price"], ("rain", "price")),
        (("rain", "rain"), ("rain",)),
        ({"rain", "price"}, ("price", "rain")),
        (pd.Index(["rain", "price"]), ("rain", "price")),
    ],
)
@pytest.mark.parametrize("pair", [False, True])
def test_context_picks_columns_in_its_own_order(parts, context, names, pair):
    whole = frame()
    data = (whole[["price", "rain"]], whole[DEMANDS[::-1]]) if pair else whole
    same(read_history(parts, data, context), whole[list(names)].to_numpy(), Y, names)


def test_problems_in_other_columns_are_ignored(parts):
    table = frame(day=pd.date_range("2024", periods=4), gap=NAN)
    table = pd.concat([table, table[["day"]]], axis=1)
    same(read_history(parts, table, "rain"), X[:, 1:], Y, ("rain",))


@pytest.mark.parametrize(
    "data, words",
    [
        (None, "nothing was given"),
        (pd.Series([1.0, 2.0]), "a Series was given"),
        ({"contexts": X, "outcomes": Y}, "a dict was given"),
        ([(X[0], Y[0]), (X[1], Y[1])], "a list was given"),
        (X, "an array was given"),
        ((X,), "a tuple of 1 was given"),
        ((X, Y, Y), "a tuple of 3 was given"),
        ("data.csv", "a str was given"),
    ],
)
def test_data_of_another_kind_is_refused_with_what_it_may_be(parts, data, words):
    (problem,) = refused(parts, data)
    assert problem.startswith(f"data: {words}; expected a pair (contexts, outcomes)")
    assert (
        "(n, 3), or a pandas DataFrame with a column for each of 'demand[1]'" in problem
    )


@pytest.mark.parametrize(
    "contexts, words",
    [
        (None, "nothing was given; expected (n, d), or (n, W, d) for panels"),
        ({"a": [1, 2]}, "a dict was given; expected (n, d)"),
        (3.0, "a float was given"),
        (np.ones((4, 1, 1, 1)), "shape (4, 1, 1, 1) was given; expected (n, d)"),
        (np.ones((4, 0)), "there are no context columns; give at least one"),
        (np.ones((4, 0, 2)), "there are no context columns"),
        ([[1], [1, 2], [1], [1]], "they are not an array of numbers"),
        (torch.ones(4, 1, requires_grad=True), "they are not an array of numbers"),
        ([["a", 1]] * 4, "column 0 contains text ('a', row 0); encode it as"),
        ([[1, 2], [3, "b"]] * 2, "column 1 contains text ('b', row 1)"),
        ([["1", 2]] * 4, "or with pandas.to_numeric if the text is a number"),
        (np.full((4, 1), "a"), "column 0 contains text ('a', row 0)"),
        (X + 1j, "column 0 contains complex numbers; give numbers"),
        ([[date(2024, 1, 2)]] * 4, "column 0 contains dates or times"),
        ([[10**400]] * 4, "column 0 contains integers too large for a float"),
        ([[{}]] * 4, "column 0 contains a dict ({}, row 0); give numbers"),
        (np.array(["2024-01-01"] * 4, "M8[D]"), "column 0 contains dates or times"),
        ([1, 2, NAN, 4], "column 0 is nan in row 2; give a finite number"),
        ([1, 2, None, 4], "column 0 is nan in row 2"),
        ([[1], [-INF], [2], [INF]], "column 0 is -inf in row 1, inf in row 3; give"),
        (masked(X, (3, 1)), "column 1 is nan in row 3"),
        (pd.Series([1, NAN, 2, 3], [9, 8, 7, 6]), "column 0 is nan in row 8"),
    ],
)
def test_contexts_that_are_not_arrays_of_numbers_are_refused(parts, contexts, words):
    problem = refused(parts, (contexts, Y))[0]
    assert problem.startswith("contexts: ")
    assert words in problem


def test_a_gap_in_a_panel_is_found_by_row_and_step(parts):
    panels = np.ones((4, 5, 2))
    panels[2, 3, 1] = NAN
    (problem,) = refused(parts, (panels, Y))
    assert problem == "contexts: column 1 is nan in row 2, step 3; give a finite number"
    panels = panels.astype(object)
    panels[2, 3, 1] = "x"
    (problem,) = refused(parts, (panels, Y))
    assert "text among numbers ('x', row 2, step 3); correct" in problem


@pytest.mark.parametrize(
    "outcomes, words",
    [
        (None, "nothing was given; expected (n, 3): a column for each of 'demand[1]'"),
        (Y[:, 0], "shape (4,) was given; expected (n, 3)"),
        (Y[:, :2], "shape (4, 2) was given; expected (n, 3)"),
        (Y[None], "shape (1, 4, 3) was given; expected (n, 3)"),
        (Y * [1, NAN, 1], "nan in row 0, nan in row 1, nan in row 2 and 1 more; give"),
        (Y - [1, 0, 3], "'demand[1]' is -1 in row 0, outside its domain NonNeg"),
        ([[1, 2, "x"]] * 4, "('x', row 0); every outcome must be a number"),
        (frame()[DEMANDS[:2]], "no column for 'demand[3]' among 'demand[1]'"),
        (frame(), "no uncertain parameter is called 'price', 'rain'; drop it"),
        (frame()[[*DEMANDS, "demand[1]"]], "more than one column is called"),
    ],
)
def test_outcomes_that_do_not_fit_are_refused(parts, outcomes, words):
    problem = refused(parts, (X, outcomes))[0]
    assert problem.startswith("outcomes: ")
    assert words in problem


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"demand[2]": None}, "outcomes: no column for 'demand[2]' among 'price'"),
        ({"demand[2]": ["x"] * 4}, "outcomes: 'demand[2]' contains text ('x'"),
        ({"demand[2]": [1, NAN, 2, 3]}, "outcomes: 'demand[2]' is nan in row 1; give"),
        ({"demand[2]": [1, 2, 3, -4]}, "outcomes: 'demand[2]' is -4 in row 3, outside"),
        ({"rain": list("abcd")}, "'rain' contains text ('a', row 0); encode"),
        ({"rain": ["1.5", "2", "?", "-"]}, "'rain' contains text ('?', row 2); encode"),
        (
            {"rain": ["1.5", "2", "-", "3"]},
            "'rain' contains text among numbers ('-', row 2); correct it, or drop",
        ),
        ({"rain": [1, 2, "?", 3]}, "text among numbers ('?', row 2); correct"),
        (
            {"rain": pd.Categorical([1, 2, 1, 2])},
            "column 'rain' contains categories; encode it as numbers, e.g. with pandas.get_dummies",
        ),
        (
            {"rain": pd.date_range("2024", periods=4)},
            "column 'rain' contains dates or times; encode it as numbers",
        ),
        ({"rain": pd.timedelta_range("1h", periods=4)}, "contains dates or times"),
        ({"rain": pd.period_range("2024", periods=4)}, "contains dates or times"),
        ({"rain": pd.array([1, None, 2, 3], "Int64")}, "column 'rain' is nan in row 1"),
        ({"rain": pd.array([1, None, True, 0], object)}, "is nan in row 1"),
        ({"rain": INF}, "is inf in row 0, inf in row 1, inf in row 2 and 1 more"),
        ({"rain": None, "price": None}, "there are no context columns"),
    ],
)
def test_a_data_frame_that_does_not_fit_is_refused_by_column_and_row(
    parts, changes, words
):
    (problem,) = refused(parts, frame(**changes))
    assert words in problem


@pytest.mark.parametrize(
    "context, words",
    [
        ("wind", "contexts: no column for 'wind' among 'price', 'rain', 'demand[1]'"),
        (["rain", "wind", 3], "contexts: no column for 'wind', '3' among 'price'"),
        (["rain", "demand[1]"], "'demand[1]' is an outcome; drop it from the"),
        ([], "there are no context columns; give at least one (add"),
    ],
)
def test_a_context_that_names_the_wrong_columns_is_refused(parts, context, words):
    (problem,) = refused(parts, frame(), context)
    assert words in problem


def test_a_context_is_not_named_beside_arrays(parts):
    (problem,) = refused(parts, (X, Y), "rain")
    assert problem.startswith("context: it names DataFrame columns")


def test_an_outcome_among_the_contexts_of_a_pair_is_refused(parts):
    (problem,) = refused(parts, (frame(), frame()[DEMANDS]))
    assert "'demand[1]', 'demand[2]', 'demand[3]' is an outcome; drop it" in problem
    assert "rename it if it was known before the decision" in problem


def test_columns_of_one_name_are_refused(parts):
    table = frame()
    table = pd.concat([table, table[["rain", "demand[2]"]]], axis=1)
    assert refused(parts, table) == (
        "contexts: more than one column is called 'rain'; rename or drop one",
        "outcomes: more than one column is called 'demand[2]'; rename or drop one",
    )


@pytest.mark.parametrize(
    "data, words",
    [
        ((X[:3], Y), "data: contexts have 3 rows and outcomes have 4; give an outcome"),
        ((X[:0], Y[:0]), "data: it is empty; give at least 2 rows"),
        ((X[:1], Y[:1]), "there is only 1 row; give at least 2 rows, and expect"),
        (frame().iloc[:0], "data: it is empty; give at least 2 rows"),
        (frame().iloc[:1], "data: there is only 1 row; give at least 2 rows"),
    ],
)
def test_too_few_rows_and_different_lengths_are_refused(parts, data, words):
    (problem,) = refused(parts, data)
    assert words in problem


def test_an_empty_data_frame_is_refused_for_all_that_it_lacks(parts):
    contexts, outcomes, rows = refused(parts, pd.DataFrame())
    assert "there are no context columns" in contexts
    assert "no column for 'demand[1]', 'demand[2]', 'demand[3]'; add it" in outcomes
    assert "it is empty" in rows


@pytest.mark.parametrize(
    "index, label",
    [
        (list("abcd"), "c"),
        (pd.date_range("2024-01-30", periods=4), "2024-02-01 00:00:00"),
        ([5, 5, 5, 6], "5"),
        (pd.MultiIndex.from_product([["n", "s"], [1, 2]]), "('s', 1)"),
    ],
)
def test_rows_are_called_by_the_label_of_the_index(parts, index, label):
    table = frame(rain=[0, 1, NAN, 1], **{"demand[1]": [0, 1, -2, 1]}).set_index(
        pd.Index(index)
    )
    expected = (
        f"contexts: column 'rain' is nan in row {label}; give a finite number",
        (
            f"outcomes: 'demand[1]' is -2 in row {label}, outside its domain "
            "NonNegativeReals"
        ),
    )
    assert refused(parts, table) == expected
    assert refused(parts, (table[["price", "rain"]], table[DEMANDS])) == expected


def test_labels_in_another_order_are_refused_and_other_labels_pair_by_position(parts):
    table = frame()
    contexts, outcomes = table[["price", "rain"]], table[DEMANDS]
    (problem,) = refused(parts, (contexts, outcomes.iloc[::-1]))
    assert "same row labels in another order; align them" in problem
    later = outcomes.set_axis(range(1, 5))
    same(read_history(parts, (contexts, later)), X, Y, ("price", "rain"))


def test_labels_that_repeat_on_one_side_only_are_refused(parts):
    table = frame()
    contexts, outcomes = table[["price", "rain"]], table[DEMANDS]
    repeated = [0] * len(table)
    for pair in (
        (contexts.set_axis(repeated), outcomes),
        (contexts, outcomes.set_axis(repeated)),
    ):
        (problem,) = refused(parts, pair)
        assert "different row labels, and some repeat" in problem
    both = contexts.set_axis(repeated), outcomes.set_axis(repeated)
    same(read_history(parts, both), X, Y, ("price", "rain"))


def test_of_many_bad_rows_the_first_few_are_shown(papers):
    demand = np.r_[np.full(15, NAN), -np.arange(1.0, 6), 1.0]
    assert refused(papers, (np.ones(21), demand)) == (
        (
            "outcomes: 'demand' is nan in row 0, nan in row 1, nan in row 2 and 12 more; "
            "give a finite number"
        ),
        (
            "outcomes: 'demand' is -1 in row 15, -2 in row 16, -3 in row 17 and 2 more, "
            "outside its domain NonNegativeReals"
        ),
    )


def test_of_many_bad_columns_the_first_ten_are_shown(parts):
    problems = refused(parts, (np.full((4, 30), NAN), Y))
    assert len(problems) == 11
    assert problems[-1] == "contexts: ... and 20 more like these"


def test_all_that_is_wrong_is_said_at_once(parts):
    table = frame(rain=["dry", "wet", "dry", "wet"], price=[1, INF, 2, NAN], x=0)
    table = table.rename(columns={"demand[3]": "x"})
    table["demand[1]"] = -1.0
    with pytest.raises(csg.DataError, match="The data does not fit 'cep1':") as error:
        read_history(parts, table, ["rain", "price", "x", "demand[2]", "wind"])
    found = "\n".join(error.value.problems)
    for words in [
        "'demand[2]' is an outcome",
        "no column for 'wind'",
        "more than one column is called 'x'",
        "column 'price' is inf in row 1, nan in row 3",
        "no column for 'demand[3]'",
        "'demand[1]' is -1 in row 0",
    ]:
        assert words in found
    assert len(error.value.problems) == 6  # text as in 'rain' is no problem


def test_both_sides_of_a_pair_and_its_lengths_speak_at_once(parts):
    contexts = pd.DataFrame({"a": [1, NAN, 3], "b": list("xyz")})
    assert [p.split(":")[0] for p in refused(parts, (contexts, -Y))] == [
        "contexts",
        "contexts",
        "outcomes",
        "outcomes",
        "outcomes",
        "data",
    ]


def test_outcomes_that_a_param_refuses_itself_are_refused():
    m = newsvendor.build()
    m.share = pyo.Param(
        mutable=True,
        initialize=0.5,
        within=pyo.UnitInterval,
        validate=lambda m, v: v != 0.25,
    )
    m.capped = pyo.Constraint(expr=m.sold <= 10 * m.share)
    csg.annotate(m, first_stage_variables=m.order, uncertain_params=[m.share])
    two_stage = csg.TwoStageModel(m)
    assert len(read_history(two_stage, ([1, 2], [0, 1]))) == 2
    assert refused(two_stage, ([1, 2, 3], [1, 2.5, 0.25])) == (
        "outcomes: 'share' is 2.5 in row 1, outside its domain UnitInterval",
        "outcomes: 'share' is 0.25 in row 2, which the Param's validate= refuses",
    )


def test_constant_columns_and_equal_rows_are_fine_and_told(parts, caplog):
    caplog.set_level(logging.INFO, logger="pyomo_csg.learn.tables.history")
    read_history(parts, frame(rain=1))
    read_history(parts, (np.ones((4, 3, 1)), np.ones((4, 3))))
    assert [record.getMessage() for record in caplog.records] == [
        "context column 'rain' is constant and carries no information",
        "context column 0 is constant and carries no information",
    ]


def test_a_fingerprint_changes_with_the_numbers_and_shapes_alone():
    history = History(X, Y, ("a", "b"))
    assert history.fingerprint() == History(np.asfortranarray(X), Y).fingerprint()
    assert len(history.fingerprint()) == 64
    others = [
        History(X + 1e-12, Y),
        History(X, Y[::-1]),
        History(X.reshape(4, 1, 2), Y),
        History(X.reshape(4, 2, 1), Y),
    ]
    prints = {h.fingerprint() for h in [history, *others]}
    assert len(prints) == 5


@pytest.mark.parametrize(
    "context, shape, names, expected, one",
    [
        (X[1], (2,), None, X[1:2], True),
        (X[1].tolist(), (2,), NAMES, X[1:2], True),
        (X, (2,), NAMES, X, False),
        (X[:1], (2,), None, X[:1], False),
        (torch.tensor(X), (2,), None, X, False),
        (pd.Series(X[1]), (2,), None, X[1:2], True),
        (pd.DataFrame(X), (2,), None, X, False),
        (frame(), (2,), NAMES, X, False),
        (frame()[["rain", "price"]].iloc[:1], (2,), NAMES, X[:1], False),
        (frame(day="Monday").iloc[1], (2,), NAMES, X[1:2], True),
        ({"rain": 3, "price": 2, "wind": "none"}, (2,), NAMES, X[1:2], True),
        ({"rain": True, "price": Decimal(2)}, (2,), NAMES, [[2, 1]], True),
        (4, (1,), None, [[4]], True),
        ([4], (1,), None, [[4]], True),
        ([[4], [5]], (1,), ("a",), [[4], [5]], False),
        (X, (4, 2), None, X[None], True),
        (pd.DataFrame(X), (4, 2), None, X[None], True),
        (X[None], (4, 2), None, X[None], False),
    ],
)
def test_a_context_is_one_or_many_by_its_shape_or_kind(
    context, shape, names, expected, one
):
    array, single = read_contexts(context, shape, names)
    np.testing.assert_array_equal(array, np.array(expected, dtype=float), strict=True)
    assert single is one


PLAIN = {
    "array": (X[1], True),
    "integers": (X.astype(int), False),
    "single precision": (X[2].astype(np.float32), True),
    "list": (X[1].tolist(), True),
    "mixed list": ([3, 2.5], True),
    "tuple of NumPy numbers": (tuple(X[1]), True),
    "dict": ({"rain": 1, "price": 2.5}, True),
    "dict with more": ({"rain": 1.5, "day": "Monday", "price": np.float64(2)}, True),
    "Series": (frame().iloc[1], True),
    "Series of objects": (frame(day="Monday").iloc[1], True),
    "table": (frame(), False),
    "one row of a table": (frame(day="Monday").iloc[2:3], False),
    "table of integers": (frame().astype(int), False),
}


def as_objects(values):
    """Return the same contexts in a form that is read cell by cell."""
    if isinstance(values, dict | pd.Series):
        return {
            name: Decimal(repr(float(x))) for name, x in values.items() if name in NAMES
        }
    if isinstance(values, pd.DataFrame):
        return values[list(NAMES)].astype(object).map(lambda x: Decimal(repr(float(x))))
    return np.array(values, float).astype(object)


@pytest.mark.parametrize("name", PLAIN)
def test_plain_numbers_are_read_at_once_and_as_cell_by_cell(name, monkeypatch):
    values, one = PLAIN[name]
    expected, is_single = read_contexts(as_objects(values), (2,), NAMES)
    assert is_single is one

    def refuse(*_):
        raise AssertionError("read cell by cell")

    monkeypatch.setattr(Columns, "_add", refuse)
    found, is_single = read_contexts(values, (2,), NAMES)

    np.testing.assert_array_equal(found, expected, strict=True)
    assert is_single is one and found.flags.c_contiguous


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"rain": 1, "price": 10**400}, "'price' contains integers too large"),
        ({"rain": 1.0, "price": 1e101}, "'price' is 1e+101; give a number below"),
        ({"rain": 1.0, "price": NAN}, "'price' is nan"),
        ({"rain": 1.0, "price": "2"}, "'price' contains text"),
        ({"rain": 1.0}, "no column for 'price' among 'rain'"),
        (pd.Series([1.0, 2.0, 3.0], [*NAMES, "rain"]), "more than one column"),
        (frame().iloc[:, [0, 1, 1]], "more than one column"),
    ],
)
def test_numbers_that_are_not_plain_have_the_messages_of_their_cells(values, words):
    with pytest.raises(csg.DataError, match="The context does not fit") as error:
        read_contexts(values, (2,), NAMES)
    assert words in str(error.value)


def test_a_batch_is_a_copy():
    given = X.copy()
    read_contexts(given, (2,), None)[0][:] = -1
    np.testing.assert_array_equal(given, X)


@pytest.mark.parametrize(
    "context, shape, names, words",
    [
        (None, (2,), None, "nothing was given; expected (2,) for one context"),
        ({"a": 1}, (2,), None, "a dict was given; expected (2,) for one context"),
        (3.0, (2,), None, "a float was given; expected (2,)"),
        (X[:, :1], (2,), None, "shape (4, 1) was given; expected (2,) for one"),
        (X[None], (2,), None, "shape (1, 4, 2) was given"),
        (X[0], (4, 2), None, "expected (4, 2) for one context or (n, 4, 2) for many"),
        ([4, 5], (1,), None, "or (n, 1) for many; use reshape(-1, 1)"),
        (X[:0], (2,), None, "none were given; give at least one"),
        (frame().iloc[:0], (2,), NAMES, "none were given; give at least one"),
        ([1, NAN], (2,), None, "contexts: column 1 is nan; give a finite number"),
        ([1, NAN], (2,), NAMES, "contexts: column 'rain' is nan; give a finite number"),
        ([[1, 2], [INF, 1]], (2,), NAMES, "column 'price' is inf in row 1; give"),
        (np.array([[1.0], [NAN]]), (2, 1), None, "column 0 is nan in step 1; give"),
        (["a", 1], (2,), NAMES, "column 'price' contains text ('a'); encode it as"),
        ({"rain": 1, "prize": 2}, (2,), NAMES, "no column for 'price' among 'rain'"),
        ({"rain": 1, "price": None}, (2,), NAMES, "column 'price' is nan; give"),
        ({"rain": 1, "price": [1, 2]}, (2,), NAMES, "'price' contains a list ([1, 2]"),
        (pd.Series(X[0]), (2,), NAMES, "no column for 'price', 'rain' among '0', '1'"),
        (pd.Series([1, 2, 3], [*NAMES, "rain"]), (2,), NAMES, "more than one"),
        (frame(rain=None), (2,), NAMES, "no column for 'rain' among 'price'"),
        (frame(rain=list("abcd")), (2,), NAMES, "'rain' contains text ('a', row 0)"),
        (frame(rain=[1, 2, 3, NAN]), (2,), NAMES, "'rain' is nan in row 3"),
    ],
)
def test_a_context_unlike_those_of_the_history_is_refused(context, shape, names, words):
    with pytest.raises(csg.DataError, match="The context does not fit") as error:
        read_contexts(context, shape, names)
    (problem,) = error.value.problems
    assert words in problem


def test_a_row_and_all_rows_of_a_history_come_back_as_they_were(parts):
    table = frame().sample(frac=1, random_state=0)
    history = read_history(parts, table)
    shape = history.contexts.shape[1:]
    for asked in (table, history.contexts):
        batch, _ = read_contexts(asked, shape, history.context_names)
        np.testing.assert_array_equal(batch, history.contexts)
    one, single = read_contexts(table.iloc[2], shape, history.context_names)
    np.testing.assert_array_equal(one, history.contexts[2:3])
    assert single
