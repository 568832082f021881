"""Columns are matched to Pyomo's names by meaning."""

import numpy as np
import pandas as pd
import pyomo.environ as pyo
import pytest

import pyomo_csg as csg
from pyomo_csg.learn.tables.column_names import match_columns
from pyomo_csg.learn.tables.history import read_history

NAMES = ["demand[a,1]", "demand[b,2]", "price"]


def matched(*columns, names=NAMES):
    table = pd.DataFrame(np.arange(len(columns))[None], columns=list(columns))
    return list(match_columns(table, names).columns)


@pytest.mark.parametrize(
    "columns",
    [
        ("demand[a,1]", "demand[b,2]", "price"),
        ("demand[a, 1]", "demand[ b ,2 ]", " price "),
        ("demand[('a', 1)]", 'demand["b", "2"]', "price"),
        ("demand['a',1]", "demand[(b, 2)]", "price"),
    ],
)
def test_spaces_quotes_and_brackets_do_not_matter(columns):
    assert matched(*columns) == NAMES


def test_tuples_and_levels_of_a_multi_index_are_indices():
    index = pd.MultiIndex.from_tuples(
        [("demand", "a", 1), ("demand", "b", 2), ("price", "", ""), ("rain", "", "")]
    )
    table = pd.DataFrame([[1, 2, 3, 4]], columns=index)
    assert list(match_columns(table, NAMES)) == [*NAMES, "rain"]
    mixed = pd.DataFrame(
        [[1, 2]], columns=pd.Index([("demand", "a", 1.0), "rain"], dtype=object)
    )
    assert list(match_columns(mixed, NAMES)) == ["demand[a,1]", "rain"]


def test_a_param_of_one_number_is_found_by_its_name():
    assert matched("demand", "rain", names=["demand[1]"]) == ["demand[1]", "rain"]
    assert matched("demand", names=["demand[1]", "demand[2]"]) == ["demand"]


def test_other_columns_keep_their_names():
    assert matched("rain [mm]", "wind[N, 10m]") == ["rain [mm]", "wind[N, 10m]"]


def test_two_columns_that_mean_the_same_are_refused():
    with pytest.raises(csg.DataError, match="all mean 'demand.a,1.'; drop all but one"):
        matched("demand[a, 1]", "demand['a',1]")
    # The second would be the outcome among the contexts.
    with pytest.raises(csg.DataError, match="'demand.a,1.', 'demand.a, 1.' all mean"):
        matched("demand[a,1]", "demand[a, 1]")
    with pytest.raises(csg.DataError, match="or rename those that mean something else"):
        matched("demand[1]", "demand", names=["demand[1]"])
    assert matched("demand[1]", "demand", names=["demand[1]", "demand[2]"]) == [
        "demand[1]",
        "demand",
    ]


def test_names_that_differ_in_quotes_only_are_their_own():
    names = ["demand[a,b]", "demand['a,b']"]
    assert matched(*names, names=names) == names


def test_known_params_are_matched_too(caplog):
    m = pyo.ConcreteModel("shop")
    m.demand = pyo.Param(["a"], mutable=True, initialize=5.0)
    m.stock0 = pyo.Param(["a", "b"], mutable=True, initialize=0.0)
    m.y = pyo.Var(bounds=(0, 10))
    m.z = pyo.Var(within=pyo.NonNegativeReals)
    m.need = pyo.Constraint(expr=m.y + m.z + sum(m.stock0.values()) >= m.demand["a"])
    m.cost = pyo.Objective(expr=m.y + 3 * m.z)
    csg.annotate(
        m, first_stage_variables=m.y, uncertain_params=m.demand, known_params=m.stock0
    )
    names = [("demand", "a"), ("stock0", "a"), ("stock0", "b"), ("rain", "")]
    rows = np.arange(40.0).reshape(10, 4) % 7
    table = pd.DataFrame(rows, columns=pd.MultiIndex.from_tuples(names))
    plain = pd.DataFrame(rows, columns=["demand[a]", "stock0[a]", "stock0[b]", "rain"])
    spaced = plain.rename(columns={"stock0[a]": "stock0['a']"})
    histories = [read_history(csg.TwoStageModel(m), t) for t in (plain, table, spaced)]
    for history in histories:
        assert history.known.tolist() == rows[:, 1:3].tolist()
        assert history.context_names == ("stock0[a]", "stock0[b]", "rain")
    policy = csg.baselines.SampleAverage(m, table)
    decisions = [policy.decide(t) for t in (plain, table, spaced)]
    for decision in decisions:
        assert decision.to_numpy() == pytest.approx(decisions[0].to_numpy())
    stock_a, stock_b = rows[2, 1:3]
    days = [
        {"stock0[a]": stock_a, "stock0[b]": stock_b, "rain": 1.0},
        {"stock0['a']": stock_a, "stock0[ b ]": stock_b, "rain": 1.0},
        {("stock0", "a"): stock_a, ("stock0", "b"): stock_b, "rain": 1.0},
    ]
    for day in days:
        assert policy.decide(day)["y"] == pytest.approx(decisions[0]["y"].iloc[2])
    twice = {**days[1], "stock0[ a ]": 1.0}
    for contexts in (twice, pd.DataFrame([twice])):
        with pytest.raises(csg.DataError, match="all mean 'stock0.a.'") as error:
            policy.decide(contexts)
        assert str(error.value).startswith("The context does not fit the history:")


def test_a_history_is_read_by_meaning():
    m = pyo.ConcreteModel("shop")
    m.demand = pyo.Param(["a", "b"], [1, 2], mutable=True, initialize=5.0)
    m.y = pyo.Var(bounds=(0, 10))
    m.z = pyo.Var(["a", "b"], [1, 2], within=pyo.NonNegativeReals)
    m.need = pyo.Constraint(
        ["a", "b"], [1, 2], rule=lambda m, i, j: m.y + m.z[i, j] >= m.demand[i, j]
    )
    m.cost = pyo.Objective(expr=m.y + sum(m.z.values()))
    csg.annotate(m, first_stage_variables=m.y, uncertain_params=m.demand)
    outcomes = pd.DataFrame(
        np.arange(12.0).reshape(3, 4),
        columns=pd.MultiIndex.from_product([["demand"], ["a", "b"], [1, 2]]),
    )
    history = read_history(csg.TwoStageModel(m), (np.zeros((3, 1)), outcomes))
    assert history.outcomes.tolist() == outcomes.to_numpy().tolist()
