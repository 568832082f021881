"""Generators by conditional distributions: stored to the bit, in policies, without torch."""

import json
import os
import pickle
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import pyomo_csg as csg
from models import newsvendor
from pyomo_csg.learn.distributions.conditional import fit_distributions
from pyomo_csg.learn.fit_result import FitResult
from pyomo_csg.learn.generators.distribution_generators import (
    AtomGenerator,
    ConstantGenerator,
    ForecastNetworkGenerator,
    Frame,
    FullGenerator,
    ReducedGenerator,
)
from pyomo_csg.learn.generators.restoration import restore_generator
from tests.solving import solve, transform

CONTEXTS, OUTCOMES = newsvendor.sample(60, seed=1)
SOME = CONTEXTS[:7]
LOWER, UPPER = np.zeros(1), np.full(1, np.inf)
FRAME = Frame(CONTEXTS.mean(axis=0), CONTEXTS.std(axis=0), (2,), LOWER, UPPER)
ATOMS, SHARES = np.array([[-1.5], [0.2], [2.5]]), np.array([0.2, 0.5, 0.3])
WEIGHTED = ("empirical", "neighbors", "forest weights", "extra trees weights")
RESIDUALS = ("ridge", "quadratic", "forest", "extra trees", "boosting", "stacked")


@pytest.fixture(scope="module")
def distributions():
    return fit_distributions(CONTEXTS, OUTCOMES, LOWER, UPPER, 0, in_time=False)


def networks(distribution):
    """Return two small networks around a forecast."""
    rng = np.random.default_rng(0)
    shapes = {
        "layers.0.weight": (4, 2),
        "layers.0.bias": (4,),
        "layers.2.weight": (6, 4),
        "layers.2.bias": (6,),
    }
    members = [
        {name: rng.normal(size=shape) for name, shape in shapes.items()}
        for _ in range(2)
    ]
    settings = {"inputs": 2, "shape": (3, 2), "hidden": (4,)}
    return ForecastNetworkGenerator(distribution, settings, members, FRAME)


def generator_of(kind, found):
    """Return the generator of a kind such as 'atoms, ridge'."""
    kind, _, name = kind.partition(", ")
    if kind == "constant":
        return ConstantGenerator(np.array([[10.0], [14.0], [30.0]]), SHARES, FRAME)
    distribution = found[name]
    if kind == "atoms":
        return AtomGenerator(distribution, ATOMS, SHARES, FRAME)
    if kind == "reduced":
        return ReducedGenerator(distribution, 3, OUTCOMES.std(axis=0), FRAME)
    return (
        networks(distribution)
        if kind == "networks"
        else FullGenerator(distribution, FRAME)
    )


KINDS = (
    "constant",
    *(f"atoms, {name}" for name in RESIDUALS),
    *(f"reduced, {name}" for name in (*WEIGHTED, "ridge", "mixture")),
    *(f"full, {name}" for name in ("empirical", "neighbors", "stacked", "mixture")),
    "networks, ridge",
)
ONE_OF_EACH = (
    "constant",
    "atoms, stacked",
    "reduced, mixture",
    "full, neighbors",
    KINDS[-1],
)


def policy_of(kind, found):
    """Return a policy for the newsvendor, as if such a generator had been fitted."""
    learned = FitResult(generator_of(kind, found), "auto", {}, reach=3.0)
    return csg.Policy(newsvendor.build(), learned)


