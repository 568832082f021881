"""The MMD loss against its definition, scipy's energy distance and POT's transport."""

import numpy as np
import pytest
import torch
from scipy.stats import energy_distance

from pyomo_csg import DataError
from pyomo_csg.learn.distributions.distances import (
    energy,
    gaussian,
    laplacian,
    mmd_loss,
    resolve_kernel,
    trainable_kernel,
)

DEFINITIONS = {
    energy: lambda a, b: -0.5 * np.linalg.norm(a - b),
    gaussian: lambda a, b: np.exp(-((a - b) ** 2).sum() / 2),
    laplacian: lambda a, b: np.exp(-np.abs(a - b).sum()),
}


def tensors(*shapes, seed=0):
    rng = np.random.default_rng(seed)
    return [torch.as_tensor(rng.standard_normal(shape)) for shape in shapes]


def shares(*shape, seed=0):
    drawn = np.random.default_rng(seed).uniform(0.1, 1, shape)
    return torch.as_tensor(drawn / drawn.sum(-1, keepdims=True))


@pytest.mark.parametrize("kernel", DEFINITIONS)
def test_kernels_are_their_definitions_for_all_pairs(kernel):
    one, other = tensors((2, 3, 4), (2, 5, 4))
    found = kernel(one, other).numpy()
    assert found.shape == (2, 3, 5)
    for i, j, k in np.ndindex(found.shape):
        expected = DEFINITIONS[kernel](one[i, j].numpy(), other[i, k].numpy())
        assert found[i, j, k] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("kernel", DEFINITIONS)
def test_the_loss_is_its_definition_by_a_double_loop(kernel):
    scenarios, outcomes = tensors((2, 3, 4, 2), (2, 3, 2))
    weights = shares(2, 3, 4)
    found = mmd_loss(scenarios, outcomes, weights, kernel).numpy()
    assert found.shape == (2, 3)
    k = DEFINITIONS[kernel]
    for case in np.ndindex(2, 3):
        z, w, p = (t[case].numpy() for t in (scenarios, outcomes, weights))
        among = sum(p[i] * p[j] * k(z[i], z[j]) for i in range(4) for j in range(4))
        across = sum(p[i] * k(z[i], w) for i in range(4))
        assert found[case] == pytest.approx(among - 2 * across, rel=1e-12)


def test_the_loss_without_weights_is_that_with_equal_ones():
    scenarios, outcomes = tensors((6, 5, 3), (6, 3))
    equal = torch.full((6, 5), 0.2, dtype=torch.float64)
    assert torch.allclose(
        mmd_loss(scenarios, outcomes), mmd_loss(scenarios, outcomes, equal), rtol=1e-13
    )


def test_the_energy_loss_is_the_papers_but_for_the_outcomes_norm():
    def papers(a, b):
        norms = torch.linalg.vector_norm(a, dim=-1)[..., :, None]
        norms = norms + torch.linalg.vector_norm(b, dim=-1)[..., None, :]
        return 0.5 * (norms - torch.cdist(a, b))

    scenarios, outcomes = tensors((7, 4, 3), (7, 3))
    theirs = mmd_loss(scenarios, outcomes, kernel=papers)
    norms = torch.linalg.vector_norm(outcomes, dim=-1)
    assert torch.allclose(theirs, mmd_loss(scenarios, outcomes) - norms, atol=1e-10)


def test_the_mean_energy_loss_is_scipys_energy_distance_but_for_a_constant():
    rng = np.random.default_rng(1)
    z, w, p = rng.normal(size=4), rng.gamma(2, size=30), shares(4).numpy()
    losses = mmd_loss(
        torch.as_tensor(z)[None, :, None].expand(30, 4, 1),
        torch.as_tensor(w)[:, None],
        torch.as_tensor(p).expand(30, 4),
    )
    among_outcomes = np.abs(w[:, None] - w).mean()
    squared = 2 * losses.mean().item() - among_outcomes
    assert squared == pytest.approx(energy_distance(z, w, p) ** 2, rel=1e-10)


def test_the_mean_energy_loss_of_one_scenario_is_the_cost_of_moving_all_mass_to_it():
    ot = pytest.importorskip("ot")
    z, w = tensors((1, 3), (40, 3))
    cost = ot.dist(z.numpy(), w.numpy(), metric="euclidean")
    moved = ot.emd2(np.ones(1), np.full(40, 1 / 40), cost)
    losses = mmd_loss(z.expand(40, 1, 3), w)
    assert losses.mean().item() == pytest.approx(moved, rel=1e-10)


def squared_energy_distance(z, w, p):
    """Return that of weighted scenarios and equal outcomes by their mean energy loss."""
    count = len(w)
    losses = mmd_loss(z.expand(count, *z.shape), w, p.expand(count, len(p)))
    among = np.mean([np.linalg.norm(a - b) for a in w.numpy() for b in w.numpy()])
    return 2 * losses.mean().item() - among


@pytest.mark.parametrize(("count", "numbers"), [(2, 2), (5, 3), (7, 11)])
def test_weighted_scenarios_of_many_numbers_have_the_energy_distance_of_a_plain_loop(
    count, numbers
):
    ot = pytest.importorskip("ot")
    z, w = tensors((count, numbers), (20, numbers))
    p = shares(count)
    points = np.concatenate([z, w])
    signed = np.concatenate([p, np.full(20, -1 / 20)])
    apart = ot.dist(points, points, metric="euclidean")

    looped = -sum(
        signed[i] * signed[j] * np.sqrt(((points[i] - points[j]) ** 2).sum())
        for i, j in np.ndindex(apart.shape)
    )

    found = squared_energy_distance(z, w, p)
    assert found == pytest.approx(looped, rel=1e-10)
    assert found == pytest.approx(-signed @ apart @ signed, rel=1e-6)


