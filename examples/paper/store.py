"""Results on disk, a file a row and trial, so that a run that was stopped goes on."""

from __future__ import annotations

import json
from pathlib import Path

from methods import Unit

import pyomo_csg as csg
from pyomo_csg.files import write_whole


class Store:
    """The results of an experiment.

    Parameters
    ----------
    folder : path
        It is made if need be.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def has(self, unit: Unit, trial: int) -> bool:
        """Whether a row is there for a trial."""
        return self._path(unit, trial, "json").exists()

    def keep(
        self,
        unit: Unit,
        trial: int,
        evaluation: csg.Evaluation,
        seconds: dict[str, float],
    ) -> None:
        """Write a row of a trial; the file that says it is there comes last."""
        evaluation.to_csv(self._path(unit, trial, "csv"))
        content = json.dumps(seconds, indent=1).encode()
        write_whole(self._path(unit, trial, "json"), content)

    def evaluation(self, units: list[Unit], trials: range) -> csg.Evaluation | None:
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
        return [
            json.loads(self._path(unit, trial, "json").read_text())
            for trial in trials
            if self.has(unit, trial)
        ]

    def _path(self, unit: Unit, trial: int, kind: str) -> Path:
        name = str(unit).replace(" ", "_").replace("=", "")
        return self.folder / f"{trial}-{name}.{kind}"
