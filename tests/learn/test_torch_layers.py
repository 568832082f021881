"""TaskLoss and DecisionLayer against finite differences, the oracle and each other."""

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck

import pyomo_csg as csg
from models import cep1, newsvendor
from pyomo_csg.learn import torch_layers
from tests.solve.test_gradient import pairs
from tests.solve.test_mean_losses import band_model
from tests.zoo import ZOO

# An LP with uncertain right-hand sides, one with uncertain coefficients, a QP.
SMOOTH = [
    "newsvendor",
    "cep1",
    "farmer",
    "nonlinear_data",
    "from_abstract",
    "quadratic",
]
STEPS = {"eps": 1e-5, "atol": 1e-4, "rtol": 1e-3}


@pytest.fixture(params=SMOOTH)
def smooth(request):
    """Return an oracle, and scenarios and outcomes where its loss is smooth."""
    model = ZOO[request.param]()
    oracle = csg.Oracle(model)
    zetas, omegas, _ = pairs(model, count=40)
    found = oracle.loss_gradient(zetas, omegas)
    cases = np.flatnonzero(found.smooth)[:3]
    assert len(cases) == 3
    return oracle, leaf(zetas[cases]), torch.as_tensor(omegas[cases])


def leaf(values, dtype=torch.float64):
    return torch.tensor(np.asarray(values), dtype=dtype, requires_grad=True)


def cases(count=4):
    """Return scenarios (count, 5, 3) and outcomes (count, 6, 3) of CEP1."""
    rng = np.random.default_rng(0)
    zetas = rng.uniform(300, 3000, (count, 5, 3))
    return leaf(zetas), torch.tensor(rng.uniform(300, 3000, (count, 6, 3)))


def test_losses_pass_gradcheck(smooth):
    oracle, zetas, omegas = smooth
    assert gradcheck(csg.TaskLoss(oracle), (zetas, omegas), **STEPS)


def test_decisions_pass_gradcheck(smooth):
    oracle, zetas, _ = smooth
    assert gradcheck(csg.DecisionLayer(oracle), (zetas,), **STEPS)


def test_a_jacobian_too_large_to_store_is_solved_for_again(smooth, monkeypatch):
    oracle, zetas, _ = smooth
    monkeypatch.setattr(torch_layers, "_MOST_ENTRIES", 0)
    assert gradcheck(csg.DecisionLayer(oracle), (zetas,), **STEPS)


@pytest.mark.parametrize("name", ["cep1", "integers", "quadratic"])
def test_a_batch_gives_what_single_cases_give(name):
    model = ZOO[name]()
    zetas, omegas, _ = pairs(model, count=5)
    zetas, omegas = leaf(zetas), torch.as_tensor(omegas)
    task_loss, decide = csg.TaskLoss(model), csg.DecisionLayer(model)

    together = task_loss(zetas, omegas)
    (slopes,) = torch.autograd.grad(together.sum(), zetas)
    for i in range(5):
        one = task_loss(zetas[i : i + 1], omegas[i : i + 1])
        (slope,) = torch.autograd.grad(one.sum(), zetas)
        assert one.item() == pytest.approx(together[i].item())
        assert torch.allclose(slope[i], slopes[i])
        decision = decide(zetas[i : i + 1])
        assert torch.allclose(decision[0], decide(zetas)[i], atol=1e-9)


def test_losses_are_the_oracles_with_weights_of_scenarios_and_outcomes():
    zetas, omegas = cases()
    rng = np.random.default_rng(1)
    weights, shares = rng.dirichlet(np.ones(5), 4), rng.dirichlet(np.ones(6), 4)
    oracle = csg.Oracle(cep1.build())
    losses = csg.TaskLoss(oracle)(
        zetas, omegas, torch.tensor(weights), torch.tensor(shares)
    )
    losses.sum().backward()
    found = oracle.loss_gradient(
        zetas.detach().numpy(),
        omegas.numpy(),
        weights=weights,
        outcome_weights=shares,
        fresh=True,
    )
    assert losses.detach().numpy() == pytest.approx(found.loss)
    assert zetas.grad.numpy() == pytest.approx(found.gradient)


