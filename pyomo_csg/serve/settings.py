"""The settings of a server, as the command passes them to its workers."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from typing import Any

from pyomo_csg.errors import DataError
from pyomo_csg.validation import Problems, is_whole

TOKEN = "PYOMO_CSG_TOKEN"  # environment variable of the API token
SETTINGS = "PYOMO_CSG_SERVE"  # environment variable of the settings, for workers
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_LEAST_TOKEN = 16  # characters


@dataclass(frozen=True)
class ServeSettings:
    """What a worker needs to know: the policy's file, its model, and limits."""

    policy: str
    model: str
    host: str = "127.0.0.1"
    port: int = 8000
    workers: int = 1
    solver: str = "highs"
    options: dict[str, Any] = field(default_factory=dict)
    first_stage: tuple[str, ...] = ()
    uncertain: tuple[str, ...] = ()
    max_bytes: int = 2**20
    max_rows: int = 10_000

    def check(self) -> None:
        """Raise a DataError if a server must not start with these."""
        problems = Problems("Cannot serve the policy")
        problems.check_counts(workers=self.workers)
        if not (is_whole(self.port) and 0 < self.port < 65536):
            problems.add(f"port is {self.port!r}; give a number from 1 to 65535")
        token = os.environ.get(TOKEN, "")
        if token and len(token) < _LEAST_TOKEN:
            problems.add(f"{TOKEN} is shorter than {_LEAST_TOKEN} characters")
        if self.host not in _LOOPBACK and not token:
            problems.add(
                f"host is '{self.host}', which other machines reach, and there is no API "
                f"token; set the environment variable {TOKEN}, or use 127.0.0.1"
            )
        problems.raise_any()

    def to_environment(self) -> None:
        """Store the settings where the worker processes of this one find them."""
        os.environ[SETTINGS] = json.dumps(asdict(self))

    @classmethod
    def from_environment(cls) -> ServeSettings:
        """Return the settings that the server stored for its workers."""
        if SETTINGS not in os.environ:
            found = "start it by pyomo-csg serve"
            raise DataError("The server has no settings", [found])
        stored = json.loads(os.environ[SETTINGS])
        names = "first_stage", "uncertain"
        stored.update({name: tuple(stored[name]) for name in names})
        return cls(**stored)
