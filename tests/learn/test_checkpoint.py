"""Stages of a fit survive the process: stored whole, read back the same, or refused."""

import contextlib
import errno
import json
import logging
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import numpy as np
import pytest
import torch

import pyomo_csg as csg
from pyomo_csg.learn.checkpoint import Checkpoint
from pyomo_csg.learn.progress import TrainingLog

IDENTITY = {
    "data": "f" * 64,
    "scenarios": 5,
    "config": {"hidden": (64, 64), "noise": 0.3},
    "seed": 0,
}


def never():
    """Fail: a stage that is whole on disk was computed again."""
    raise AssertionError("computed again")


def arrays():
    """Return an array of every kind that a stage may hold, some of them awkward."""
    return {
        "z": np.array([np.nan, -0.0, np.inf, 1 / 3]),
        "a": np.array([[True, False, True]]),
        "index": np.arange(6, dtype=np.int64).reshape(2, 3).T,
        "scalar": np.array(2.5),
        "empty": np.zeros((0, 4)),
        "narrow": np.float32([0.1, 0.2]),
        "tensor": torch.arange(4, dtype=torch.float64, requires_grad=True),
        "bytes": np.frombuffer(b"infeasible", np.uint8),
    }


def same(found, expected):
    """Assert that two results are the same to the last bit."""
    assert list(found) == list(expected)
    for name, array in found.items():
        np.testing.assert_array_equal(array, expected[name], strict=True)
        assert array.tobytes() == expected[name].tobytes()
        assert array.flags.c_contiguous and array.flags.writeable


def names(folder):
    """Return the names of all files in a folder."""
    return sorted(file.name for file in Path(folder).iterdir())


def refused(folder, identity=IDENTITY):
    """Return the problems for which a folder is refused."""
    with pytest.raises(csg.DataError) as error, Checkpoint(folder, identity):
        pass
    assert f"'{folder}'" in error.value.subject
    return error.value.problems


def run(script, *arguments, **options):
    """Start Python on a script."""
    command = [sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)]
    env = {**os.environ, "PYTHONPATH": os.getcwd(), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        command, env=env, text=True, stdout=subprocess.PIPE, **options
    )


def test_a_stage_is_the_same_computed_kept_or_not_kept_at_all(tmp_path):
    plain = Checkpoint(None, {}).stage("s", arrays)
    with Checkpoint(tmp_path / "a" / "b", IDENTITY) as checkpoint:
        computed = checkpoint.stage("s", arrays)
        again = checkpoint.stage("s", never)
    with Checkpoint(str(tmp_path / "a" / "b"), IDENTITY) as checkpoint:
        read = checkpoint.stage("s", never)
    assert list(plain) == sorted(arrays())
    for found in (computed, again, read):
        same(found, plain)
    for name, given in arrays().items():
        given = given.detach().numpy() if name == "tensor" else given
        np.testing.assert_array_equal(plain[name], given, strict=True)


def test_a_stage_is_its_callers_own(tmp_path):
    given = {"a": np.ones(3)}
    with Checkpoint(tmp_path, {}) as checkpoint:
        checkpoint.stage("s", lambda: given)["a"][:] = 7
        checkpoint.stage("s", never)["a"][:] = 8
        assert (given["a"] == 1).all()
        assert (checkpoint.stage("s", never)["a"] == 1).all()


def test_without_a_folder_stages_are_computed_every_time(tmp_path):
    calls = []
    with Checkpoint(None, IDENTITY) as checkpoint:
        for _ in range(2):
            found = checkpoint.within("part").stage(
                "s", lambda: calls.append(1) or {"a": np.ones(2)}
            )
    assert len(calls) == 2 and (found["a"] == 1).all()


def test_a_stage_that_fails_leaves_nothing(tmp_path):
    def fail():
        raise KeyboardInterrupt

    with Checkpoint(tmp_path, {}) as checkpoint:
        with pytest.raises(KeyboardInterrupt):
            checkpoint.stage("s", fail)
        with pytest.raises(TypeError, match="'a' has dtype <U1"):
            checkpoint.stage("s", lambda: {"a": np.array(["x"])})
    assert names(tmp_path) == ["identity.json", "lock"]


def test_names_never_collide_and_never_leave_the_folder(tmp_path):
    odd = ["a/b", "a-b", "a+b", "../a", "..", "a b", "é", "labels[1]", "x" * 300]
    odd += ["x" * 299 + "y", "A%2Fb"]
    with Checkpoint(tmp_path / "run", {}) as checkpoint:
        views = [checkpoint, checkpoint.within("a"), checkpoint.within("a").within("b")]
        places = [(view, name) for view in views for name in odd]
        for number, (view, name) in enumerate(places):
            view.stage(name, lambda number=number: {"n": np.array(number)})
        for number, (view, name) in enumerate(places):
            assert view.stage(name, never)["n"] == number
    assert names(tmp_path) == ["run"]
    assert len(names(tmp_path / "run")) == len(places) + 2