def test_weights_of_the_module_serve_every_call():
    zetas, omegas = cases()
    weights = [0.4, 0.3, 0.2, 0.1, 0.0]
    of_module = csg.TaskLoss(cep1.build(), weights=weights)(zetas, omegas)
    of_call = csg.TaskLoss(cep1.build())(zetas, omegas, torch.tensor(weights))
    assert of_module.detach().numpy() == pytest.approx(of_call.detach().numpy())


@pytest.mark.parametrize("kind", ["optimistic", "pessimistic"])
def test_other_kinds_are_weighted_means_of_the_oracles_losses(kind):
    zetas, omegas = cases(2)
    shares = np.array([0.5, 0.1, 0.1, 0.1, 0.2, 0.0])
    oracle = csg.Oracle(cep1.build())
    losses = csg.TaskLoss(oracle, kind)(zetas, omegas, outcome_weights=shares)
    expected = [
        oracle.loss(zetas.detach().numpy(), omegas[:, m].numpy(), kind)
        for m in range(6)
    ]
    assert losses.detach().numpy() == pytest.approx(shares @ expected)
    losses.sum().backward()
    assert torch.isfinite(zetas.grad).all()


def test_a_function_of_decisions_and_costs_passes_gradcheck(smooth):
    """Its gradient goes through decisions, costs and what it computes of them."""
    oracle, zetas, omegas = smooth
    solution = oracle.solve(zetas.detach().numpy())
    scale = float(np.abs(solution.value).max()) + 1
    size = 1 + float((solution.decision**2).sum(axis=1).max())

    def loss(decisions, outcomes, costs):
        return torch.exp(costs / scale) + (decisions**2).sum(-1) / size + outcomes[:, 0]

    many = torch.stack([omegas, omegas.flip(0)], dim=1)
    task_loss = csg.TaskLoss(oracle, loss, regret=True)
    single = task_loss(zetas, omegas).detach()
    costs = oracle.loss(zetas.detach().numpy(), omegas.numpy(), "recourse")
    least = int(oracle.two_stage.sense) * oracle.solve(omegas.numpy()[:, None]).value
    decisions = torch.as_tensor(oracle.solve(zetas.detach().numpy()).decision)
    wanted = loss(decisions, omegas, torch.as_tensor(costs - least))
    assert single.numpy() == pytest.approx(wanted.numpy(), rel=1e-6)
    assert gradcheck(csg.TaskLoss(oracle, loss), (zetas, omegas), **STEPS)
    shares = torch.tensor([0.25, 0.75])
    weighted = csg.TaskLoss(oracle, loss)
    found = weighted(zetas, many, outcome_weights=shares)
    parts = [weighted(zetas, many[:, m]) for m in range(2)]
    assert found.tolist() == pytest.approx((parts[0] / 4 + 3 * parts[1] / 4).tolist())


@pytest.mark.parametrize("kind", ["recourse", "optimistic", "pessimistic"])
def test_regrets_are_losses_above_the_cost_of_the_known_outcome(kind):
    zetas, omegas = cases(3)
    oracle = csg.Oracle(cep1.build())
    losses, regrets = (
        csg.TaskLoss(oracle, kind, regret=regret)(zetas, omegas)
        for regret in (False, True)
    )
    least = oracle.solve(omegas.numpy().reshape(-1, 1, 3)).value.reshape(3, 6)
    assert regrets.tolist() == pytest.approx(
        (losses.detach().numpy() - least.mean(axis=1)).tolist()
    )
    slopes = [torch.autograd.grad(x.sum(), zetas)[0] for x in (losses, regrets)]
    assert torch.equal(*slopes)


def test_the_optimistic_loss_of_several_outcomes_is_of_one_decision():
    model = band_model("linear")
    zetas = torch.tensor([[[7.0], [8.0]]], dtype=torch.float64, requires_grad=True)
    omegas = torch.tensor([[[2.0], [13.0]]], dtype=torch.float64)
    task_loss = csg.TaskLoss(model, "optimistic")
    together = task_loss(zetas, omegas).item()
    apart = [task_loss(zetas, omegas[:, m]).item() for m in range(2)]
    # Levels from 6 to 9 are optimal; 9 costs 5 and 4, 6 costs 2 and 10.
    assert together == pytest.approx((5 + 4) / 2)
    assert apart == pytest.approx([2.0, 4.0])