def assert_same(one, other, contexts=SOME):
    for mine, theirs in zip(one(contexts), other(contexts), strict=True):
        for a, b in zip(mine, theirs, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("kind", KINDS)
def test_a_generator_comes_back_from_arrays_to_the_bit(kind, distributions):
    generator = generator_of(kind, distributions)
    description, arrays = generator.to_arrays()

    again = restore_generator(json.loads(json.dumps(description)), arrays)

    assert type(again) is type(generator)
    assert (again.count, again.is_weighted) == (generator.count, True)
    assert again.context_shape == (2,)
    assert_same(generator, again)
    twice, same = again.to_arrays()
    assert json.dumps(twice) == json.dumps(description)
    assert same.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(same[name], array)


@pytest.mark.parametrize("kind", KINDS)
def test_scenarios_are_in_the_domain_with_shares_of_one(kind, distributions):
    generator = generator_of(kind, distributions)
    for contexts in (SOME, 50 * SOME):
        scenarios, weights = generator(contexts)
        for points, shares in zip(scenarios, weights, strict=True):
            assert points.shape == (len(shares), 1) and (points >= 0).all()
            assert (shares >= 0).all() and shares.sum() == pytest.approx(1)
            assert generator.count in (None, len(points))


@pytest.mark.parametrize("kind", KINDS)
def test_a_context_alone_has_the_scenarios_that_it_has_among_others(
    kind, distributions
):
    generator = generator_of(kind, distributions)
    scenarios, weights = generator(SOME)
    for i in range(len(SOME)):
        (points,), (shares,) = generator(SOME[i : i + 1])
        np.testing.assert_allclose(points, scenarios[i], rtol=1e-12)
        np.testing.assert_allclose(shares, weights[i], rtol=1e-12)


def test_atoms_are_location_plus_scale_times_atoms(distributions):
    ridge = distributions["ridge"]
    scenarios, weights = generator_of("atoms, ridge", distributions)(SOME)
    location, scale = ridge.location_and_scale(SOME)
    for x, points in enumerate(scenarios):
        expected = [max(0.0, (location[x] + scale[x] * atom).item()) for atom in ATOMS]
        assert points[:, 0] == pytest.approx(expected)
    assert weights == pytest.approx(np.tile(SHARES, (7, 1)))


def test_networks_are_location_plus_scale_times_their_mean_output(distributions):
    generator = generator_of("networks, ridge", distributions)
    scenarios, weights = generator(SOME)
    location, scale = distributions["ridge"].location_and_scale(SOME)
    inputs = (SOME - FRAME.center) / FRAME.spread
    outputs = []
    for one in generator.members:
        hidden = inputs @ one["layers.0.weight"].T + one["layers.0.bias"]
        hidden = np.maximum(hidden, 0.0)
        outputs.append(hidden @ one["layers.2.weight"].T + one["layers.2.bias"])
    mean = np.mean(outputs, axis=0).reshape(7, 3, 2)
    expected = np.maximum(location[:, None] + scale[:, None] * mean[..., :1], 0.0)
    shares = np.exp(mean[..., 1])
    assert scenarios == pytest.approx(expected)
    assert weights == pytest.approx(shares / shares.sum(axis=1, keepdims=True))


@pytest.mark.parametrize("name", [*WEIGHTED, "mixture"])
def test_a_reduced_distribution_keeps_its_mean(name, distributions):
    scenarios, weights = generator_of(f"reduced, {name}", distributions)(SOME)
    points, shares = distributions[name].outcomes(SOME)
    for x in range(len(SOME)):
        assert weights[x] @ scenarios[x] == pytest.approx(shares[x] @ points[x])


def test_a_full_distribution_is_all_of_its_outcomes(distributions):
    scenarios, weights = generator_of("full, neighbors", distributions)(SOME)
    points, shares = distributions["neighbors"].outcomes(SOME)
    for x in range(len(SOME)):
        np.testing.assert_array_equal(scenarios[x], points[x])
        np.testing.assert_array_equal(weights[x], shares[x])
        assert {*points[x][:, 0]} <= {*OUTCOMES[:, 0]}


@pytest.mark.parametrize("kind", ONE_OF_EACH)
def test_policies_decide_and_come_back_from_files_and_pickles(
    kind, distributions, tmp_path
):
    policy = policy_of(kind, distributions)
    decision = policy.decide(SOME[0])
    program = transform(
        "extensive_form",
        newsvendor.build(),
        scenarios=decision.scenarios,
        weights=decision.weights,
    )
    assert decision.value == pytest.approx(solve(program), rel=1e-7)
    policy.save(tmp_path / "policy.csg")
    loaded = csg.load(tmp_path / "policy.csg", newsvendor.build())
    for again in (loaded, pickle.loads(pickle.dumps(policy))):
        assert_same(again.learned.generator, policy.learned.generator)
        assert again.decide(SOME[0]).value == decision.value
        assert again.report() == policy.report()


@pytest.mark.parametrize("kind", ONE_OF_EACH)
def test_policies_are_reported_evaluated_and_certified(kind, distributions, tmp_path):
    policy = policy_of(kind, distributions)
    pairs = newsvendor.sample(40, seed=2)
    policy.report(tmp_path / "page.html", pairs)
    assert "scenarios" in (tmp_path / "page.html").read_text()
    cases = [csg.Case(x, OUTCOMES[:9]) for x in SOME[:3]]
    evaluation = csg.evaluate({"mine": policy}, cases, progress=False)
    for x, found in zip(SOME[:3], evaluation.costs["mine"], strict=True):
        costs = policy.oracle.cost(policy.decide(x).vector, OUTCOMES[:9])
        assert found == pytest.approx(costs.mean())
    assert "on 40 held-out pairs" in str(policy.certify(pairs, gaps=False))


@pytest.mark.parametrize("kind", ONE_OF_EACH)
@pytest.mark.parametrize("damage", ["missing", "shape", "nan", "kind", "text", "frame"])
def test_arrays_that_do_not_belong_together_are_refused(kind, damage, distributions):
    description, arrays = generator_of(kind, distributions).to_arrays()
    name = min(arrays)
    if damage == "missing":
        del arrays[name]
    elif damage == "frame":
        description["frame"]["context_shape"] = [2**40]
    elif damage == "shape":
        arrays[name] = np.ones((2, 3, 4))
    elif damage == "nan":
        arrays[name] = np.full_like(arrays[name], np.nan, dtype=float)
    elif damage == "kind":
        description["kind"] = "unknown"
    else:
        arrays[name] = np.array(["a"] * len(arrays[name]))
    with pytest.raises(csg.DataError):
        restore_generator(description, arrays)


SCRIPT = """
import json, sys
import pyomo_csg as csg
from models import newsvendor

values = []
for path in sys.argv[2:]:
    policy = csg.load(path, newsvendor.build())
    values += [policy.decide(x).value for x in json.loads(sys.argv[1])]
print(json.dumps({"used": sorted(sys.modules), "values": values}))
"""


def test_deciding_imports_neither_torch_nor_scikit_learn(distributions, tmp_path):
    paths, values = [], []
    for number, kind in enumerate(KINDS):
        policy = policy_of(kind, distributions)
        paths.append(str(tmp_path / f"{number}.csg"))
        policy.save(paths[-1])
        values += [policy.decide(x).value for x in SOME[:2]]

    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(SOME[:2].tolist()), *paths],
        check=True,
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )

    said = json.loads(run.stdout)
    assert not {"torch", "sklearn", "pandas", "matplotlib", "sympy"} & {*said["used"]}
    assert said["values"] == pytest.approx(values, rel=1e-12)


