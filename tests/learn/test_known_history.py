"""Known numbers in a history, in fits, and in the decisions of policies and baselines."""

import numpy as np
import pandas as pd
import pyomo.environ as pyo
import pytest

import pyomo_csg as csg
from pyomo_csg.learn.tables.history import read_history

QUICK = csg.FitConfig(mmd_epochs=3, loss_epochs=3, task_epochs=2)


def shop():
    """Return a newsvendor with a stock and a tariff that are known each morning."""
    m = pyo.ConcreteModel("shop")
    positive = {"mutable": True, "within": pyo.NonNegativeReals}
    m.demand = pyo.Param(initialize=15.0, **positive)
    m.stock = pyo.Param(initialize=0.0, **positive)
    m.room = pyo.Param(initialize=60.0, **positive)
    m.order = pyo.Var(within=pyo.NonNegativeReals)
    m.sold = pyo.Var(within=pyo.NonNegativeReals)
    m.space = pyo.Constraint(expr=m.order + m.stock <= m.room)
    m.supply = pyo.Constraint(expr=m.sold <= m.order + m.stock)
    m.market = pyo.Constraint(expr=m.sold <= m.demand)
    m.cost = pyo.Objective(expr=m.order - 3 * m.sold)
    csg.annotate(
        m,
        first_stage_variables=m.order,
        uncertain_params=m.demand,
        known_params=[m.stock, m.room],
    )
    return m


def table(rows=60, seed=0):
    """Return a history with columns for the known numbers."""
    rng = np.random.default_rng(seed)
    warm = rng.uniform(0, 1, rows)
    return pd.DataFrame(
        {
            "stock": rng.uniform(0, 8, rows),
            "warm": warm,
            "demand": 10 + 20 * warm + rng.gamma(2, 2, rows),
            "room": rng.uniform(20, 50, rows),
        }
    )


def best_order(scenarios, weights, stock):
    """Return the optimal order: the 2/3 quantile of the scenarios, less the stock."""
    order = np.argsort(scenarios)
    reached = np.cumsum(weights[order]) >= 2 / 3 - 1e-9
    return max(0.0, scenarios[order][np.argmax(reached)] - stock)


@pytest.fixture(scope="module")
def policy():
    return csg.fit(shop(), table(), scenarios=3, method="mmd", progress=False)


def test_known_columns_are_read_by_name_and_are_context():
    history = read_history(csg.TwoStageModel(shop()), table())
    np.testing.assert_array_equal(history.known, table()[["stock", "room"]])
    assert history.context_names == ("stock", "warm", "room")
    some = history.select(np.array([3, 1]))
    np.testing.assert_array_equal(some.known, history.known[[3, 1]])


def test_context_may_leave_known_columns_out():
    history = read_history(csg.TwoStageModel(shop()), table(), context=["warm"])
    assert history.context_names == ("warm",)
    np.testing.assert_array_equal(history.known, table()[["stock", "room"]])


def test_known_numbers_are_part_of_the_fingerprint():
    two_stage = csg.TwoStageModel(shop())
    one = read_history(two_stage, table(), context="warm")
    other = read_history(two_stage, table().assign(stock=1.0), context="warm")
    assert one.fingerprint() != other.fingerprint()


def test_a_range_is_drawn_from_by_the_seed():
    two_stage, bare = csg.TwoStageModel(shop()), table().drop(columns="stock")
    one, same, other = (
        read_history(two_stage, bare, known={"stock": (2, 9)}, seed=seed)
        for seed in (1, 1, 2)
    )
    assert 2 <= one.known[:, 0].min() < one.known[:, 0].max() <= 9
    np.testing.assert_array_equal(one.known, same.known)
    assert (one.known[:, 0] != other.known[:, 0]).all()
    assert one.context_names == ("warm", "room", "stock")


