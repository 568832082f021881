"""``distribution=`` of csg.fit: an object with sample(x, n), wherever outcomes are drawn.

The object is far from the observed outcomes on purpose, so that whatever came from these
would show. Expected answers are quantiles of what the object returns.
"""

import numpy as np
import pandas as pd
import pyomo.environ as pyo
import pytest
import torch

import pyomo_csg as csg
from tests.quick import fit

PRICE, COST = 5.0, 3.0
RATIO = (PRICE - COST) / PRICE  # the best order is this quantile of the demand


class Uniform:
    """Demand uniform on [100 + 50 x, 140 + 50 x], in even steps."""

    def __init__(self, size=None, shift=0.0):
        self.size, self.shift, self.calls = size, shift, 0

    def sample(self, x, n):
        self.calls += 1
        n = self.size or n
        return (self.shift + 100 + 50 * x[0] + 40 * (np.arange(n) + 0.5) / n)[:, None]


class Normal:
    """Normal demand around 120, whatever the context."""

    def sample(self, x, n):
        return np.random.default_rng(0).normal(120, 5, (n, 1))


def shop():
    """Return a newsvendor whose optimum is a quantile."""
    m = pyo.ConcreteModel("shop")
    m.demand = pyo.Param(initialize=10, mutable=True, within=pyo.NonNegativeReals)
    m.order = pyo.Var(bounds=(0, 500))
    m.sold = pyo.Var(bounds=(0, None))
    m.most = pyo.Constraint(expr=m.sold <= m.order)
    m.demanded = pyo.Constraint(expr=m.sold <= m.demand)
    m.cost = pyo.Objective(expr=COST * m.order - PRICE * m.sold)
    csg.annotate(m, first_stage_variables=[m.order], uncertain_params=[m.demand])
    return m


@pytest.fixture(scope="module")
def observed():
    """Return contexts, and demands near 20, far from what the objects return."""
    rng = np.random.default_rng(0)
    return rng.uniform(0, 1, (40, 1)), rng.uniform(10, 30, (40, 1))


def quantile(x, share=RATIO):
    return 100 + 50 * x + 40 * share


def test_decisions_are_on_all_of_its_outcomes(observed):
    policy = fit(observed, shop(), scenarios="all", distribution=Uniform())
    for x in (0.0, 0.3, 1.0):
        (order,) = policy.decide([x]).vector
        assert order == pytest.approx(quantile(x), abs=0.21)  # steps of 0.2
        assert len(policy.scenarios([x])) == 200


def test_an_ensemble_may_have_its_own_number_of_members(observed):
    for size in (3, 1000):
        policy = fit(
            observed, shop(), scenarios="all", distribution=Uniform(size), seed=1
        )
        assert len(policy.scenarios([0.5])) == size
        (order,) = policy.decide([0.5]).vector
        assert order == pytest.approx(quantile(0.5), abs=40 / size)


def test_reduced_to_k_it_is_a_candidate(observed):
    method = csg.methods.Auto(["distribution", "sample average"])
    policy = fit(
        observed, shop(), scenarios=4, method=method, distribution=Uniform(), seed=1
    )
    assert policy.learned.summary["chosen"] == "distribution"
    # Four even parts of the range, whose means are the best for the mean distance.
    found = np.sort(policy.scenarios([0.5]).ravel())
    assert found == pytest.approx([130, 140, 150, 160], abs=1.0)
    costs = {c["name"]: c["loss"] for c in policy.learned.summary["candidates"]}
    # Both are evaluated on its draws: orders of the history's demands sell out.
    assert costs["sample average"] > -70 > costs["distribution"]


def test_of_candidates_that_are_as_good_it_is_preferred(observed):
    history, mine = (observed[0], np.full((40, 1), 20.0)), Returns([[20.0]])
    method = csg.methods.Auto(["distribution", "sample average"])
    policy = fit(history, shop(), scenarios=4, method=method, distribution=mine)
    costs = {c["loss"] for c in policy.learned.summary["candidates"]}
    assert costs == {20 * (COST - PRICE)}
    assert policy.learned.summary["chosen"] == "distribution"


def test_mmd_is_to_its_draws(observed):
    policy = fit(
        observed,
        shop(),
        scenarios=1,
        method="mmd",
        network="constant",
        distribution=Normal(),
        config={"mmd_epochs": 120, "mmd_rate": 2e-2},
    )
    # One scenario at the spatial median; observed demands are near 20.
    median = np.median(Normal().sample([0.0], 200))
    assert policy.scenarios([0.5]).item() == pytest.approx(median, abs=1.0)


