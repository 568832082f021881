"""The Dockerfile is not built here; its lines follow the rules of hadolint that matter."""

import json
import re
from pathlib import Path

from pyomo_csg.cli.entry_point import _COMMANDS
from pyomo_csg.cli.parser import parse_arguments
from pyomo_csg.serve.settings import TOKEN

FILE = Path(__file__).parents[2] / "examples" / "serve" / "Dockerfile"
KNOWN = {
    "FROM",
    "RUN",
    "WORKDIR",
    "COPY",
    "USER",
    "ENV",
    "EXPOSE",
    "HEALTHCHECK",
    "CMD",
}


def instructions():
    """Return the instructions with their arguments, continued lines joined."""
    text = re.sub(r"\\\n\s*", "", FILE.read_text())
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [tuple(line.split(maxsplit=1)) for line in lines]


def test_instructions_are_known_and_in_order():
    names = [name for name, _ in instructions()]
    assert set(names) <= KNOWN and names[0] == "FROM" and names[-1] == "CMD"
    assert names.count("CMD") == 1


def test_the_image_is_pinned_and_nothing_runs_as_root():
    (image,) = (rest for name, rest in instructions() if name == "FROM")
    assert re.fullmatch(r"python:3\.\d+-slim", image)
    names = [name for name, _ in instructions()]
    assert names.index("USER") < names.index("CMD")
    assert names.index("COPY") < names.index("USER")


def test_installs_leave_no_cache_and_no_secret_is_stored():
    for name, rest in instructions():
        if name == "RUN" and "pip install" in rest:
            assert "--no-cache-dir" in rest and "[serve]" in rest
        assert not (name == "ENV" and TOKEN in rest)


def test_commands_are_lists_and_the_command_line_knows_them():
    found = dict(instructions())
    check = found["HEALTHCHECK"].partition(" CMD ")[2]
    assert json.loads(check)[0] == "python" and "/health" in json.loads(check)[2]
    program, *arguments = json.loads(found["CMD"])
    assert program == "pyomo-csg"
    args = parse_arguments(_COMMANDS, arguments)
    assert str(args.port) == found["EXPOSE"] and args.host == "0.0.0.0"
    assert {args.policy, args.model} <= set(found["COPY"].split())
