"""Programs of models with a risk measure, against ones written by hand."""

import numpy as np
import pyomo.environ as pyo
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pyomo_csg as csg
from models import cvar_portfolio, newsvendor
from tests.solve.known_programs import Program
from tests.solving import needs_solver, solve, transform

WEIGHTS, LEVELS = (0.3, 0.8, 1.0), (0.5, 0.9)
KINDS = ("linear", "first", "recourse", "both")


def with_risk(model, risk):
    """Annotate the newsvendor with a risk measure."""
    csg.annotate(
        model,
        first_stage_variables=model.order,
        uncertain_params=model.demand,
        risk=risk,
    )
    return model


def random_program(seed, kind, sense=1):
    rng = np.random.default_rng(seed)
    risk = csg.MeanCVaR(float(rng.choice(WEIGHTS)), float(rng.choice(LEVELS)))
    return Program(seed, kind, sense, risk)


@pytest.mark.parametrize("kind", KINDS)
@given(st.integers(0, 10**6), st.sampled_from([1, -1]))
@settings(max_examples=15, deadline=None)
def test_values_agree_with_scipy(kind, seed, sense):
    program = random_program(seed, kind, sense)
    oracle = csg.Oracle(program.model())
    n = len(program.known)
    zetas = np.tile(program.scenarios, (n, 1, 1))
    shares = np.tile(program.weights, (n, 1))
    found = oracle.solve(zetas, shares, known=program.known)
    for i, known in enumerate(program.known):
        value = sense * program.saa(known)
        assert found.value[i] == pytest.approx(value, rel=1e-6, abs=5e-6)
        # Some value at risk attains the measure of what is paid; no other is below it.
        paid = oracle.cost(
            np.tile(found.decision[i, :-1], (program.k, 1)),
            program.scenarios,
            known=known,
        )
        measure = program.risk.measure(paid, program.weights)
        assert sense * value == pytest.approx(measure, rel=1e-6, abs=5e-6)


@pytest.mark.parametrize("kind", KINDS[:3])
@pytest.mark.parametrize("seed", range(12))
def test_losses_agree_with_scipy(kind, seed):
    program = random_program(seed, kind)
    known = program.known[0]
    oracle = csg.Oracle(program.model())
    loss = oracle.loss(
        program.scenarios[None],
        program.outcome[None],
        weights=program.weights[None],
        known=known,
    )[0]
    decision = oracle.solve(program.scenarios, program.weights, known=known).decision
    at_most = oracle.cost(decision, program.outcome[None], known=known)[0]
    optimum = program.saa(known)
    slack = 1e-7 * max(1, abs(optimum))
    at_least = program.saa(known, cut=optimum + slack)
    size = 1e-5 * max(1, abs(at_most))
    assert at_least - size <= loss <= at_most + size
    if kind == "linear":  # scipy solves no integer program under so tight a cut
        best = program.saa(known, cut=optimum + slack * 1e-2)
        assert loss <= best + size


@pytest.mark.parametrize("sense", [1, -1])
def test_the_extensive_form_is_the_same_program(sense):
    program = random_program(5, "linear", sense)
    known = program.known[0]
    data = {"scenarios": program.scenarios, "weights": program.weights, "known": known}
    form = transform("extensive_form", program.model(), **data)
    assert solve(form) == pytest.approx(sense * program.saa(known), rel=1e-7)


def test_what_is_paid_is_the_cost_without_the_risk_measure():
    program = Program(3, "linear", 1)
    known, rng = program.known[0], np.random.default_rng(0)
    decision = csg.Oracle(program.model()).solve(program.scenarios, known=known)
    program.risk = csg.MeanCVaR(1.0, 0.5)
    oracle = csg.Oracle(program.model())
    cost = oracle.cost(decision.decision, program.outcome[None], known=known)[0]
    assert cost == pytest.approx(program.cost_at(decision.decision, known))
    # With its value at risk v, the decision costs v plus the excess over v at 1 / 0.5.
    for quantile in cost + rng.normal(0, 3, 5):
        whole = np.append(decision.decision, quantile)
        found = oracle.cost(whole, program.outcome[None], known=known)[0]
        assert found == pytest.approx(quantile + 2 * max(cost - quantile, 0))


@pytest.mark.parametrize(
    "weight, level, share",
    [
        (0.0, 0.6, 1.0),
        (1.0, 0.6, 1 / 0.4),
        (0.5, 0.6, 0.5 + 0.5 / 0.4),
        (0.25, 0.6, 0.75 + 0.25 / 0.4),
    ],
)
@pytest.mark.parametrize("sense", [1, -1])
def test_the_newsvendor_has_a_closed_form(weight, level, share, sense):
    # The cost is c y - p min(y, D) - s max(y - D, 0). While F(y) <= 1 - level, the tail is
    # where papers are left, so the derivative is 0 where F(y) * share = (p - c) / (p - s).
    demands = np.arange(1.0, 52.0)[:, None]
    model = newsvendor.build(cost=1.0, price=1.9, salvage=0.1)
    if sense < 0:
        model.cost.set_value(-1 * model.cost.expr)
        model.cost.sense = pyo.maximize
    oracle = csg.Oracle(with_risk(model, csg.MeanCVaR(weight, level)))
    target = (1.9 - 1.0) / (1.9 - 0.1) / share
    assert target <= 1 - level or not weight
    order = np.ceil(target * len(demands))
    assert oracle.solve(demands).decision[0] == pytest.approx(order)


