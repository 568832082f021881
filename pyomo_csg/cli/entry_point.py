"""From arguments to an exit code: commands, and what is said when one fails."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pyomo_csg.cli.parser import PROGRAM, Command, parse_arguments
from pyomo_csg.errors import CsgError, ProblemsError

OK, PROBLEM, INTERRUPTED = 0, 1, 130  # and 2, argparse's own, for a wrong usage
_FAULT = "this should not happen; --debug shows where it did"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    0: done. 1: a problem was found, and told on standard error. 2: wrong usage.
    130: interrupted by Ctrl-C; nothing is left half-made.

    Parameters
    ----------
    arguments : sequence of str, optional
        Default: those of the process.

    Examples
    --------
    >>> main(["check", "nowhere.py"])
    1
    """
    given = parse_arguments(_COMMANDS, arguments)
    with _logging(given.verbose):
        try:
            return given.command(given)
        except KeyboardInterrupt:
            _tell(f"interrupted; no file is left half-written{_how_to_go_on(given)}")
            return INTERRUPTED
        except BrokenPipeError:  # whoever read our output, such as head, has gone
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return PROBLEM
        except Exception as error:
            if given.debug:
                raise
            _tell(_in_short(error))
            return PROBLEM


def _command(name: str) -> Command:
    """Return a command that is imported when it is called, for --help to be quick."""

    def run(given: Any) -> int:
        from pyomo_csg.cli import commands

        return getattr(commands, name)(given)

    return run


def _demo(given: Any) -> int:
    from pyomo_csg.cli.demo import demo

    return demo(given, lambda arguments: _run(arguments, given))


def _solve(given: Any) -> int:
    from pyomo_csg.cli.smps_command import solve

    return solve(given)


def _run(arguments: Sequence[str], given: Any) -> int:
    """Run another command on behalf of one."""
    inner = parse_arguments(_COMMANDS, arguments)
    inner.quiet = given.quiet
    return inner.command(inner)


_COMMANDS: dict[str, Command] = {
    **{
        name: _command(name)
        for name in ("check", "fit", "decide", "evaluate", "report")
    },
    "solve": _solve,
    "demo": _demo,
}


def _tell(text: str) -> None:
    print(f"{PROGRAM}: {text}", file=sys.stderr)


def _in_short(error: Exception) -> str:
    """Return a line for an error, or one for each of the problems that it lists."""
    if isinstance(error, ProblemsError) and len(error.problems) == 1:
        return f"{error.subject}: {error.problems[0]}"
    if isinstance(error, CsgError):
        return str(error)
    if isinstance(error, OSError) and error.filename is not None:
        return f"'{error.filename}': {error.strerror}"
    return f"{type(error).__name__}: {' '.join(str(error).split())}; {_FAULT}"


def _how_to_go_on(given: Any) -> str:
    if not hasattr(given, "checkpoint"):
        return ""
    if given.checkpoint is None:
        return "; with --checkpoint FOLDER a fit can go on where it was stopped"
    return f"; the same command goes on from '{given.checkpoint}'"


@contextmanager
def _logging(verbose: bool) -> Iterator[None]:
    """Show what is logged, warnings and worse or all of it, while a command runs."""
    logger = logging.getLogger("pyomo_csg")
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter(f"{PROGRAM}: %(message)s"))
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO if verbose else logging.WARNING)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