def test_bounds_clip_what_leaves_them(distributions):
    narrow = replace(FRAME, lower=np.full(1, 12.0), upper=np.full(1, 13.0))
    for generator in (
        AtomGenerator(distributions["ridge"], ATOMS, SHARES, narrow),
        ReducedGenerator(distributions["neighbors"], 3, np.ones(1), narrow),
        ConstantGenerator(np.array([[1.0], [99.0]]), np.full(2, 0.5), narrow),
    ):
        scenarios, _ = generator(SOME)
        assert scenarios.min() >= 12.0 and scenarios.max() <= 13.0


@pytest.mark.parametrize(
    ("kind", "changed"),
    [
        ("reduced, neighbors", {"count": [2**31 - 1]}),
        ("reduced, neighbors", {"count": [2, 3]}),
        ("reduced, neighbors", {"count": [0]}),
        ("networks, ridge", {"members": []}),
        (
            "networks, ridge",
            {"settings": {"inputs": [3], "shape": [3, 2], "hidden": [4]}},
        ),
        (
            "networks, ridge",
            {"settings": {"inputs": [2], "shape": [3, 3], "hidden": [4]}},
        ),
        (
            "networks, ridge",
            {"settings": {"inputs": [2], "shape": [3, 2], "hidden": [5]}},
        ),
        ("atoms, ridge", {"distribution": {"kind": "empirical", "name": "a"}}),
        (
            "full, mixture",
            {"distribution": {"kind": "mixture", "name": "a", "parts": []}},
        ),
        ("constant", {"frame": None}),
    ],
)
def test_hostile_descriptions_are_refused(kind, changed, distributions):
    description, arrays = generator_of(kind, distributions).to_arrays()
    with pytest.raises(csg.DataError):
        restore_generator({**description, **changed}, arrays)


@pytest.mark.parametrize("kind", ["constant", "atoms, ridge"])
def test_weights_that_are_no_shares_are_refused(kind, distributions):
    description, arrays = generator_of(kind, distributions).to_arrays()
    with pytest.raises(csg.DataError, match="shares that sum to 1"):
        restore_generator(description, {**arrays, "weights": np.array([0.5, 0.5, 0.5])})
