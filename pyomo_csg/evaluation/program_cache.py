"""A folder of solved full programs, so that a killed evaluation can resume."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pyomo_csg.errors import DataError
from pyomo_csg.evaluation.cases import Case
from pyomo_csg.learn.fingerprints import model_fingerprint
from pyomo_csg.stages import TwoStageModel
from pyomo_csg.storage import (
    Arrays,
    FileFormat,
    StoredFileError,
    explain_os_errors,
    to_json,
)

logger = logging.getLogger(__name__)

_PROGRAM = FileFormat("pyomo_csg program", 1, max_bytes=2**26, max_header_bytes=2**16)


@dataclass(frozen=True)
class FullProgram:
    """The full program of a case, solved; lower values are better.

    Attributes
    ----------
    value : float
        Cost of its decision; NaN if it has none.
    bound : float
        Proven lower bound of the cost of any decision; NaN if there is none.
    seconds : float
        Solve time.
    status : str
        ``'optimal'``, ``'time limit'``, ``'infeasible'``, ...
    decision : list of float
    """

    value: float = np.nan
    bound: float = np.nan
    seconds: float = np.nan
    status: str = ""
    decision: list[float] = field(default_factory=list)


class ProgramCache:
    """Stores full programs, one file each; several runs may share the folder.

    Parameters
    ----------
    folder : path, optional
        Created if needed. With None nothing is stored.
    two_stage : TwoStageModel
    settings : mapping
        How programs are solved. With the model and the case, they name the file.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str] | None,
        two_stage: TwoStageModel,
        settings: Mapping[str, Any],
    ):
        if not isinstance(folder, str | os.PathLike | None):
            found = f"cache is {folder!r:.80}; give the path of a folder"
            raise DataError("Cannot store full programs", [found])
        self._folder = None if folder is None else Path(folder)
        self._two_stage, self._settings = two_stage, dict(settings)
        self._explaining = (
            f"Cannot store full programs in '{folder}'",
            "give a folder that can be written",
        )
        if self._folder is not None:
            with explain_os_errors(*self._explaining):
                self._folder.mkdir(parents=True, exist_ok=True)

    def read(self, case: Case) -> FullProgram | None:
        """Return the stored program of a case, if there is one."""
        if self._folder is None:
            return None
        file = self._program_file(self._folder, case)
        if not os.path.lexists(file):
            return None
        try:
            return _parse(file, *_PROGRAM.read(file))
        except StoredFileError as error:
            problem = f"{error.subject} ({error.problems[0]})"
            logger.warning("%s; solving the program again", problem)
            return None

    def write(self, case: Case, program: FullProgram) -> None:
        """Store the program of a case, if it has a decision."""
        if self._folder is None or np.isnan(program.value):
            return
        header = {
            "value": float(program.value),
            "bound": float(program.bound),
            "seconds": float(program.seconds),
            "status": program.status,
        }
        arrays = {"decision": np.array(program.decision, dtype=float)}
        with explain_os_errors(*self._explaining):
            _PROGRAM.write(self._program_file(self._folder, case), header, arrays)

    def _program_file(self, folder: Path, case: Case) -> Path:
        identity = {
            "model": model_fingerprint(self._two_stage, case.outcomes[0]),
            "distribution": case.digest(),
            **self._settings,
        }
        digest = hashlib.sha256(to_json(identity, sort_keys=True).encode()).hexdigest()
        return folder / f"{digest[:32]}.safetensors"


def _parse(file: Path, header: dict[str, Any], arrays: Arrays) -> FullProgram:
    """Return the program in a file; refuse values that no solver returns."""
    numbers: list[Any] = [header.get(name) for name in ("value", "bound", "seconds")]
    status, decision = header.get("status"), arrays.get("decision")
    if not all(isinstance(number, float) for number in numbers):
        raise _PROGRAM.damaged(file, "its value, bound or time is not a number")
    if not isinstance(status, str) or decision is None or decision.ndim != 1:
        raise _PROGRAM.damaged(file, "it has no status or no decision")
    value, bound, seconds = numbers
    if not np.isfinite([value, *decision]).all():
        raise _PROGRAM.damaged(file, "its value or decision is not finite")
    return FullProgram(value, bound, seconds, status, decision.astype(float).tolist())
