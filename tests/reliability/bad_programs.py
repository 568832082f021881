"""Bad options of the three programs, bad SMPS files, bad scenarios from mpi-sppy."""

from types import SimpleNamespace

import numpy as np
import pyomo.environ as pyo

import pyomo_csg as csg
from models import newsvendor
from tests.reliability.bad import Bad
from tests.reliability.scene import transformed

PROGRAMS = {
    "extensive_form": {"scenarios": [[1.0]]},
    "opt_search": {"scenarios": [[1.0]], "outcome": [1.0], "optimal_value": 0.0},
    "recourse": {"decision": [1.0], "outcome": [1.0]},
}
WRONG = {
    "extensive_form": [
        ("a misspelled option", {"scenaros": [[1.0]]}, "scenaros", "scenarios"),
        ("no scenarios", {"scenarios": None}, "scenarios: not given", "numbers"),
    ],
    "opt_search": [
        ("a misspelled option", {"outcomes": [1.0]}, "outcomes", "outcome"),
        ("no value", {"optimal_value": None}, "optimal_value", "csg.extensive_form"),
        ("a value of text", {"optimal_value": "low"}, "optimal_value", "'low'"),
        ("a NaN value", {"optimal_value": np.nan}, "optimal_value", "nan"),
        ("a negative slack", {"tolerance": -1.0}, "tolerance", "-1"),
        ("a slack of text", {"tolerance": "small"}, "tolerance", "small"),
        ("a NaN slack", {"tolerance": np.nan}, "tolerance", "1e-9"),
        ("two outcomes", {"outcome": [1.0, 2.0]}, "outcome", "'demand'"),
        ("an outcome below 0", {"outcome": [-1.0]}, "'demand' is -1", "domain"),
        ("a misspelled outcome", {"outcome": {"demnd": 1.0}}, "'demnd'", "drop it"),
    ],
    "recourse": [
        ("no outcome", {"outcome": None}, "outcome: not given", "numbers"),
        ("no decision", {"decision": None}, "decision: not given", "numbers"),
        ("a decision of text", {"decision": ["ten"]}, "decision", "numbers"),
        ("a NaN decision", {"decision": [np.nan]}, "'order' is nan", "finite"),
        ("a huge decision", {"decision": [1e30]}, "'order' is 1e+30", "larger unit"),
        ("a misspelled name", {"decision": {"ordr": 1.0}}, "'order'", "add it"),
        ("out of bounds", {"decision": [99.0]}, "'order' is 99", "bounded by"),
    ],
}


def creator(name, **changes):
    """Build a scenario for mpi-sppy, or something that is none."""
    m = newsvendor.build()
    m.demand = {"low": 10.0, "high": 20.0}.get(name, 15.0)
    root = SimpleNamespace(
        name="ROOT",
        nonant_vardata_list=[m.order],
        nonant_ef_suppl_vardata_list=[],
        surrogate_vardatas=(),
    )
    m._mpisppy_node_list = [root]
    m._mpisppy_probability = changes.get("probability", "uniform")
    if "nodes" in changes:
        m._mpisppy_node_list = [root] * changes["nodes"]
    return m


NAMES = ["low", "high"]
MPISPPY = [
    ("names as text", (creator, "low"), {}, "'low'", "a list of different names"),
    ("no names", (creator, []), {}, "scenario_names", "a list of different names"),
    ("a number of names", (creator, 3), {}, "3", "a list of different names"),
    ("a name twice", (creator, ["low", "low"]), {}, "'low' twice", "different names"),
    ("no creator", ("farmer", NAMES), {}, "scenario_creator", "function"),
    ("no model", (lambda name: None, NAMES), {}, "NoneType", "ConcreteModel"),
    ("no root", (creator, NAMES), {"nodes": 0}, "'low'", "attach_root_node"),
    ("three stages", (creator, NAMES), {"nodes": 2}, "'low'", "only node is the root"),
    ("one scenario", (creator, ["low"]), {}, "Param", "more scenario_names"),
    ("a chance of text", (creator, NAMES), {"probability": "p"}, "'p'", "from 0 to 1"),
    ("a chance of NaN", (creator, NAMES), {"probability": np.nan}, "nan", "from 0 to"),
    ("a chance below 0", (creator, NAMES), {"probability": -1}, "-1", "from 0 to 1"),
    (
        "an unknown Param",
        (creator, NAMES, "demnd"),
        {},
        "'demnd'",
        "did you mean demand",
    ),
    ("a Var", (creator, NAMES, "order"), {}, "'order' is a Var", "expected a Param"),
]
SMPS = [
    (
        "no such file",
        lambda s: csg.read_smps(s.folder / "none"),
        "none.cor",
        "put it there",
    ),
    ("a number", lambda s: csg.read_smps(3), "3", "give"),
    (
        "a file of something else",
        lambda s: csg.read_smps(*[s.folder / "model.py"] * 3),
        "model.py",
        "ENDATA",
    ),
]
WRITTEN = [
    ("no scenarios", (None, None), {}, "scenarios", "numbers"),
    ("half a weight", ([[1.0]], [0.5]), {}, "weights", "divide"),
    ("a section", ([[1.0]], None), {"section": "indep"}, "'indep'", "'blocks'"),
]
CASES = [
    *(Bad("csg.read_smps", *case) for case in SMPS),
    *(
        Bad(
            "csg.write_smps",
            given,
            lambda s, given=arguments, kwargs=kwargs: csg.write_smps(
                s.model, *given, s.folder / "written", **kwargs
            ),
            thing,
            remedy,
        )
        for given, arguments, kwargs, thing, remedy in WRITTEN
    ),
    *(
        Bad(
            f"csg.{name}",
            given,
            lambda s, name=name, options=options: transformed(
                s, name, **{**PROGRAMS[name], **options}
            ),
            thing,
            remedy,
        )
        for name, wrongs in WRONG.items()
        for given, options, thing, remedy in wrongs
    ),
    *(
        Bad(
            f"csg.{name}",
            f"{taken} is taken",
            lambda s, name=name: transformed(s, name, **PROGRAMS[name]),
            f"'{taken}'",
            "rename it",
            lambda s, taken=taken: s.model.add_component(taken, pyo.Block()),
        )
        for name in PROGRAMS
        for taken in ("scenario", "outcome", "csg")
    ),
    *(
        Bad(
            "csg.from_mpisppy",
            given,
            lambda s, given=arguments, kwargs=kwargs: csg.from_mpisppy(
                *given, **kwargs
            ),
            thing,
            remedy,
        )
        for given, arguments, kwargs, thing, remedy in MPISPPY
    ),
]
