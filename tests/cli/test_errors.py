"""What goes wrong on the command line: exit codes, one line, and the trace on demand."""

import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

import pyomo_csg as csg
from pyomo_csg.cli import entry_point as running
from pyomo_csg.cli import main
from pyomo_csg.interop.model_files import load_model
from tests.cli.conftest import QUICKLY

MODELS = {
    "nothing.py": (
        "x = 1",
        "it has neither a function build() or pyomo_create_model() nor an object model",
    ),
    "broken.py": ("def build(:", "SyntaxError in line 1"),
    "failing.py": ("def build():\n    return 1 / 0", "ZeroDivisionError in line 2"),
    "asking.py": ("def build(size):\n    pass", "missing 1 required positional"),
    "leaving.py": ("import sys\nsys.exit('no data')", "SystemExit in line 2: no data"),
    "abstract.py": (
        "import pyomo.environ as pyo\nmodel = pyo.AbstractModel()\nmodel.p = pyo.Param()\n"
        + "model.x = pyo.Var(initialize=model.p)",
        "it is an AbstractModel without all its data (Error retrieving immutable Param",
    ),
    "number.py": ("model = 3", "an object of type int was given"),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_file_without_a_model_is_refused_in_one_line(folder, capsys, name):
    text, expected = MODELS[name]
    (folder / name).write_text(text)

    assert main(["check", name]) == 1

    (output,) = capsys.readouterr().err.splitlines()
    assert output.startswith("pyomo-csg: ") and expected in output


def test_an_object_model_will_do_and_a_file_may_import_its_neighbors(folder):
    shutil.copy("model.py", "shop.py")
    (folder / "object.py").write_text("import shop\nmodel = shop.build()")
    before = list(sys.path)

    assert main(["check", "object.py"]) == 0
    assert sys.path == before


@pytest.mark.parametrize(
    ("marks", "expected"),
    [
        (["--first-stage", "x*", "--uncertain", "demand"], "matches 'x*'"),
        (["--first-stage", "oder", "--uncertain", "demand"], "did you mean order"),
        (["--first-stage", "order"], "uncertain_params"),
        (["--first-stage", "demand", "--uncertain", "demand"], "expected a Var"),
    ],
)
def test_a_name_that_stands_for_nothing_is_refused(folder, capsys, marks, expected):
    assert main(["check", "model.py", *marks]) == 1
    assert expected in capsys.readouterr().err


REFUSED = {
    "no table": ["check", "model.py", "nowhere.csv"],
    "no policy": ["decide", "nowhere.csg", "contexts.csv"],
    "no model": ["decide", "away/policy.csg", "contexts.csv"],
    "no folder": ["fit", "model.py", "history.csv", "--out", "nowhere/policy.csg"],
    "a folder": ["report", "policy.csg", "--out", "away"],
    "a setting": [
        "fit",
        "model.py",
        "history.csv",
        "--set",
        "fold=3",
        "--out",
        "a.csg",
    ],
    "a number": ["fit", "model.py", "history.csv", "--scenarios=0", "--out", "a.csg"],
    "a solver": ["check", "model.py", "--solver", "nowhere"],
    "empty": ["check", "model.py", "empty.csv"],
    "not text": ["check", "model.py", "policy.csg"],
    "semicolons": ["check", "model.py", "semicolons.csv"],
    "Latin": ["check", "model.py", "latin.csv"],
    "broken": ["check", "model.py", "broken.parquet"],
    "an option": ["check", "model.py", "--option", "time_limits=1"],
    "seconds": ["fit", "model.py", "history.csv", "--seconds=-1", "--out", "a.csg"],
}
EXPECTED = {
    "no table": "'nowhere.csv' cannot be read: there is no such file",
    "no policy": "'nowhere.csg' cannot be read: there is no such file",
    "no model": "give the policy's model with --model",
    "no folder": "there is no folder 'nowhere'",
    "a folder": "'away' cannot be written: it is a folder",
    "a setting": "there is no setting 'fold'; did you mean folds",
    "a number": "scenarios is 0",
    "a solver": "nowhere",
    "empty": "'empty.csv' cannot be read",
    "not text": "'policy.csg' cannot be read",
    "semicolons": "its only column is 'rain;demand'; separate cells by commas, not by ';'",
    "Latin": "'latin.csv' cannot be read: it is not text in UTF-8",
    "broken": "'broken.parquet' cannot be read: it is not a valid Parquet file",
    "an option": "HiGHS has no option 'time_limits'",
    "seconds": "seconds is -1",
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_is_said_in_one_line(folder, capsys, what):
    (folder / "away").mkdir()
    (folder / "away" / "policy.csg").write_bytes((folder / "policy.csg").read_bytes())
    (folder / "empty.csv").write_text("")
    (folder / "semicolons.csv").write_text("rain;demand\n1,5;60,2\n0,0;50,1\n")
    (folder / "latin.csv").write_text("rain,größe,demand\n1,2,3\n", "latin-1")
    (folder / "broken.parquet").write_bytes(b"PAR1 and no more")
    before = sorted(os.listdir())

    assert main(REFUSED[what]) == 1

    (output,) = capsys.readouterr().err.splitlines()
    assert EXPECTED[what] in output
    assert sorted(os.listdir()) == before


OVERWRITING = [
    "fit model.py history.csv --out model.py",
    "fit model.py history.csv --out ./history.csv",
    "fit model.py history.csv --out link.csv",
    "check model.py history.csv --lp model.py",
    "decide policy.csg contexts.csv --out policy.csg",
    "decide policy.csg contexts.csv --out contexts.csv",
    "decide policy.csg contexts.csv --out model.py",
    "decide policy.csg contexts.csv --model other.py --out other.py",
    "evaluate policy.csg heldout.csv --history history.csv --out history.csv",
    "evaluate policy.csg policy.csg heldout.csv --out policy.csg",
    "report policy.csg heldout.csv --out heldout.csv",
]


@pytest.mark.parametrize("command", OVERWRITING)
def test_what_a_command_reads_it_does_not_overwrite(folder, capsys, command):
    shutil.copy("model.py", "other.py")
    (folder / "link.csv").symlink_to(folder / "history.csv")
    before = {path: path.read_bytes() for path in folder.iterdir()}

    assert main(command.split()) == 1

    (output,) = capsys.readouterr().err.splitlines()
    assert "cannot be written: this command reads it" in output
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


NEED = "m.need = pyo.Constraint(expr=m.order >= 1000)\n    m.stock ="


def test_a_model_that_its_own_data_makes_infeasible_is_told_and_written(folder, capsys):
    model = (folder / "model.py").read_text().replace("m.stock =", NEED)
    (folder / "model.py").write_text(model)

    assert main(["check", "model.py"]) == 1
    assert capsys.readouterr().err == (
        "pyomo-csg: 'newsvendor' cannot be solved with its own data: no solution is "
        "feasible with the values of its Params; --lp own.lp writes the program to a "
        "file\n"
    )
    assert main(["check", "model.py", "--lp", "own.lp"]) == 1
    assert "the program is in 'own.lp'" in capsys.readouterr().err
    assert "need" in (folder / "own.lp").read_text()


def test_check_tells_the_problems_of_the_model_its_solve_and_the_table_at_once(
    folder, capsys
):
    table = pd.read_csv("history.csv").astype({"rain": object})
    table.loc[3, "rain"] = "-"
    table.to_csv("history.csv", index=False)
    sound = (folder / "model.py").read_text()
    (folder / "model.py").write_text(sound.replace("m.stock =", NEED))
    assert main(["check", "model.py", "history.csv"]) == 1
    first, *listed = capsys.readouterr().err.splitlines()
    assert first == "pyomo-csg: Problems with 'model.py':"
    assert ["cannot be solved with its own data" in one for one in listed] == [
        True,
        False,
    ]
    assert "column 'rain' contains text among numbers" in listed[1]

    unsound = "m.idle = pyo.Var()\n    m.stock ="
    (folder / "model.py").write_text(sound.replace("m.stock =", unsound))
    pd.read_csv("history.csv").drop(columns="demand").to_csv("history.csv", index=False)
    assert main(["check", "model.py", "history.csv"]) == 1
    first, *listed = capsys.readouterr().err.splitlines()
    assert len(listed) == 3
    assert "'idle' is used in no active constraint" in listed[0]
    assert any("no column for 'demand'" in one for one in listed[1:])

    assert main(["check", "nowhere.py", "nowhere.csv"]) == 1
    output = capsys.readouterr().err
    assert "'nowhere.py': there is no such file" in output
    assert "'nowhere.csv' cannot be read" in output


def test_a_report_warns_once(folder, capsys):
    model = (folder / "model.py").read_text()
    need = NEED.replace("1000", "1000 * m.demand")
    (folder / "model.py").write_text(model.replace("m.stock =", need))

    assert main(["report", "policy.csg"]) == 0

    (output,) = capsys.readouterr().err.splitlines()
    assert "contexts have no optimal decision" in output


def test_text_for_a_number_of_the_policy_is_refused(folder, capsys):
    pd.read_csv("contexts.csv").assign(rain="much").to_csv("contexts.csv")
    assert main(["decide", "policy.csg", "contexts.csv"]) == 1
    output = capsys.readouterr().err
    assert "'rain' contains text ('much', row 0); give numbers, as the" in output


def test_a_stray_cell_of_a_table_is_found(folder, capsys):
    table = pd.read_csv("history.csv").astype({"rain": object})
    table.loc[3, "rain"] = "-"
    table.to_csv("history.csv", index=False)

    assert main(["check", "model.py", "history.csv"]) == 1
    assert "'rain' contains text among numbers ('-', row 3); correct it" in (
        capsys.readouterr().err
    )


def test_the_version_is_told(capsys):
    with pytest.raises(SystemExit) as left:
        main(["--version"])
    assert left.value.code == 0
    assert capsys.readouterr().out == f"pyomo-csg {csg.__version__}\n"


def test_help_waits_for_no_torch():
    program = (
        "import sys\nfrom pyomo_csg.cli import main\n"
        "try:\n    main(['--help'])\n"
        "finally:\n    print(*{'torch', 'sklearn'} & set(sys.modules), file=sys.stderr)"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        capture_output=True,
        text=True,
        env=env,
    )
    assert done.stderr == "\n" and "usage: pyomo-csg" in done.stdout


def test_an_interrupt_while_modules_are_imported_is_one_line(
    folder, capsys, monkeypatch
):
    def interrupted(*given):
        raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "pyomo_csg.cli.commands", raising=False)
    monkeypatch.delattr("pyomo_csg.cli.commands", raising=False)
    monkeypatch.setattr(
        "importlib._bootstrap_external.SourceLoader.get_code", interrupted
    )

    assert main(["check", "model.py"]) == 130
    (output,) = capsys.readouterr().err.splitlines()
    assert output == "pyomo-csg: interrupted; no file is left incomplete"


def test_a_column_that_a_decision_would_hide_is_refused(folder, capsys):
    pd.read_csv("contexts.csv").assign(order=1.0).to_csv("contexts.csv", index=False)

    assert main(["decide", "policy.csg", "contexts.csv"]) == 1
    assert "it has a column 'order'" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [[], ["unknown"], ["fit", "model.py", "history.csv"], ["check", "m.py", "--nope"]]
    + [["fit", "m.py", "h.csv", "--out", "p", "--set", "folds"]]
    + [["fit", "m.py", "h.csv", "--out", "p", "--scenarios", "many"]],
)
def test_wrong_usage_has_a_code_of_its_own(arguments, capsys):
    with pytest.raises(SystemExit) as left:
        main(arguments)
    assert left.value.code == 2
    assert "usage: pyomo-csg" in capsys.readouterr().err


