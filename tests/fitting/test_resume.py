"""Fits that were killed, interrupted or changed, and what their checkpoints say."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
import torch

import pyomo_csg as csg
from models import newsvendor
from tests.fitting.test_given import Own
from tests.quick import QUICK, fit

PREPARED = """
import os, random, signal, sys, time
from pathlib import Path
from models import newsvendor
from tests.quick import fit, shorten

folder, method, workers = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])

def fit_it():
    fit(newsvendor.sample(40, seed=1), method=method, workers=workers, checkpoint=folder)

PEEK = os.WEXITED | os.WNOHANG | os.WNOWAIT

def kept():
    return len(list(folder.glob("*.safetensors")))

if __name__ == "__main__":
    shorten()
"""
KILLED = f"""{PREPARED}
    moments = random.Random(0)
    for _ in range(3):
        before = kept()
        child = os.fork()
        if child == 0:
            fit_it()
            os._exit(0)
        while kept() <= before and os.waitid(os.P_PID, child, PEEK) is None:
            time.sleep(0.001)
        time.sleep(moments.uniform(0, 0.03))
        os.kill(child, signal.SIGKILL)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), kept() > before)
"""
INTERRUPTED = f"""{PREPARED}
    fit_it()
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


def assert_goes_on_to(policy, pairs, method, folder):
    """See that the same call ends with this policy, to the last bit."""
    resumed = fit(pairs, method=method, checkpoint=folder)
    contexts = newsvendor.sample(20, seed=2)[0]
    assert np.array_equal(resumed.scenarios(contexts), policy.scenarios(contexts))
    assert resumed.report() == policy.report()
    assert resumed.learned.summary == policy.learned.summary
    pd.testing.assert_frame_equal(resumed.history, policy.history, check_exact=True)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills by a signal of POSIX")
@pytest.mark.parametrize("method", ["auto", "dynamic"])
def test_a_fit_that_was_killed_goes_on_and_ends_the_same(
    tmp_path, pairs, fitted, method
):
    folder = tmp_path / "run"
    process = run(tmp_path, KILLED, folder, method, 1)
    told, errors = process.communicate(timeout=100)

    # Killed, each time after it had come further than before; a quick one may end.
    assert told.splitlines().count("-9 True") >= 2, errors
    assert_goes_on_to(fitted(method), pairs, method, folder)


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="interrupts by a signal of POSIX")
def test_an_interrupted_fit_ends_at_once_and_goes_on_later(tmp_path, pairs, fitted):
    folder = tmp_path / "run"
    process = run(tmp_path, INTERRUPTED, folder, "auto", 2)
    while process.poll() is None and len(list(folder.glob("*.safetensors"))) < 2:
        time.sleep(0.001)

    os.killpg(process.pid, signal.SIGINT)  # as a terminal does, workers included
    _, told = process.communicate(timeout=60)

    assert process.returncode not in (0, None)
    assert told.rstrip().endswith("KeyboardInterrupt")
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
    assert "it holds another fit" in str(caught.value)
    assert any(p.startswith(f"{what} is ") for p in caught.value.problems), difference


def test_a_network_of_other_weights_is_another_fit(tmp_path, pairs):
    torch.manual_seed(0)
    fit(pairs, method="mmd", network=Own(), checkpoint=tmp_path)

    with pytest.raises(csg.DataError, match="network is"):
        fit(pairs, method="mmd", network=Own(), checkpoint=tmp_path)