def test_a_stage_for_other_inputs_is_computed_anew(tmp_path, caplog):
    with Checkpoint(tmp_path, {}) as checkpoint:
        for note in ("one", "two", None):
            found = checkpoint.stage(
                "s", lambda n=note: {"a": np.array(n == "two")}, note=note
            )
            assert found["a"] == (note == "two")
            checkpoint.stage("s", never, note=note)
    assert caplog.text.count("belongs to other inputs") == 2


def test_a_journal_reads_the_same_after_a_resumption(tmp_path):
    def fit(log):
        with log.stage("mmd", 3) as bar:
            for loss in (0.1, np.float64(1) / 3, float("nan")):
                bar.step(zeta=loss, lam=np.float32(0.5))
        return {"w": np.ones(2)}

    tables, heard = [], []
    for _ in range(2):
        heard.append([])
        log = TrainingLog(callback=heard[-1].append)
        log.record("before", 0, loss=1.0)
        with Checkpoint(tmp_path, {}) as checkpoint:
            checkpoint.stage("mmd", lambda j=log: fit(j), log=log)
        log.record("after", 0, loss=2.0)
        tables.append(log.table())
    assert list(tables[0].columns) == ["stage", "step", "loss", "zeta", "lam"]
    assert len(tables[0]) == 5
    np.testing.assert_equal(heard[1], heard[0])
    np.testing.assert_equal(tables[1].to_dict(), tables[0].to_dict())


@pytest.mark.parametrize("where", range(0, 100, 7))
def test_a_file_that_is_cut_short_or_changed_is_computed_anew(tmp_path, caplog, where):
    def compute():
        return {"a": np.linspace(0, 1, 50), "b": np.arange(3)}

    with Checkpoint(tmp_path, {}) as checkpoint:
        whole = checkpoint.stage("s", compute, note="n")
        (file,) = tmp_path.glob("*.safetensors")
        content = file.read_bytes()
        place = len(content) * where // 100
        flipped = bytes([content[place] ^ 4])
        for damaged in (
            content[:place],
            content[:place] + flipped + content[place + 1 :],
            content[:place] + b"\0" * (len(content) - place),
        ):
            caplog.clear()
            file.write_bytes(damaged)
            same(checkpoint.stage("s", compute, note="n"), whole)
            assert "computing the stage again" in caplog.text
            assert caplog.records[0].levelno == logging.WARNING
            same(checkpoint.stage("s", never, note="n"), whole)
    assert len(names(tmp_path)) == 3


def test_a_folder_of_another_fit_is_refused_by_what_differs(tmp_path):
    with Checkpoint(tmp_path, IDENTITY) as checkpoint:
        checkpoint.stage("s", arrays)
    before = {name: (tmp_path / name).read_bytes() for name in names(tmp_path)}
    other = {
        **IDENTITY,
        "config": {"hidden": (64, 32), "noise": 0.3, "draws": 8},
        "seed": np.int64(1),
    }
    del other["scenarios"]
    assert refused(tmp_path, other) == (
        "it belongs to another fit; give another folder, or delete this one to start over",
        "config.draws is 8 now and was missing",
        "config.hidden is [64, 32] now and was [64, 64]",
        "scenarios is missing now and was 5",
        "seed is 1 now and was 0",
    )
    assert {name: (tmp_path / name).read_bytes() for name in before} == before
    again = {**IDENTITY, "config": {"noise": 0.3, "hidden": [64, 64]}}
    with Checkpoint(tmp_path, again) as checkpoint:
        checkpoint.stage("s", never)


def test_an_identity_without_a_number_is_itself(tmp_path):
    for _ in range(2):
        with Checkpoint(tmp_path, {"regularization": float("nan")}) as checkpoint:
            checkpoint.stage("s", arrays)
    (problem,) = refused(tmp_path, {"regularization": 0.0})[1:]
    assert problem == "regularization is 0.0 now and was nan"


@pytest.mark.parametrize("content", ["", "{", "[1, 2]", "\x00\x01"])
def test_a_damaged_identity_is_refused(tmp_path, content):
    (tmp_path / "identity.json").write_text(content)
    (problem,) = refused(tmp_path)
    assert problem.startswith("identity.json is damaged (")
    assert problem.endswith("give another folder, or delete this one to start over")


def test_a_folder_with_someone_elses_files_is_not_written_over(tmp_path):
    (tmp_path / "weights.safetensors").write_bytes(b"precious")
    (problem,) = refused(tmp_path)
    assert problem.startswith("it has .safetensors files but no identity.json")
    assert (tmp_path / "weights.safetensors").read_bytes() == b"precious"