@pytest.mark.parametrize("command", [[], *([name] for name in running._COMMANDS)])
def test_help_has_examples_and_says_what_is_executed(command, capsys):
    with pytest.raises(SystemExit) as left:
        main([*command, "--help"])

    output = " ".join(capsys.readouterr().out.split())
    assert left.value.code == 0
    assert "examples: pyomo-csg" in output
    runs_a_model = command not in (["demo"], ["solve"])  # SMPS files hold data only
    assert ("It is executed: give only files that you trust" in output) == runs_a_model


def test_the_trace_is_shown_on_demand(folder):
    with pytest.raises(csg.ModelError) as raised:
        main(["check", "nowhere.py", "--debug"])
    assert "there is no such file" in str(raised.value)


def test_what_should_not_happen_is_one_line_too(folder, capsys, monkeypatch):
    def fail(given):
        raise ZeroDivisionError("by\nzero")

    monkeypatch.setitem(running._COMMANDS, "check", fail)
    assert main(["check", "model.py"]) == 1

    (output,) = capsys.readouterr().err.splitlines()
    assert "ZeroDivisionError: by zero" in output and "--debug" in output


def test_parquet_is_read_and_written(folder):
    pytest.importorskip("pyarrow")
    pd.read_csv("contexts.csv").to_parquet("contexts.parquet")
    assert main(["decide", "policy.csg", "contexts.csv", "--out", "a.csv"]) == 0
    made = ["decide", "policy.csg", "contexts.parquet", "--out", "b.parquet"]
    assert main(made) == 0

    pd.testing.assert_frame_equal(pd.read_parquet("b.parquet"), pd.read_csv("a.csv"))