def test_a_function_of_unsolved_programs_is_not_called():
    zetas = leaf(SOLVABLE_AND_NOT)
    seen = []

    def loss(decisions, outcomes, costs):
        seen.append(len(costs))
        return costs + decisions.sum(-1)

    task_loss = csg.TaskLoss(strict(), loss, on_error="record")
    losses = task_loss(zetas, torch.full((2, 3), 900.0))
    losses.nansum().backward()
    assert seen == [1]
    assert torch.isnan(losses).tolist() == [False, True]
    assert (zetas.grad[0] != 0).any() and (zetas.grad[1] == 0).all()


def test_integer_variables_have_no_gradient():
    model = ZOO["integers"]()
    zetas, _, _ = pairs(model, count=3)
    scenarios = leaf(zetas)
    csg.DecisionLayer(model)(scenarios).sum().backward()
    assert (scenarios.grad == 0).all()


def test_the_layer_is_the_oracles_solve_without_gradients():
    zetas, _ = cases()
    decide = csg.DecisionLayer(cep1.build())
    with torch.no_grad():
        found = decide(zetas)
    expected = decide.oracle.solve(zetas.detach().numpy(), fresh=True).decision
    assert not found.requires_grad
    assert (found.numpy() == expected).all()
    assert decide.smooth is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_other_precisions_are_kept(dtype):
    zetas = leaf([[[10.0], [12.0]], [[14.0], [9.0]]], dtype)
    weights = torch.softmax(torch.tensor([[0.1, 0.2], [0.3, 0.1]], dtype=dtype), dim=1)
    outcomes = torch.tensor([[11.0], [12.0]], dtype=dtype)
    losses = csg.TaskLoss(newsvendor.build())(zetas, outcomes, weights)
    orders = csg.DecisionLayer(newsvendor.build())(zetas, weights)
    (losses.sum() + orders.sum()).backward()
    assert losses.dtype == orders.dtype == zetas.grad.dtype == dtype
    assert orders.flatten().tolist() == [10.0, 9.0]


def strict():
    """Return a model without relatively complete recourse."""
    model = cep1.build()
    model.shortfall.setub(100)
    return model


SOLVABLE_AND_NOT = [[[900.0] * 3], [[9000.0] * 3]]


def test_a_program_without_a_solution_is_an_error():
    with pytest.raises(csg.SolveError, match="Case 1: infeasible"):
        csg.TaskLoss(strict())(leaf(SOLVABLE_AND_NOT), torch.full((2, 3), 900.0))
    with pytest.raises(csg.SolveError, match="Case 1: infeasible"):
        csg.DecisionLayer(strict())(leaf(SOLVABLE_AND_NOT))


@pytest.mark.parametrize("kind", ["recourse", "optimistic"])
def test_recorded_failures_are_nan_and_move_nothing(kind):
    zetas = leaf(SOLVABLE_AND_NOT)
    task_loss = csg.TaskLoss(strict(), kind, on_error="record")
    losses = task_loss(zetas, torch.full((2, 3), 900.0))
    losses.nansum().backward()
    assert torch.isnan(losses).tolist() == [False, True]
    assert (zetas.grad[0] != 0).any()
    assert (zetas.grad[1] == 0).all()
    assert {failure.case for failure in task_loss.failures} == {1}


def test_recorded_failures_of_the_layer_are_nan_and_move_nothing():
    zetas = leaf(SOLVABLE_AND_NOT)
    decide = csg.DecisionLayer(strict(), on_error="record")
    decisions = decide(zetas)
    decisions.nansum().backward()
    assert torch.isnan(decisions).all(dim=1).tolist() == [False, True]
    assert (zetas.grad[1] == 0).all()
    assert not decide.smooth[1]
    assert [failure.case for failure in decide.failures] == [1]


