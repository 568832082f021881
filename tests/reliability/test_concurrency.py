"""Threads, forked and spawned processes and Dask share policies and oracles."""

import multiprocessing
import os
import pickle
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import cloudpickle
import numpy as np
import pandas as pd
import pytest
import torch

import pyomo_csg as csg
from models import cep1, cvar_portfolio, newsvendor
from pyomo_csg.policy.policy import Policy
from tests.quick import fit, portfolio, shorten
from tests.solve.test_oracle import batch
from tests.solve.test_parallel import dask
from tests.test_policy import machines, papers
from tests.test_policy import portfolio as panels

__all__ = ["dask"]  # a fixture

THREADS = 8
X = np.random.default_rng(1).normal(size=(160, 4))
PAIRS = newsvendor.sample(40, seed=1)


@pytest.fixture(autouse=True)
def short(monkeypatch):
    shorten(monkeypatch.setattr)


@pytest.fixture
def hasty():
    """Let threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def at_once(function, questions):
    """Ask each question in one of eight threads, which all begin together."""
    start = threading.Barrier(THREADS)

    def part(number):
        start.wait()
        return [function(x) for x in questions[number::THREADS]]

    with ThreadPoolExecutor(THREADS) as pool:
        parts = list(pool.map(part, range(THREADS)))
    answers = [None] * len(questions)
    for number, part in enumerate(parts):
        answers[number::THREADS] = part
    return answers


POLICIES = {
    "linear": (lambda: Policy(cep1.build(), machines()), X),
    "two workers": (lambda: Policy(cep1.build(), machines(), workers=2), X),
    "integer, LSTM": (
        lambda: Policy(cvar_portfolio.build(most_held=3), panels()),
        np.random.default_rng(2).normal(size=(16, 6, 4)),
    ),
    "appsi": (
        lambda: Policy(newsvendor.build(), papers(), solver="appsi_highs"),
        X[:40, :2],
    ),
    "neighbors": (
        lambda: csg.baselines.NeighborWeighted(newsvendor.build(), PAIRS),
        X[:, :2],
    ),
}


@pytest.mark.parametrize("name", POLICIES)
def test_eight_threads_decide_at_once_as_one_does(name, hasty):
    make, contexts = POLICIES[name]
    expected = [make().decide(x) for x in contexts[:24]]
    policy = make()
    found = at_once(policy.decide, contexts)

    assert policy.oracle.stats.solves >= len(contexts)
    for mine, other in zip(found, expected, strict=False):
        assert np.array_equal(mine.scenarios, other.scenarios)
        assert mine.value == pytest.approx(other.value, rel=1e-9)
    costs = [policy.oracle.cost(d.vector, d.scenarios) @ d.weights for d in found]
    assert costs == pytest.approx([d.value for d in found], rel=1e-7, abs=1e-9)


@pytest.mark.parametrize("build", [cep1.build, portfolio])
def test_eight_threads_ask_one_oracle_and_get_the_bits_of_one(build, hasty):
    zetas, omegas = batch(build(), count=64)

    def answer(oracle, i):
        case = slice(i, i + 1)
        return oracle.loss(zetas[case], omegas[case], fresh=True, progress=False)[0]

    alone, shared = csg.Oracle(build()), csg.Oracle(build())
    expected = [answer(alone, i) for i in range(64)]
    found = at_once(lambda i: answer(shared, i), range(64))

    assert found == expected
    assert shared.stats.solves == alone.stats.solves
    assert shared.stats.iterations == alone.stats.iterations


def assert_same(one, other):
    assert np.array_equal(one.scenarios(PAIRS[0]), other.scenarios(PAIRS[0]))
    pd.testing.assert_frame_equal(one.history, other.history, check_exact=True)


def test_decisions_and_other_fits_leave_a_fit_as_it_is(tmp_path):
    methods = ["static", "direct"]
    alone = {method: fit(PAIRS, method=method) for method in methods}
    policy = alone["static"]
    policy.save(tmp_path / "policy.csg")
    expected = [policy.decide(x).value for x in PAIRS[0]]
    threads, random = torch.get_num_threads(), torch.get_rng_state()

    with ThreadPoolExecutor(2) as pool:
        fits = [pool.submit(fit, PAIRS, method=method) for method in methods]
        rounds = 0
        while rounds == 0 or not all(future.done() for future in fits):
            again = csg.load(tmp_path / "policy.csg", newsvendor.build())
            for mine in (policy, again):
                found = [mine.decide(x).value for x in PAIRS[0]]
                assert found == pytest.approx(expected, rel=1e-12)
            rounds += 1

    for method, future in zip(methods, fits, strict=True):
        assert_same(future.result(), alone[method])
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), random)


def answer_to(policy, contexts, pipe):
    table = policy.decide(contexts, progress=False)
    pipe.send((table.to_numpy(), [policy.decide(x).value for x in contexts]))


@pytest.mark.parametrize("name", POLICIES)
def test_a_forked_process_decides_as_its_parent_did(name):
    make, contexts = POLICIES[name]
    policy, contexts = make(), contexts[:12]
    expected = policy.decide(contexts, progress=False).to_numpy()
    values = [policy.decide(x).value for x in contexts]

    table, found = in_child("fork", policy, contexts)

    assert found == pytest.approx(values, rel=1e-9)
    assert table.shape == expected.shape and np.isfinite(table).all()
    assert policy.decide(contexts[0]).value == pytest.approx(values[0], rel=1e-9)


def test_a_spawned_process_decides_as_its_parent_did():
    policy = Policy(cep1.build(), machines(), workers=2)
    values = [policy.decide(x).value for x in X[:12]]

    _, found = in_child("spawn", policy, X[:12])

    assert found == pytest.approx(values, rel=1e-9)


def in_child(method, policy, contexts):
    """Return what a policy answers in a process started by a method."""
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"no {method} on this system")
    context = multiprocessing.get_context(method)
    mine, its = context.Pipe()
    child = context.Process(target=answer_to, args=(policy, contexts, its))
    child.start()
    try:
        assert mine.poll(120), "the child does not answer"
        return mine.recv()
    finally:
        child.kill()
        child.join()


@pytest.mark.parametrize("dumps", [pickle.dumps, cloudpickle.dumps])
@pytest.mark.parametrize("solver", ["highs", "appsi_highs"])
def test_an_oracle_can_be_pickled(dumps, solver):
    zetas, omegas = batch(newsvendor.build(), count=20)
    with ThreadPoolExecutor(2) as executor:
        oracle = csg.Oracle(
            newsvendor.build(), solver, executor, options={"time_limit": 9.0}
        )
        losses = oracle.loss(zetas, omegas)
        again = pickle.loads(dumps(oracle))

    assert again.loss(zetas, omegas) == pytest.approx(losses, rel=1e-9)
    assert again.stats.solves > 0


def decide(policy, x):
    return os.getpid(), policy.decide(x).value


def test_a_worker_of_dask_decides_by_a_policy_that_was_sent_to_it(dask):
    policy = Policy(cep1.build(), machines())
    values = [policy.decide(x).value for x in X[:6]]

    futures = [dask.submit(decide, policy, x) for x in X[:6]]
    places, found = zip(*(future.result() for future in futures), strict=True)

    assert os.getpid() not in places
    assert found == pytest.approx(values, rel=1e-9)
