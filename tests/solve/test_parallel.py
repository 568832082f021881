"""Workers, processes, Dask and MPI give the same answers as one thread."""

import importlib
import os
import pickle
import signal
import subprocess
import sys
import textwrap
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest

import pyomo_csg as csg
from models import cep1, mnv, newsvendor
from pyomo_csg import progress_bars
from pyomo_csg.solve import batch as batches
from tests.solve.test_faults import no_complete_recourse
from tests.solve.test_oracle import batch


@pytest.fixture(scope="module")
def cases():
    """Return scenarios, outcomes and their losses by one thread."""
    zetas, omegas = batch(cep1.build(), count=60)
    return zetas, omegas, csg.Oracle(cep1.build()).loss(zetas, omegas)


def test_executor_that_was_shut_down_is_a_clear_error(cases):
    zetas, omegas, _ = cases
    executor = ThreadPoolExecutor(1)
    oracle = csg.Oracle(cep1.build(), executor=executor)
    executor.shutdown()
    with pytest.raises(csg.CsgError, match="executor does not take tasks"):
        oracle.loss(zetas, omegas)


def test_two_threads(cases):
    zetas, omegas, losses = cases
    oracle = csg.Oracle(cep1.build(), workers=2)
    assert oracle.loss(zetas, omegas) == pytest.approx(losses, rel=1e-12)
    assert oracle.stats.solves >= 60


def test_processes(cases):
    zetas, omegas, losses = cases
    with ProcessPoolExecutor(2) as executor:
        oracle = csg.Oracle(cep1.build(), executor=executor, workers=2)
        assert oracle.loss(zetas, omegas) == pytest.approx(losses, rel=1e-12)
        assert oracle.stats.solves >= 60


def test_processes_with_an_appsi_solver():
    zetas, omegas = batch(newsvendor.build(), count=6)
    losses = csg.Oracle(newsvendor.build()).loss(zetas, omegas)
    with ProcessPoolExecutor(2) as executor:
        oracle = csg.Oracle(
            newsvendor.build(), solver="appsi_highs", executor=executor, workers=2
        )
        assert oracle.loss(zetas, omegas) == pytest.approx(losses, rel=1e-6)


def test_dask(cases):
    distributed = pytest.importorskip("distributed")
    zetas, omegas, losses = cases
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        oracle = csg.Oracle(cep1.build(), executor=client.get_executor(), workers=2)
        assert oracle.loss(zetas, omegas) == pytest.approx(losses, rel=1e-12)


class DeadlyDask:
    """A Dask executor whose workers are killed, once or for good."""

    def __init__(self, executor, deadly, *arguments):
        self._executor, self._deadly, self._arguments = executor, deadly, arguments

    def submit(self, function, /, *arguments):
        return self._executor.submit(self._deadly, *self._arguments, *arguments)


@pytest.fixture(scope="module")
def dask():
    """Return the executor of a process that Dask replaces when it dies."""
    distributed = pytest.importorskip("distributed")
    settings = {
        "distributed.scheduler.allowed-failures": 1,
        "distributed.worker.multiprocessing-method": "forkserver",
    }
    with importlib.import_module("dask").config.set(settings):
        # Forked from a process that has imported everything, which takes the time.
        context = distributed.utils.get_mp_context()
        context.set_forkserver_preload(["distributed", "pyomo_csg"])
        with (
            distributed.LocalCluster(
                n_workers=1, threads_per_worker=1, dashboard_address=None
            ) as cluster,
            distributed.Client(cluster) as client,
        ):
            yield client.get_executor()


def test_cases_are_solved_again_by_the_worker_that_dask_puts_in_place_of_a_dead_one(
    cases, tmp_path, dask
):
    zetas, omegas, losses = cases
    path = str(tmp_path / "died")
    executor = DeadlyDask(dask, _deadly_work, path)
    oracle = csg.Oracle(cep1.build(), executor=executor, workers=1)
    assert oracle.loss(zetas, omegas) == pytest.approx(losses, rel=1e-12)
    assert os.path.exists(path)


def test_cases_that_kill_every_worker_of_dask_end_in_an_error(cases, dask):
    zetas, omegas, losses = cases
    executor = DeadlyDask(dask, _deadly_for, zetas[40])
    oracle = csg.Oracle(cep1.build(), executor=executor, workers=1)
    with pytest.raises(csg.SolveError, match="Case 30: worker died") as error:
        oracle.loss(zetas, omegas)
    assert error.value.__suppress_context__
    assert oracle.loss(zetas[:20], omegas[:20]) == pytest.approx(losses[:20])