def test_direct_trains_on_its_draws(observed):
    config = {"mmd_epochs": 60, "mmd_rate": 2e-2, "task_epochs": 60, "task_rate": 2e-2}
    policy = fit(
        observed,
        shop(),
        scenarios=1,
        method="direct",
        network="constant",
        distribution=Normal(),
        config={**config, "noise": 0.05},
    )
    wanted = np.quantile(Normal().sample([0.0], 200), RATIO)
    assert policy.scenarios([0.5]).item() == pytest.approx(wanted, abs=1.0)


@pytest.mark.parametrize("method", ["static", "dynamic"])
def test_labels_are_on_its_draws(observed, method, monkeypatch):
    from pyomo_csg.learn.methods import labels

    asked = []
    label = labels.label_losses

    def record(task, stage, scenarios, outcomes, *rest, **options):
        asked.append(outcomes)
        return label(task, stage, scenarios, outcomes, *rest, **options)

    monkeypatch.setattr(labels, "label_losses", record)
    fit(observed, shop(), method=method, distribution=Uniform())
    everything = np.concatenate(asked)
    assert everything.min() >= 100 and everything.max() <= 190
    assert len(np.unique(everything)) > 100


def test_perturbed_and_own_methods_see_its_draws(observed):
    seen = []

    class Own:
        name = "own"

        def train(self, task):
            rows = np.arange(5)
            seen.append(task.draw(rows, 7).numpy())
            scenarios = torch.full((5, 2, 1), 50.0, dtype=torch.float64)
            seen.append(task.task_losses(scenarios, None, rows).numpy())
            seen.append(task.costs(scenarios, None, rows))
            return task.mmd_network()

    fit(observed, shop(), method=Own(), distribution=Uniform())
    draws, losses, costs = seen[:3]
    assert draws.shape == (5, 7, 1) and draws.min() >= 100
    # 50 sell out under every draw, and under no observed demand.
    assert losses == pytest.approx((COST - PRICE) * 50)
    assert costs == pytest.approx((COST - PRICE) * 50)
    method = csg.methods.Perturbed(samples=2)
    assert fit(observed, shop(), method=method, distribution=Uniform()).count == 2


def test_each_context_of_the_history_is_sampled_once(observed):
    mine = Uniform()
    fit(observed, shop(), distribution=mine)
    assert mine.calls == len(observed[0])


def test_a_number_of_scenarios_is_chosen_on_its_draws(observed):
    policy = fit(observed, shop(), scenarios="auto", distribution=Uniform())
    assert policy.learned.summary["scenarios_tried"][0]["loss"] < -200


def test_costs_in_reports_are_said_to_be_under_it(observed):
    policy = fit(observed, shop(), method="mmd", distribution=Uniform())
    assert "Warning: the observed outcomes fit your distribution worse" in (
        policy.report()
    )
    contexts = observed[0]
    rng = np.random.default_rng(1)
    happened = 100 + 50 * contexts + 40 * rng.uniform(size=contexts.shape)
    fitting = fit((contexts, happened), shop(), method="mmd", distribution=Uniform())
    assert "those under your distribution, not" in fitting.report()
    assert "Warning" not in fitting.report()


def test_a_file_needs_the_object_again_only_where_the_policy_samples_it(
    observed, tmp_path
):
    path, mine = tmp_path / "shop.csg", Uniform()
    policy = fit(observed, shop(), scenarios="all", distribution=mine)
    policy.save(path)
    with pytest.raises(csg.DataError, match=r"give distribution=, an object"):
        csg.load(path, shop())
    with pytest.raises(csg.DataError, match="sample"):
        csg.load(path, shop(), distribution=3)
    again = csg.load(path, shop(), distribution=Uniform())
    assert again.decide([0.5]).vector == pytest.approx(policy.decide([0.5]).vector)
    shifted = csg.load(path, shop(), distribution=Uniform(shift=10))
    assert shifted.decide([0.5]).vector == pytest.approx(
        policy.decide([0.5]).vector + 10
    )

    trained = fit(observed, shop(), method="mmd", distribution=mine)
    trained.save(path)
    again = csg.load(path, shop())
    assert (again.scenarios([0.5]) == trained.scenarios([0.5])).all()
    with pytest.raises(csg.DataError, match="leave out distribution="):
        csg.load(path, shop(), distribution=mine)


