"""csg.set_verbosity: how much the package logs, in Pyomo's manner."""

from __future__ import annotations

import logging

from pyomo_csg.validation import Problems, is_one_of, is_whole

LEVELS = ("debug", "info", "warning", "error")
_logger = logging.getLogger("pyomo_csg")


def set_verbosity(level: str | int) -> None:
    """Set how much pyomo_csg logs.

    This is ``logging.getLogger("pyomo_csg").setLevel``, as for Pyomo's own logger
    ``'pyomo'``. If your program has not set up logging, messages go to standard error.

    Parameters
    ----------
    level : {'debug', 'info', 'warning', 'error'} or int
        In upper or lower case, or a level of :mod:`logging`. ``'warning'`` is the default.
        ``'info'`` adds the plan of a fit and the time of each stage.

    Examples
    --------
    >>> import pyomo_csg as csg
    >>> csg.set_verbosity("error")
    >>> csg.set_verbosity("warning")
    """
    problems = Problems("Cannot set the verbosity")
    if isinstance(level, str):
        level = level.lower()
    if not is_whole(level) and not is_one_of(level, LEVELS):
        choices = ", ".join(map(repr, LEVELS))
        problems.add(
            f"level is {level!r:.80}; give one of {choices}, or a whole number"
        )
    problems.raise_any()
    _logger.setLevel(level.upper() if isinstance(level, str) else level)
    if not _logger.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
        _logger.addHandler(handler)
