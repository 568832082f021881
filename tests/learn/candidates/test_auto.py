"""The candidates of each kind of model, each fitted to rows that it is not scored on."""

from dataclasses import replace

import numpy as np
import pyomo.environ as pyo
import pytest
import torch
from torch import nn

import pyomo_csg as csg
from pyomo_csg.learn.candidates import auto, candidate_list, several_starts
from pyomo_csg.learn.candidates.auto import choose_fold, learn_auto
from pyomo_csg.learn.candidates.candidate_list import Candidates
from pyomo_csg.learn.config import FitConfig
from pyomo_csg.learn.methods.surrogate_diagnostics import loss_net_errors
from pyomo_csg.learn.networks.initialization import constant_body
from pyomo_csg.learn.networks.task_nets import FunctionModule, LocationScaleHead
from pyomo_csg.learn.progress import TrainingLog
from pyomo_csg.learn.selection.fits import Candidate, NetworkFit, network_candidate
from pyomo_csg.learn.selection.folds import make_folds
from pyomo_csg.learn.selection.plan import ProgramTimes, make_plan
from pyomo_csg.learn.selection.scoring import Scoreboard
from pyomo_csg.learn.tables.history import History
from pyomo_csg.learn.task import Task
from tests.quick import QUICK, shorten
from tests.zoo import ZOO, scenarios

BASELINES = {"sample average", "forest weights", "ridge residuals"}
LOSS_NETS = {f"Loss-Net {factor}" for factor in ("0.03", "0.3", "3", "30")}


@pytest.fixture(autouse=True)
def few_steps(monkeypatch):
    for name in ("_CONSTANT_STEPS", "_ATOM_STEPS", "_CONSTANT_DRAWS", "_ATOM_DRAWS"):
        monkeypatch.setattr(several_starts, name, 2)
    monkeypatch.setattr(candidate_list, "FEW_ROWS", 24)


def task_on(model, outcomes=None, contexts=None, **config):
    outcomes = scenarios(model, 24) if outcomes is None else outcomes
    rng = np.random.default_rng(0)
    contexts = rng.normal(size=(24, 2)) if contexts is None else contexts
    settings = FitConfig(
        **{
            "mmd_epochs": 2,
            "task_epochs": 1,
            "loss_epochs": 2,
            "folds": 2,
            "starts": 1,
            "hidden": (4,),
            **config,
        }
    )
    history = History(contexts, outcomes)
    return Task(csg.Oracle(model), history, 2, settings, 0, TrainingLog())


def plan_for(task, **changes):
    """Return a plan of few programs, whatever they take."""
    gradient = 1e-4 if task.has_gradient else None
    plan = make_plan(task, ProgramTimes(1e-4, 1e-5, gradient, 0.0), 60.0)
    counts = {
        "kinds": ("empirical", "forest weights", "ridge"),
        "folds": 2,
        "draws": 2,
        "programs": min(plan.programs, 8),
        "integer_programs": min(plan.integer_programs, 4),
        "one_scenario_programs": min(plan.one_scenario_programs, 4),
        "labels": min(plan.labels, 20),
        "sets": 8,
        "compared": 4,
    }
    return replace(plan, **{**counts, **changes})


def candidates_of(task, head=None, kind="mlp", **changes):
    plan = plan_for(task, **changes)
    made = Candidates(task, make_folds(task, plan.folds), plan, kind, head)
    return list(made.each())


def cost_only():
    """Return a model whose uncertain prices stand in the objective alone."""
    m = pyo.ConcreteModel("cost_only")
    m.price = pyo.Param([1, 2], mutable=True, initialize=2.0)
    m.y = pyo.Var([1, 2], bounds=(0, 3))
    m.z = pyo.Var([1, 2], bounds=(0, 3))
    m.need = pyo.Constraint([1, 2], rule=lambda m, i: m.y[i] + m.z[i] >= 3)
    m.cap = pyo.Constraint(expr=m.y[1] + m.y[2] <= 4)
    m.cost = pyo.Objective(
        expr=1.5 * sum(m.y.values()) + sum(m.price[i] * m.z[i] for i in (1, 2))
    )
    csg.annotate(m, first_stage_variables=m.y, uncertain_params=m.price)
    return m


def test_without_a_gradient_loss_nets_take_its_place():
    task = task_on(cost_only())

    found = candidates_of(task)

    names = {candidate.name for candidate in found}
    assert names == {*BASELINES, "mmd", *LOSS_NETS}
    assert all(len(one.fits) == 3 for one in found)
    assert all(len(one.bodies) == len(one.heads) == 3 for one in found[-5:])


