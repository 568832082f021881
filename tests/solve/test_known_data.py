"""Known data: numbers of the program that differ from case to case."""

import numpy as np
import pandas as pd
import pyomo.environ as pyo
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pyomo_csg as csg
from tests.solve.known_programs import Program
from tests.solving import has_solver, solve, transform

LINEAR = ("linear", "first", "recourse", "both")
KINDS = (*LINEAR, "quadratic")


def stacked(program):
    """Return scenarios, weights and outcomes for each row of known numbers."""
    n = len(program.known)
    return (
        np.tile(program.scenarios, (n, 1, 1)),
        np.tile(program.weights, (n, 1)),
        np.tile(program.outcome, (n, 1)),
    )


@pytest.mark.parametrize("kind", KINDS)
@given(st.integers(0, 10**6), st.sampled_from([1, -1]))
@settings(max_examples=15, deadline=None)
def test_values_and_costs_agree_with_scipy(kind, seed, sense):
    program = Program(seed, kind, sense)
    oracle = csg.Oracle(program.model())
    zetas, shares, omegas = stacked(program)
    found = oracle.solve(zetas, shares, known=program.known)
    costs = oracle.cost(found.decision, omegas, known=program.known)
    for i, known in enumerate(program.known):
        value = sense * program.saa(known)
        assert found.value[i] == pytest.approx(value, rel=1e-6, abs=5e-6)
        cost = program.cost_at(found.decision[i], known)
        assert costs[i] == pytest.approx(cost, rel=1e-6, abs=5e-6)


@pytest.mark.parametrize("kind", LINEAR[:3])
@given(st.integers(0, 10**6))
@settings(max_examples=20, deadline=None)
def test_losses_agree_with_scipy(kind, seed):
    program = Program(seed, kind)
    oracle = csg.Oracle(program.model())
    zetas, shares, omegas = stacked(program)
    losses = oracle.loss(zetas, omegas, weights=shares, known=program.known)
    for i, known in enumerate(program.known):
        optimum = program.saa(known)
        slack = 1e-7 * max(1, abs(optimum))
        at_most = program.saa(known, cut=optimum + slack * 1e-2)
        at_least = program.saa(known, cut=optimum + slack)
        size = 1e-5 * max(1, abs(at_most))
        assert at_least - size <= losses[i] <= at_most + size


@pytest.mark.parametrize("kind", KINDS)
@given(st.integers(0, 10**6), st.sampled_from([1, -1]))
@settings(max_examples=15, deadline=None)
def test_all_answers_are_those_of_the_model_with_these_numbers(kind, seed, sense):
    program = Program(seed, kind, sense)
    oracle = csg.Oracle(program.model())
    zetas, shares, omegas = stacked(program)
    together = {"weights": shares, "known": program.known}
    solved = oracle.solve(zetas, gradient=True, **together)
    slopes = oracle.loss_gradient(zetas, omegas, **together)
    moves = oracle.decision_gradient(zetas, **together)
    for i, known in enumerate(program.known):
        fixed = csg.Oracle(program.model(known))
        one = {"weights": shares[:1]}
        alone = fixed.solve(zetas[:1], gradient=True, **one)
        np.testing.assert_allclose(
            solved.value[i], alone.value[0], rtol=1e-7, atol=1e-7
        )
        gradient = fixed.loss_gradient(zetas[:1], omegas[:1], **one)
        smooth = alone.smooth[0] and gradient.smooth[0]
        assert slopes.gradient.shape == zetas.shape
        if smooth and solved.smooth[i] and slopes.smooth[i]:
            close = {"rtol": 1e-5, "atol": 1e-5}
            np.testing.assert_allclose(solved.gradient[i], alone.gradient[0], **close)
            np.testing.assert_allclose(slopes.loss[i], gradient.loss[0], **close)
            np.testing.assert_allclose(
                slopes.gradient[i], gradient.gradient[0], **close
            )
            moved = fixed.decision_gradient(zetas[:1], **one)
            np.testing.assert_allclose(moves.decision[i], moved.decision[0], **close)
            np.testing.assert_allclose(moves.gradient[i], moved.gradient[0], **close)