def test_reduced_policies_are_saved_updated_and_pickled(observed, tmp_path):
    import pickle

    method = csg.methods.Auto(["distribution"])
    policy = fit(observed, shop(), method=method, distribution=Uniform())
    policy.save(tmp_path / "shop.csg")
    loaded = csg.load(tmp_path / "shop.csg", shop(), distribution=Uniform())
    others = [
        loaded,
        pickle.loads(pickle.dumps(policy)),
        policy.update((observed[0][:5], observed[1][:5])),
    ]
    for other in others:
        assert (other.scenarios([0.5]) == policy.scenarios([0.5])).all()


def test_networks_of_integer_models_are_trained_on_its_draws(observed):
    model = shop()
    model.order.domain = pyo.Integers
    method = csg.methods.Auto(["direct"])
    policy = fit(observed, model, scenarios=2, method=method, distribution=Uniform())
    assert policy.learned.summary["chosen"] == "direct"
    assert policy.scenarios([0.5]).min() > 60  # observed demands are at most 30


class Returns:
    """Returns one value always."""

    def __init__(self, value):
        self.value = value

    def sample(self, x, n):
        if isinstance(self.value, Exception):
            raise self.value
        return self.value


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (np.ones((3, 2)), r"gave shape \(3, 2\); return \(200, 1\)"),
        (np.ones(3), r"gave shape \(3,\)"),
        (np.ones((0, 1)), r"gave shape \(0, 1\)"),
        (np.array([[1.0], [np.nan]]), "gave nan in row 1 for 'demand'"),
        (np.array([[1.0], [-2.0]]), "gave -2 in row 1 .* domain NonNegativeReals"),
        ([["a"]], "sample"),
        (KeyError("day 7"), "gave an error .KeyError: 'day 7'"),
    ],
)
def test_what_it_returns_is_checked(observed, value, said):
    with pytest.raises(csg.DataError, match=said):
        fit(observed, shop(), distribution=Returns(value))


def test_what_a_param_refuses_by_validate_is_found_on_the_history(observed):
    model = shop()
    model.del_component(model.demanded)
    model.whole = pyo.Param(
        initialize=10, mutable=True, within=pyo.Reals, validate=lambda m, v: v < 31
    )
    model.demanded = pyo.Constraint(expr=model.sold <= model.whole)
    csg.annotate(
        model, first_stage_variables=[model.order], uncertain_params=[model.whole]
    )
    contexts, demands = observed
    history = contexts, demands
    for value, works in ((20.0, True), (32.5, False)):
        mine = Returns(np.full((4, 1), value))
        if works:
            policy = fit(history, model, scenarios="all", distribution=mine)
            assert policy.decide([0.5]).vector == pytest.approx([20])
        else:
            with pytest.raises(csg.DataError, match="context 0: .*32.5"):
                fit(history, model, scenarios="all", distribution=mine)


def test_a_policy_samples_contexts_that_the_fit_has_not_seen(observed):
    """The fit's copy of the model is gone by then."""
    import gc

    policy = fit(observed, shop(), scenarios="all", distribution=Uniform())
    gc.collect()
    csg.evaluate({"all": policy}, observed, progress=False)
    assert policy.decide([0.123]).vector == pytest.approx([quantile(0.123)], abs=0.21)


def test_it_is_checked_when_deciding_too(observed):
    mine = Returns(np.full((4, 1), 20.0))
    policy = fit(observed, shop(), scenarios="all", distribution=mine)
    mine.value = np.full((4, 1), -20.0)
    with pytest.raises(csg.DataError, match="for context 0 gave -20"):
        policy.decide([0.123])


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (Uniform, r"is the class Uniform; give an object of it, such as Uniform\(\)"),
        (3, r"is a int, which has no method sample\(x, n\)"),
    ],
)
def test_what_it_is_is_checked(observed, value, said):
    with pytest.raises(csg.DataError, match=said):
        fit(observed, shop(), distribution=value)


def test_a_location_and_scale_is_another_distribution(observed):
    with pytest.raises(csg.DataError, match="give network or distribution"):
        fit(observed, shop(), network="location-scale", distribution=Uniform())


def test_it_gets_the_numbers_of_a_table(observed):
    contexts, demands = observed
    table = pd.DataFrame(
        {"warm": np.where(contexts[:, 0] > 0.5, "yes", "no"), "demand": demands[:, 0]}
    )
    seen = []

    class Own:
        def sample(self, x, n):
            seen.append(x)
            return np.full((n, 1), 5.0)

    policy = fit(table, shop(), scenarios="all", distribution=Own())
    assert {x.shape for x in seen} == {(len(policy.context_names),)}
    assert policy.decide({"warm": "yes"}).vector == pytest.approx([5.0])
