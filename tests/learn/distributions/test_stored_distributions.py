"""Distributions come back from arrays to the last bit, and damaged ones are refused."""

import copy
import json
import subprocess
import sys

import numpy as np
import pytest

from pyomo_csg.errors import DataError
from pyomo_csg.learn.distributions.conditional import (
    KINDS,
    fit_distributions,
    restore,
)


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(90, 3))
    y = x[:, :2] + np.exp(x[:, 1:2]) * rng.normal(size=(90, 2))
    y[:, 0] += np.sign(x[:, 2])
    with pytest.MonkeyPatch.context() as patch:
        package = "pyomo_csg.learn.distributions.forecasts"
        patch.setattr(f"{package}.forest._MOST_TREES", 6)
        patch.setattr(f"{package}.boosting._STEPS", 4)
        lower, upper = np.array([-np.inf, -2]), np.array([np.inf, 9])
        return fit_distributions(x, y, lower, upper, 0, in_time=False)


@pytest.fixture(scope="module")
def new():
    return np.random.default_rng(5).normal(size=(20, 3))


def stored(one):
    description, arrays = one.to_arrays()
    copies = {name: array.copy() for name, array in arrays.items()}
    return json.loads(json.dumps(description)), copies


def test_a_restored_distribution_needs_neither_torch_nor_scikit_learn(fitted, tmp_path):
    description, arrays = stored(fitted["mixture"])
    np.savez(tmp_path / "arrays.npz", **arrays)
    program = f"""
import json, sys
import numpy as np
from pyomo_csg.learn.distributions.conditional import restore
from pyomo_csg.learn.distributions.reduction import reduce
arrays = dict(np.load({str(tmp_path / "arrays.npz")!r}))
mixture = restore(json.loads({json.dumps(description)!r}), arrays)
(points,), (weights,) = mixture.outcomes(np.zeros((1, 3)))
reduce(points, weights, 3)
sys.exit(any(name in sys.modules for name in ("torch", "sklearn")))
"""
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_stored_is_equal_to_the_last_bit(fitted, new, kind):
    one = fitted[kind]
    back = restore(*stored(one))

    for ours, theirs in zip(one.outcomes(new), back.outcomes(new), strict=True):
        assert all(np.array_equal(*pair) for pair in zip(ours, theirs, strict=True))
    ours, theirs = (
        some.sample(new, 7, np.random.default_rng(3)) for some in (one, back)
    )
    assert np.array_equal(ours, theirs)
    again, arrays = back.to_arrays()
    description, expected = stored(one)
    assert again == description
    assert all(np.array_equal(arrays[name], expected[name]) for name in expected)


def test_the_scale_is_stored_too(fitted, new):
    assert fitted["ridge"].size.used.any()
    back = restore(*stored(fitted["ridge"]))
    assert np.array_equal(back.scale(new), fitted["ridge"].scale(new))