def test_without_time_for_labels_there_are_no_loss_nets():
    found = candidates_of(task_on(cost_only()), labels=0)
    assert {one.name for one in found} == {*BASELINES, "mmd"}


def test_without_time_for_programs_nothing_is_trained_on_decision_costs():
    found = candidates_of(task_on(ZOO["newsvendor"]()), programs=0)
    assert {one.name for one in found} == {*BASELINES, "mmd"}
    assert [one.is_trained for one in found] == [False] * 3 + [True]


def test_a_location_and_a_scale_without_a_gradient_follow_loss_nets_too():
    task = task_on(ZOO["quadratic"]())
    head = LocationScaleHead(
        FunctionModule(lambda x: np.full((len(x), 2), 4.0)),
        FunctionModule(lambda x: np.ones((len(x), 2))),
        task.omega,
    )

    found = candidates_of(task, head)

    assert len(found) > 1
    assert all(one.heads == [head] * 3 for one in found)
    selection = learn_auto(task, plan_for(task), "constant", head).selection
    assert selection.chosen in [one.name for one in found]


def test_mmd_and_the_sample_average_are_always_among_the_candidates():
    panels = np.random.default_rng(0).normal(size=(24, 3, 2))
    for task, kind, trained in (
        (task_on(ZOO["newsvendor"]()), "mlp", {"trained atoms", "networks on atoms"}),
        (task_on(ZOO["integers"]()), "mlp", set()),
        (
            task_on(ZOO["newsvendor"](), contexts=panels),
            "lstm",
            {"constant", "location-scale"},
        ),
    ):
        names = [candidate.name for candidate in candidates_of(task, kind=kind)]
        assert {"mmd", *BASELINES, *trained} <= set(names)
        assert len(set(names)) == len(names)


@pytest.mark.parametrize("name", ["newsvendor", "integers"])
def test_few_rows_train_no_network_on_decision_costs(name, monkeypatch):
    monkeypatch.setattr(candidate_list, "FEW_ROWS", 25)
    found = [one.name for one in candidates_of(task_on(ZOO[name]()))]
    assert "trained atoms" in found and "direct" not in found


def test_a_network_that_the_user_chose_has_only_the_sample_average_beside_it():
    task = task_on(ZOO["newsvendor"]())
    plan = plan_for(task)
    made = Candidates(task, make_folds(task, plan.folds), plan, "linear")

    names = {one.name for one in made.each(chooses_network=False)}

    assert names == {"sample average", "mmd", "direct", "direct, near mmd", "constant"}


def test_a_fit_does_not_depend_on_the_rows_that_it_has_not_seen():
    task = task_on(ZOO["newsvendor"](), starts=2)
    folds = make_folds(task, 2)
    outcomes, held = task.history.outcomes.copy(), folds.held_out[0]
    # In another order Omega is the same.
    outcomes[held] = outcomes[held[::-1]]
    other = task_on(ZOO["newsvendor"](), outcomes, starts=2)

    pairs = zip(candidates_of(task), candidates_of(other), strict=True)
    for one, two in pairs:
        mine, theirs = (
            fit.scenarios(whose, held)[0]
            for fit, whose in ((one.fits[0], task), (two.fits[0], other))
        )
        if one.name != "mmd":  # held-out rows decide when its training stops
            assert mine == pytest.approx(theirs, abs=1e-9), one.name


def test_one_holdout_leaves_the_fit_to_all_rows_to_the_winner():
    outcomes = np.full((24, 1), 10.0)
    outcomes[-5:] = 20.0  # the last fifth, which is held out
    task = task_on(ZOO["newsvendor"](), outcomes)

    result = learn_auto(task, plan_for(task, folds=1, kinds=("empirical",)), "mlp")

    scenarios, _ = result.generator(task.history.contexts[:1])
    assert result.selection.chosen == "sample average"
    assert sorted(scenarios.ravel()) == pytest.approx([10.0, 20.0])


def test_a_candidate_is_fitted_to_all_rows_as_it_is_among_folds():
    task = task_on(ZOO["newsvendor"]())
    plan = plan_for(task, folds=1)
    folds = make_folds(task, 1)
    made = Candidates(task, folds.with_held_out, plan, "mlp")
    found = {one.name: one for one in made.each()}
    entries = len(task.log.entries)

    for name, candidate in found.items():
        fit = made.fit_to_all_rows(name)
        assert len(candidate.fits) == 1 and type(fit) is type(candidate.fits[0])
        scenarios, _ = fit.scenarios(task, folds.held_out[0])
        before, _ = candidate.fits[0].scenarios(task, folds.held_out[0])
        assert not np.array_equal(scenarios, before), name
    assert {*found} >= {*BASELINES, "mmd", "trained atoms", "direct"}
    stages = {entry["stage"] for entry in task.log.entries[entries:]}
    assert {"mmd", "atoms", "direct"} <= stages


