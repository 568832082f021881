"""Files from strangers: no code, no other path, no end of memory."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pyomo_csg as csg
from models import newsvendor
from pyomo_csg.learn.checkpoint import _STAGE, Checkpoint
from pyomo_csg.policy.policy_file import _POLICY
from tests import quick
from tests.reliability import mutations
from tests.reliability.forged_files import forge, parse
from tests.reliability.hostile import PolicyFile, Program, Stage

ROOT = Path(__file__).parents[2]
PAIRS = newsvendor.sample(20, seed=1)
POSIX = pytest.mark.skipif(sys.platform == "win32", reason="limits and links of POSIX")


@pytest.fixture(scope="module")
def policy_file(tmp_path_factory):
    return PolicyFile(tmp_path_factory.mktemp("policy"))


MUTATIONS = 2000


@POSIX
def test_many_mutations_and_every_bomb_end_in_words_and_in_little_memory():
    run = subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.reliability.soak",
            "files",
            f"--mutations={MUTATIONS}",
        ],
        check=True,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
    )

    found = json.loads(run.stdout.splitlines()[-1])
    assert found["refused"] + found["harmless"] == MUTATIONS
    assert found["refused"] > MUTATIONS / 2
    assert found["bombs"] >= 20
    assert found["grown_mb"] < found["room_mb"]


@pytest.mark.parametrize(
    ("place", "value", "found"),
    [
        (("reach",), float("nan"), "its reach is nan"),
        (("reach",), -1.0, "its reach is -1.0"),
        (("context_names",), ["a"], "not 2 different names"),
        (("context_names",), ["a", "a"], "not 2 different names"),
        (("context_shape",), [10**6, 2], "not plausible"),
        (("uncertain_params",), [3], "are not all text"),
        (("history", "rows"), [{}] * 2001, "at most 2000 rows"),
        (("history", "columns"), ["a"] * 2, "do not have different names"),
        (("history", "rows"), [{"loss": [1]}], "more than numbers and text"),
        (("history", "rows"), [{"loss": 10**400}], "more than numbers and text"),
        (("history", "rows"), [{"stage": 3}], "no valid 'stage'"),
        (("history", "rows"), [{"stage": "a", "loss": "b"}], "no valid 'loss'"),
        (("generator", "kind"), "pickle", "no generator of kind 'pickle'"),
        (("generator", "kind"), ["network"], "no generator of kind"),
        (("generator", "context_shape"), [3], "its contexts have shape"),
        (("generator", "context_shape"), [4, 2], "does not take contexts of shape"),
        (("generator", "body", "settings", "hidden"), "x" * 10**6, "not a size"),
        (("summary", "loss_net_errors"), {"error": "much"}, "summary cannot be shown"),
        (("summary", "candidates"), [3], "summary cannot be shown"),
        (("generator", "body", "kind"), "os.system", "no network of kind"),
    ],
)
def test_a_sound_checksum_does_not_make_content_sound(policy_file, place, value, found):
    stored = json.loads(json.dumps(policy_file.stored))
    inner = stored["header"]
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value

    with pytest.raises(csg.DataError, match=found):
        policy_file.read(policy_file.forged(stored, policy_file.arrays), False)


@pytest.mark.parametrize("number", [np.nan, np.inf, 1e300])
@pytest.mark.parametrize("name", ["center", "spread", "head.omega.center"])
def test_numbers_that_are_not_finite_are_refused(policy_file, name, number):
    arrays = {
        **policy_file.arrays,
        name: np.full_like(policy_file.arrays[name], number),
    }

    with pytest.raises(csg.DataError, match=f"'{name}' are not plausible"):
        policy_file.read(policy_file.forged(policy_file.stored, arrays), False)


def test_a_policy_of_your_own_module_that_gives_no_numbers_is_refused(policy_file):
    learned = policy_file.policy.learned
    weight = learned.network.body.layers[0].weight
    kept = weight.detach().clone()
    try:
        weight.data.fill_(np.nan)
        with pytest.raises(csg.DataError, match="not finite; fit it again"):
            csg.Policy(newsvendor.build(), learned)
    finally:
        weight.data.copy_(kept)


def test_nothing_in_a_file_is_run(policy_file, tmp_path):
    trap = tmp_path / "trap"
    for text in (
        f"cos\nsystem\n(S'touch {trap}'\ntR.",  # a pickle's way to call
        f"__import__('os').system('touch {trap}')",
        f"{{0.__class__.__init__.__globals__[os].system('touch {trap}')}}",
    ):
        for place in ("model", "method"):
            header = {**policy_file.stored["header"], place: text}
            stored = {**policy_file.stored, "header": header}
            policy_file.read(policy_file.forged(stored, policy_file.arrays), False)
        with pytest.raises(csg.DataError):
            policy_file.read(text.encode() + _POLICY.name.encode(), False)

    assert not trap.exists()


def stage_files(folder):
    return sorted(folder.glob("*.safetensors"))


def test_a_fit_goes_on_from_forged_stages_to_a_refusal_or_to_a_sound_policy(tmp_path):
    options = {"method": "static", "checkpoint": tmp_path / "run"}
    quick.fit(PAIRS, **options)
    kept = {file: file.read_bytes() for file in stage_files(tmp_path / "run")}
    refused = 0
    for number in range(12):
        file = list(kept)[number % len(kept)]
        stored, arrays = parse(file)
        forged = mutations.numbers(arrays, np.random.default_rng(number))
        file.write_bytes(forge(_STAGE, stored, forged))
        try:
            policy = quick.fit(PAIRS, **options)
            assert np.isfinite(policy.scenarios(np.zeros((3, 2)))).all()
        except csg.CsgError as error:
            refused += 1
            assert str(error)
        for path, data in kept.items():
            path.write_bytes(data)
    assert len(kept) > 1 and 0 < refused < 12


@POSIX
@pytest.mark.parametrize("name", ["lock", "identity.json", "labels.safetensors"])
def test_links_out_of_a_checkpoint_are_not_followed(tmp_path, name):
    stage = Stage(tmp_path)
    secret = tmp_path / "secret"
    whole = (stage.folder / name).read_bytes()
    secret.write_bytes(whole)
    (stage.folder / name).unlink()
    (stage.folder / name).symlink_to(secret)

    if name == stage.path.name:  # as if it were damaged
        stage.read_again()
        assert not stage.path.is_symlink()
    else:
        with pytest.raises(csg.DataError, match="Cannot use checkpoint folder"):
            stage.read_again()
    assert secret.read_bytes() == whole


@POSIX
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_file_keeps_nobody_waiting(tmp_path, make):
    for number, kind in enumerate((Stage, Program)):
        folder = tmp_path / f"{kind.__name__}{number}"
        folder.mkdir()
        target = kind(folder)
        target.path.unlink()
        make(target.path)
        if kind is Program:
            assert target.cache.read(target.case) is None
        elif make is os.mkfifo:
            target.read_again()


def test_a_cache_believes_no_numbers_that_are_none(tmp_path):
    program = Program(tmp_path)

    def read(name=None, value=None, **arrays):
        header = dict(program.stored["header"])
        header.update({} if name is None else {name: value})
        stored = {**program.stored, "header": header}
        program.path.write_bytes(program.forged(stored, {**program.arrays, **arrays}))
        return program.cache.read(program.case)

    for name, value in (
        ("value", "low"),
        ("value", float("inf")),
        ("value", None),
        ("value", True),
        ("value", 10**400),
        ("bound", [1.0]),
        ("status", 3),
    ):
        assert read(name, value) is None, name
    for decision in (np.array(1.0), np.array([np.inf]), np.ones((1, 1))):
        assert read(decision=decision) is None
    assert read().value == -0.7


def test_what_a_fit_itself_breaks_is_not_blamed_on_its_folder(tmp_path):
    def broken():
        raise KeyError("mine")

    with pytest.raises(KeyError), Checkpoint(tmp_path, {}) as kept:
        kept.stage("first", broken)