def test_known_numbers_from_a_function_or_a_column():
    two_stage, bare = csg.TwoStageModel(shop()), table().drop(columns="stock")
    drawn = read_history(
        two_stage, bare, known={"stock": lambda rng, n: np.full(n, 4.0)}
    )
    assert (drawn.known[:, 0] == 4).all()
    column = read_history(two_stage, bare, known={"stock": np.arange(60.0)})
    assert column.known[:, 0].tolist() == list(range(60))


def test_known_numbers_of_arrays():
    data, known = table(), table()[["stock", "room"]].to_numpy()
    pair = data[["warm"]].to_numpy(), data[["demand"]].to_numpy()
    history = read_history(csg.TwoStageModel(shop()), pair, known=known)
    np.testing.assert_array_equal(history.known, known)
    ranges = {"stock": (0, 1), "room": (30, 40)}
    drawn = read_history(csg.TwoStageModel(shop()), pair, known=ranges)
    assert drawn.known.shape == (60, 2) and drawn.contexts.shape == (60, 1)


@pytest.mark.parametrize(
    ("change", "known", "found"),
    [
        (
            lambda f: f.drop(columns="stock"),
            None,
            "no column for 'stock'; add it, or draw",
        ),
        (lambda f: f.assign(stock=-1.0), None, "'stock' in case 0 is -1, outside"),
        (
            lambda f: f.assign(stock=[np.nan, *[1.0] * 59]),
            None,
            "'stock' in case 0 is nan",
        ),
        (lambda f: f.assign(stock="much"), None, "known: 'stock': not all are numbers"),
        (lambda f: f, {"stock": (0, 1)}, "'stock' is a column of the data, too"),
        (lambda f: f, {"stok": (0, 1)}, "'stok' is not among 'stock', 'room'"),
        (
            lambda f: f.drop(columns="stock"),
            {"stock": (3, 1)},
            "the range (3, 1) is empty",
        ),
        (lambda f: f.drop(columns="stock"), {"stock": [1.0]}, "give (low, high)"),
        (lambda f: f.drop(columns="stock"), {"stock": "all"}, "give (low, high)"),
        (lambda f: f.drop(columns="stock"), {"stock": (-5, -1)}, "outside its domain"),
        (
            lambda f: f.drop(columns="stock"),
            np.ones((60, 1)),
            "expected (2,) or (n, 2)",
        ),
    ],
)
def test_known_numbers_that_do_not_fit_a_history(change, known, found):
    with pytest.raises(csg.DataError) as caught:
        read_history(csg.TwoStageModel(shop()), change(table()), known=known)
    assert found in str(caught.value)


def test_arrays_without_known_numbers():
    pair = np.ones((5, 1)), np.ones((5, 1))
    with pytest.raises(csg.DataError, match="no column for 'stock', 'room'"):
        csg.fit(shop(), pair)


def test_known_numbers_for_a_model_without_known_params():
    m = shop()
    csg.annotate(m, first_stage_variables=m.order, uncertain_params=m.demand)
    with pytest.raises(csg.DataError, match="csg.annotate"):
        csg.fit(m, table(), known={"stock": (0, 1)})


@pytest.mark.parametrize("method", ["mmd", "direct", "static", "dynamic"])
def test_a_policy_decides_with_the_numbers_of_the_day(method):
    found = csg.fit(
        shop(), table(), scenarios=3, method=method, config=QUICK, progress=False
    )
    for stock in (0.0, 6.0):
        day = {"warm": 0.5, "stock": stock, "room": 45.0}
        decision = found.decide(day)
        scenarios, weights = found.scenarios(day).ravel(), found.weights(day)
        assert decision["order"] == pytest.approx(best_order(scenarios, weights, stock))
    tight = found.decide({"warm": 0.5, "stock": 6.0, "room": 10.0})
    assert tight["order"] == pytest.approx(4.0)