def test_without_pyarrow_the_extra_is_named(folder, capsys, monkeypatch):
    (folder / "contexts.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)  # as where it is not installed

    assert main(["decide", "policy.csg", "contexts.parquet"]) == 1
    assert main(["decide", "policy.csg", "contexts.csv", "--out", "a.parquet"]) == 1

    output = capsys.readouterr().err.splitlines()
    assert len(output) == 2 and all("pyomo-csg[parquet]" in line for line in output)


def start(*arguments):
    """Start the command line in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "pyomo_csg", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        start_new_session=True,
    )


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="interrupts by a signal of POSIX")
def test_an_interrupted_fit_leaves_nothing_half_made_and_goes_on(folder):
    arguments = ["fit", "model.py", "history.csv", *QUICKLY, "--set", "mmd_epochs=5"]
    arguments += ["--set", "task_epochs=60", "--method", "static"]  # time to be stopped
    arguments += ["--checkpoint", "run", "--out", "mine.csg"]
    process = start(*arguments)
    while process.poll() is None and not list(folder.glob("run/*.safetensors")):
        time.sleep(0.01)

    os.killpg(process.pid, signal.SIGINT)
    _, output = process.communicate(timeout=60)

    assert process.returncode == 130
    assert output.splitlines()[-1] == (
        "pyomo-csg: interrupted; no file is left incomplete; the same command resumes "
        "from 'run'"
    )
    assert not (folder / "mine.csg").exists()
    assert not list(folder.rglob("*.partial"))
    kept = len(list(folder.glob("run/*.safetensors")))
    assert kept and main(arguments) == 0
    assert len(list(folder.glob("run/*.safetensors"))) > kept
    contexts = pd.read_csv("contexts.csv")
    scenarios = csg.load("mine.csg", load_model("model.py")).scenarios(contexts)
    assert np.isfinite(scenarios).all()


def test_a_reader_who_leaves_early_is_no_error(folder):
    process = start("check", "model.py")
    process.stdout.close()

    _, output = process.communicate(timeout=60)

    assert process.returncode == 1
    assert "Traceback" not in output
