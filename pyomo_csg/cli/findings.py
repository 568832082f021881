"""Problems of several things that are looked at one after another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyomo_csg.errors import ModelError, ProblemsError


class Findings:
    """Errors that are noted, so that what does not depend on them is looked at, too."""

    def __init__(self, subject: str):
        self._subject = subject
        self._errors: list[ProblemsError] = []

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Note an error that lists problems, and go on after the block."""
        try:
            yield
        except ProblemsError as error:
            self._errors.append(error)

    def close(self) -> None:
        """Raise what was noted: a single error itself, several as one."""
        if len(self._errors) == 1:
            raise self._errors[0]
        if self._errors:
            problems = [
                f"{e.subject}: {one}" for e in self._errors for one in e.problems
            ]
            raise ModelError(self._subject, problems) from self._errors[0]
