"""What a mutated file does: a refusal in words, or nothing that matters.

Each target makes a file of a kind, changes it by a seed, reads it by the public call,
and raises an AssertionError if anything but a CsgError comes of it.
"""

import json
import logging
from pathlib import Path

import numpy as np

import pyomo_csg as csg
from models import newsvendor
from pyomo_csg.evaluation.reference import _PROGRAM, FullProgram, ProgramCache
from pyomo_csg.learn.checkpoint import _STAGE, Checkpoint
from pyomo_csg.learn.progress import TrainingLog
from pyomo_csg.policy.policy_file import _POLICY
from pyomo_csg.report.policy_plots import training_curves
from tests import quick
from tests.reliability import mutations
from tests.reliability.forged_files import forge, parse

ORIGIN = np.zeros(2)


class StoredFile:
    """A file with a checksum, written to ``path`` in a format."""

    def __init__(self, path: Path, file_format):
        self.path, self._format = path, file_format
        self.data = path.read_bytes()
        self.stored, self.arrays = parse(path)

    def mutated(self, rng):
        """Return a changed file, and whether it was changed without its checksum."""
        kind = rng.integers(5)
        if kind <= 1:
            return mutations.raw(self.data, rng), True
        if kind == 2:
            return mutations.table(self.data, rng), True
        if kind == 3:
            return self.forged(mutations.altered(self.stored, rng), self.arrays), False
        return self.forged(self.stored, mutations.numbers(self.arrays, rng)), False

    def forged(self, stored, arrays):
        """Return a file with a checksum that is right."""
        return forge(self._format, stored, arrays)


class PolicyFile(StoredFile):
    """A policy's file, read by csg.load."""

    def __init__(self, folder: Path, network=None):
        path, self.model = folder / "policy.csg", newsvendor.build()
        fitted = quick.fit(newsvendor.sample(20, seed=1), method="mmd", network=network)
        fitted.save(path)
        super().__init__(path, _POLICY)
        self.policy = csg.load(self.path, self.model)
        self.report_text, self.state = self.policy.report(), _state(self.policy)

    def read(self, data, raw):
        """Load the file; whatever loads is the policy that it was, or a sound one."""
        self.path.write_bytes(data)
        policy = csg.load(self.path, self.model)
        if raw:
            assert _state(policy) == self.state and policy.report() == self.report_text
        scenarios, weights = policy.scenarios(ORIGIN), policy.weights(ORIGIN)
        assert scenarios.shape == (policy.count, 1) and np.isfinite(scenarios).all()
        assert abs(weights.sum() - 1) < 1e-9
        training_curves(policy.history)
        assert policy.report() and np.isfinite(policy.decide(ORIGIN).value)


class Stage(StoredFile):
    """A stage of a checkpoint, read by the fit that goes on from it."""

    def __init__(self, folder: Path):
        self.folder = folder / "checkpoint"
        self._run()
        (path,) = self.folder.glob("*.safetensors")
        super().__init__(path, _STAGE)

    def read(self, data, raw):
        """Go on from the file; with a wrong checksum it is computed again."""
        self.path.write_bytes(data)
        arrays = self._run()
        if raw:
            np.testing.assert_equal(arrays, self.arrays)
        assert all(array.dtype.kind in "biuf" for array in arrays.values())

    def read_again(self):
        """Go on from the file as it is."""
        np.testing.assert_equal(self._run(), self.arrays)

    def _run(self):
        def compute():
            log.record("stage", 1, loss=0.5)
            return {"a": np.arange(6.0).reshape(2, 3), "b": np.array([True, False])}

        log = TrainingLog()
        with Checkpoint(self.folder, {"seed": 0}) as kept:
            return kept.stage("labels", compute, note="n", log=log)


class Identity(Stage):
    """What a checkpoint says that it is for."""

    def __init__(self, folder: Path):
        super().__init__(folder)
        self.path = self.folder / "identity.json"
        self.data = self.path.read_bytes()

    def mutated(self, rng):
        """Return a changed file; there is no checksum."""
        if rng.random() < 0.6:
            return mutations.raw(self.data, rng), False
        if rng.random() < 0.05:
            return mutations.DEEP.encode(), False
        tree = mutations.altered(json.loads(self.data), rng)
        return json.dumps(tree).encode(), False


class Program(StoredFile):
    """A full program that csg.evaluate has stored."""

    def __init__(self, folder: Path):
        two_stage = csg.TwoStageModel(newsvendor.build())
        self.cache = ProgramCache(folder / "cache", two_stage, {})
        self.case = csg.Case(ORIGIN, np.array([[14.0], [16.0]]))
        self.cache.write(self.case, FullProgram(-0.7, -0.7, 0.1, "optimal", [14.0]))
        (path,) = (folder / "cache").glob("*.safetensors")
        super().__init__(path, _PROGRAM)

    def read(self, data, raw):
        """Read the file: what is not sound is as if it were not there."""
        self.path.write_bytes(data)
        full = self.cache.read(self.case)
        if full is not None:
            assert np.isfinite([full.value, *full.decision]).all()
            assert isinstance(full.status, str) and isinstance(full.bound, float)


def targets(folder: Path):
    """Return a target of each kind, policies by three kinds of networks."""
    logging.disable(logging.WARNING)
    made = {}
    for name, network in {"mlp": None, "constant": "constant"}.items():
        (folder / name).mkdir()
        made[name] = PolicyFile(folder / name, network)
    (folder / "linear").mkdir()
    made["linear"] = PolicyFile(folder / "linear", csg.Linear(1.5))
    for kind in (Stage, Identity, Program):
        (folder / kind.__name__).mkdir()
        made[kind.__name__] = kind(folder / kind.__name__)
    return made


def fuzz(folder: Path, count: int, seed: int = 0):
    """Try mutations, and return how many were refused, and how many changed nothing.

    Raises
    ------
    AssertionError
        With the seed of the first mutation that got past a CsgError.
    """
    made = list(targets(folder).values())
    refused = 0
    for number in range(count):
        rng = np.random.default_rng([seed, number])
        target = made[number % len(made)]
        data, raw = target.mutated(rng)
        try:
            target.read(data, raw)
        except csg.CsgError:
            refused += 1
        except BaseException as error:
            kind = type(target).__name__
            raise AssertionError(f"mutation {number} of seed {seed}: {kind}") from error
        finally:
            target.path.write_bytes(target.data)
    return refused, count - refused


def _state(policy):
    state = policy.network.state_dict()
    return {name: tensor.numpy().tobytes() for name, tensor in state.items()}