def test_many_rows_with_their_own_known_numbers(policy):
    rows = table(20, seed=5)
    together = policy.decide(rows)["order"]
    alone = [policy.decide(row)["order"] for row in rows.to_dict("records")]
    np.testing.assert_allclose(together, alone, atol=1e-9)
    arrays = rows[["stock", "warm", "room"]].to_numpy()
    np.testing.assert_allclose(policy.decide(arrays)["order"], alone, atol=1e-9)
    by_name = policy.decide(arrays, known=rows[["room", "stock"]])["order"]
    np.testing.assert_allclose(by_name, alone, atol=1e-9)


def test_known_numbers_of_a_policy_of_arrays():
    data = table()
    pair = data[["warm"]].to_numpy(), data[["demand"]].to_numpy()
    known = data[["stock", "room"]].to_numpy()
    found = csg.fit(
        shop(), pair, known=known, scenarios=2, method="mmd", progress=False
    )
    assert found.decide([0.5], known=[6.0, 10.0])["order"] == pytest.approx(4.0)
    with pytest.raises(
        csg.DataError, match="give numbers for 'stock', 'room' by known="
    ):
        found.decide([0.5])


@pytest.mark.parametrize(
    ("day", "found"),
    [
        ({"warm": 0.5, "room": 45.0}, "'stock'"),
        (
            {"warm": 0.5, "stock": -1.0, "room": 45.0},
            "'stock' is -1, outside its domain",
        ),
        ({"warm": 0.5, "stock": "none", "room": 45.0}, "'stock' contains text"),
        ({"warm": 0.5, "stock": np.nan, "room": 45.0}, "'stock' is nan"),
        ({"warm": 0.5, "stock": True, "room": 45.0}, "'stock': True is a bool"),
    ],
)
def test_a_day_whose_known_numbers_do_not_fit(policy, day, found):
    with pytest.raises(csg.DataError) as caught:
        policy.decide(day)
    assert found in str(caught.value)


def test_a_known_number_that_is_no_context_must_be_there():
    found = csg.fit(
        shop(), table(), context="warm", scenarios=2, method="mmd", progress=False
    )
    decision = found.decide({"warm": 0.5, "stock": 6.0, "room": 10.0})
    assert decision["order"] == pytest.approx(4.0)
    with pytest.raises(csg.DataError, match="there is no value for 'stock'; add it"):
        found.decide({"warm": 0.5, "room": 10.0})


def test_a_saved_policy_has_the_names_of_its_known_params(policy, tmp_path):
    policy.save(tmp_path / "p.csg")
    day = {"warm": 0.5, "stock": 3.0, "room": 45.0}
    again = csg.load(tmp_path / "p.csg", shop())
    assert again.decide(day)["order"] == policy.decide(day)["order"]
    other = shop()
    csg.annotate(
        other,
        first_stage_variables=other.order,
        uncertain_params=other.demand,
        known_params=other.stock,
    )
    with pytest.raises(csg.CsgError, match="known Params in the file but not.*'room'"):
        csg.load(tmp_path / "p.csg", other)


def test_the_model_of_another_day_loads_the_same_policy(policy, tmp_path, caplog):
    policy.save(tmp_path / "p.csg")
    tomorrow = shop()
    tomorrow.stock, tomorrow.room = 5.0, 30.0
    again = csg.load(tmp_path / "p.csg", tomorrow)
    day = {"warm": 0.5, "stock": 3.0, "room": 45.0}
    assert again.decide(day)["order"] == policy.decide(day)["order"]
    assert not caplog.records


def exact_costs(decisions, rows):
    """Return the costs of orders on rows."""
    sold = np.minimum(decisions + rows["stock"], rows["demand"])
    return decisions - 3 * sold


