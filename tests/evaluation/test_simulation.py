"""Policies roll through the rows: each day begins with the state that the last one left."""

import numpy as np
import pandas as pd
import pyomo.environ as pyo
import pytest

import pyomo_csg as csg

ORDER, HOLD, LOSE = 1.0, 0.1, 5.0


def shop(levels=None):
    """Return an inventory whose stock carries over; with ``levels``, one of two goods."""
    m = pyo.ConcreteModel("inventory")
    goods = levels or [None]
    index = [goods] if levels else []
    m.demand = pyo.Param(*index, mutable=True, initialize=5.0)
    m.stock0 = pyo.Param(
        *index, mutable=True, initialize=2.0, within=pyo.NonNegativeReals
    )
    m.order = pyo.Var(*index, bounds=(0, 20))
    m.lost = pyo.Var(*index, within=pyo.NonNegativeReals)
    m.stock = pyo.Var(*index, within=pyo.NonNegativeReals)
    m.flow = pyo.Constraint(
        *index,
        rule=lambda m, *i: (
            m.stock[i or None] - m.lost[i or None]
            == m.stock0[i or None] + m.order[i or None] - m.demand[i or None]
        ),
    )
    m.stock_end = pyo.Expression(*index, rule=lambda m, *i: 0.5 * m.stock[i or None])
    m.cost = pyo.Objective(
        expr=sum(
            ORDER * m.order[g] + HOLD * m.stock[g] + LOSE * m.lost[g] for g in goods
        )
    )
    csg.annotate(
        m,
        first_stage_variables=m.order,
        uncertain_params=m.demand,
        known_params=m.stock0,
    )
    return m


class OrderUpTo:
    """A policy that orders up to a level."""

    def __init__(self, level):
        self.level, self.seen = level, []

    def decide(self, context):
        self.seen.append(context)
        return {"order": max(0.0, self.level - context["stock0"])}


def by_hand(level, demands, stock=2.0, perishes=0.5):
    """Return the costs and the stocks that days begin with."""
    costs, stocks = [], []
    for demand in demands:
        stocks.append(stock)
        order = max(0.0, level - stock)
        left = stock + order - demand
        costs.append(ORDER * order + HOLD * max(left, 0) + LOSE * max(-left, 0))
        stock = perishes * max(left, 0)
    return costs, stocks


DEMANDS = np.random.default_rng(0).uniform(2, 9, 30)
DAYS = pd.DataFrame({"day": np.arange(30.0), "demand": DEMANDS})


def test_costs_and_states_are_those_by_hand():
    m, policies = shop(), {"low": OrderUpTo(5.0), "high": OrderUpTo(9.0)}

    found = csg.simulate(policies, m, DAYS, {"stock0": m.stock_end}, progress=False)

    assert found.states == ("stock0",)
    assert list(found.table) == ["row", "policy", "cost", "order", "stock0"]
    assert found.table["policy"].tolist()[:4] == ["low", "high", "low", "high"]
    for name, policy in policies.items():
        mine = found.table[found.table["policy"] == name]
        costs, stocks = by_hand(policy.level, DEMANDS)
        assert mine["row"].tolist() == list(range(30))
        assert mine["cost"].to_numpy() == pytest.approx(costs)
        assert mine["stock0"].to_numpy() == pytest.approx(stocks)
        assert all("demand" not in context for context in policy.seen)
        assert [context["day"] for context in policy.seen] == list(range(30))
    assert m.stock0.value == 2.0 and not m.order.fixed  # the model stays as it was


def test_functions_are_fitted_again_to_all_rows_so_far():
    m, lengths = shop(), []

    def make(past):
        lengths.append(
            (len(past), past["demand"].tolist() == list(DEMANDS[: len(past)]))
        )
        return OrderUpTo(past["demand"].mean())

    found = csg.simulate(
        {"mean": make},
        m,
        DAYS,
        {"stock0": m.stock_end},
        warmup=10,
        refit=8,
        progress=False,
    )
    assert lengths == [(10, True), (18, True), (26, True)]
    assert found.table["row"].tolist() == list(range(10, 30))
    assert found.table["stock0"].iloc[0] == 2.0


