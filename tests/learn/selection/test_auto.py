"""The candidates of each kind of model, and their comparison."""

import numpy as np
import pyomo.environ as pyo
import pytest
import torch
from scipy.stats import ttest_rel
from torch import nn

import pyomo_csg as csg
from pyomo_csg.learn.config import FitConfig
from pyomo_csg.learn.history import History
from pyomo_csg.learn.methods.surrogate_diagnostics import loss_net_trust
from pyomo_csg.learn.networks.initialization import constant_body
from pyomo_csg.learn.networks.task_nets import FunctionModule, LocationScaleHead
from pyomo_csg.learn.progress import TrainingLog
from pyomo_csg.learn.selection import auto, scoring, starting_points
from pyomo_csg.learn.selection import candidates as module
from pyomo_csg.learn.selection.auto import choose_fold, learn_auto
from pyomo_csg.learn.selection.candidates import Candidate, Candidates, FoldFit
from pyomo_csg.learn.selection.folds import make_folds
from pyomo_csg.learn.selection.scoring import compare_candidates
from pyomo_csg.learn.task import Task
from tests.quick import QUICK, portfolio
from tests.zoo import ZOO, scenarios

NAN = float("nan")


def test_the_best_is_told_with_its_margin_and_confidence():
    losses = np.array(
        [[3.0, 2.0, 4.0, 3.0], [1.0, 2.0, 2.0, 1.0], [2.0, 2.0, 2.0, 2.0]]
    )

    found = compare_candidates(["a", "b", "c"], losses)

    # c - b is 1, 0, 0, 1: a mean of 1/2, a deviation of 1/2, an error of 1/4.
    assert found.chosen == "b"
    assert found.margin == pytest.approx(0.5)
    assert found.confidence == pytest.approx(0.97725, abs=1e-5)
    assert found.pairs_judged == 4
    assert [row.name for row in found.candidates] == ["b", "c", "a"]
    assert [row.loss for row in found.candidates] == [1.5, 2.0, 3.0]
    assert [row.standard_error for row in found.candidates] == pytest.approx(
        [0, 0.25, np.sqrt(0.75) / 2]
    )


def test_confidence_is_that_of_a_paired_test_on_many_pairs():
    rng = np.random.default_rng(0)
    shared = rng.normal(0, 10, 400)
    losses = np.stack([shared + 0.1, shared]) + rng.normal(0, 1, (2, 400))

    found = compare_candidates(["worse", "better"], losses)

    p = ttest_rel(losses[0], losses[1], alternative="greater").pvalue
    assert found.confidence == pytest.approx(1 - p, abs=0.01)


def test_no_decision_counts_as_the_worst_cost_of_all():
    losses = np.array([[0.0, NAN, 0.0, 0.0], [1.0, 1.0, 1.0, 8.0]])

    found = compare_candidates(["hasty", "sound"], losses)

    rows = {row.name: row for row in found.candidates}
    assert rows["hasty"].loss == 2.0
    assert rows["hasty"].unsolved == 1
    assert rows["sound"].unsolved == 0
    assert found.chosen == "hasty"
    shorter = compare_candidates(["hasty", "sound"], losses[:, :3])
    assert shorter.margin == pytest.approx(2 / 3)


def test_of_two_that_are_just_as_good_the_first_is_taken():
    losses = np.array([[1.0, 2.0], [1.0, 2.0], [3.0, 3.0]])

    found = compare_candidates(["a", "b", "c"], losses)

    assert (found.chosen, found.margin, found.confidence) == ("a", 0.0, 0.5)


def test_one_that_is_always_better_by_as_much_is_surely_better():
    assert (
        compare_candidates(["a", "b"], np.array([[1.0, 2.0], [0.0, 1.0]])).confidence
        == 1.0
    )
    assert compare_candidates(["a", "b"], np.array([[1.0], [0.0]])).confidence == 0.5


def test_a_lone_candidate_is_the_best():
    found = compare_candidates(["a"], np.array([[1.0, 2.0]]))
    assert (found.chosen, found.margin, found.confidence) == ("a", 0.0, 0.5)


def test_no_cost_at_all_is_an_error():
    with pytest.raises(csg.DataError, match="give the model complete recourse"):
        compare_candidates(["a", "b"], np.full((2, 3), NAN))