@pytest.mark.parametrize("kind", LINEAR)
@given(st.integers(0, 10**6), st.sampled_from([1, -1]))
@settings(max_examples=10, deadline=None)
def test_the_transformations_agree_with_the_oracle(kind, seed, sense):
    program = Program(seed, kind, sense)
    model = program.model()
    oracle, known = csg.Oracle(model), program.known[0]
    one = {"scenarios": program.scenarios, "weights": program.weights, "known": known}
    ef = transform("extensive_form", model, **one)
    value = solve(ef)
    solution = oracle.solve(program.scenarios, program.weights, known=known)
    assert solution.value == pytest.approx(value, rel=1e-6, abs=5e-6)
    for j, number in enumerate(program.known[1]):
        ef.stock[j] = number
    other = oracle.solve(program.scenarios, program.weights, known=program.known[1])
    assert solve(ef) == pytest.approx(other.value, rel=1e-6, abs=5e-6)
    decision = solution.decision
    outcome = {"decision": decision, "outcome": program.outcome, "known": known}
    cost = oracle.cost(decision, program.outcome[None], known=known)[0]
    recourse = sense * solve(transform("recourse", model, **outcome))
    assert recourse == pytest.approx(cost, rel=1e-6, abs=5e-6)
    search = transform(
        "opt_search", model, **one, outcome=program.outcome, optimal_value=value,
        tolerance=1e-7,
    )  # fmt: skip
    loss = oracle.loss(
        program.scenarios[None],
        program.outcome[None],
        weights=program.weights,
        known=known,
    )[0]
    assert sense * solve(search) <= loss + 1e-5 * max(1, abs(loss))


@pytest.mark.skipif(not has_solver("appsi_highs"), reason="no appsi_highs")
@pytest.mark.parametrize("seed", range(4))
def test_other_solvers_agree(seed):
    program = Program(seed, "linear")
    zetas, shares, omegas = stacked(program)
    ours, theirs = (
        csg.Oracle(program.model(), solver) for solver in ("highs", "appsi_highs")
    )
    one = {"weights": shares, "known": program.known}
    solved = theirs.solve(zetas, **one)
    np.testing.assert_allclose(ours.solve(zetas, **one).value, solved.value, rtol=1e-6)
    np.testing.assert_allclose(
        ours.cost(solved.decision, omegas, known=program.known),
        theirs.cost(solved.decision, omegas, known=program.known),
        rtol=1e-6,
    )
    np.testing.assert_allclose(
        ours.loss(zetas, omegas, **one), theirs.loss(zetas, omegas, **one), rtol=1e-5
    )


def shop(**changes):
    """Return a newsvendor with a stock, a budget and a tariff, all known."""
    m = pyo.ConcreteModel("shop")
    m.demand = pyo.Param(mutable=True, initialize=15.0, within=pyo.NonNegativeReals)
    m.stock = pyo.Param(mutable=True, initialize=0.0, within=pyo.NonNegativeReals)
    m.room = pyo.Param(mutable=True, initialize=60.0, within=pyo.NonNegativeReals)
    m.tariff = pyo.Param(mutable=True, initialize=1.0, within=pyo.NonNegativeReals)
    m.budget = pyo.Param(mutable=True, initialize=99.0, within=pyo.NonNegativeReals)
    m.order = pyo.Var(bounds=(0, m.room))
    m.sold = pyo.Var(within=pyo.NonNegativeReals)
    m.pay = pyo.Constraint(expr=m.tariff * m.order <= m.budget)
    m.supply = pyo.Constraint(expr=m.sold <= m.order + m.stock)
    m.market = pyo.Constraint(expr=m.sold <= m.demand)
    m.cost = pyo.Objective(expr=m.tariff * m.order - 3 * m.sold)
    known = changes.pop("known_params", [m.stock, m.room, m.tariff, m.budget])
    csg.annotate(
        m, first_stage_variables=m.order, uncertain_params=m.demand, known_params=known
    )
    return m


