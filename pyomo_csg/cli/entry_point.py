"""The entry point: run a command, report its errors, and return an exit code."""

from __future__ import annotations

import logging
import os
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyomo_csg.cli.parser import PROGRAM, Command, parse_arguments
from pyomo_csg.errors import CsgError, ProblemsError

OK, PROBLEM, INTERRUPTED = 0, 1, 130  # argparse exits with 2 after wrong usage
_BUG = "this should not happen; --debug shows the traceback"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    0: success. 1: a problem, described on standard error. 2: wrong usage.
    130: interrupted by Ctrl-C; no file is left incomplete.

    Parameters
    ----------
    arguments : sequence of str, optional
        Default: the arguments of the process.

    Examples
    --------
    >>> main(["check", "nowhere.py"])
    1
    """
    args = parse_arguments(_COMMANDS, arguments)
    with _log_to_stderr(args.verbose):
        try:
            return args.command(args)
        except KeyboardInterrupt:
            _print_error(f"interrupted; no file is left incomplete{_resume_hint(args)}")
            return INTERRUPTED
        except BrokenPipeError:  # the reader of the output, such as head, has exited
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return PROBLEM
        except Exception as error:
            if args.debug:
                raise
            _print_error(_describe_error(error))
            return PROBLEM


def _command(name: str) -> Command:
    """Return a command that is imported when it runs, so that --help is fast."""

    def run(args: Namespace) -> int:
        from pyomo_csg.cli.commands import COMMANDS

        return COMMANDS[name](args)

    return run


def _demo(args: Namespace) -> int:
    """Run the demo, which runs the other commands with the same --quiet."""
    from pyomo_csg.cli.commands import demo

    def run(arguments: Sequence[str]) -> int:
        inner = parse_arguments(_COMMANDS, arguments)
        inner.quiet = args.quiet
        return inner.command(inner)

    return demo(args, run)


_COMMANDS: dict[str, Command] = {
    **{
        name: _command(name)
        for name in (
            *("check", "solve", "fit", "decide", "evaluate", "report"),
            *("update", "monitor", "serve"),
        )
    },
    "demo": _demo,
}


def _print_error(text: str) -> None:
    print(f"{PROGRAM}: {text}", file=sys.stderr)


def _describe_error(error: Exception) -> str:
    """Return one line for an error, or one for each problem that it lists."""
    if isinstance(error, ProblemsError) and len(error.problems) == 1:
        return f"{error.subject}: {error.problems[0]}"
    if isinstance(error, CsgError):
        return str(error)
    if isinstance(error, OSError) and error.filename is not None:
        return f"'{error.filename}': {error.strerror}"
    return f"{type(error).__name__}: {' '.join(str(error).split())}; {_BUG}"


def _resume_hint(args: Namespace) -> str:
    """Return how to resume an interrupted fit; an empty text for other commands."""
    if not hasattr(args, "checkpoint"):
        return ""
    if args.checkpoint is None:
        return "; with --checkpoint FOLDER an interrupted fit can resume"
    return f"; the same command resumes from '{args.checkpoint}'"


@contextmanager
def _log_to_stderr(verbose: bool) -> Iterator[None]:
    """Print log messages while a command runs: warnings and errors, or all of them."""
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
