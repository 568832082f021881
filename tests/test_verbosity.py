"""csg.set_verbosity changes what the package logs, and where that goes."""

import logging
import subprocess
import sys

import pytest

import pyomo_csg as csg

LOG = "logging.getLogger('pyomo_csg.policy').{}('hello')"


def printed(*lines):
    """Return what a new process writes to standard error."""
    code = "\n".join(["import logging", "import pyomo_csg as csg", *lines])
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return ran.stderr


@pytest.fixture(autouse=True)
def as_before():
    logger = logging.getLogger("pyomo_csg")
    level, handlers = logger.level, list(logger.handlers)
    yield
    logger.setLevel(level)
    logger.handlers = handlers


@pytest.mark.parametrize("level", ["debug", "INFO", "warning", "error", 15])
def test_the_level_is_that_of_the_package(level):
    csg.set_verbosity(level)
    expected = level if level == 15 else getattr(logging, level.upper())
    assert logging.getLogger("pyomo_csg.learn").getEffectiveLevel() == expected


def test_messages_are_printed_once_however_often_it_is_called():
    set_info = "csg.set_verbosity('info')"
    assert printed(set_info, set_info, LOG.format("info")) == "INFO: hello\n"
    assert printed("csg.set_verbosity('error')", LOG.format("warning")) == ""


def test_the_handlers_of_the_program_are_used():
    basic = "logging.basicConfig(format='mine %(message)s')"
    assert printed(basic, "csg.set_verbosity('info')", LOG.format("info")) == (
        "mine hello\n"
    )


@pytest.mark.parametrize("level", ["loud", None, 1.5, True])
def test_another_level_is_an_error_that_lists_the_levels(level):
    with pytest.raises(csg.DataError, match="give one of 'debug', 'info'"):
        csg.set_verbosity(level)