def leaf(arrays, prefix):
    children = arrays[f"{prefix}/children"]
    return int(np.flatnonzero(children[::2] == np.arange(len(children) // 2))[0])


def set_number(name, index, value):
    def damage(description, arrays):
        arrays[name][index] = value

    return damage


def cut(name):
    def damage(description, arrays):
        arrays[name] = arrays[name][:-1]

    return damage


def drop(name):
    def damage(description, arrays):
        del arrays[name]

    return damage


def retype(name, kind):
    def damage(description, arrays):
        arrays[name] = arrays[name].astype(kind)

    return damage


def loop_to_the_root(description, arrays):
    node = leaf(arrays, "weights")
    arrays["weights/children"][2 * node : 2 * node + 2] = 0


def loop_to_itself_on_one_side(description, arrays):
    arrays["weights/children"][0] = 0


def leave_the_tree(description, arrays):
    arrays["weights/children"][0] = arrays["weights/roots"][1]


def empty_a_leaf(description, arrays):
    nodes = arrays["weights/nodes"]
    nodes[nodes == nodes[0]] = nodes[nodes != nodes[0]][0]


def make_a_chain(description, arrays):
    size = 2000
    node = np.arange(size, dtype=np.int32)
    after = np.minimum(node + 1, size - 1)
    arrays["weights/roots"] = np.zeros(1, dtype=np.int32)
    arrays["weights/children"] = np.column_stack([after, after]).ravel()
    arrays["weights/feature"] = np.zeros(size, dtype=np.int32)
    arrays["weights/threshold"] = np.zeros(size)


FOREST_DAMAGE = {
    "cycle": loop_to_the_root,
    "half a leaf": loop_to_itself_on_one_side,
    "out of the tree": leave_the_tree,
    "empty leaf": empty_a_leaf,
    "chain": make_a_chain,
    "child too large": set_number("weights/children", 0, 2**31 - 1),
    "child negative": set_number("weights/children", 1, -1),
    "feature too large": set_number("weights/feature", 0, 3),
    "feature negative": set_number("weights/feature", 0, -1),
    "threshold not a number": set_number("weights/threshold", 0, np.nan),
    "root elsewhere": set_number("weights/roots", 0, 1),
    "roots out of order": set_number("weights/roots", 1, 0),
    "row too large": set_number("weights/rows", 0, 90),
    "node too large": set_number("weights/nodes", 0, 2**30),
    "count of zero": set_number("weights/counts", 0, 0),
    "spread of zero": set_number("weights/spread", 0, 0.0),
    "missing": drop("weights/feature"),
    "short": cut("weights/threshold"),
    "no integers": retype("weights/children", float),
    "objects": retype("weights/threshold", object),
    "history of another size": cut("history"),
    "infinite history": set_number("history", (0, 0), np.inf),
}


@pytest.mark.parametrize("case", FOREST_DAMAGE)
def test_damaged_forests_are_refused(fitted, case):
    description, arrays = stored(fitted["forest weights"])
    FOREST_DAMAGE[case](description, arrays)

    with pytest.raises(DataError, match="stored distribution is damaged"):
        restore(description, arrays)


@pytest.mark.parametrize(
    ("kind", "damage"),
    [
        ("empirical", cut("history")),
        ("neighbors", cut("weights/points")),
        ("neighbors", set_number("weights/count", 0, 91)),
        ("neighbors", set_number("weights/count", 0, 0)),
        ("ridge", cut("forecast/slopes")),
        ("ridge", cut("lower")),
        ("ridge", set_number("lower", 1, 10.0)),
        ("ridge", set_number("residuals", (3, 0), np.nan)),
        ("ridge", set_number("size/used", 0, 2)),
        ("quadratic", cut("forecast/low")),
        ("boosting", cut("forecast/values")),
        ("boosting", cut("forecast/ridge/center")),
        ("stacked", set_number("forecast/weights", (0, 0), -0.5)),
        ("stacked", cut("forecast/weights")),
        ("mixture", set_number("shares", 0, 7.0)),
        ("mixture", cut("shares")),
    ],
)
def test_damaged_arrays_of_every_kind_are_refused(fitted, kind, damage):
    description, arrays = stored(fitted[kind])
    if kind == "empirical":
        arrays["history"] = arrays["history"][:0]
    damage(description, arrays)

    with pytest.raises(DataError, match="stored distribution is damaged"):
        restore(description, arrays)


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "pickle"},
        {"kind": None},
        {"name": 3},
        {"parts": []},
        {"parts": {"kind": "empirical"}},
        {"parts": [3, None]},
    ],
)
def test_descriptions_of_another_kind_are_refused(fitted, change):
    description, arrays = stored(fitted["mixture"])

    with pytest.raises(DataError, match="stored distribution is damaged"):
        restore(description | change, arrays)
    with pytest.raises(DataError, match="not a mapping"):
        restore("mixture", arrays)


def test_mixtures_of_mixtures_are_refused(fitted):
    description, arrays = stored(fitted["mixture"])
    nested = copy.deepcopy(description)
    for _ in range(2000):
        nested = {"kind": "mixture", "name": "x", "parts": [nested]}

    with pytest.raises(DataError, match="has kind 'mixture'"):
        restore(nested, arrays)


def test_parts_of_different_sizes_are_refused(fitted):
    _, arrays = fitted["empirical"].to_arrays()
    parts = [{"kind": "empirical", "name": "x"}] * 2
    both = {
        "parts/0/history": arrays["history"],
        "parts/1/history": arrays["history"][:, :1],
        "shares": np.full(2, 0.5),
    }
    with pytest.raises(DataError, match="different sizes"):
        restore({"kind": "mixture", "name": "x", "parts": parts}, both)