def test_weighted_scenarios_in_the_plane_have_scipys_distance_over_all_directions():
    """A length in the plane is pi / 2 times that of its mean shadow."""
    z, w = tensors((4, 2), (15, 2))
    p = shares(4)
    angles = np.pi * np.arange(720) / 720
    shadows = [
        energy_distance(z.numpy() @ way, w.numpy() @ way, p.numpy()) ** 2
        for way in np.column_stack([np.cos(angles), np.sin(angles)])
    ]
    assert squared_energy_distance(z, w, p) == pytest.approx(
        np.pi / 2 * np.mean(shadows), rel=1e-4
    )


def spatial_median(points):
    """Return what Weiszfeld's iterations end at."""
    found = points.mean(axis=0)
    for _ in range(10_000):
        pull = 1 / np.linalg.norm(points - found, axis=1)
        found = (pull[:, None] * points).sum(axis=0) / pull.sum()
    return found


def test_one_scenario_of_least_energy_loss_is_the_spatial_median_and_not_the_mean():
    w = np.random.default_rng(2).gamma(0.5, size=(60, 2)) * [1.0, 5.0]
    z = torch.zeros(1, 2, dtype=torch.float64, requires_grad=True)
    descent = torch.optim.LBFGS([z], max_iter=500, line_search_fn="strong_wolfe")

    def closure():
        descent.zero_grad()
        loss = mmd_loss(z.expand(60, 1, 2), torch.as_tensor(w)).mean()
        loss.backward()
        return loss

    for _ in range(5):
        descent.step(closure)
    found = z.detach().numpy()[0]
    assert found == pytest.approx(spatial_median(w), abs=1e-4)
    assert np.linalg.norm(found - w.mean(axis=0)) > 0.3


@pytest.mark.parametrize("kernel", DEFINITIONS)
def test_the_losss_gradient_agrees_with_differences(kernel):
    scenarios, outcomes = tensors((2, 3, 2), (2, 2))
    weights = shares(2, 3)
    inputs = [t.requires_grad_() for t in (scenarios, weights)]
    assert torch.autograd.gradcheck(
        lambda z, p: mmd_loss(z, outcomes, p, kernel), inputs
    )


def test_scenarios_that_coincide_have_a_finite_gradient():
    scenarios = torch.ones(1, 3, 2, dtype=torch.float64, requires_grad=True)
    mmd_loss(scenarios, torch.ones(1, 2, dtype=torch.float64)).sum().backward()
    assert torch.isfinite(scenarios.grad).all()


def test_kernels_go_by_name():
    assert resolve_kernel("energy") is energy
    assert resolve_kernel("gaussian") is gaussian
    assert resolve_kernel("laplacian") is laplacian


def test_a_users_kernel_is_taken_in_the_precision_that_it_will_see():
    metric = torch.eye(3, dtype=torch.float64)

    def quadratic(one, other):
        return (one @ metric) @ other.transpose(-1, -2)

    assert resolve_kernel(quadratic) is quadratic


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (
            "energetic",
            r"'energetic'; give one of \['energy', 'gaussian', 'laplacian'\]",
        ),
        (3, "kernel is 3; give one of"),
        (
            lambda a, b: (a - b[..., :1, :]).norm(dim=-1),
            r"returned torch.Size\(\[4, 2\]\)",
        ),
        (lambda a, b: energy(b, a), r"returned torch.Size\(\[4, 5, 2\]\)"),
        (lambda a, b: 1.0, "returned 1.0"),
    ],
)
def test_what_is_no_kernel_is_refused(kernel, message):
    with pytest.raises(DataError, match=message):
        resolve_kernel(kernel)


def apart(one, other):
    return ((one[..., :, None, :] - other[..., None, :, :]) ** 2).sum(-1)


def test_a_kernel_without_a_gradient_where_points_coincide_is_refused_by_name():
    def rooted(one, other):
        return -torch.sqrt(apart(one, other))

    with pytest.raises(DataError, match=r"(?s)'rooted'.*coincide.*squares \+ 1e-12"):
        trainable_kernel(rooted, 2)
    assert resolve_kernel(rooted) is rooted  # a distance needs no gradient


def test_a_small_number_under_the_root_makes_a_kernel_trainable():
    def smooth(one, other):
        return -torch.sqrt(apart(one, other) + 1e-12)

    assert trainable_kernel(smooth, 2) is smooth


def test_a_kernel_that_torch_cannot_follow_is_refused_by_name():
    def cut(one, other):
        return -apart(one, other).detach()

    with pytest.raises(DataError, match="'cut' has no gradient"):
        trainable_kernel(cut, 2)


@pytest.mark.parametrize("name", ["energy", "gaussian", "laplacian"])
def test_kernels_by_name_are_trainable(name):
    assert trainable_kernel(name, 2) is resolve_kernel(name)


WIDE = {
    "gaussian": lambda a, b, h: np.exp(-((a - b) ** 2).sum() / (2 * h**2)),
    "laplacian": lambda a, b, h: np.exp(-np.abs(a - b).sum() / h),
}


@pytest.mark.parametrize("name", WIDE)
@pytest.mark.parametrize("bandwidth", [0.3, 1.0, 40.0])
def test_kernels_with_a_bandwidth_are_their_definitions(name, bandwidth):
    one, other = tensors((3, 4), (5, 4))
    found = trainable_kernel(name, 4, bandwidth)(one, other).numpy()
    for j, k in np.ndindex(3, 5):
        expected = WIDE[name](one[j].numpy(), other[k].numpy(), bandwidth)
        assert found[j, k] == pytest.approx(expected, rel=1e-12)