NOW = {"stock": 4.0, "room": 60.0, "tariff": 1.0, "budget": 99.0}


def test_the_known_params_are_listed_in_order():
    two_stage = csg.TwoStageModel(shop())
    assert [p.name for p in two_stage.known_params] == list(NOW)
    assert [p.name for p in two_stage.uncertain_params] == ["demand"]
    assert [c.name for c in two_stage.first_stage_constraints] == ["pay"]
    assert [v.name for v in two_stage.known_bounds] == ["order"]
    assert "known numbers          stock in NonNegativeReals, now 0" in str(two_stage)
    assert two_stage.graph.nodes["stock"]["stage"] == "first"


def test_annotating_again_without_known_params_drops_them():
    m = shop()
    csg.annotate(m, first_stage_variables=m.order, uncertain_params=m.demand)
    assert csg.TwoStageModel(m).known_params == []


def test_known_numbers_by_name_in_any_order():
    oracle = csg.Oracle(shop())
    zetas = np.array([[[10.0], [20.0]]] * 2)
    rows = np.array([[4.0, 60, 1, 99], [0, 60, 1, 12]])
    found = oracle.solve(zetas, known=rows).decision.ravel()
    np.testing.assert_allclose(found, [16, 12])
    frame = pd.DataFrame(rows, columns=list(NOW))[list(NOW)[::-1]]
    np.testing.assert_allclose(oracle.solve(zetas, known=frame).decision.ravel(), found)
    by_name = {**NOW, "stock": [4.0, 0.0], "budget": [99.0, 12.0]}
    np.testing.assert_allclose(
        oracle.solve(zetas, known=by_name).decision.ravel(), found
    )
    series = pd.Series(NOW)
    assert oracle.solve(zetas[0], known=series).decision == pytest.approx(16)


def test_without_known_numbers_the_model_has_them():
    m = shop()
    m.stock = 7.0
    oracle = csg.Oracle(m)
    assert oracle.solve([[10.0]]).decision == pytest.approx(3)
    assert oracle.solve(
        [[10.0]], known={**NOW, "stock": 2.0}
    ).decision == pytest.approx(8)
    assert oracle.cost([3.0], [[10.0]])[0] == pytest.approx(3 - 30)


def test_the_first_stage_is_checked_with_the_known_numbers_of_the_case():
    oracle = csg.Oracle(shop())
    rows = np.array([[0, 60, 1, 99], [0, 60, 1, 8], [0, 9, 1, 99]], float)
    costs = oracle.cost([10.0], [[10.0]] * 3, known=rows, on_error="record")
    assert np.isfinite(costs).tolist() == [True, False, False]
    budget, room = (str(failure) for failure in oracle.failures)
    assert "constraint 'pay'" in budget and "10 is above 8" in budget
    assert "the bounds of 'order'" in room and "10 is above 9" in room
    with pytest.raises(csg.CsgError, match="pay"):
        transform(
            "recourse", shop(), decision=[10.0], outcome=[10.0],
            known={**NOW, "budget": 8.0},
        )  # fmt: skip


def test_a_failed_case_writes_its_program_with_its_known_numbers(tmp_path):
    oracle = csg.Oracle(shop())
    with pytest.raises(csg.SolveError) as caught:
        oracle.cost([10.0], [[10.0]], known={**NOW, "budget": 8.0})
    with pytest.raises(csg.DataError, match="pay"):
        caught.value.write(tmp_path / "case.lp")


