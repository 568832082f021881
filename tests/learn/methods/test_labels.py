"""Labels in chunks: exact, stored, resumed after a kill, with failures counted."""

import json
import os
import random
import signal
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyomo.environ as pyo
import pytest

import pyomo_csg as csg
from models import cep1, newsvendor
from pyomo_csg.learn.checkpoint import Checkpoint
from pyomo_csg.learn.methods import labels
from pyomo_csg.learn.methods.labels import label_losses
from pyomo_csg.learn.progress import TrainingLog
from tests.learn.test_checkpoint import names, run
from tests.solve.test_faults import no_complete_recourse

COST, PRICE, SALVAGE = 1.0, 1.05, 0.1


def task_of(oracle, checkpoint=None, progress=False):
    """Return what labeling needs of a task."""
    checkpoint = Checkpoint(None, {}) if checkpoint is None else checkpoint

    def loss(zetas, outcomes, kind, weights, rows):
        options = {"weights": weights, "on_error": "record"}
        options |= {"progress": False, "fresh": True}
        return oracle.loss(zetas, outcomes, kind, **options)

    log = TrainingLog(progress)
    return SimpleNamespace(oracle=oracle, log=log, checkpoint=checkpoint, loss=loss)


def newsvendor_cost(order, demand):
    """Return the cost in closed form."""
    left = np.maximum(order - demand, 0)
    return COST * order - PRICE * np.minimum(order, demand) - SALVAGE * left


def demands(*shape, seed=0):
    """Return demands of the newsvendor."""
    return np.random.default_rng(seed).uniform(5, 25, shape)


def cep1_cases(n, count, seed=0):
    """Return scenarios (n, count, 3) and outcomes (n, 3) of CEP1."""
    drawn = np.random.default_rng(seed).uniform(0, 3000, (n, count + 1, 3))
    return drawn[:, :-1], drawn[:, -1]


