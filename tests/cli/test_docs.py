"""Every command that the docs show does what it says."""

import re
import shlex
from pathlib import Path

from pyomo_csg.cli import main
from tests.cli.conftest import QUICKLY

DOCS = Path(__file__).parents[2] / "docs" / "command_line.md"


def test_the_commands_of_the_docs_run(folder):
    commands = re.findall(r"^\$ pyomo-csg (.+)$", DOCS.read_text(), re.MULTILINE)
    assert len(commands) >= 8

    for command in commands:
        arguments = shlex.split(command)
        if arguments[0] == "fit":
            arguments += QUICKLY
        assert main(arguments) == 0, command