@pytest.mark.parametrize(
    ("known", "found"),
    [
        ({**NOW, "stock": -1.0}, "'stock' is -1, outside its domain NonNegativeReals"),
        ({**NOW, "stock": np.nan}, "'stock' is nan; give a finite number"),
        ({**NOW, "stock": "much"}, "'stock': not all are numbers"),
        ({**NOW, "stock": None}, "'stock': not given"),
        ({"stock": 1.0}, "no number for 'room', 'tariff', 'budget'; add it"),
        ({**NOW, "stok": 1.0}, "the number 'stok' is not among"),
        ({**NOW, "stock": [1.0, 2.0, 3.0]}, "3 rows were given for 2 cases"),
        ({**NOW, "stock": [1.0, 2.0, 3.0], "room": [1.0, 2.0]}, "their lengths differ"),
        ([1.0, 2.0], "expected (4,) or (n, 4)"),
        (np.ones((3, 4)), "3 rows were given for 2 cases"),
        (np.array([[1, 1, 1, 1], [1, 1, np.inf, 1.0]]), "'tariff' in case 1 is inf"),
        (
            pd.DataFrame({"stock": [1.0, 2.0]}),
            "no column for 'room', 'tariff', 'budget'",
        ),
        (True, "is a bool"),
    ],
)
def test_known_numbers_that_do_not_fit(known, found):
    oracle = csg.Oracle(shop())
    zetas, omegas = np.full((2, 1, 1), 10.0), np.full((2, 1), 10.0)
    for call in (
        lambda: oracle.solve(zetas, known=known),
        lambda: oracle.loss(zetas, omegas, known=known),
        lambda: oracle.cost([[1.0], [1.0]], omegas, known=known),
        lambda: oracle.loss_gradient(zetas, omegas, known=known),
        lambda: oracle.decision_gradient(zetas, known=known),
    ):
        with pytest.raises(csg.DataError) as caught:
            call()
        assert found in str(caught.value)
        assert "known: " in str(caught.value)


def test_known_numbers_of_a_model_without_any():
    m = shop(known_params=None)
    with pytest.raises(csg.DataError, match="csg.annotate"):
        csg.Oracle(m).solve([[10.0]], known=[1.0])
    with pytest.raises(csg.DataError, match="csg.annotate"):
        transform("extensive_form", m, scenarios=[[10.0]], known=[1.0])


def test_a_transformation_that_fails_leaves_the_model_as_it_was():
    m = shop()
    with pytest.raises(csg.DataError, match="demand"):
        pyo.TransformationFactory("csg.extensive_form").apply_to(
            m, scenarios=[[-1.0]], known={**NOW, "stock": 5.0}
        )
    assert m.stock.value == 0.0


@pytest.mark.parametrize(
    ("known", "found"),
    [
        (
            lambda m: m.demand,
            "Param 'demand' is in both uncertain_params and known_params",
        ),
        (lambda m: m.order, "known_params: 'order' is a Var"),
        (lambda m: "stok", "known_params: the model has no component 'stok'"),
        (lambda m: 3.0, "known_params: the number 3.0 was given"),
        (lambda m: m.fixed, "known_params: Param 'fixed' is not mutable"),
    ],
)
def test_params_that_cannot_be_known(known, found):
    m = shop()
    m.fixed = pyo.Param(initialize=1.0)
    with pytest.raises(csg.AnnotationError) as caught:
        csg.annotate(
            m,
            first_stage_variables=m.order,
            uncertain_params=m.demand,
            known_params=known(m),
        )
    assert found in str(caught.value)


def test_a_known_param_that_nothing_uses():
    m = shop()
    m.idle = pyo.Param(initialize=1.0, mutable=True)
    csg.annotate(
        m,
        first_stage_variables=m.order,
        uncertain_params=m.demand,
        known_params=[m.stock, m.idle],
    )
    with pytest.raises(csg.ModelError, match="known Param 'idle' is used in no active"):
        csg.TwoStageModel(m)


def test_a_known_number_may_be_whole():
    m = shop()
    m.trucks = pyo.Param(initialize=1, mutable=True, within=pyo.NonNegativeIntegers)
    m.haul = pyo.Constraint(expr=m.order <= 5 * m.trucks)
    csg.annotate(
        m,
        first_stage_variables=m.order,
        uncertain_params=m.demand,
        known_params=m.trucks,
    )
    oracle = csg.Oracle(m)
    assert oracle.solve([[20.0]], known=[3]).decision == pytest.approx(15)
    with pytest.raises(csg.DataError, match="'trucks' is 2.5, outside its domain"):
        oracle.solve([[20.0]], known=[2.5])