class Recorder:
    """A fit that knows its rows, and refuses to be evaluated on them."""

    is_trained = False

    def __init__(self, rows, outcomes):
        self._seen, self.evaluated, self._outcomes = {*rows}, [], outcomes

    def scenarios(self, task, rows):
        assert not self._seen & {*rows}
        self.evaluated += [*rows]
        return np.repeat(self._outcomes[None, :2], len(rows), axis=0), None


@pytest.mark.parametrize(("count", "scored"), [(1, 24), (2, 24), (3, 10), (5, 24)])
def test_held_out_rows_are_only_evaluated_by_fits_that_have_not_seen_them(
    count, scored
):
    task = task_on(ZOO["newsvendor"]())
    folds = make_folds(task, count)
    board = Scoreboard(task, folds, scored)
    outcomes = task.history.outcomes
    fits = [Recorder(rows, outcomes) for rows in folds.rows]

    board.add(Candidate("recorded", fits))

    rows = sorted(row for fit in fits for row in fit.evaluated)
    assert len(set(rows)) == len(rows) and not fits[-1].evaluated
    assert len(rows) >= min(scored, sum(map(len, folds.held_out)))
    if scored == 24:
        assert rows == sorted(np.concatenate(folds.held_out))
    decision = task.oracle.solve(outcomes[:2]).decision
    expected = task.oracle.cost(np.tile(decision, (len(rows), 1)), outcomes[rows])
    assert board.costs("recorded") == pytest.approx(expected)
    assert board.means == {"recorded": pytest.approx(expected.mean())}
    assert np.isnan(board.costs("another")).all()


def test_the_chosen_candidate_is_no_worse_than_a_baseline_by_more_than_the_rule_allows():
    task = task_on(ZOO["newsvendor"]())
    selection = learn_auto(task, plan_for(task), "mlp").selection

    losses = {row.name: row.loss for row in selection.candidates}
    errors = {row.name: row.standard_error for row in selection.candidates}
    for name in BASELINES:
        allowed = 0.5 * errors[selection.candidates[0].name]
        assert losses[selection.chosen] <= losses[name] + allowed + 1e-12
    assert selection.plan["folds"] == 2


@pytest.mark.parametrize("name", ["newsvendor", "integers"])
def test_candidates_are_scored_by_the_observed_costs_of_their_decisions(name):
    task = task_on(ZOO[name]())
    plan = plan_for(task)
    folds = make_folds(task, plan.folds)
    board = Scoreboard(task, folds, plan.scored_rows)
    mmd = Candidates(task, folds, plan, "mlp").mmd()

    board.add(mmd)

    outcomes, oracle = task.history.outcomes, task.oracle
    expected = np.full(len(outcomes), np.nan)
    for fit, held in zip(mmd.fits[:-1], folds.held_out[:-1], strict=True):
        zetas, _ = task.generate_scenarios(fit.body, held)
        # Some have two optimal decisions, of which every fresh batch takes the same.
        decisions = oracle.solve(zetas, fresh=True).decision
        for row, decision in zip(held, decisions, strict=True):
            expected[row] = oracle.cost(decision, outcomes[[row]])[0]
    assert board.costs("mmd") == pytest.approx(expected, rel=1e-7)


class Decided:
    """A fit that always generates the same scenario."""

    is_trained = False

    def __init__(self, demand):
        self._demand = demand

    def scenarios(self, task, rows):
        return np.full((len(rows), 2, 1), self._demand), None


def test_of_candidates_that_cannot_be_separated_the_preferred_one_wins():
    rng = np.random.default_rng(0)
    task = task_on(ZOO["newsvendor"](), rng.gamma(3.0, 10.0, (24, 1)))
    board = Scoreboard(task, make_folds(task, 2), 24)
    best = float(np.quantile(task.history.outcomes, 0.05 / 0.95))  # the critical one
    for name, demand in [
        ("sample average", best),
        ("ridge residuals", best),
        ("stacked residuals", 10 * best),
        ("direct", best),
    ]:
        board.add(Candidate(name, [Decided(demand)] * 3))

    assert board.select()[0].name == "ridge residuals"  # fitted later than the average
    assert board.preferred(["direct", "sample average"]) == "sample average"
    assert board.preferred(["direct", "stacked residuals"]) == "direct"
    assert board.preferred(["mmd"]) is None
    board.add(Candidate("trained atoms", [Decided(best)] * 3))
    winner, selection = board.select()
    assert (winner.name, selection.chosen) == ("trained atoms", "trained atoms")


