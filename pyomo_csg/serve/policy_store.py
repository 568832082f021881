"""The policy that a worker serves: loaded, warm, and replaced when its file changes."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pyomo_csg.errors import CsgError
from pyomo_csg.interop.model_files import load_model
from pyomo_csg.policy.policy_file import load, read_stage_names
from pyomo_csg.serve.settings import ServeSettings
from pyomo_csg.storage import CONTENT_ERRORS

if TYPE_CHECKING:
    from pyomo_csg.policy.policy import Policy

logger = logging.getLogger(__name__)

_CHECK_SECONDS = 1.0  # between two looks at the file


@dataclass(frozen=True, eq=False)
class ServedPolicy:
    """A policy, an example of a row for it, and when its file was loaded."""

    policy: Policy
    example: Any
    version: tuple[int, int]
    loaded: float


class PolicyStore:
    """Holds the policy of a worker; a changed file is loaded beside it, then replaces it.

    A file that cannot be loaded leaves the old policy in place; ``problem`` says why.
    """

    def __init__(self, settings: ServeSettings):
        self._settings, self._path = settings, Path(settings.policy)
        self._lock, self._next_check = threading.Lock(), 0.0
        self.problem = ""
        self.reloads = 0
        self._tried = _version(self._path)
        self.current = self._load()

    def refresh(self) -> None:
        """Start to load the file in the background if it has changed."""
        now = time.monotonic()
        if now < self._next_check or not self._lock.acquire(blocking=False):
            return
        self._next_check = now + _CHECK_SECONDS
        try:
            version = _version(self._path)
            if version in (None, self._tried):
                self._lock.release()
                return
            self._tried = version
            threading.Thread(target=self._replace, daemon=True).start()
        except BaseException:
            self._lock.release()
            raise

    def _replace(self) -> None:
        try:
            self.current = self._load()
            self.problem = ""
            self.reloads += 1
            logger.info("loaded '%s' again", self._path)
        except (CsgError, OSError, *CONTENT_ERRORS) as error:  # the old one goes on
            self.problem = str(error)
            logger.warning("'%s' was not loaded again: %s", self._path, error)
        finally:
            self._lock.release()

    def _load(self) -> ServedPolicy:
        settings, version = self._settings, _version(self._path)
        model = load_model(
            settings.model,
            settings.first_stage,
            settings.uncertain,
            default_names=read_stage_names(self._path),
        )
        policy = load(
            self._path, model, solver=settings.solver, options=settings.options or None
        )
        _warm_up(policy)
        return ServedPolicy(policy, example_row(policy), version or (0, 0), time.time())


def _version(path: Path) -> tuple[int, int] | None:
    """Return what changes when a file is replaced; None if there is no file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino


def _warm_up(policy: Policy) -> None:
    """Make one decision, so that the first request finds a warm solver."""
    generator = policy.learned.generator
    middle = np.broadcast_to(generator.center, policy.context_shape)
    try:
        policy.decide(np.array(middle), progress=False)
    except CsgError as error:  # such as a program without a solution at the mean
        logger.info("no decision for the mean context: %s", error)


def example_row(policy: Policy) -> Any:
    """Return a row as clients send it: an object by column, or an array."""
    center = np.broadcast_to(policy.learned.generator.center, policy.context_shape)
    if len(policy.context_shape) > 1 or policy.context_names is None:
        return _rounded(center)
    if policy.preprocessing is None:
        return dict(zip(policy.context_names, _rounded(center), strict=True))
    return {
        one.name: _example_cell(one, policy) for one in policy.preprocessing.encodings
    }


def _example_cell(encoding: Any, policy: Policy) -> Any:
    levels = getattr(encoding, "levels", None)
    if levels:
        return levels[0]
    if hasattr(encoding, "parts"):
        return "2030-01-31"
    names = policy.context_names or ()
    if encoding.name in names:
        center = policy.learned.generator.center
        return _rounded(center[names.index(encoding.name)])
    return "text"


def _rounded(values: Any) -> Any:
    """Return numbers with four digits, as lists."""
    numbers = np.asarray(values, dtype=float)
    return np.vectorize(lambda x: float(f"{x:.4g}"))(numbers).tolist()