def test_indexed_params_pair_with_the_same_indices():
    m = shop(["a", "b"])
    days = pd.DataFrame({"demand[a]": DEMANDS, "demand[ b ]": 2 * DEMANDS})

    class Fixed:
        def decide(self, context):
            return {"order[a]": 5.0, "order[b]": 11.0}

    found = csg.simulate(
        {"fixed": Fixed()}, m, days, [(m.stock0, m.stock_end)], progress=False
    )
    stock = 2.0
    for demand, b in zip(DEMANDS, found.table["stock0[b]"], strict=True):
        assert b == pytest.approx(stock)
        stock = 0.5 * max(stock + 11.0 - 2 * demand, 0.0)


def test_carry_takes_names_pairs_and_a_component_map():
    m = shop()
    pairs = [(m.stock0, m.stock_end)]
    forms = [{"stock0": m.stock_end}, {"stock0": "stock_end"}, pairs]
    tables = [
        csg.simulate({"up": OrderUpTo(7.0)}, m, DAYS, carry, progress=False).table
        for carry in (*forms, pyo.ComponentMap(pairs))
    ]
    costs, _ = by_hand(7.0, DEMANDS)
    for table in tables:
        assert table["cost"].to_numpy() == pytest.approx(costs)


def test_known_params_that_are_not_carried_are_found_by_meaning():
    m = shop(["a", "b"])
    m.tariff = pyo.Param(["a", "b"], mutable=True, initialize=1.0)
    m.cost.set_value(m.cost.expr + sum(m.tariff[g] * m.order[g] for g in ["a", "b"]))
    known = [m.stock0, m.tariff]
    csg.annotate(
        m, first_stage_variables=m.order, uncertain_params=m.demand, known_params=known
    )
    tariff = np.arange(30.0)
    days = pd.DataFrame({f"demand[{g}]": DEMANDS for g in "ab"})
    days["tariff[ a ]"], days["tariff['b']"] = tariff, 2 * tariff

    class Fixed:
        def decide(self, context):
            return {"order[a]": 1.0, "order[b]": 1.0}

    carry = [(m.stock0, m.stock_end)]
    found, free = (
        csg.simulate({"one": Fixed()}, m, table, carry, progress=False).table["cost"]
        for table in (days, days.assign(**{"tariff[ a ]": 0.0, "tariff['b']": 0.0}))
    )
    assert (found - free).to_numpy() == pytest.approx(3 * tariff)


def test_policies_of_the_package_decide_with_the_state():
    m = shop()
    history = DAYS.iloc[:20]
    learned = csg.fit(
        m,
        history,
        scenarios=3,
        method="mmd",
        known={"stock0": (0, 6)},
        config={"mmd_epochs": 2},
        progress=False,
    )
    saa = csg.baselines.SampleAverage(m, history, known={"stock0": (0, 6)})
    policies = {"learned": learned, "saa": saa}

    found = csg.simulate(
        policies, m, DAYS.iloc[20:], {"stock0": m.stock_end}, progress=False
    )

    assert len(found.table) == 20 and found.table["cost"].notna().all()
    # The more is in stock, the less is ordered: up to a level that does not move.
    level = found.table[found.table["policy"] == "saa"][["order", "stock0"]].sum(axis=1)
    assert level.to_numpy() == pytest.approx(level.iloc[0], abs=1e-6)
    assert "10 rows in order" in str(found) and "learned" in str(found)


def test_a_maximized_profit_is_a_negative_cost():
    m = shop()
    m.cost.deactivate()
    m.profit = pyo.Objective(expr=-m.cost.expr, sense=pyo.maximize)
    found = csg.simulate(
        {"a": OrderUpTo(7.0)}, m, DAYS, {"stock0": m.stock_end}, progress=False
    )
    assert found.table["cost"].to_numpy() == pytest.approx(by_hand(7.0, DEMANDS)[0])