class Counting(csg.Oracle):
    """Counts the cases of every batch before it solves them."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.asked = []

    def loss(self, scenarios, *arguments, **options):
        self.asked.append(len(scenarios))
        return super().loss(scenarios, *arguments, **options)

    def cost(self, decisions, *arguments, **options):
        self.asked.append(len(decisions))
        return super().cost(decisions, *arguments, **options)


@pytest.fixture
def small_chunks(monkeypatch):
    """Seven labels a chunk, and twenty costs."""
    monkeypatch.setattr(labels, "_LINEAR_LABELS", 7)


@pytest.mark.parametrize("count", [1, 5])
@pytest.mark.parametrize("n", [1, 7, 30])
def test_labels_are_l_opt_in_the_order_of_the_cases(small_chunks, n, count):
    zetas, omegas = demands(n, count, 1), demands(n, 1, seed=1)
    found = label_losses(
        task_of(csg.Oracle(newsvendor.build())), "labels", zetas, omegas
    )
    # The critical ratio is 1/19: of up to 19 demands, equally likely, order the least.
    expected = newsvendor_cost(zetas.min(axis=1), omegas)[:, 0]
    assert found.shape == (n,)
    assert found == pytest.approx(expected, rel=1e-12)


def test_labels_of_weighted_scenarios(small_chunks):
    zetas, omegas = np.sort(demands(20, 3, 1), axis=1), demands(20, 1, seed=1)
    weights = np.tile([0.02, 0.9, 0.08], (20, 1))  # the second passes 1/19
    weights[::2] = [0.06, 0.0, 0.94]  # the first does
    oracle = csg.Oracle(newsvendor.build())
    found = label_losses(task_of(oracle), "labels", zetas, omegas, weights)
    order = np.where(np.arange(20) % 2, zetas[:, 1, 0], zetas[:, 0, 0])
    assert found == pytest.approx(newsvendor_cost(order, omegas[:, 0]), rel=1e-12)


def test_no_cases_have_no_labels():
    task = task_of(csg.Oracle(newsvendor.build()))
    assert label_losses(task, "labels", np.ones((0, 2, 1)), np.ones((0, 1))).shape == (
        0,
    )


def test_a_case_without_an_answer_is_nan_and_told_with_its_reason(
    small_chunks, tmp_path, caplog
):
    zetas = np.full((20, 1, 1), 5.0)
    zetas[[3, 16]] = 20.0  # 13 is what both stages can make up for
    omegas = np.full((20, 1), 8.0)
    expected = np.full(20, 11.0)
    expected[[3, 16]] = np.nan
    for _ in range(2):
        caplog.clear()
        with Checkpoint(tmp_path, {}) as checkpoint:
            task = task_of(csg.Oracle(no_complete_recourse()), checkpoint)
            found = label_losses(task, "labels", zetas, omegas)
        assert found == pytest.approx(expected, nan_ok=True)
        (record,) = caplog.records
        assert record.getMessage() == (
            "labels: 2 of 20 programs could not be solved; the first reason: infeasible"
        )
        assert task.log.entries[-1]["loss"] == pytest.approx(11)


def test_scenarios_that_are_not_finite_do_not_spoil_the_others(small_chunks, caplog):
    zetas, omegas = demands(20, 2, 1), demands(20, 1, seed=1)
    zetas[9, 1], weights = np.nan, np.full((20, 2), 0.5)
    weights[14:] = np.nan
    oracle = csg.Oracle(newsvendor.build())
    found = label_losses(task_of(oracle), "labels", zetas, omegas, weights)
    expected = newsvendor_cost(zetas.min(axis=1), omegas)[:, 0]
    expected[14:] = np.nan
    assert found == pytest.approx(expected, nan_ok=True, rel=1e-12)
    assert np.isnan(found[9])
    assert "7 of 20 programs could not be solved" in caplog.text
    assert "the first reason: scenarios that are not finite" in caplog.text


def test_finished_chunks_are_read_and_other_cases_are_solved(small_chunks, tmp_path):
    zetas, omegas = cep1_cases(24, 2)

    def labeled(zetas):
        with Checkpoint(tmp_path, {}) as checkpoint:
            task = task_of(Counting(cep1.build()), checkpoint)
            losses = label_losses(task, "labels", zetas, omegas)
        return losses, task.oracle.asked, task.log.table()

    first, again = labeled(zetas), labeled(zetas)
    assert first[1] == [7, 7, 7, 3] and again[1] == []
    assert again[0].tobytes() == first[0].tobytes()
    assert again[2].equals(first[2])
    zetas[10] = 0
    moved = labeled(zetas)
    assert moved[1] == [7]  # the chunk of case 10
    apart = np.abs(moved[0] / first[0] - 1)
    assert np.flatnonzero(apart > 1e-12).tolist() == [10]
    chunks = [f"labels-{start}.safetensors" for start in (0, 14, 21, 7)]
    assert [name for name in names(tmp_path) if "labels" in name] == chunks


def test_labels_of_integer_models_come_in_smaller_chunks(tmp_path):
    zetas, omegas = demands(40, 1, 1).round(), demands(40, 1, seed=1)
    whole = newsvendor.build()
    whole.order.domain = pyo.NonNegativeIntegers
    for number, model in enumerate([newsvendor.build(), whole]):
        with Checkpoint(tmp_path / str(number), {}) as checkpoint:
            task = task_of(csg.Oracle(model), checkpoint)
            found = label_losses(task, "labels", zetas, omegas)
        assert found == pytest.approx(newsvendor_cost(zetas[:, 0], omegas)[:, 0])
    assert len(names(tmp_path / "0")) == 3
    assert "labels-32.safetensors" in names(tmp_path / "1")


def test_labels_are_the_same_with_two_workers():
    zetas, omegas = cep1_cases(300, 3)
    found = []
    for workers in (1, 2):
        oracle = csg.Oracle(cep1.build(), workers=workers)
        found.append(label_losses(task_of(oracle), "labels", zetas, omegas))
    assert found[1].tobytes() == found[0].tobytes()


def test_every_chunk_is_logged_with_the_mean_loss_so_far(small_chunks):
    zetas, omegas = demands(20, 2, 1), demands(20, 1, seed=1)
    task = task_of(csg.Oracle(newsvendor.build()))
    losses = label_losses(task, "round 1", zetas, omegas)
    steps = [(e["stage"], e["step"]) for e in task.log.entries]
    assert steps == [("round 1", 7), ("round 1", 14), ("round 1", 20)]
    assert [e["loss"] for e in task.log.entries] == pytest.approx(
        [losses[:7].mean(), losses[:14].mean(), losses.mean()]
    )


class Interrupted(Counting):
    """Gets Ctrl-C while it solves its third batch."""

    def loss(self, *arguments, **options):
        found = super().loss(*arguments, **options)
        if len(self.asked) == 3:
            signal.raise_signal(signal.SIGINT)
        return found


@pytest.mark.parametrize("workers", [1, 2])
def test_ctrl_c_passes_through_and_leaves_whole_files(small_chunks, tmp_path, workers):
    zetas, omegas = demands(30, 2, 1), demands(30, 1, seed=1)
    with pytest.raises(KeyboardInterrupt), Checkpoint(tmp_path, {}) as checkpoint:
        oracle = Interrupted(newsvendor.build(), workers=workers)
        label_losses(task_of(oracle, checkpoint), "labels", zetas, omegas)
    chunks = ["labels-0.safetensors", "labels-7.safetensors"]
    assert names(tmp_path) == ["identity.json", *chunks, "lock"]
    with Checkpoint(tmp_path, {}) as checkpoint:
        oracle = Counting(newsvendor.build())
        found = label_losses(task_of(oracle, checkpoint), "labels", zetas, omegas)
    assert oracle.asked == [7, 7, 2]
    expected = newsvendor_cost(zetas.min(axis=1), omegas)[:, 0]
    assert found == pytest.approx(expected, rel=1e-12)


CHUNK, CHUNKS, KILLS = 32, 60, 6


class Logging(csg.Oracle):
    """Writes a line to a file before every batch that it solves."""

    log = ""

    def loss(self, scenarios, *arguments, **options):
        with open(self.log, "a") as file:
            file.write(f"{len(scenarios)}\n")
        return super().loss(scenarios, *arguments, **options)


def label_in_child(folder, log, result):
    """Fork a process that labels into a folder; return its id."""
    child = os.fork()
    if child:
        return child
    labels._LINEAR_LABELS, Logging.log = CHUNK, log
    with Checkpoint(folder, {"seed": 0}) as checkpoint:
        task = task_of(Logging(cep1.build()), checkpoint)
        np.save(result, label_losses(task, "labels", *cep1_cases(CHUNK * CHUNKS, 2)))
    os._exit(0)


def kill_and_resume(place):
    """Label once undisturbed, and once with kills at random moments; print a summary."""
    place, rng = Path(place), random.Random(0)
    folder, log, result = place / "run", place / "log", place / "killed.npy"
    log.touch()
    undisturbed = label_in_child(place / "other", place / "all", place / "whole.npy")
    ends = [os.waitpid(undisturbed, 0)[1]]
    stored = {}
    for _ in range(KILLS):
        batches = log.read_text().count("\n") + rng.randint(1, 3)
        child = label_in_child(folder, log, result)
        while log.read_text().count("\n") < batches:
            time.sleep(0.001)
        time.sleep(rng.uniform(0, 0.02))
        os.kill(child, signal.SIGKILL)
        ends.append(os.waitpid(child, 0)[1])
        stored |= {file.name: file.read_bytes() for file in folder.glob("labels*")}
    ends.append(os.waitpid(label_in_child(folder, log, result), 0)[1])
    kept = all((folder / name).read_bytes() == stored[name] for name in stored)
    summary = {"ends": ends, "stored": len(stored), "kept": kept}
    print(json.dumps(summary), flush=True)


def test_labels_killed_at_random_moments_are_resumed_without_a_difference(tmp_path):
    """Forked from one process that has imported everything, which takes the time."""
    script = """
        import sys
        from tests.learn.methods.test_labels import kill_and_resume
        kill_and_resume(sys.argv[1])
    """
    process = run(script, tmp_path)
    try:
        summary = json.loads(process.communicate(timeout=120)[0])
    finally:
        process.kill()
    assert summary["ends"] == [0, *[signal.SIGKILL] * KILLS, 0]
    assert summary["kept"] and KILLS <= summary["stored"] < CHUNKS
    whole, killed = (np.load(tmp_path / f"{n}.npy") for n in ("whole", "killed"))
    assert len(whole) == CHUNK * CHUNKS and np.isfinite(whole).all()
    assert killed.tobytes() == whole.tobytes()
    solved = np.loadtxt(tmp_path / "log").sum()
    # A kill loses the chunk at hand, and nothing that was finished before it.
    assert len(whole) <= solved <= len(whole) + KILLS * CHUNK
    assert names(tmp_path / "run") == names(tmp_path / "other")