@pytest.fixture(autouse=True)
def few_steps(monkeypatch):
    for name in ("_CONSTANT_STEPS", "_ATOM_STEPS", "_INTEGER_STEPS", "_ONE_STEPS"):
        monkeypatch.setattr(module, name, 2, raising=False)
    for name in ("_CONSTANT_DRAWS", "_ATOM_DRAWS"):
        monkeypatch.setattr(module, name, 2)
    monkeypatch.setattr(scoring, "_DRAWS", 2)
    monkeypatch.setattr(starting_points, "_SETS", 4)


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


def candidates_of(task, head=None, kind="mlp"):
    return list(Candidates(task, make_folds(task), kind, head).train_each())


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

    names = [candidate.name for candidate in found]
    assert {"mmd", "constant", "Loss-Net 0.03", "Loss-Net 30"} <= set(names)
    assert not any("direct" in name for name in names)
    assert all(len(one.bodies) == len(one.heads) == 3 for one in found)


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
    selection = learn_auto(task, "constant", head).selection
    assert selection.chosen in [one.name for one in found]


def test_mmd_and_a_constant_are_always_among_the_candidates():
    panels = np.random.default_rng(0).normal(size=(24, 3, 2))
    for task, kind in (
        (task_on(ZOO["newsvendor"]()), "mlp"),
        (task_on(ZOO["integers"]()), "mlp"),
        (task_on(ZOO["newsvendor"](), contexts=panels), "lstm"),
    ):
        names = [candidate.name for candidate in candidates_of(task, kind=kind)]
        assert {"mmd", "constant"} <= set(names)
        assert len(set(names)) == len(names) > 2


def test_a_part_is_what_it_is_without_the_rows_that_it_has_not_seen():
    task = task_on(ZOO["newsvendor"](), starts=2)
    folds = make_folds(task)
    outcomes = task.history.outcomes.copy()
    held = folds.held_out[0]
    outcomes[held] = outcomes[held[::-1]]
    other = task_on(ZOO["newsvendor"](), outcomes, starts=2)

    # The same outcomes in another order among the rows held out: Omega is the same.
    for one, two in zip(candidates_of(task), candidates_of(other), strict=True):
        mine, theirs = (
            np.concatenate([p.detach().numpy().ravel() for p in body.parameters()])
            for body in (one.bodies[0], two.bodies[0])
        )
        if "mmd" not in one.name:  # held-out rows say when that is to stop
            assert mine == pytest.approx(theirs, abs=1e-12)


@pytest.mark.parametrize(("lead", "chosen"), [(0.1, "trusted"), (2.0, "other")])
def test_a_trusted_candidate_gives_way_to_what_is_clearly_better(lead, chosen):
    noise = np.array([-1.0, 1.0, -1.0, 1.0])  # its standard error is 0.5
    losses = np.stack([5 + noise, np.full(4, 5 - lead)])

    found = compare_candidates(["trusted", "other"], losses, trusted="trusted")

    assert found.chosen == chosen
    assert found.margin == pytest.approx(lead if chosen == "other" else -lead)
    assert (found.confidence > 0.5) == (chosen == "other")


def test_integer_models_are_judged_by_what_a_forest_finds_likely():
    task = task_on(ZOO["integers"]())
    folds = make_folds(task)
    ((part, held), *_) = zip(folds.rows, folds.held_out, strict=True)
    found = Candidates(task, folds, "mlp")
    mmd, (judge, *others) = found.mmd(), found.scoring_samplers()

    drawn = judge.draw(held, 40, np.random.default_rng(0))
    selection = learn_auto(task, "mlp").selection

    # Only outcomes that the judged have learned from; none for its own row's sake.
    seen = {tuple(outcome) for outcome in task.history.outcomes[part]}
    assert {tuple(outcome) for outcome in drawn.reshape(-1, drawn.shape[2])} <= seen
    assert selection.pairs_judged == len(task.history)
    by_hand = scoring.expected_costs(task, mmd.bodies[0], held, judge)
    other = scoring.expected_costs(task, mmd.bodies[1], folds.held_out[1], others[0])
    told = {row.name: row.loss for row in selection.candidates}
    assert told["mmd"] == pytest.approx(np.mean([*by_hand, *other]))
    outcomes = judge.draw(held, scoring._DRAWS, task.rng("expected losses"))
    decisions = scoring.decide_on_rows(task, mmd.bodies[0], held)
    costs = [
        task.oracle.cost(np.tile(y, (len(omegas), 1)), omegas, progress=False).mean()
        for y, omegas in zip(decisions, outcomes, strict=True)
    ]
    assert by_hand == pytest.approx(np.array(costs), rel=1e-9)