def test_the_plot_has_the_cumulative_cost_and_each_state(tmp_path):
    m = shop()
    found = csg.simulate(
        {"a": OrderUpTo(7.0)}, m, DAYS, {"stock0": m.stock_end}, progress=False
    )
    figure = found.plot()
    figure.savefig(tmp_path / "simulation.png")
    cost, stock = figure.axes
    assert cost.lines[0].get_ydata()[-1] == pytest.approx(found.table["cost"].sum())
    assert stock.get_ylabel() == "stock0"


def test_a_day_without_recourse_is_reported_with_its_row():
    m = shop()
    m.lost.setub(0.5)
    with pytest.raises(csg.SolveError) as error:
        csg.simulate(
            {"a": OrderUpTo(3.0)}, m, DAYS, {"stock0": m.stock_end}, progress=False
        )
    first = next(i for i, d in enumerate(DEMANDS) if d > 3.5)
    assert error.value.case == first


def test_a_state_outside_its_domain_is_reported_with_its_row():
    m = shop()
    m.next_day = pyo.Expression(expr=m.stock - 1)
    with pytest.raises(csg.DataError, match="after row 0, 'stock0' is -1, outside its"):
        csg.simulate(
            {"a": OrderUpTo(2.0)},
            m,
            DAYS.assign(demand=4.0),
            {"stock0": m.next_day},
            progress=False,
        )


def test_rounding_of_the_solver_does_not_leave_the_domain():
    m = shop()
    m.next_day = pyo.Expression(expr=m.stock - 1e-9)
    found = csg.simulate(
        {"a": OrderUpTo(2.0)},
        m,
        DAYS.assign(demand=4.0),
        {"stock0": m.next_day},
        progress=False,
    )
    assert found.table["stock0"].tolist()[1:] == [0.0] * 29


def test_a_quadratic_objective_is_refused_in_words():
    m = shop()
    m.cost.set_value(m.cost.expr + m.lost**2)
    with pytest.raises(csg.DataError, match="is not linear; appsi_highs"):
        csg.simulate(
            {"a": OrderUpTo(2.0)}, m, DAYS, {"stock0": m.stock_end}, progress=False
        )


@pytest.mark.parametrize(
    "change, words",
    [
        ({"policies": {}}, "give a dict from name to policy"),
        ({"policies": {"a": 3}}, "'a' is a int; give a policy, or a function"),
        (
            {"policies": {"a": len}},
            "'a' is a function of past rows, of which there are none",
        ),
        ({"data": [1, 2]}, "data is a list; give a DataFrame"),
        ({"data": DAYS.drop(columns="demand")}, "no column for 'demand'; add it"),
        (
            {"data": DAYS.assign(demand=np.nan)},
            "'demand' in row 0 is nan",
        ),
        ({"data": DAYS.assign(demand="?")}, "'demand' in row 0 is nan"),
        ({"carry": None}, "carry is None; give a dict"),
        ({"carry": {"stock0": "elsewhere"}}, "carry pairs stock0 with elsewhere"),
        ({"carry": {"demand": "stock_end"}}, "'demand' is no known number; add it"),
        ({"warmup": 30}, "warmup is 30; give a whole number below 30"),
        ({"refit": 0}, "refit is 0"),
    ],
)
def test_bad_arguments_are_refused_by_name(change, words):
    given = {
        "policies": {"a": OrderUpTo(5.0)},
        "model": shop(),
        "data": DAYS,
        "carry": {"stock0": "stock_end"},
    }
    with pytest.raises(csg.DataError, match=words):
        csg.simulate(**{**given, **change}, progress=False)


def test_all_bad_arguments_are_refused_together():
    bad = {"policies": {}, "data": 3, "carry": None, "refit": 0}
    with pytest.raises(csg.DataError) as refused:
        csg.simulate(model=shop(), **bad, progress=False)
    starts = [problem.split(" ")[0] for problem in refused.value.problems]
    assert starts == ["carry", "policies:", "refit", "data"]
