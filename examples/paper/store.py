"""Results on disk, a file a row and trial, so that a run that was stopped goes on."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from experiment import Experiment
from methods import Unit
from provenance import code_version

import pyomo_csg as csg
from pyomo_csg.storage import write_atomically


class Store:
    """The results of an experiment.

    Rows that were made with other contexts, pairs or settings count as not there.

    Parameters
    ----------
    folder : path
        It is made if need be.
    experiment : Experiment
    """

    def __init__(self, folder: Path, experiment: Experiment):
        self.folder, self._version = folder, code_version()
        self._made_with = experiment.made_with | {"code": self._version["code"]}
        folder.mkdir(parents=True, exist_ok=True)

    def show_stored_code(self) -> None:
        """Take the rows of the code that most rows are of, to show them."""
        notes = [self.note(name) for name, _ in self.results()]
        codes = Counter(note["made_with"]["code"] for note in notes)
        if codes:
            self._made_with["code"] = codes.most_common(1)[0][0]

    def commits(self, units: list[Unit], trials: range) -> list[str]:
        """Return the commits of the rows that are there."""
        notes = (self._fitting_note(unit, trial) for unit in units for trial in trials)
        return sorted({note["commit"] for note in notes if note})

    def has(self, unit: Unit, trial: int) -> bool:
        """Whether a row is there for a trial."""
        note = self._fitting_note(unit, trial)
        return note is not None and "failure" not in note

    def keep(
        self,
        unit: Unit,
        trial: int,
        evaluation: csg.Evaluation,
        seconds: dict[str, float],
        loss_net: dict[str, float] | None = None,
    ) -> None:
        """Write a row of a trial; the file that says it is there comes last."""
        self._path(unit, trial, "json").unlink(missing_ok=True)
        evaluation.to_csv(self._path(unit, trial, "csv"))
        self._write(unit, trial, seconds=seconds, loss_net=loss_net)
        self._drop(unit, trial)

    def keep_failure(self, unit: Unit, trial: int, reason: str) -> None:
        """Write why there is no row; the next run tries it again.

        It goes on from the stages of a fit under way unless they are of no use to it:
        another process may be at work on them.
        """
        self._write(unit, trial, failure=reason)
        if "delete this one" in reason:  # as a checkpoint's own refusals say
            self._drop(unit, trial)

    def results(self) -> list[tuple[str, Path]]:
        """Return the names and files of all costs that are there, whatever their settings."""
        return [
            (file.stem, file)
            for file in sorted(self.folder.glob("*.csv"))
            if file.with_suffix(".json").exists()
        ]

    def note(self, name: str) -> dict[str, Any]:
        """Return what is kept beside the costs of that name."""
        return json.loads((self.folder / f"{name}.json").read_text())

    def put(self, name: str, costs: str, note: dict[str, Any]) -> None:
        """Write costs and their note as another store had them."""
        write_atomically(self.folder / f"{name}.csv", costs.encode())
        write_atomically(
            self.folder / f"{name}.json", json.dumps(note, indent=1).encode()
        )

    def checkpoint(self, unit: Unit, trial: int) -> Path:
        """Return the folder of a fit under way, which is gone once its row is kept."""
        made = "{contexts}-{pairs}".format(**self._made_with)
        name = self._path(unit, trial, made).name
        return self.folder / "fitting" / name

    def evaluation(
        self, units: list[Unit], trials: Iterable[int]
    ) -> csg.Evaluation | None:
        """Return rows and trials that are there, as one evaluation."""
        found = [
            csg.Evaluation.from_csv(self._path(unit, trial, "csv"))
            for trial in trials
            for unit in units
            if self.has(unit, trial)
        ]
        return csg.Evaluation.join(found) if found else None

    def seconds(self, unit: Unit, trials: range) -> list[dict[str, float]]:
        """Return how long the stages of a row's fits took, a trial an entry."""
        notes = (self._fitting_note(unit, trial) for trial in trials)
        return [note["seconds"] for note in notes if note and "seconds" in note]

    def loss_nets(self, unit: Unit, trials: range) -> list[dict[str, float]]:
        """Return how well the Loss-Nets of a row predict, a trial an entry."""
        notes = (self._fitting_note(unit, trial) for trial in trials)
        return [note["loss_net"] for note in notes if note and note.get("loss_net")]

    def failures(self, unit: Unit, trials: range) -> dict[int, str]:
        """Return why a row is not there, by trial, where its fit failed."""
        notes = {trial: self._fitting_note(unit, trial) for trial in trials}
        return {
            t: note["failure"]
            for t, note in notes.items()
            if note and "failure" in note
        }

    def misfits(self, units: list[Unit], trials: range) -> int:
        """Return how many rows are there that were made with something else."""
        return sum(
            self._path(unit, trial, "json").exists()
            and self._fitting_note(unit, trial) is None
            for unit in units
            for trial in trials
        )

    def _fitting_note(self, unit: Unit, trial: int) -> dict[str, Any] | None:
        """Return what is kept of a row, if it was made with what is asked for."""
        path = self._path(unit, trial, "json")
        if not path.exists():
            return None
        note = json.loads(path.read_text())
        fits = self._made_with.items() <= note["made_with"].items()
        return note if fits else None

    def _write(self, unit: Unit, trial: int, **found: Any) -> None:
        made_with = {**self._made_with, "pyomo_csg": csg.__version__}
        note = {
            **found,
            "commit": self._version["commit"],
            "seed": trial,
            "made_with": made_with,
        }
        content = json.dumps(note, indent=1)
        write_atomically(self._path(unit, trial, "json"), content.encode())

    def _drop(self, unit: Unit, trial: int) -> None:
        shutil.rmtree(self.checkpoint(unit, trial), ignore_errors=True)

    def _path(self, unit: Unit, trial: int, kind: str) -> Path:
        name = str(unit).replace(" ", "_").replace("=", "")
        return self.folder / f"{trial}-{name}.{kind}"
