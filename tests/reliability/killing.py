"""Fits that are killed at random moments, and how many labels they solved in all."""

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pyomo_csg as csg
from models import cep1
from pyomo_csg.learn.methods import labels
from pyomo_csg.policy import fit as fitting
from tests.quick import fit, shorten

CHUNK = 16  # labels that a checkpoint keeps at a time, so that there are many chunks
PAIRS = cep1.sample(30, seed=1)
LONGEST = 600  # seconds


class Counted(csg.Oracle):
    """Writes a line for every label before it is solved, where no kill undoes it."""

    log = ""

    def loss(self, scenarios, outcomes, *arguments, **options):
        lines = [
            hashlib.sha256(zetas.tobytes() + omega.tobytes()).hexdigest()
            for zetas, omega in zip(scenarios, outcomes, strict=True)
        ]
        with open(self.log, "a") as file:
            file.write("".join(f"{line}\n" for line in lines))
        return super().loss(scenarios, outcomes, *arguments, **options)


def fit_in_child(place, name):
    """Fork a process that fits with a checkpoint and saves the policy; return its id."""
    child = os.fork()
    if child:
        return child
    shorten()
    os.environ["SOURCE_DATE_EPOCH"] = "0"  # files also say when they were made
    labels._LINEAR_LABELS, fitting.Oracle = CHUNK, Counted
    Counted.log = place / f"{name}.labels"
    options = {"method": "dynamic", "checkpoint": place / name}
    fit(PAIRS, cep1.build(), **options).save(place / f"{name}.csg")
    os._exit(0)


def ended(child, seconds):
    """Wait for a process, kill it when the time is up; return whether it had ended."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if os.waitpid(child, os.WNOHANG)[0]:
            return True
        time.sleep(0.001)
    os.kill(child, signal.SIGKILL)
    return not os.WIFSIGNALED(os.waitpid(child, 0)[1])


def kill_fits(place, kills, seed):
    """Kill fits until there were so many kills, each fit going on until it is done."""
    moments, found = random.Random(seed), []
    start = time.monotonic()
    assert ended(fit_in_child(place, "whole"), LONGEST)
    seconds = time.monotonic() - start
    while kills:
        name, killed = f"run{len(found)}", 0
        while True:
            moment = moments.uniform(0, seconds) if kills else LONGEST
            if ended(fit_in_child(place, name), moment):
                break
            killed, kills = killed + 1, kills - 1
        found.append(compared(place, name, killed))
    return found


def compared(place, name, killed):
    """Return what became of a fit that was killed, beside the one that was not."""
    whole, mine = (
        Counter((place / f"{run}.labels").read_text().split())
        for run in ("whole", name)
    )
    files = [{file.name for file in (place / run).iterdir()} for run in ("whole", name)]
    policies = [(place / f"{run}.csg").read_bytes() for run in ("whole", name)]
    return {
        "kills": killed,
        "same policy": policies[0] == policies[1],
        "same files": files[0] == files[1],
        "labels": whole.total(),
        "left out": (whole - mine).total(),
        "solved again": (mine - whole).total(),
    }


def killed_fits(place, kills, seed=0):
    """Kill fits in a process that has no threads, from which forks are sound.

    Returns
    -------
    list of dict
        One for each fit, by :func:`compared`.
    """
    script = (
        "import sys; from tests.reliability.killing import main; main(*sys.argv[1:])"
    )
    output = subprocess.run(
        [sys.executable, "-c", script, str(place), str(kills), str(seed)],
        env={**os.environ, "PYTHONPATH": os.getcwd(), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        timeout=3 * LONGEST,
        check=True,
        text=True,
    )
    return json.loads(output.stdout)


def main(place, kills, seed):
    print(json.dumps(kill_fits(Path(place), int(kills), int(seed))))