@pytest.mark.parametrize("stored", [True, False])
def test_second_derivatives_are_refused_in_words(stored, monkeypatch):
    if not stored:
        monkeypatch.setattr(torch_layers, "_MOST_ENTRIES", 0)
    zetas = leaf([[[10.0], [12.0]]])
    losses = csg.TaskLoss(newsvendor.build())(zetas, torch.tensor([[11.0]]))
    orders = csg.DecisionLayer(newsvendor.build())(zetas)
    for value in (losses.sum(), (orders**2).sum()):
        (slope,) = torch.autograd.grad(value, zetas, create_graph=True)
        with pytest.raises(csg.CsgError, match="first derivatives only"):
            (slope**2).sum().backward()


REFUSED = {
    "no batch": (torch.ones(2, 1), {}, "give shape \\(B, K, p\\)"),
    "an array": (np.ones((1, 2, 1)), {}, "ndarray; give a tensor of floats"),
    "integers": (torch.ones(1, 2, 1, dtype=torch.long), {}, "torch.int64; give"),
    "weights that learn": (
        torch.ones(1, 2, 1),
        {"weights": torch.full((2,), 0.5, requires_grad=True)},
        "give weights.detach",
    ),
    "weights that are no weights": (
        torch.ones(1, 2, 1),
        {"weights": torch.full((2,), 0.9)},
        "they sum to 1.8",
    ),
    "numbers outside the domain": (-torch.ones(1, 2, 1), {}, "outside its domain"),
    "another model's numbers": (torch.ones(1, 2, 3), {}, "expected \\(n, K, 1\\)"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_unusable_tensors_are_refused(name):
    zetas, options, words = REFUSED[name]
    with pytest.raises(csg.DataError, match=words):
        csg.TaskLoss(newsvendor.build())(zetas, torch.ones(1, 1), **options)
    with pytest.raises(csg.DataError, match=words):
        csg.DecisionLayer(newsvendor.build())(zetas, **options)


def test_outcomes_that_do_not_fit_are_refused():
    with pytest.raises(csg.DataError, match="3 cases, but 1 of scenarios"):
        csg.TaskLoss(newsvendor.build())(torch.ones(1, 2, 1), torch.ones(3, 1))


def test_unknown_settings_are_refused():
    with pytest.raises(csg.DataError, match="loss_kind is 'regret'"):
        csg.TaskLoss(newsvendor.build(), "regret")
    with pytest.raises(csg.DataError, match="loss_kind is array"):
        csg.TaskLoss(newsvendor.build(), np.ones(2))
    with pytest.raises(csg.DataError, match="on_error is 'ignore'"):
        csg.DecisionLayer(newsvendor.build(), on_error="ignore")


def test_solvers_without_a_basis_are_refused():
    oracle = csg.Oracle(newsvendor.build(), solver="appsi_highs")
    with pytest.raises(csg.ModelError, match="gives no gradient"):
        csg.TaskLoss(oracle)(torch.ones(1, 2, 1), torch.ones(1, 1))


@pytest.mark.parametrize(
    "duplicate", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))]
)
def test_modules_can_be_copied_and_pickled(duplicate):
    zetas, omegas = cases(2)
    module = csg.TaskLoss(cep1.build())
    assert torch.equal(duplicate(module)(zetas, omegas), module(zetas, omegas))
    assert module.state_dict() == {}


def test_torch_is_not_imported_before_it_is_needed():
    code = "import sys, pyomo_csg; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_keys_name_the_cases_of_shuffled_batches():
    zetas, omegas = cases(6)
    task_loss = csg.TaskLoss(cep1.build(), fresh=False)
    decide = csg.DecisionLayer(cep1.build(), fresh=False)
    expected, decisions = task_loss(zetas, omegas), decide(zetas)
    for rows in torch.tensor([[4, 1, 3], [0, 5, 2]]):
        found = task_loss(zetas[rows], omegas[rows], keys=rows)
        assert torch.allclose(found, expected[rows])
        assert decide(zetas[rows], keys=rows).shape == decisions[rows].shape
    with pytest.raises(csg.DataError, match="keys"):
        task_loss(zetas, omegas, keys=[0.5] * 6)
