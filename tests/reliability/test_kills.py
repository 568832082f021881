"""Kills, full disks and two fits at once: nothing is lost, and nothing is half there."""

import errno
import json
import os
import threading
from concurrent.futures import ProcessPoolExecutor
from importlib.metadata import version

import numpy as np
import pandas as pd
import pytest

import pyomo_csg as csg
from models import newsvendor
from pyomo_csg.cli.user_files import write_table
from pyomo_csg.learn import package_versions
from pyomo_csg.solve import batch as batches
from tests.learn.test_checkpoint import small_disk
from tests.quick import fit, shorten
from tests.reliability.killing import CHUNK, killed_fits
from tests.solve.test_parallel import DeadlyPool, _always_die

PAIRS = newsvendor.sample(40, seed=1)
KILLS = 4


@pytest.fixture(autouse=True)
def short(monkeypatch):
    shorten(monkeypatch.setattr)


@pytest.fixture(scope="module")
def policy():
    """Return a policy that nothing has disturbed."""
    with pytest.MonkeyPatch.context() as patch:
        shorten(patch.setattr)
        return fit(PAIRS, method="static")


def assert_same(one, other):
    """See that two policies are the same to the last bit."""
    assert np.array_equal(one.scenarios(PAIRS[0]), other.scenarios(PAIRS[0]))
    assert one.learned.summary == other.learned.summary
    pd.testing.assert_frame_equal(one.history, other.history, check_exact=True)


def contents(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir()}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills by a signal of POSIX")
def test_fits_killed_at_random_moments_end_the_same_and_solve_no_label_in_vain(
    tmp_path,
):
    found = killed_fits(tmp_path, KILLS)

    assert sum(fit["kills"] for fit in found) == KILLS
    for killed in found:
        assert killed["same policy"] and killed["same files"]
        assert killed["labels"] > 10 * CHUNK and killed["left out"] == 0
        assert killed["solved again"] <= CHUNK * killed["kills"]


def test_a_fit_whose_worker_is_killed_in_a_batch_ends_the_same(
    policy, tmp_path, caplog
):
    DeadlyPool.path = str(tmp_path / "died")
    with DeadlyPool(2) as pool:
        found = fit(PAIRS, method="static", executor=pool, workers=2)

    assert os.path.exists(DeadlyPool.path) and "A worker died" in caplog.text
    assert_same(found, policy)


def test_the_case_of_a_fresh_batch_that_kills_all_workers_is_named(monkeypatch):
    monkeypatch.setattr(batches, "work", _always_die)
    with ProcessPoolExecutor(1) as executor:
        oracle = csg.Oracle(newsvendor.build(), executor=executor)
        with pytest.raises(csg.SolveError, match="Case 2: worker died"):
            oracle.solve([[[9.0]], [[7.0]], [[5.0]]], fresh=True)


WRITERS = {
    "policy": lambda path, policy: policy.save(path),
    "page": lambda path, policy: policy.report(path),
    "table": lambda path, policy: write_table(path, pd.DataFrame(np.ones((9000, 2)))),
}


@pytest.mark.parametrize("what", WRITERS)
def test_a_file_for_which_there_is_no_room_leaves_the_old_one_whole(policy, what):
    with small_disk(4096) as (disk, code):
        path = disk / "result.csv"
        path.write_bytes(b"of yesterday")
        with pytest.raises(csg.DataError) as error:
            WRITERS[what](path, policy)
        left = contents(disk)

    assert left == {"result.csv": b"of yesterday"}
    assert error.value.subject == f"'{path}' cannot be written"
    assert error.value.problems == (
        f"{os.strerror(code)}; free some space, or choose another path",
    )


def test_a_fit_on_a_full_disk_goes_on_when_there_is_room(policy):
    with small_disk(2**22) as (disk, code):
        if code != errno.ENOSPC:
            pytest.skip("a disk of its own needs the right to mount")
        filler = disk / "filler"
        filler.write_bytes(bytes(2**22 - 8 * 4096))
        with pytest.raises(csg.DataError, match="No space left on device; give a") as e:
            fit(PAIRS, method="static", checkpoint=disk / "run")
        kept = contents(disk / "run")
        filler.unlink()
        found = fit(PAIRS, method="static", checkpoint=disk / "run")
        after = contents(disk / "run")

    assert e.value.subject == f"Cannot use checkpoint folder '{disk / 'run'}'"
    stages = [name for name in kept if name.endswith(".safetensors")]
    assert stages and not any(name.endswith(".partial") for name in kept)
    assert all(after[name] == kept[name] for name in stages)
    assert_same(found, policy)


def test_a_second_fit_in_the_folder_of_one_at_work_is_refused(policy, tmp_path):
    begun, resume = threading.Event(), threading.Event()

    def wait(entry):
        begun.set()
        resume.wait(60)

    options = {"method": "static", "checkpoint": tmp_path}
    found = []
    first = threading.Thread(
        target=lambda: found.append(fit(PAIRS, callback=wait, **options))
    )
    first.start()
    assert begun.wait(60)
    try:
        with pytest.raises(csg.DataError) as error:
            fit(PAIRS, **options)
    finally:
        resume.set()
        first.join()

    assert error.value.subject == f"Cannot use checkpoint folder '{tmp_path}'"
    assert error.value.problems[0].startswith(f"process {os.getpid()} on ")
    assert_same(found[0], policy)
    assert_same(fit(PAIRS, **options), policy)


def test_a_checkpoint_of_another_version_is_refused(tmp_path, monkeypatch):
    options = {"method": "mmd", "checkpoint": tmp_path}
    fit(PAIRS, **options)
    before, torch = contents(tmp_path), version("torch")

    def later(package):
        return "99.1" if package == "torch" else version(package)

    monkeypatch.setattr(package_versions, "version", later)
    with pytest.raises(csg.DataError) as error:
        fit(PAIRS, **options)

    found = f"versions.torch is '99.1' now and was '{torch}'"
    assert error.value.problems[1:] == (found,)
    assert contents(tmp_path) == before


def test_a_checkpoint_of_a_later_format_is_refused(tmp_path):
    fit(PAIRS, method="mmd", checkpoint=tmp_path)
    file = tmp_path / "identity.json"
    file.write_text(
        json.dumps({**json.loads(file.read_text()), "checkpoint_format": 9})
    )

    with pytest.raises(csg.DataError, match="checkpoint_format is 1 now and was 9"):
        fit(PAIRS, method="mmd", checkpoint=tmp_path)


def test_a_damaged_stage_of_a_checkpoint_is_made_again(policy, tmp_path, caplog):
    options = {"method": "static", "checkpoint": tmp_path}
    fit(PAIRS, **options)
    stages = list(tmp_path.glob("*.safetensors"))
    for file in stages:
        content = bytearray(file.read_bytes())
        content[-1] ^= 1
        file.write_bytes(content)

    for _ in range(2):
        assert_same(fit(PAIRS, **options), policy)

    assert caplog.text.count("computing the stage again") == len(stages) > 3
