"""Bad paths and files: of policies, pages, tables, checkpoints, and on the command line."""

import os

import pyomo_csg as csg
from models import cep1
from pyomo_csg.cli import main
from tests.reliability.bad import Bad, grid

# Where nothing can be written.
PLACES = {
    "None": (lambda s: None, "'None' cannot", "give the name of a file"),
    "a number": (lambda s: 3, "'3' cannot", "give the name of a file"),
    "no folder": (lambda s: s.folder / "no" / "a.lp", "a.lp' cannot", "create it"),
    "a folder": (lambda s: s.folder / "folder", "folder' cannot", "name of a file"),
    "a NUL": (lambda s: "a\0b.png", "x00b.png", "give the name of a file"),
}
WRITING = {
    "Policy.save": lambda s, of: s.policy.save(of(s)),
    "Policy.report": lambda s, of: s.policy.report(of(s)),
    "Evaluation.to_csv": lambda s, of: s.evaluation.to_csv(of(s)),
    "Evaluation.to_markdown": lambda s, of: s.evaluation.to_markdown(of(s)),
    "Evaluation.to_latex": lambda s, of: s.evaluation.to_latex(of(s)),
    "Evaluation.plot_cdf": lambda s, of: s.evaluation.plot_cdf(of(s)),
    "TwoStageModel.draw": lambda s, of: csg.TwoStageModel(s.model).draw(of(s)),
    "SolveError.write": lambda s, of: unsolved(s).write(of(s)),
}
# What cannot be read.
SOURCES = {
    "None": (lambda s: None, "'None' cannot", "give the name of a file"),
    "a number": (lambda s: 3, "'3' cannot", "give the name of a file"),
    "nothing": (lambda s: s.folder / "none.csg", "none.csg'", "no such file"),
    "a folder": (lambda s: s.folder / "folder", "folder'", "no such file"),
    "a model": (lambda s: s.folder / "model.py", "model.py'", ""),
    "a NUL": (lambda s: "a\0b", "x00b", "give the name of a file"),
    "a device": (lambda s: os.devnull, os.devnull, "no such file"),
}
READING = {
    "csg.load": lambda s, of: csg.load(of(s), s.model),
    "Evaluation.from_csv": lambda s, of: csg.Evaluation.from_csv(of(s)),
}


def unsolved(s):
    """Return the error of a program without a solution."""
    model = s.oracle.two_stage.model.clone()
    model.sold.setlb(90.0)
    oracle = csg.Oracle(model)
    oracle.solve([[[15.0]]], on_error="record")
    return oracle.failures[0]


def cut(path, size):
    """Cut a file to a size."""
    path.write_bytes(path.read_bytes()[:size])


def damage(_, folder):
    """Spoil a checkpoint that a fit has left."""
    (folder / "identity.json").write_text("{")


LOADING = [
    ("network=3", {"network": 3}, "network", "give a module"),
    ("network='mlp'", {"network": "mlp"}, "network", "give a module"),
    ("network of lists", {"network": {"body": [1]}}, "network", "give a module"),
    ("workers=0", {"workers": 0}, "workers is 0", "from 1 up"),
    ("solver", {"solver": "higs"}, "higs", "appsi_highs"),
    ("options", {"options": {"time": 1}}, "'time'", "manual"),
]
TABLES = {
    "text.csv": ("rain,price,demand\n1,1,2\n2,1,2\n-,1,2\n", "'rain'", "correct it"),
    "empty.csv": ("", "empty.csv", "a CSV with a header"),
    "header.csv": ("rain,price,demand\n", "it is empty", "at least 2 rows"),
    "one.csv": ("rain,price,demand\n1,2,3\n", "only 1 row", "at least 2 rows"),
    "gap.csv": ("rain,price,demand\n1,2,\n1,2,3\n", "'demand' is nan", "finite"),
    "other.csv": ("rain,price\n1,2\n1,2\n", "'demand'", "add it or rename one"),
    "below.csv": ("rain,demand\n1,-2\n1,2\n", "'demand' is -2", "NonNegativeReals"),
    "huge.csv": ("rain,demand\n1,1e99\n1,2\n", "'demand' is 1e+99", "larger unit"),
    "ragged.csv": ("rain,demand\n1,2\n1,2,3,4\n", "ragged.csv", "CSV with a header"),
}
MODELS = {
    "raising.py": ("1 / 0", "ZeroDivisionError in line 1", "raising.py"),
    "none.py": ("x = 1", "neither a function build()", "object model"),
    "number.py": ("model = 3", "int", "ConcreteModel"),
    "bare.py": (
        "import pyomo.environ as pyo\nmodel = pyo.ConcreteModel()",
        "annotated",
        "csg.annotate",
    ),
}
COMMANDS = [
    ("no model", ["check", "no.py"], "'no.py'", "no such file"),
    ("no table", ["check", "model.py", "no.csv"], "'no.csv'", "no such file"),
    ("no policy", ["decide", "no.csg", "history.csv"], "'no.csg'", "no such file"),
    ("not a policy", ["decide", "model.py", "history.csv"], "model.py", "policy.save"),
    ("another table", ["decide", "named.csg", "evaluation.csv"], "'rain'", "rename"),
    (
        "arrays' policy",
        ["decide", "policy.csg", "history.csv"],
        "shape",
        "expected (2,)",
    ),
    ("a solver", ["check", "model.py", "--solver", "higs"], "higs", "appsi_highs"),
    ("workers", ["check", "model.py", "--workers", "0"], "workers is 0", "from 1 up"),
    (
        "a Var",
        ["check", "model.py", "--first-stage", "x*"],
        "'x*'",
        "the model has order",
    ),
    ("no folder", ["report", "named.csg", "--out", "no/a.html"], "'no'", "create it"),
    ("a folder", ["report", "named.csg", "--out", "folder"], "'folder'", "name of a"),
    ("a folder", ["decide", "folder", "history.csv"], "folder", "no such file"),
    ("a demo", ["demo", "--folder", "folder/../folder/.."], "folder", "delete it"),
    ("K = 0", ["--scenarios", "0"], "scenarios is 0", "from 1 up"),
    ("K > n", ["--scenarios", "99"], "scenarios is 99", "at most 20"),
    ("a seed", ["--seed", "-1"], "seed is -1", "from 0 up"),
    ("a setting", ["--set", "batch=0"], "batch is 0", "from 1 up"),
    ("a misspelled setting", ["--set", "bach=5"], "'bach'", "did you mean batch"),
    ("a network", ["--network", "cnn"], "network is 'cnn'", "give one of"),
    ("a context", ["--context", "snow"], "'snow'", "rename one"),
    ("lambda", ["--regularization", "1"], "regularization is 1", "leave it out"),
    ("no folder", ["--out", "no/a.csg"], "'no'", "create it"),
    ("a file for a folder", ["--checkpoint", "model.py"], "model.py", "give a folder"),
]