def test_atoms_are_trained_around_the_preferred_forecast():
    task = task_on(ZOO["newsvendor"]())
    plan = plan_for(task, kinds=("empirical", "ridge", "forest"))
    folds = make_folds(task, 2)
    made = Candidates(task, folds, plan, "mlp")
    made.has_distributions, made.board = True, Scoreboard(task, folds, 24)
    best = float(np.quantile(task.history.outcomes, 0.05 / 0.95))
    for name in ("forest residuals", "ridge residuals"):
        made.board.add(Candidate(name, [Decided(best)] * 3))

    assert made._best_residuals() == "ridge"


def test_only_atoms_around_a_users_forecast_are_trusted():
    task = task_on(ZOO["newsvendor"]())
    head = LocationScaleHead(
        FunctionModule(lambda x: np.full((len(x), 1), 14.0)),
        FunctionModule(lambda x: np.ones((len(x), 1))),
        task.omega,
    )
    plan = plan_for(task)
    folds = make_folds(task, plan.folds)
    assert Candidates(task, folds, plan, "mlp").trusted is None
    assert Candidates(task, folds, plan, "mlp", head).trusted == "location-scale"
    without = replace(plan, has_gradient=False)
    assert Candidates(task, folds, without, "mlp", head).trusted is None


def test_a_loss_net_that_won_is_examined():
    task = task_on(cost_only())
    found = candidates_of(task)

    fits = {one.name: one.fits[-1] for one in found if one.is_trained}

    assert fits["mmd"].loss_net_fit is None
    errors, _ = loss_net_errors(task, fits["Loss-Net 3"].loss_net_fit)
    assert errors["pairs"] == len(task.history)
    selection = learn_auto(task, plan_for(task), "mlp").selection
    assert (selection.loss_net_errors is not None) == selection.chosen.startswith(
        "Loss-Net"
    )


def opened():
    """Return a model with a binary decision whose other decision moves with demand."""
    m = pyo.ConcreteModel("opened")
    m.demand = pyo.Param(within=pyo.NonNegativeReals, mutable=True, initialize=5.0)
    m.open = pyo.Var(within=pyo.Binary)
    m.order = pyo.Var(bounds=(0, 40))
    m.sold = pyo.Var(within=pyo.NonNegativeReals)
    m.only = pyo.Constraint(expr=m.order <= 40 * m.open)
    m.stock = pyo.Constraint(expr=m.sold <= m.order)
    m.market = pyo.Constraint(expr=m.sold <= m.demand)
    m.profit = pyo.Objective(expr=3 * m.sold - m.order - 2 * m.open, sense=pyo.maximize)
    csg.annotate(m, first_stage_variables=[m.open, m.order], uncertain_params=m.demand)
    return m


def on_opened(**config):
    demands = np.random.default_rng(3).uniform(5, 15, (24, 1))
    return task_on(opened(), demands, **config)


@pytest.mark.parametrize("folds", [1, 2])
def test_integer_models_learn_with_one_scenario_first(folds):
    task = on_opened()
    found = {one.name: one for one in candidates_of(task, folds=folds)}

    stages = {entry["stage"] for entry in task.log.entries}
    assert {"one scenario, mmd", "one scenario, relaxed", "one scenario"} <= stages
    assert set(found) == {*BASELINES, "mmd", "trained atoms", "direct"}
    assert all(len(one.fits) == folds + 1 for one in found.values())
    shapes = {tuple(body.settings["shape"]) for body in found["direct"].bodies}
    assert shapes == {task.output_shape}


def test_only_training_on_integer_programs_has_a_gap(monkeypatch):
    task, gaps = on_opened(), {"solve": set(), "cost": set(), "loss_gradient": set()}
    plan = replace(plan_for(task), training_gap=0.005)

    def watch(method, call):
        def watched(*arguments, **options):
            gaps[method].add(options.get("mip_gap"))
            return call(*arguments, **options)

        return watched

    for method in gaps:
        watched = watch(method, getattr(task.oracle, method))
        monkeypatch.setattr(task.oracle, method, watched)
    folds = make_folds(task, plan.folds)
    candidates = Candidates(task, folds, plan, "mlp")
    candidates.board = board = Scoreboard(task, folds, plan.scored_rows)
    for candidate in candidates.each():
        board.add(candidate)
    assert gaps["loss_gradient"] == {0.005}
    assert gaps["solve"] == gaps["cost"] == {None}