def _deadly_for(zeta, *arguments):
    """Kill this process if these scenarios are among those of a chunk."""
    if (arguments[1].scenarios == zeta).all(axis=(1, 2)).any():
        os.kill(os.getpid(), signal.SIGKILL)
    return batches.work(*arguments)


def test_mpi(cases, tmp_path):
    pytest.importorskip("mpi4py")
    zetas, omegas, losses = cases
    np.savez(tmp_path / "cases.npz", zetas=zetas, omegas=omegas)
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            """
            import sys
            import numpy as np
            from mpi4py.futures import MPIPoolExecutor
            import pyomo_csg as csg
            from models import cep1

            if __name__ == "__main__":
                cases = np.load(sys.argv[1])
                # Nothing here is for the workers; rank 0 would spin while they load it.
                with MPIPoolExecutor(main=False) as executor:
                    oracle = csg.Oracle(cep1.build(), executor=executor, workers=2)
                    losses = oracle.loss(cases["zetas"], cases["omegas"])
                np.save(sys.argv[2], losses)
            """
        )
    )
    mpiexec = os.path.join(os.path.dirname(sys.executable), "mpiexec")
    command = [mpiexec, "-n", "3", sys.executable, "-m", "mpi4py.futures", str(script)]
    subprocess.run(
        [*command, str(tmp_path / "cases.npz"), str(tmp_path / "losses.npy")],
        check=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": os.getcwd(), "OMP_NUM_THREADS": "1"},
    )
    assert np.load(tmp_path / "losses.npy") == pytest.approx(losses, rel=1e-12)


def _die_once(path):
    """Kill this process, unless it was done before."""
    if not os.path.exists(path):
        open(path, "w").close()
        os.kill(os.getpid(), signal.SIGKILL)


def _deadly_work(path, *arguments):
    _die_once(path)
    return batches.work(*arguments)


class DeadlyPool(ProcessPoolExecutor):
    """A pool of which one worker is killed in the middle of a batch."""

    path = ""

    def submit(self, function, /, *arguments, **more):
        return super().submit(_deadly_work, self.path, *arguments)


def test_a_worker_that_is_killed_is_replaced_and_its_cases_solved_again(
    cases, tmp_path, caplog
):
    zetas, omegas, losses = cases
    DeadlyPool.path = str(tmp_path / "died")
    with DeadlyPool(2) as executor:
        oracle = csg.Oracle(cep1.build(), executor=executor, workers=2)
        assert oracle.loss(zetas, omegas) == pytest.approx(losses, rel=1e-12)
    assert os.path.exists(DeadlyPool.path)
    assert "A worker died" in caplog.text
    assert oracle.loss(zetas, omegas) == pytest.approx(losses, rel=1e-12)


def test_appsi_solvers_get_processes_since_pyomo_is_not_safe_in_threads():
    zetas, omegas = batch(newsvendor.build(), count=6)
    losses = csg.Oracle(newsvendor.build()).loss(zetas, omegas)
    oracle = csg.Oracle(newsvendor.build(), solver="appsi_highs", workers=2)
    assert oracle.loss(zetas, omegas) == pytest.approx(losses, rel=1e-6)


def test_cases_that_kill_every_worker_end_in_an_error(monkeypatch):
    monkeypatch.setattr(batches, "work", _always_die)
    with ProcessPoolExecutor(1) as executor:
        oracle = csg.Oracle(newsvendor.build(), executor=executor)
        with pytest.raises(csg.SolveError, match="worker died"):
            oracle.solve([[5.0]])


def _always_die(*_):
    os.kill(os.getpid(), signal.SIGKILL)


def test_failures_keep_their_numbers_across_chunks():
    demand = np.full((40, 1, 1), 5.0)
    demand[[7, 23, 39]] = 99.0
    oracle = csg.Oracle(no_complete_recourse(), workers=2)
    solution = oracle.solve(demand, on_error="record")
    assert [failure.case for failure in oracle.failures] == [7, 23, 39]
    assert np.flatnonzero(np.isnan(solution.value)).tolist() == [7, 23, 39]