@pytest.mark.parametrize("count", [1, 5, 12])
def test_the_portfolio_is_its_mean_return_with_a_risk_measure(count):
    aversion, level = 10.0, 0.9
    by_hand = cvar_portfolio.build(risk_aversion=aversion, level=level)
    model = cvar_portfolio.build(risk_aversion=aversion, level=level)
    returns, assets = model.returns, model.assets
    for name in ("cost", "tail", "excess", "value_at_risk"):
        model.del_component(name)
    model.cost = pyo.Objective(expr=-sum(returns[i] * model.holding[i] for i in assets))
    csg.annotate(
        model,
        first_stage_variables=[model.holding, model.held],
        uncertain_params=returns,
        risk=csg.MeanCVaR(aversion / (1 + aversion), level),
    )
    scenarios = np.random.default_rng(count).normal(0.1, 1.0, (count, 10))
    mine, theirs = (csg.Oracle(m).solve(scenarios) for m in (model, by_hand))
    assert (1 + aversion) * mine.value == pytest.approx(theirs.value, rel=1e-7)


def test_gradients_agree_with_finite_differences():
    model = with_risk(newsvendor.build(price=1.9), csg.MeanCVaR(0.5, 0.6))
    oracle = csg.Oracle(model)
    scenarios, outcomes = np.array([[[10.0], [14.0], [30.0]]]), np.array([[9.0]])
    found = oracle.loss_gradient(scenarios, outcomes)
    step = 1e-4
    for k in range(3):
        moved = [scenarios.copy() for _ in range(2)]
        moved[0][0, k], moved[1][0, k] = (
            scenarios[0, k] + step,
            scenarios[0, k] - step,
        )
        up, down = (oracle.loss(one, outcomes)[0] for one in moved)
        slope = (up - down) / (2 * step)
        assert found.gradient[0, k, 0] == pytest.approx(slope, abs=1e-6)


def test_a_quadratic_cost_is_refused_with_the_reason():
    model = newsvendor.build()
    model.cost.set_value(model.cost.expr + model.salvaged**2)
    with_risk(model, csg.MeanCVaR(0.5, 0.9))
    with pytest.raises(csg.ModelError, match="not linear in the variables, and risk="):
        csg.Oracle(model)


@needs_solver("scip_persistent")
def test_another_solver_finds_the_same_value():
    model = with_risk(newsvendor.build(price=1.9), csg.MeanCVaR(0.5, 0.6))
    demands = np.arange(1.0, 12.0)[:, None]
    values = [
        csg.Oracle(model, solver).solve(demands).value
        for solver in ("highs", "scip_persistent")
    ]
    assert values[0] == pytest.approx(values[1], rel=1e-6)
    oracle = csg.Oracle(model, "scip_persistent")
    assert oracle.cost([5.0], [[3.0]]) == pytest.approx(5 - 3 * 1.9 - 2 * 0.1)


@pytest.mark.parametrize("sense", [1, -1])
@pytest.mark.parametrize("seed", range(4))
def test_the_recourse_and_opt_search_are_those_of_the_rewritten_model(seed, sense):
    program = random_program(seed, "linear", sense)
    known = program.known[0]
    model = program.model()
    oracle = csg.Oracle(model)
    optimum = program.saa(known)
    decision = oracle.solve(program.scenarios, program.weights, known=known).decision
    one = {"outcome": program.outcome, "known": known}
    recourse = solve(transform("recourse", model, decision=decision, **one))
    paid = program.cost_at(decision[:-1], known)
    weight, tail = program.risk.weight, 1 - program.risk.level
    at_risk = sense * decision[-1]  # a profit if that is maximized
    excess = max(paid - at_risk, 0.0) / tail
    whole = (1 - weight) * paid + weight * (at_risk + excess)
    assert sense * recourse == pytest.approx(whole, rel=1e-6, abs=5e-6)

    scenarios = {"scenarios": program.scenarios, "weights": program.weights}
    slack = 1e-7 * max(1, abs(optimum))
    search = transform(
        "opt_search", model, **scenarios, **one, optimal_value=sense * optimum,
        tolerance=1e-7,
    )  # fmt: skip
    best = program.saa(known, cut=optimum + slack)
    assert sense * solve(search) == pytest.approx(best, rel=1e-5, abs=1e-5)