def test_evaluation_on_rows_uses_their_known_numbers(policy):
    rows = table(25, seed=7)
    baselines = {
        "saa": csg.baselines.SampleAverage(shop(), table()),
        "ev": csg.baselines.ExpectedValue(shop(), table()),
        "forest": csg.baselines.ForestWeighted(shop(), table()),
    }
    found = csg.evaluate({"policy": policy, **baselines}, rows, progress=False)
    for name, one in {"policy": policy, **baselines}.items():
        costs = exact_costs(one.decide(rows)["order"].to_numpy(), rows)
        np.testing.assert_allclose(found.costs[name], costs, rtol=1e-6, atol=1e-6)


def test_cases_with_known_numbers_and_their_full_programs(policy):
    outcomes = np.random.default_rng(3).gamma(4, 5, (50, 1))
    day = {"warm": 0.4, "stock": 5.0, "room": 30.0}
    cases = [
        csg.Case(day, outcomes),
        csg.Case([5.0, 0.4, 30.0], outcomes, known=[5.0, 30.0]),
    ]
    found = csg.evaluate({"policy": policy}, cases, progress=False)
    np.testing.assert_allclose(*found.costs["policy"])
    oracle = csg.Oracle(shop())
    best = oracle.solve(outcomes, known=[5.0, 30.0]).value
    assert found.reference["value"].tolist() == pytest.approx([best, best])
    with pytest.raises(csg.DataError, match=r"cases\[0\].known.*'stock'"):
        csg.evaluate({"policy": policy}, [csg.Case({"warm": 0.4}, outcomes)])


def test_a_certificate_uses_the_known_numbers_of_its_rows(policy):
    rows = table(120, seed=9)
    found = policy.certify(rows)
    costs = exact_costs(policy.decide(rows)["order"].to_numpy(), rows)
    assert str(round(float(costs.mean()), 2))[:5] in str(found)


@pytest.mark.parametrize(
    "kind", ["Neur2SP", "SupportProbabilities", "StochasticOptimizationForest"]
)
def test_a_baseline_that_shares_a_program_refuses_known_params(kind):
    with pytest.raises(csg.DataError, match="known Params, which this baseline"):
        getattr(csg.baselines, kind)(shop(), table(), progress=False)


def test_one_scenario_is_searched_with_the_known_numbers():
    found = csg.baselines.OneScenario(shop(), table(), evaluations=60, progress=False)
    rows = table()
    costs = exact_costs(found.decide(rows)["order"].to_numpy(), rows)
    assert costs.mean() == pytest.approx(found.losses[1], rel=0.05)


def test_the_estimator_scores_with_known_numbers():
    data = table()
    x, y = data[["warm", "stock", "room"]], data[["demand"]]
    estimator = csg.ScenarioGenerator(shop(), scenarios=2, method="mmd").fit(x, y)
    costs = exact_costs(estimator.predict(x).ravel(), data)
    assert estimator.score(x, y) == pytest.approx(-costs.mean())


def test_auto_uses_known_numbers_and_stays_within_its_time():
    found = csg.fit(
        shop(), table(), scenarios=2, progress=False, seconds=15, config=QUICK
    )
    day = {"warm": 0.5, "stock": 6.0, "room": 10.0}
    assert found.decide(day)["order"] == pytest.approx(4.0)
    assert "shop" in found.report()


def test_known_columns_beside_text_and_gaps():
    rows = table().assign(weekday=["Mon", "Tue", "Sat"] * 20)
    rows.loc[3, "warm"] = np.nan
    found = csg.fit(shop(), rows, scenarios=2, method="mmd", progress=False)
    day = {"warm": 0.5, "weekday": "Tue", "stock": 6.0, "room": 10.0}
    assert found.decide(day)["order"] == pytest.approx(4.0)
    evaluation = csg.evaluate({"found": found}, rows.iloc[5:15], progress=False)
    decisions = found.decide(rows.iloc[5:15])["order"]
    costs = exact_costs(decisions, rows.iloc[5:15])
    np.testing.assert_allclose(evaluation.costs["found"], costs, rtol=1e-6)