def test_a_long_batch_shows_a_bar(capfd, monkeypatch):
    monkeypatch.setattr(progress_bars, "_DELAY_SECONDS", 0.0)
    monkeypatch.setattr(batches, "_MOST_CASES", 50)
    zetas, omegas = batch(newsvendor.build(), count=200)
    oracle = csg.Oracle(newsvendor.build())
    oracle.loss(zetas, omegas)
    shown = capfd.readouterr().err
    assert "losses" in shown and "200/200" in shown and "cases/s" in shown
    oracle.loss(zetas, omegas, progress=False)
    assert capfd.readouterr().err == ""


class Counting(ThreadPoolExecutor):
    """Threads that count what they are asked to do."""

    count = 0

    def submit(self, *arguments, **options):
        self.count += 1
        return super().submit(*arguments, **options)


def test_two_workers_share_a_small_batch_of_integer_programs():
    model, outcomes = mnv.build(), mnv.sample(40, 1)[1]
    zetas = outcomes.reshape(20, 2, -1)
    alone = csg.Oracle(model).solve(zetas, fresh=True, progress=False)
    with Counting(2) as pool:
        oracle = csg.Oracle(model, executor=pool, workers=2)
        shared = oracle.solve(zetas, fresh=True, progress=False)
    assert pool.count == 4
    assert (shared.decision == alone.decision).all()


def fresh_answers(oracle, zetas, omegas):
    """Return the bytes of all that an oracle says."""
    many, how = np.stack([omegas, omegas[::-1]], axis=1), {"progress": False}
    solution = oracle.solve(zetas, fresh=True, **how)
    slopes = oracle.loss_gradient(zetas, many, fresh=True, **how)
    losses = oracle.loss(zetas, omegas, fresh=True, **how)
    costs = oracle.cost(solution.decision, omegas, fresh=True, **how)
    found = (solution.decision, solution.value, slopes.gradient, losses, costs)
    return [array.tobytes() for array in found]


@pytest.mark.parametrize("build", [newsvendor.build, cep1.build])
@pytest.mark.parametrize("rehearsed", [0, 20])
def test_fresh_answers_are_the_same_to_the_last_bit_whatever_came_before(
    build, rehearsed
):
    zetas, omegas = batch(build(), count=300)

    def oracle(workers=1):
        made = csg.Oracle(build(), workers=workers)
        if rehearsed:
            made.rehearse(zetas[:rehearsed], omegas)
        return made

    one = oracle()
    first = fresh_answers(one, zetas, omegas)
    one.loss(zetas[::-1], omegas, progress=False)
    assert fresh_answers(one, zetas, omegas) == first
    assert fresh_answers(oracle(workers=2), zetas, omegas) == first
    assert fresh_answers(pickle.loads(pickle.dumps(one)), zetas, omegas) == first


def test_what_was_rehearsed_is_not_solved_again():
    zetas, omegas = batch(cep1.build(), count=40)
    plain, rehearsed = csg.Oracle(cep1.build()), csg.Oracle(cep1.build())
    decisions = np.repeat(plain.solve(zetas).decision, 40, axis=0)
    outcomes = np.tile(omegas, (40, 1))
    rehearsed.rehearse(zetas, omegas)
    before = plain.stats.solves, rehearsed.stats.solves
    costs = [o.cost(decisions, outcomes, fresh=True) for o in (plain, rehearsed)]
    np.testing.assert_allclose(*costs, rtol=1e-12)
    assert plain.stats.solves - before[0] > 10
    assert rehearsed.stats.solves == before[1]


def test_a_rehearsal_serves_worker_processes():
    zetas, omegas = batch(cep1.build(), count=40)
    decisions = csg.Oracle(cep1.build()).solve(zetas).decision
    with ProcessPoolExecutor(1) as executor:
        oracle = csg.Oracle(cep1.build(), executor=executor)
        oracle.rehearse(zetas, omegas)
        before = oracle.stats.solves
        oracle.cost(np.repeat(decisions, 40, 0), np.tile(omegas, (40, 1)), fresh=True)
        assert oracle.stats.solves == before


@pytest.mark.parametrize(
    ("build", "solver"), [(mnv.build, "highs"), (newsvendor.build, "appsi_highs")]
)
def test_a_recourse_that_is_solved_case_by_case_needs_no_rehearsal(build, solver):
    zetas, omegas = batch(build(), count=4)
    oracle = csg.Oracle(build(), solver)
    oracle.rehearse(zetas, omegas)
    assert oracle.stats.solves == 0