def test_an_oracle_that_was_pickled_or_cloned_knows_its_known_params():
    import pickle

    oracle = pickle.loads(pickle.dumps(csg.Oracle(shop())))
    assert oracle.solve([[10.0]], known={**NOW}).decision == pytest.approx(6)


def test_an_oracle_with_other_default_numbers():
    import pickle

    oracle = csg.Oracle(shop())
    today = oracle.with_known({**NOW, "stock": 3.0})
    assert today.solve([[10.0]]).decision == pytest.approx(7)
    assert oracle.solve([[10.0]]).decision == pytest.approx(10)
    assert pickle.loads(pickle.dumps(today)).solve([[10.0]]).decision == pytest.approx(
        7
    )
    with pytest.raises(csg.DataError, match="no number for 'room'"):
        oracle.with_known({"stock": 3.0})


def test_torch_losses_and_decisions_with_known_numbers():
    import torch

    oracle, rng = csg.Oracle(shop()), np.random.default_rng(1)
    zetas, omegas = rng.uniform(5, 20, (6, 3, 1)), rng.uniform(5, 20, (6, 2, 1))
    known = rng.uniform([0, 5, 1, 5], [10, 40, 2, 30], (6, 4))
    tensor = torch.tensor(zetas, requires_grad=True)
    expected = oracle.loss_gradient(zetas, omegas, known=known)
    for kind in ("recourse", "optimistic"):
        losses = csg.TaskLoss(oracle, kind)(tensor, torch.tensor(omegas), known=known)
        np.testing.assert_allclose(losses.detach(), expected.loss, rtol=1e-9)
    (slopes,) = torch.autograd.grad(losses.sum(), tensor)
    np.testing.assert_allclose(slopes, expected.gradient, atol=1e-12)
    decisions = csg.DecisionLayer(oracle)(tensor, known=torch.tensor(known))
    solved = oracle.solve(zetas, known=known).decision
    np.testing.assert_allclose(decisions.detach(), solved, atol=1e-9)
    with pytest.raises(csg.DataError, match="'stock' in case 0 is nan"):
        csg.TaskLoss(oracle)(tensor, torch.tensor(omegas), known=known * np.nan)


def test_outcomes_are_reduced_for_the_known_numbers_of_the_day():
    outcomes = np.random.default_rng(1).gamma(3, 5, (300, 1))
    known = {**NOW, "stock": 5.0}
    found = csg.reduce(shop(), outcomes, scenarios=2, known=known, seconds=2.0)
    costs = csg.Oracle(shop()).cost(found.decision, outcomes, known=known)
    assert found.cost == pytest.approx(costs.mean(), rel=1e-6)
    with pytest.raises(csg.DataError, match="known: .*'room'"):
        csg.reduce(shop(), outcomes, known={"stock": 1.0})


def test_an_answer_does_not_depend_on_the_rest_of_its_batch():
    oracle, rng = csg.Oracle(shop()), np.random.default_rng(1)
    zetas, omegas = rng.uniform(5, 20, (40, 3, 1)), rng.uniform(5, 20, (40, 1))
    known = rng.uniform([0, 5, 1, 5], [10, 40, 2, 30], (40, 4))
    together = oracle.loss(zetas, omegas, known=known, fresh=True)
    alone = [
        oracle.loss(zetas[i : i + 1], omegas[i : i + 1], known=known[i], fresh=True)[0]
        for i in range(40)
    ]
    np.testing.assert_allclose(together, alone, rtol=1e-9, atol=1e-9)


def test_a_rehearsed_oracle_gives_the_same_costs():
    rng = np.random.default_rng(2)
    zetas, omegas = rng.uniform(5, 20, (8, 3, 1)), rng.uniform(5, 20, (40, 1))
    known = rng.uniform([0, 5, 1, 5], [10, 40, 2, 30], (40, 4))
    plain, ready = csg.Oracle(shop()), csg.Oracle(shop())
    ready.rehearse(zetas, omegas, known)
    np.testing.assert_allclose(
        plain.cost([2.0], omegas, known=known), ready.cost([2.0], omegas, known=known)
    )
