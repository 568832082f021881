"""docs/errors.md lists every kind of error, in the words of the package."""

import ast
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pyomo.environ as pyo
import pytest

import pyomo_csg as csg
from models import newsvendor
from tests import quick

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "errors.md").read_text()
RAISING = {"AnnotationError", "ModelError", "DataError", "CsgError", "Problems"}
STATUS = {"SolverTrouble", "SolveError"}
MESSAGES = {"message", "begins with", "status"}
TWO_PARTS = {"'...' ...", "'...' cannot be ..."}  # of which the page has the wholes


def words(node):
    """Return a string of the source, with ... for what is put into it."""
    if isinstance(node, ast.JoinedStr):
        parts = [getattr(part, "value", None) for part in node.values]
        return "".join(part if isinstance(part, str) else "..." for part in parts)
    return node.value if isinstance(getattr(node, "value", None), str) else None


def nodes():
    for path in sorted((ROOT / "pyomo_csg").rglob("*.py")):
        yield from ast.walk(ast.parse(path.read_text()))


def literals():
    """Return all the package's strings, one a line."""
    return "\n".join(filter(None, map(words, nodes())))


def openings():
    """Return what the errors of the package begin with, and the statuses of programs."""
    found = set()
    for node in nodes():
        called = getattr(getattr(node, "func", None), "id", None)
        name = getattr(getattr(node, "targets", [None])[0], "id", "")
        if called in RAISING | STATUS and node.args:
            index = 1 if called == "SolveError" and len(node.args) > 1 else 0
            found.add(words(node.args[index]))
        elif name.lower() in ("subject", "_subject"):
            found.add(words(node.value))
    return sorted(found - {None, *TWO_PARTS})


def documented():
    """Yield the messages of the tables: the code in columns that hold messages."""
    columns: list[int] = []
    for line in PAGE.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if not line.startswith("|"):
            columns = []
        elif not columns:
            columns = [i for i, cell in enumerate(cells) if cell in MESSAGES]
        else:
            for cell in (cells[i] for i in columns if i < len(cells)):
                yield from re.findall(r"`([^`]+)`", cell)


def pattern(message):
    return ".*".join(re.escape(part) for part in message.split("..."))


def test_every_kind_of_error_is_on_the_page():
    page = " ".join(PAGE.split())

    assert len(openings()) > 60
    assert [opening for opening in openings() if opening not in page] == []


def test_every_message_on_the_page_is_in_the_package():
    source, messages = literals(), list(documented())

    assert len(messages) > 100
    assert [
        message
        for message in messages
        if not all(part.strip("' ") in source for part in message.split("..."))
    ] == []


def annotate(**given):
    m = newsvendor.build()
    m.tax = pyo.Param(initialize=0.2)
    names = {"first_stage_variables": m.order, "uncertain_params": m.demand}
    csg.annotate(m, **{**names, **given})


def model(change):
    m = newsvendor.build()
    change(m)
    csg.Oracle(m)


def fit(data=None, **options):
    quick.fit(newsvendor.sample(10, seed=1) if data is None else data, **options)


def load(tmp_path, change):
    path = tmp_path / "policy.csg"
    quick.fit(newsvendor.sample(10, seed=1), method="mmd").save(path)
    data = bytearray(path.read_bytes())
    csg.load(change(path, data), newsvendor.build())


def flipped(path, data):
    data[-1] ^= 1
    path.write_bytes(data)
    return path


def discrete(m):
    m.guests = pyo.Param(initialize=3, mutable=True, within=pyo.Integers)
    m.limit = pyo.Constraint(expr=m.sold <= m.guests)
    csg.annotate(m, first_stage_variables=m.order, uncertain_params=m.guests)


def curved(m):
    m.limit = pyo.Constraint(expr=m.sold**3 <= 5)


def strict(m):
    m.all_sold = pyo.Constraint(expr=m.sold >= m.demand)


def frame(**changes):
    contexts, demands = newsvendor.sample(10, seed=1)
    table = pd.DataFrame(contexts, columns=["rain", "price"])
    return table.assign(**{"demand": demands[:, 0], **changes})


def solve(change, scenarios):
    m = newsvendor.build()
    change(m)
    csg.Oracle(m).solve(scenarios)


CASES = {
    "the model has no component '...'; ...": lambda: annotate(
        first_stage_variables="ordr"
    ),
    "Param '...' is not mutable, so its value is already baked into the expressions": (
        lambda: annotate(uncertain_params="tax")
    ),
    "'...' is a ...; expected a": lambda: annotate(uncertain_params="order"),
    "nothing was given; name at least one": lambda: annotate(uncertain_params=[]),
    "no Objective is active; activate the one to optimize": lambda: model(
        lambda m: m.cost.deactivate()
    ),
    "has the discrete domain ..., but generated scenarios are real numbers": (
        lambda: model(discrete)
    ),
    "is not linear in the variables": lambda: model(curved),
    "no column for": lambda: fit(frame().drop(columns="demand")),
    "contains ...;": lambda: fit(frame(day="Monday"), preprocess=None),
    "all mean": lambda: fit(
        frame().rename(columns={"demand": " demand"}).assign(**{"demand ": 1.0})
    ),
    "outside its domain": lambda: fit(frame(demand=-1.0)),
    "give an outcome for each context": lambda: fit((np.ones(4), np.ones(3))),
    "rows, and expect to need several dozen": lambda: fit((np.ones(1), np.ones(1))),
    "method is ...; ": lambda: fit(method="mdm"),
    "scenarios is 'all', which trains nothing, but method is ...; drop it": (
        lambda: fit(scenarios="all", method="mmd")
    ),
    "plan is a ...; give what csg.plan returned": lambda: fit(plan=3),
    "takes none; leave it out, or give": lambda: fit(method="mmd", regularization=1),
    "there is no setting '...'; ...": lambda: fit(config={"hiden": (8,)}),
    "but contexts are vectors; give panels (n, W, d)": lambda: fit(network="lstm"),
    "HiGHS has no option '...'; ": lambda: csg.Oracle(
        newsvendor.build(), options={"time_limits": 1.0}
    ),
    "this Pyomo has no '...'": lambda: csg.Oracle(newsvendor.build(), "appsi_higs"),
    "they sum to ...; divide them by their sum": lambda: csg.Oracle(
        newsvendor.build()
    ).solve([[1.0], [2.0]], [0.5, 0.6]),
    "give a dict from name to policy": lambda: csg.evaluate([], []),
    "infeasible": lambda: solve(strict, [[90.0]]),
}
FILES = {
    "there is no such file": lambda path, data: path.with_name("other.csg"),
    "it is not a ... file": (lambda path, data: Path(__file__)),
    "its checksum does not match its content": flipped,
}


@pytest.mark.parametrize("message", CASES)
def test_documented_messages_are_raised(message):
    assert message in PAGE

    with pytest.raises(csg.CsgError, match=pattern(message)):
        CASES[message]()


@pytest.mark.parametrize("message", FILES)
def test_documented_messages_of_files_are_raised(message, tmp_path):
    assert message in PAGE

    with pytest.raises(csg.CsgError, match=pattern(message)):
        load(tmp_path, FILES[message])