def test_a_checkpoint_is_used_in_a_with_statement(tmp_path):
    with pytest.raises(RuntimeError, match="within its with statement"):
        Checkpoint(tmp_path, {}).stage("s", arrays)


HOLD = """
    import os, sys, time
    from pyomo_csg.learn.checkpoint import Checkpoint

    with Checkpoint(sys.argv[1], {"seed": 0}) as checkpoint:
        if not os.fork():
            print(os.getpid(), flush=True)  # itself: by now it has let the lock go
        time.sleep(600)
"""


def test_a_held_folder_is_refused_until_its_holder_is_dead(tmp_path):
    holder = run(HOLD, tmp_path)
    orphan = int(holder.stdout.readline())
    try:
        (problem,) = refused(tmp_path, {"seed": 0})
        assert re.match(rf"process {holder.pid} on \S+ is using it; wait", problem)
        holder.kill()
        holder.wait()
        # A worker that the dead process had forked is no reason to refuse.
        os.kill(orphan, 0)
        with Checkpoint(tmp_path, {"seed": 0}) as checkpoint:
            checkpoint.stage("s", arrays)
            assert f"process {os.getpid()} on" in refused(tmp_path, {"seed": 0})[0]
            checkpoint.stage("s", never)
    finally:
        os.kill(orphan, signal.SIGKILL)
        holder.kill()
        holder.communicate()


def test_a_folder_is_given_back_whatever_happens(tmp_path):
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), Checkpoint(tmp_path, {}):
            raise ZeroDivisionError
        assert "it belongs to another fit" in refused(tmp_path, {"seed": 1})[0]
    with Checkpoint(tmp_path, {}) as checkpoint:
        checkpoint.stage("s", arrays)


def test_what_a_kill_left_half_written_is_cleared_away(tmp_path):
    with Checkpoint(tmp_path, {}) as checkpoint:
        checkpoint.stage("s", arrays)
    (tmp_path / ".0123.partial").write_bytes(b"half")
    with Checkpoint(tmp_path, {}) as checkpoint:
        checkpoint.stage("s", never)
    assert names(tmp_path) == ["identity.json", "lock", "s.safetensors"]


@contextlib.contextmanager
def small_disk(size):
    """Yield a folder in which no more than about size bytes fit, and the error's code."""
    with tempfile.TemporaryDirectory() as folder:
        mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder]
        if (
            os.geteuid() == 0
            and subprocess.run(mount, check=False, capture_output=True).returncode == 0
        ):
            try:
                yield Path(folder), errno.ENOSPC
            finally:
                subprocess.run(["umount", folder], check=True)
            return
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
        try:
            yield Path(folder), errno.EFBIG
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_is_an_error_that_loses_nothing():
    small, large = {"a": np.arange(500.0)}, {"a": np.zeros(2**18)}
    with small_disk(2**18) as (disk, code):
        folder = disk / "run"
        with Checkpoint(folder, {"seed": 0}) as checkpoint:
            checkpoint.stage("small", lambda: small)
            before = {name: (folder / name).read_bytes() for name in names(folder)}
            for _ in range(2):
                with pytest.raises(csg.DataError) as error:
                    checkpoint.stage("large", lambda: large)
            after = {name: (folder / name).read_bytes() for name in names(folder)}
            found = checkpoint.stage("small", never)
            checkpoint.stage("next", lambda: small)
    assert after == before
    assert error.value.subject == f"Cannot use checkpoint folder '{folder}'"
    (problem,) = error.value.problems
    assert problem.startswith(f"{os.strerror(code)}; give a folder that can be written")
    assert "finished stages are kept" in problem
    same(found, small)


@contextlib.contextmanager
def unprivileged():
    """Be someone whom permissions bind, even if we are root."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)


def test_a_folder_that_cannot_be_written_is_refused():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "run"
        with Checkpoint(folder, IDENTITY) as checkpoint:
            checkpoint.stage("s", arrays)
        Path(name).chmod(0o755)
        folder.chmod(0o555)
        (folder / "lock").chmod(0o444)
        with unprivileged():
            for path in (folder, Path(name) / "run" / "new"):
                (problem,) = refused(path)
                assert problem.startswith("Permission denied; give a folder that can")
        folder.chmod(0o755)
        (folder / "lock").chmod(0o644)


def test_a_file_in_the_folders_place_is_refused(tmp_path):
    (tmp_path / "run").write_text("not a folder")
    assert refused(tmp_path / "run")[0].startswith("File exists; give a folder")


def test_the_identity_can_be_read_by_a_person(tmp_path):
    with Checkpoint(tmp_path, IDENTITY):
        pass
    text = (tmp_path / "identity.json").read_text()
    assert '\n  "seed": 0' in text
    assert json.loads(text)["config"] == {"hidden": [64, 64], "noise": 0.3}