@pytest.mark.parametrize(
    ("rows", "trusted"), [("series", "constant"), ("independent", None)]
)
def test_in_a_series_constant_scenarios_are_trusted(rows, trusted):
    task = task_on(ZOO["newsvendor"](), rows=rows)
    assert Candidates(task, make_folds(task), "mlp").trusted == trusted


def test_of_integer_models_networks_on_the_task_loss_are_trusted():
    returns = np.random.default_rng(1).normal(0.0, 0.01, size=(24, 4))
    task = task_on(portfolio(), returns)
    assert Candidates(task, make_folds(task), "mlp").trusted == "direct"


def test_a_trusted_candidate_that_was_not_trained_in_time_is_not_missed():
    found = compare_candidates(["mmd"], np.ones((1, 4)), trusted="direct")
    assert found.chosen == "mmd"


def test_a_loss_net_that_won_is_examined():
    task = task_on(cost_only())
    folds = make_folds(task)
    found = list(Candidates(task, folds, "mlp").train_each())

    fits = {one.name: one.fits[-1].loss_net_fit for one in found}

    assert fits["mmd"] is fits["constant"] is None
    trust = loss_net_trust(task, fits["Loss-Net 3"])
    assert trust["trust"]["pairs"] == len(task.history)
    selection = learn_auto(task, "mlp").selection
    assert (selection.trust is not None) == selection.chosen.startswith("Loss-Net")


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


@pytest.mark.parametrize(("folds", "parts"), [(None, 1), (2, 2)])
def test_integer_models_learn_with_one_scenario_first(folds, parts):
    task = on_opened(folds=folds)
    found = {one.name: one for one in candidates_of(task)}

    stages = {entry["stage"] for entry in task.log.entries}
    assert {"one scenario, mmd", "one scenario, relaxed", "one scenario"} <= stages
    assert set(found) == {"mmd", "constant", "direct"}
    assert all(len(one.bodies) == parts + 1 for one in found.values())
    shapes = {body.settings["shape"] for body in found["direct"].bodies}
    assert shapes == {task.output_shape}


def test_integer_models_take_a_module_of_the_users_own():
    task = on_opened()
    numbers = task.output_shape[0] * task.output_shape[1]
    own = nn.Sequential(
        nn.Linear(2, numbers), nn.Unflatten(-1, task.output_shape)
    ).double()

    found = candidates_of(task, kind=own)

    assert [one.name for one in found] == ["mmd", "constant", "direct"]
    stages = {entry["stage"] for entry in task.log.entries}
    assert "direct, relaxed" in stages and "one scenario" not in stages


def test_integer_models_learn_weights_by_context():
    task = on_opened(weights="learned")
    found = {one.name: one for one in candidates_of(task)}
    rows = np.arange(len(task.history))
    for body in found["direct"].bodies:
        _, weights = task.generate_scenarios(body, rows)
        assert weights.std(axis=0).max() > 1e-6


@pytest.mark.parametrize(
    ("make", "stops"),
    [
        (lambda: on_opened(folds=None), False),
        (on_opened, True),
        (lambda: task_on(ZOO["newsvendor"]()), True),
    ],
)
def test_what_is_held_out_once_does_not_stop_mmd_networks(make, stops):
    task = make()
    Candidates(task, make_folds(task), "mlp").mmd()
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
    return task, Candidate("constant", [FoldFit(body, task.head) for body in bodies])


def test_the_network_on_all_rows_is_taken_where_it_is_no_worse_than_the_parts():
    assert choose_fold(*members(5.0, 6.0, 5.5)) == -1


def test_a_part_is_taken_where_the_network_on_all_rows_ended_elsewhere():
    assert choose_fold(*members(5.0, 6.0, 60.0)) in (0, 1)


def test_a_report_says_that_a_part_was_taken(monkeypatch):
    monkeypatch.setattr(auto, "choose_fold", lambda task, winner: 0)
    policy = csg.fit(
        ZOO["newsvendor"](),
        (np.zeros((30, 1)), np.random.default_rng(0).gamma(4.0, 3.0, (30, 1))),
        scenarios=1,
        config=QUICK,
        progress=False,
    )
    assert "which is used in its place" in policy.report()
