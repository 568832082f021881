"""Fits that were killed, interrupted or changed, and what their checkpoints say."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import pyomo_csg as csg
from models import newsvendor
from tests.fitting.test_user_network import UserNet
from tests.quick import QUICK, fit, shorten

PAIRS = newsvendor.sample(40, seed=1)
KILLED = """
import sys
from tests.fitting.test_resume import kill_fits
kill_fits(*sys.argv[1:])
"""
INTERRUPTED = """
import sys
from tests.fitting.test_resume import PAIRS
from tests.quick import fit, shorten

if __name__ == "__main__":
    shorten()
    fit(PAIRS, workers=2, checkpoint=sys.argv[1])
"""


def run(tmp_path, script, *arguments):
    """Start a script in a process, and a group of processes, of its own."""
    file = tmp_path / "script.py"
    file.write_text(script)
    return subprocess.Popen(
        [sys.executable, str(file), *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        start_new_session=True,
    )


def kept(folder):
    """Return how many stages a folder holds."""
    return len(list(folder.glob("*.safetensors")))


def kill_fits(place, *methods):
    """Kill three fits by each method, and print how they ended."""
    shorten()
    fit(PAIRS, method="mmd")  # imports what every child would import again
    moments = random.Random(0)
    for method in methods:
        for _ in range(3):
            end = kill_fit(Path(place, method), method, moments.uniform(0, 0.03))
            print(method, *end, flush=True)


def kill_fit(folder, method, seconds):
    """Kill a fit soon after its next stage; return its end, and if it came further."""
    before = kept(folder)
    child = os.fork()
    if child == 0:
        fit(PAIRS, method=method, workers=1, checkpoint=folder)
        os._exit(0)
    peek = os.WEXITED | os.WNOHANG | os.WNOWAIT
    while kept(folder) <= before and os.waitid(os.P_PID, child, peek) is None:
        time.sleep(0.001)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    end = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return end, kept(folder) > before


def uninterrupted(pairs, method, folder):
    """Fit in one go by the plan of a folder: a fit of its own would measure another."""
    whole = folder.with_name(f"{folder.name} in one go")
    whole.mkdir()
    for file in [folder / "identity.json", *folder.glob("plan*")]:
        shutil.copy(file, whole)
    return fit(pairs, method=method, checkpoint=whole)


def assert_goes_on_to(policy, pairs, method, folder):
    """See that the same call ends with this policy, to the last bit."""
    resumed = fit(pairs, method=method, checkpoint=folder)
    contexts = newsvendor.sample(20, seed=2)[0]
    if method == "auto":
        policy = uninterrupted(pairs, method, folder)
    assert np.array_equal(resumed.scenarios(contexts), policy.scenarios(contexts))
    assert resumed.report() == policy.report()
    assert resumed.learned.summary == policy.learned.summary
    pd.testing.assert_frame_equal(resumed.history, policy.history, check_exact=True)


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """Return a folder with a folder of killed fits by each method, and their ends."""
    place = tmp_path_factory.mktemp("killed")
    process = run(place, KILLED, place, "auto", "dynamic")
    output, errors = process.communicate(timeout=100)
    assert process.returncode == 0, errors
    return place, output.splitlines()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills by a signal of POSIX")
@pytest.mark.parametrize("method", ["auto", "dynamic"])
def test_a_fit_that_was_killed_goes_on_and_ends_the_same(killed, pairs, fitted, method):
    place, ends = killed

    # Killed, each time after it had come further than before; a quick one may end.
    assert ends.count(f"{method} -9 True") >= 2
    assert_goes_on_to(fitted(method), pairs, method, place / method)


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="interrupts by a signal of POSIX")
def test_an_interrupted_fit_ends_at_once_and_goes_on_later(tmp_path, pairs, fitted):
    folder = tmp_path / "run"
    process = run(tmp_path, INTERRUPTED, folder)
    while process.poll() is None and kept(folder) < 2:
        time.sleep(0.001)

    os.killpg(process.pid, signal.SIGINT)  # as a terminal does, workers included
    _, output = process.communicate(timeout=60)

    assert process.returncode not in (0, None)
    assert output.rstrip().endswith("KeyboardInterrupt")
    with pytest.raises(ProcessLookupError):  # no worker is left
        os.killpg(process.pid, 0)
    assert_goes_on_to(fitted("auto"), pairs, "auto", folder)


def test_an_interrupt_comes_through(pairs):
    def stop(entry):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(pairs, method="mmd", callback=stop)


def test_a_fit_that_came_to_its_end_is_read_again(tmp_path, pairs, fitted):
    for _ in range(2):
        model = newsvendor.build()
        policy = fit(pairs, model, method="static", checkpoint=tmp_path, workers=1)
        decision = policy.decide(pairs[0][0])
        decision.load_into(model)
        model.demand.set_value(3.0)

    # What a solver or a user left in the model since is not another model.
    again = fit(pairs, model, method="static", checkpoint=tmp_path)

    assert np.array_equal(
        again.scenarios(pairs[0]), fitted("static").scenarios(pairs[0])
    )
    pd.testing.assert_frame_equal(again.history, fitted("static").history)


def one(x):
    return np.ones((len(x), 1))


def two(x):
    return 2 * np.ones((len(x), 1))


OTHERS = {
    "seed": {"seed": 1},
    "method": {"method": "direct"},
    "scenarios": {"scenarios": 3},
    "settings.noise": {"config": {**vars(QUICK), "noise": 0.2}},
    "network": {"network": csg.LocationScale(one, two)},
    "kernel": {"config": {**vars(QUICK), "kernel": lambda a, b: 2 * (a @ b.mT)}},
    "model": {"model": newsvendor.build(price=1.5)},
    "history": {"data": newsvendor.sample(40, seed=2)},
}


@pytest.mark.parametrize("what", OTHERS)
def test_a_checkpoint_of_another_fit_is_refused(tmp_path, pairs, what):
    options = {
        "data": pairs,
        "method": "mmd",
        "network": csg.LocationScale(one, one),
        "config": {**vars(QUICK), "kernel": lambda a, b: a @ b.mT},
        "checkpoint": tmp_path,
    }
    fit(**options)
    fit(**options)

    with pytest.raises(csg.DataError) as caught:
        fit(**{**options, **OTHERS[what]})

    (difference, *_) = caught.value.problems[1:]
    assert "it belongs to another fit" in str(caught.value)
    assert any(p.startswith(f"{what} is ") for p in caught.value.problems), difference


class Draws:
    def __init__(self, demand):
        self.demand = np.array(demand)

    def sample(self, x, n):
        return np.full((n, 1), self.demand)


def same(weights, scenarios, shares, outcomes):
    return (scenarios.mean(1) - outcomes.mean(1)).square().sum(-1)


@pytest.mark.parametrize(
    ("what", "option", "one", "other"),
    [
        (
            "losses",
            "method",
            csg.methods.Static(loss_kind=lambda y, w, c: c),
            csg.methods.Static(loss_kind=lambda y, w, c: c + y.sum(1)),
        ),
        (
            "distance",
            "method",
            csg.methods.MMD(distance=lambda *given: same(*given)),
            csg.methods.MMD(distance=lambda *given: 2 * same(*given)),
        ),
        ("distribution.draws", "distribution", Draws(2.0), Draws(3.0)),
    ],
)
def test_a_part_with_other_values_is_another_fit(
    tmp_path, pairs, what, option, one, other
):
    """Their names are the same: <lambda>, or that of the class."""
    common = {"method": "mmd", "checkpoint": tmp_path}
    for _ in range(2):
        fit(pairs, **{**common, option: one})
    with pytest.raises(csg.DataError, match="it belongs to another fit") as caught:
        fit(pairs, **{**common, option: other})
    assert any(p.startswith(f"{what} is ") for p in caught.value.problems)


def test_a_distance_sees_standard_deviations_alone(pairs):
    """Others may overflow, such as exponentials in a Sinkhorn divergence."""
    sizes = []

    def distance(weights, scenarios, shares, outcomes):
        sizes.append(float(outcomes.detach().abs().max()))
        return same(weights, scenarios, shares, outcomes)

    contexts, demands = pairs
    fit((contexts, 1e6 * demands), method=csg.methods.MMD(distance=distance))
    assert max(sizes) < 100


def test_a_network_of_other_weights_is_another_fit(tmp_path, pairs):
    torch.manual_seed(0)
    fit(pairs, method="mmd", network=UserNet(), checkpoint=tmp_path)

    with pytest.raises(csg.DataError, match="network is"):
        fit(pairs, method="mmd", network=UserNet(), checkpoint=tmp_path)