def test_integer_models_take_a_module_of_the_users_own():
    task = on_opened()
    numbers = task.output_shape[0] * task.output_shape[1]
    own = nn.Sequential(
        nn.Linear(2, numbers), nn.Unflatten(-1, task.output_shape)
    ).double()
    plan = plan_for(task)
    made = Candidates(task, make_folds(task, plan.folds), plan, own)

    found = list(made.each(chooses_network=False))

    assert [one.name for one in found] == ["sample average", "mmd", "direct"]
    stages = {entry["stage"] for entry in task.log.entries}
    assert "direct, relaxed" in stages and "one scenario" not in stages


def test_integer_models_learn_weights_by_context():
    task = on_opened(weights="learned")
    found = {one.name: one for one in candidates_of(task)}
    rows = np.arange(len(task.history))
    for body in found["direct"].bodies:
        _, weights = task.generate_scenarios(body, rows)
        assert weights.std(axis=0).max() > 1e-6


@pytest.mark.parametrize(("folds", "stops"), [(1, False), (2, True)])
def test_what_is_held_out_once_does_not_stop_mmd_networks(folds, stops):
    task = task_on(ZOO["newsvendor"]())
    Candidates(task, make_folds(task, folds), plan_for(task, folds=folds), "mlp").mmd()
    assert any("best_epoch" in entry for entry in task.log.entries) == stops


def members(*demands):
    """Return a newsvendor's task, and a candidate of one scenario a part and on all rows."""
    model = ZOO["newsvendor"]()
    rng = np.random.default_rng(0)
    outcomes = rng.gamma(4.0, 3.0, (80, 1))
    history = History(rng.normal(size=(80, 2)), outcomes)
    task = Task(csg.Oracle(model), history, 1, FitConfig(), 0, TrainingLog(False))
    free = [task.omega.inverse(torch.tensor([[demand]])) for demand in demands]
    bodies = [constant_body(task, one, np.ones(1)) for one in free]
    heads = [task.head] * len(bodies)
    return task, network_candidate("constant", bodies, heads), 80


def test_the_network_on_all_rows_is_taken_where_it_is_no_worse_than_the_parts():
    assert choose_fold(*members(5.0, 6.0, 5.5)) == -1


def test_a_part_is_taken_where_the_network_on_all_rows_ended_elsewhere():
    assert choose_fold(*members(5.0, 6.0, 60.0)) in (0, 1)


def test_what_needs_no_training_has_no_better_fold():
    task, candidate, rows = members(5.0, 6.0, 60.0)

    class Untrained(NetworkFit):
        is_trained = False

    fits = [Untrained(fit.body, fit.head) for fit in candidate.fits]
    assert choose_fold(task, replace(candidate, fits=fits), rows) == -1


def test_a_report_says_that_a_part_was_taken(monkeypatch):
    monkeypatch.setattr(auto, "choose_fold", lambda task, winner, most: 0)
    shorten(monkeypatch.setattr)
    policy = csg.fit(
        ZOO["newsvendor"](),
        (np.zeros((30, 1)), np.random.default_rng(0).gamma(4.0, 3.0, (30, 1))),
        scenarios=1,
        config=QUICK,
        progress=False,
    )
    assert "which is used in its place" in policy.report()


@pytest.mark.parametrize(("signal", "competes"), [(0.0, True), (1.0, False)])
def test_the_sample_average_competes_where_the_context_does_not_pay(signal, competes):
    rng = np.random.default_rng(0)
    contexts = rng.normal(size=(200, 1))
    noise = rng.normal(size=(200, 1))
    demand = np.maximum(30 + 8 * (signal * contexts + (1 - signal) * noise), 0)
    task = task_on(ZOO["newsvendor"](), demand, contexts)
    folds = make_folds(task, 3)
    board = Scoreboard(task, folds, 200)
    board.add(Candidate("forecast", [Forecast(30 + 8 * signal * contexts)] * 4))

    assert board.sample_average_competes() is competes


class Forecast:
    """One scenario for each row."""

    is_trained = False

    def __init__(self, forecasts):
        self._forecasts = forecasts

    def scenarios(self, task, rows):
        return self._forecasts[rows][:, None], None
