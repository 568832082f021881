"""Full programs that were solved, kept in a folder: a run that was killed goes on."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pyomo_csg.errors import DataError
from pyomo_csg.evaluation.cases import Case
from pyomo_csg.learn.fingerprints import model_fingerprint
from pyomo_csg.stages import TwoStageModel
from pyomo_csg.storage import read_plain, write_atomically

logger = logging.getLogger(__name__)

_FORMAT = 1
_MOST = 2**26  # bytes of a file


@dataclass(frozen=True)
class FullProgram:
    """What is known of the full program of a case, lower being better.

    Attributes
    ----------
    value : float
        What its decision costs; NaN if it has none.
    bound : float
        What no decision costs less than, as far as it is proven; NaN if nothing is.
    seconds : float
        To solve it.
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
    """Keeps full programs, each in a file of its own.

    A file's name tells the model, the distribution and how it was solved; it is there
    whole or not at all. Several runs may share a folder.

    Parameters
    ----------
    folder : path, optional
        Made if it is not there. With None nothing is kept.
    two_stage : TwoStageModel
    settings : mapping
        How programs are solved.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str] | None,
        two_stage: TwoStageModel,
        settings: Mapping[str, Any],
    ):
        if not isinstance(folder, str | os.PathLike | None):
            found = f"cache is {folder!r:.80}; give the path of a folder"
            raise DataError("Cannot keep full programs", [found])
        self._folder = None if folder is None else Path(folder)
        self._two_stage, self._settings = two_stage, dict(settings)
        if self._folder is not None:
            with _complaining(self._folder):
                self._folder.mkdir(parents=True, exist_ok=True)

    def read(self, case: Case) -> FullProgram | None:
        """Return what is known of a case, if anything is."""
        if self._folder is None:
            return None
        file = self._file(self._folder, case)
        try:
            return _full(json.loads(read_plain(file, _MOST)))
        except FileNotFoundError:
            return None
        except (
            OSError,
            ValueError,
            TypeError,
            ArithmeticError,
            RecursionError,
        ) as error:
            logger.warning("'%s' is damaged and computed anew: %s", file, error)
            return None

    def write(self, case: Case, full: FullProgram) -> None:
        """Keep what is known of a case, if it has a decision."""
        if self._folder is None or np.isnan(full.value):
            return
        with _complaining(self._folder):
            file = self._file(self._folder, case)
            write_atomically(file, json.dumps(asdict(full)).encode())

    def _file(self, folder: Path, case: Case) -> Path:
        identity = {
            "format": _FORMAT,
            "model": model_fingerprint(self._two_stage, case.outcomes[0]),
            "law": case.digest(),
            **self._settings,
        }
        text = json.dumps(identity, sort_keys=True, default=repr)
        return folder / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.json"


def _full(content: dict[str, Any]) -> FullProgram:
    """Return what a file tells, or raise a ValueError or TypeError."""
    full = FullProgram(**content)
    numbers = [full.value, full.bound, full.seconds, *full.decision]
    if not isinstance(full.status, str) or not isinstance(full.decision, list):
        raise TypeError("its status or its decision is none")
    if any(isinstance(x, str | bool) for x in numbers):
        raise TypeError("some of its numbers is none")
    value, bound, seconds, *decision = map(float, numbers)
    if not np.isfinite([value, *decision]).all():
        raise ValueError("its value or its decision is not finite")
    return FullProgram(value, bound, seconds, full.status, decision)


@contextmanager
def _complaining(folder: Path) -> Iterator[None]:
    """Turn what the system refuses into an error that says what to do."""
    try:
        yield
    except OSError as error:
        found = f"{error.strerror or error}; give a folder that can be written"
        raise DataError(f"Cannot keep full programs in '{folder}'", [found]) from error