def run(s, arguments):
    """Run a command in the scene's folder, its error not put in short."""
    before = os.getcwd()
    os.chdir(s.folder)
    try:
        if arguments[0].startswith("--"):
            out = [] if "--out" in arguments else ["--out", "new.csg"]
            arguments = ["--method", "mmd", *out, *arguments]
            arguments = ["fit", "model.py", "history.csv", *arguments]
        main([*arguments, "--debug"])
    finally:
        os.chdir(before)


PREPARED = [
    *(
        Bad(
            "csg.load",
            f"cut to {size} bytes",
            lambda s: csg.load(s.folder / "policy.csg", s.model),
            "policy.csg",
            remedy,
            lambda s, size=size: cut(s.folder / "policy.csg", size),
        )
        for size, remedy in (
            (0, "policy.save"),
            (7, "policy.save"),
            (900, "policy.save"),
        )
    ),
    Bad(
        "csg.fit",
        "another fit's checkpoint",
        lambda s: s.fit(checkpoint=s.folder / "folder", seed=2),
        "seed is 2 now and was 1",
        "give another folder",
        lambda s: s.fit(checkpoint=s.folder / "folder", seed=1),
    ),
    Bad(
        "csg.fit",
        "a damaged checkpoint",
        lambda s: s.fit(checkpoint=s.folder / "folder"),
        "identity.json is damaged",
        "give another folder",
        lambda s: damage(s.fit(checkpoint=s.folder / "folder"), s.folder / "folder"),
    ),
    *(
        Bad(
            "pyomo-csg",
            name,
            lambda s, name=name: run(s, ["check", "model.py", name]),
            thing,
            remedy,
            lambda s, name=name, text=text: (s.folder / name).write_text(text),
        )
        for name, (text, thing, remedy) in TABLES.items()
    ),
    *(
        Bad(
            "pyomo-csg",
            name,
            lambda s, name=name: run(s, ["check", name]),
            thing,
            remedy,
            lambda s, name=name, text=text: (s.folder / name).write_text(text),
        )
        for name, (text, thing, remedy) in MODELS.items()
    ),
]
CASES = [
    *(
        bad
        for bad in grid(WRITING, PLACES)
        if (bad.given, bad.call.rpartition(".")[2])
        not in {("None", name) for name in ("report", "to_markdown", "to_latex")}
        | {("None", "plot_cdf")}  # the default
    ),
    *grid(READING, SOURCES),
    *(
        Bad(
            "csg.load",
            given,
            lambda s, options=options: csg.load(
                s.folder / "policy.csg", s.model, **options
            ),
            thing,
            remedy,
        )
        for given, options, thing, remedy in LOADING
    ),
    Bad(
        "csg.load",
        "for another model",
        lambda s: csg.load(s.folder / "policy.csg", cep1.build()),
        "another model than 'cep1'",
        "not in the model",
    ),
    Bad(
        "csg.fit",
        "checkpoint is a file",
        lambda s: s.fit(checkpoint=s.folder / "model.py"),
        "model.py",
        "give a folder",
    ),
    Bad(
        "csg.evaluate",
        "cache is a file",
        lambda s: csg.evaluate({"a": s.policy}, s.cases, cache=s.folder / "model.py"),
        "model.py",
        "give a folder",
    ),
    Bad(
        "csg.evaluate",
        "cache=3",
        lambda s: csg.evaluate({"a": s.policy}, s.cases, cache=3),
        "cache is 3",
        "folder",
    ),
    *PREPARED,
    *(
        Bad("pyomo-csg", given, lambda s, a=arguments: run(s, a), thing, remedy)
        for given, arguments, thing, remedy in COMMANDS
    ),
]
