"""The commands, against the functions that they stand for."""

import inspect
import io
import json
import re
import shutil

import numpy as np
import pandas as pd
import pytest

import pyomo_csg as csg
from models import cep1
from pyomo_csg.cli import main
from pyomo_csg.cli.parser import parse_arguments
from pyomo_csg.evaluation.comparison import compare
from pyomo_csg.interop.model_files import load_model
from tests.cli.conftest import QUICKLY
from tests.quick import QUICK

UNMARKED = """
from shop import build as marked

def build():
    m = marked()
    m.del_component("csg_first_stage_variables")
    m.del_component("csg_uncertain_params")
    return m
"""


@pytest.fixture
def policy(folder):
    return csg.load("policy.csg", load_model("model.py"))


def test_check_shows_the_stages_and_solves_once(folder, capsys):
    assert main(["check", "model.py"]) == 0

    output = capsys.readouterr().out
    assert str(csg.TwoStageModel(load_model("model.py"))) in output
    assert "solved with its own data: 60" in output  # (5 - 4) * 60


def test_check_looks_at_the_data(folder, capsys):
    assert main(["check", "model.py", "history.csv"]) == 0
    assert "40 pairs in 'history.csv', context: temperature, rain" in (
        capsys.readouterr().out
    )

    table = pd.read_csv("history.csv").astype({"rain": object})
    table.loc[3, "rain"] = "-"
    table.loc[3, "demand"] = -1
    table.to_csv("history.csv")
    assert main(["check", "model.py", "history.csv"]) == 1

    output = capsys.readouterr().err
    assert "column 'rain' contains text among numbers" in output
    assert "'demand' is -1 in row 3" in output


def test_fit_gives_the_policy_of_csg_fit(folder, capsys):
    options = ["--scenarios", "3", "--method", "mmd", "--seed", "7", *QUICKLY]
    assert main(["fit", "model.py", "history.csv", *options, "--out", "a.csg"]) == 0

    model = load_model("model.py")
    expected = csg.fit(
        model,
        pd.read_csv("history.csv"),
        scenarios=3,
        method="mmd",
        seed=7,
        config=QUICK,
        progress=False,
    )
    contexts = pd.read_csv("contexts.csv")
    found = csg.load("a.csg", model)
    assert np.array_equal(found.scenarios(contexts), expected.scenarios(contexts))
    assert expected.report() in capsys.readouterr().out


def test_fit_passes_on_how_long_to_learn_and_what_the_solver_is_told(folder):
    options = ["--method", "mmd", "--seconds", "100", "--option", "time_limit=5"]
    options += ["--option", "primal_feasibility_tolerance=1e-8", *QUICKLY]
    assert main(["fit", "model.py", "history.csv", *options, "--out", "a.csg"]) == 0

    learned = csg.load("a.csg", load_model("model.py")).learned.summary
    assert learned["identity"]["options"] == {
        "time_limit": 5,
        "primal_feasibility_tolerance": 1e-8,
    }


PYTHON_ONLY = {"executor", "callback", "plan", "preprocess", "distribution"}
OTHER_NAMES = {"config": "settings", "progress": "quiet"}


def test_what_fit_takes_can_be_given_on_the_command_line():
    given = parse_arguments(
        {"fit": main}, ["fit", "model.py", "history.csv", "--out", "a.csg"]
    )
    known = {
        OTHER_NAMES.get(name, name): one.default
        for name, one in inspect.signature(csg.fit).parameters.items()
        if name not in PYTHON_ONLY
    }
    assert set(known) <= set(vars(given))
    same = set(known) - {"model", "data", "settings", "quiet", "options"}
    assert {name: getattr(given, name) for name in same} == {
        name: known[name] for name in same
    }


def test_fit_reads_the_context_that_is_named(folder):
    arguments = ["model.py", "history.csv", "--method", "mmd", *QUICKLY]
    assert main(["fit", *arguments, "--context", "rain", "--out", "a.csg"]) == 0

    assert csg.load("a.csg", load_model("model.py")).context_names == ("rain",)


def test_decide_writes_the_policys_decisions_beside_the_contexts(
    folder, policy, capsys
):
    assert main(["decide", "policy.csg", "contexts.csv", "--out", "made.csv"]) == 0

    contexts, made = pd.read_csv("contexts.csv"), pd.read_csv("made.csv")
    assert list(made) == ["temperature", "rain", "order"]
    assert capsys.readouterr().err == "Written to 'made.csv'\n"
    expected = policy.decide(contexts)["order"]
    assert made["order"].to_numpy() == pytest.approx(expected.to_numpy())


def test_decide_prints_where_no_file_is_named(folder, capsys):
    model = "print('a model may talk')\n" + (folder / "model.py").read_text()
    (folder / "model.py").write_text(model)
    capsys.readouterr()
    assert main(["decide", "policy.csg", "contexts.csv"]) == 0

    output = capsys.readouterr()
    assert len(pd.read_csv(io.StringIO(output.out))) == 6
    assert "a model may talk" in output.err


def test_an_index_and_other_columns_are_kept(folder):
    contexts = pd.read_csv("contexts.csv").assign(day="Monday")
    contexts.index = [f"day {i}" for i in range(6)]
    contexts.to_csv("contexts.csv")
    assert main(["decide", "policy.csg", "contexts.csv", "--out", "made.csv"]) == 0

    made = pd.read_csv("made.csv", index_col=0)
    pd.testing.assert_frame_equal(made.drop(columns="order"), contexts)


def test_a_context_without_a_decision_is_left_empty_and_told(folder, policy, capsys):
    largest = policy.scenarios(pd.read_csv("contexts.csv")).max(axis=(1, 2))
    level = float(np.sort(largest)[3:5].mean())  # above the scenarios of four contexts
    model = (folder / "model.py").read_text()
    need = f"m.need = pyo.Constraint(expr=m.order >= 500 / {level!r} * m.demand)"
    (folder / "model.py").write_text(model.replace("m.stock", f"{need}\n    m.stock"))

    assert main(["decide", "policy.csg", "contexts.csv", "--out", "made.csv"]) == 1

    made = pd.read_csv("made.csv")["order"].notna()
    assert made.tolist() == (largest < level).tolist()
    assert "2 of 6 contexts have no optimal decision" in capsys.readouterr().err


def test_evaluate_compares_on_pairs(folder, policy, capsys):
    arguments = ["policy.csg", "heldout.csv", "--history", "history.csv"]
    assert main(["evaluate", *arguments, "--out", "costs.csv"]) == 0

    pairs, history = pd.read_csv("heldout.csv"), pd.read_csv("history.csv")
    expected = compare({"policy.csg": policy}, pairs, history)
    pd.testing.assert_frame_equal(pd.read_csv("costs.csv"), -expected.costs)
    output = capsys.readouterr()
    assert output.err == "Written to 'costs.csv'\n"
    errors = expected.table()["standard_error"]
    for name, mean in expected.costs.mean().items():
        shown = re.search(
            rf"^{re.escape(name)} +(\S+) +(\S+)", output.out, re.MULTILINE
        )
        assert float(shown[1]) == pytest.approx(-mean, abs=errors[name] / 15)
        assert float(shown[2]) == pytest.approx(errors[name], rel=0.05)
    assert output.out.startswith("On 25 held-out rows policy.csg earns ")


def test_evaluate_and_the_report_give_one_verdict(folder, policy, capsys):
    pairs = pd.read_csv("heldout.csv")
    assert main(["evaluate", "policy.csg", "heldout.csv"]) == 0
    said = capsys.readouterr().out.splitlines()[0].replace("policy.csg", "this policy")
    assert main(["report", "policy.csg", "heldout.csv"]) == 0
    assert said == str(policy.verdict(pairs))
    for sentence in policy.verdict(pairs).sentences:
        assert json.dumps(sentence) in (folder / "policy.html").read_text()


def test_several_policies_are_compared_at_once(folder, capsys):
    (folder / "other.csg").write_bytes((folder / "policy.csg").read_bytes())
    assert main(["evaluate", "policy.csg", "other.csg", "heldout.csv"]) == 0

    other = capsys.readouterr().out.splitlines()[7].split()
    assert other[0] == "other.csg" and other[3:] == ["0", "0", "50%"]


def test_report_writes_the_page(folder, capsys):
    assert main(["report", "policy.csg", "heldout.csv"]) == 0
    assert main(["report", "policy.csg", "--out", "bare.html"]) == 0

    assert "Written to 'policy.html'" in capsys.readouterr().out
    assert '"pairs": 25' in (folder / "policy.html").read_text()
    assert '"costs": null' in (folder / "bare.html").read_text()


ABSTRACT = """
import pyomo.environ as pyo

model = pyo.AbstractModel("shop")
model.demand = pyo.Param(initialize=60, mutable=True, within=pyo.NonNegativeReals)
model.order = pyo.Var(bounds=(0, 500))
model.sold = pyo.Var(within=pyo.NonNegativeReals)
model.market = pyo.Constraint(rule=lambda m: m.sold <= m.demand)
model.stock = pyo.Constraint(rule=lambda m: m.sold <= m.order)
model.profit = pyo.Objective(rule=lambda m: 5 * m.sold - 4 * m.order, sense=-1)
"""
CREATED = """
from shop import build

def pyomo_create_model(options=None, model_options=None):
    assert not options and not model_options
    return build()
"""


def test_an_abstract_model_with_its_own_data_will_do(folder, capsys):
    (folder / "abstract.py").write_text(ABSTRACT)
    marks = ["--first-stage", "order", "--uncertain", "demand"]
    assert main(["check", "abstract.py", "history.csv", *marks]) == 0
    assert "solved with its own data: 60" in capsys.readouterr().out


def test_a_model_may_be_made_as_for_pyomo_solve(folder, capsys):
    shutil.copy("model.py", "shop.py")
    (folder / "created.py").write_text(CREATED)
    assert main(["check", "created.py"]) == 0
    assert "solved with its own data: 60" in capsys.readouterr().out


def test_a_model_that_is_not_annotated_is_by_names_and_patterns(folder, capsys):
    shutil.copy("model.py", "shop.py")
    (folder / "plain.py").write_text(UNMARKED)
    assert main(["check", "plain.py"]) == 1
    (output,) = capsys.readouterr().err.splitlines()
    assert "'newsvendor' is not annotated" in output
    assert "with --first-stage and its uncertain Params with --uncertain" in output
    assert (
        "its Vars are 'order', 'sold', 'returned', its mutable Params 'demand'"
        in output
    )

    marks = ["--first-stage", "ord*", "--uncertain", "demand"]
    assert main(["check", "plain.py", *marks]) == 0
    decided = ["decide", "policy.csg", "contexts.csv", "--model", "plain.py", *marks]
    assert main([*decided, "--out", "made.csv"]) == 0
    assert main(["decide", "policy.csg", "contexts.csv", "--out", "same.csv"]) == 0
    assert (folder / "made.csv").read_text() == (folder / "same.csv").read_text()


def test_a_policy_knows_what_its_model_is_annotated_by(folder):
    shutil.copy("model.py", "shop.py")
    (folder / "plain.py").write_text(UNMARKED)

    decided = ["decide", "policy.csg", "contexts.csv"]
    assert main([*decided, "--model", "plain.py", "--out", "made.csv"]) == 0
    assert main([*decided, "--out", "same.csv"]) == 0
    assert (folder / "made.csv").read_text() == (folder / "same.csv").read_text()
    assert main(["evaluate", "policy.csg", "heldout.csv", "--model", "plain.py"]) == 0
    assert main(["report", "policy.csg", "--model", "plain.py"]) == 0


def test_elements_are_annotated_by_the_names_that_a_policy_keeps(tmp_path):
    model = cep1.build()
    names = [
        [data.name for data in found]
        for found in (
            csg.TwoStageModel(model).first_stage_variables,
            csg.TwoStageModel(model).uncertain_params,
        )
    ]
    path = tmp_path / "plain.py"
    path.write_text(
        "from models import cep1\nmodel = cep1.build()\n"
        "model.del_component('csg_first_stage_variables')\n"
        "model.del_component('csg_uncertain_params')\n"
        "import pyomo.environ as pyo\n"
        "model.fuel = pyo.Param([1, 2], initialize=9)\n"  # immutable: its data are ints
    )

    found = csg.TwoStageModel(load_model(path, default_names=names))

    assert [v.name for v in found.first_stage_variables] == names[0]
    assert [p.name for p in found.uncertain_params] == names[1]
    with pytest.raises(csg.AnnotationError, match="has no component 'y'"):
        load_model(path, default_names=(["y"], names[1]))


def test_tables_may_follow_options(folder, capsys):
    marks = ["--first-stage", "ord*", "--uncertain", "demand"]
    assert main(["check", "model.py", *marks, "history.csv"]) == 0
    assert "40 pairs in 'history.csv'" in capsys.readouterr().out
    assert main(["report", "policy.csg", "--model", "model.py", "heldout.csv"]) == 0
    assert '"pairs": 25' in (folder / "policy.html").read_text()
    made = ["--out", "made.csv"]
    assert main(["evaluate", *made, "policy.csg", "--quiet", "heldout.csv"]) == 0


def test_evaluate_shows_profits_as_profits(folder, capsys):
    words = "25 rows; profits (higher is better) with standard errors"
    assert main(["evaluate", "policy.csg", "heldout.csv"]) == 0
    profits = capsys.readouterr().out
    assert words in profits.splitlines() and "mean profit" in profits

    model = (folder / "model.py").read_text().replace("pyo.maximize", "pyo.minimize")
    (folder / "model.py").write_text(model)
    assert main(["evaluate", "policy.csg", "heldout.csv"]) == 0
    costs = capsys.readouterr().out
    assert words not in costs and "mean cost" in costs and " costs " in costs


def test_the_demo_runs_every_command(folder, capsys, monkeypatch):
    monkeypatch.setattr("pyomo_csg.cli.commands._DEMO_SETTINGS", QUICKLY)
    assert main(["demo", "--folder", "story"]) == 0

    output = capsys.readouterr().out
    commands = [line.split()[2] for line in output.splitlines() if line[:1] == "$"]
    assert commands == ["check", "fit", "decide", "evaluate", "report"]
    assert (folder / "story" / "report.html").is_file()
    assert main(["demo", "--folder", "story"]) == 1


KNOWN = """
import pyomo.environ as pyo
import pyomo_csg as csg

def build():
    m = pyo.ConcreteModel("known")
    m.demand = pyo.Param(mutable=True, initialize=20.0, within=pyo.NonNegativeReals)
    m.stock = pyo.Param(mutable=True, initialize=0.0, within=pyo.NonNegativeReals)
    m.order = pyo.Var(bounds=(0, 100))
    m.sold = pyo.Var(within=pyo.NonNegativeReals)
    m.supply = pyo.Constraint(expr=m.sold <= m.order + m.stock)
    m.market = pyo.Constraint(expr=m.sold <= m.demand)
    m.cost = pyo.Objective(expr=m.order - 3 * m.sold)
    csg.annotate(
        m,
        first_stage_variables=m.order,
        uncertain_params=m.demand,
        known_params=m.stock,
    )
    return m
"""


def test_tables_have_columns_for_known_params(folder, capsys):
    (folder / "known.py").write_text(KNOWN)
    rng = np.random.default_rng(0)
    for name in ("history.csv", "heldout.csv", "contexts.csv"):
        table = pd.read_csv(name)
        table.assign(stock=rng.uniform(0, 9, len(table))).to_csv(name, index=False)
    assert main(["check", "known.py", "history.csv"]) == 0
    fitted = ["known.py", "history.csv", "--method", "mmd", *QUICKLY]
    assert main(["fit", *fitted, "--out", "k.csg"]) == 0
    decide = ["decide", "k.csg", "contexts.csv", "--model", "known.py"]
    assert main([*decide, "--out", "orders.csv"]) == 0
    policy = csg.load("k.csg", load_model("known.py"))
    contexts, orders = pd.read_csv("contexts.csv"), pd.read_csv("orders.csv")
    np.testing.assert_allclose(orders["order"], policy.decide(contexts)["order"])
    evaluate = ["evaluate", "k.csg", "heldout.csv", "--model", "known.py"]
    assert main([*evaluate, "--out", "costs.csv"]) == 0
    held_out = pd.read_csv("heldout.csv")
    made = policy.decide(held_out)["order"]
    sold = np.minimum(made + held_out["stock"], held_out["demand"])
    found = pd.read_csv("costs.csv").iloc[:, -3:]
    assert any(np.allclose(found[name], made - 3 * sold) for name in found)

    contexts.drop(columns="stock").to_csv("contexts.csv", index=False)
    assert main([*decide, "--out", "orders.csv"]) == 1
    assert "'stock'" in capsys.readouterr().err


def test_a_range_for_a_known_param_without_a_column(folder, capsys):
    (folder / "known.py").write_text(KNOWN)
    fitted = ["known.py", "history.csv", "--method", "mmd", *QUICKLY]
    assert main(["fit", *fitted, "--out", "k.csg"]) == 1
    assert "draw values for training" in capsys.readouterr().err
    assert main(["fit", *fitted, "--known", "stock=0:9", "--out", "k.csg"]) == 0
    policy = csg.load("k.csg", load_model("known.py"))
    assert policy.context_names == ("temperature", "rain", "stock")
    with pytest.raises(SystemExit):
        main(["fit", *fitted, "--known", "stock=many", "--out", "k.csg"])
    assert "NAME=LOW:HIGH" in capsys.readouterr().err


def test_dates_and_holidays_are_context(folder, capsys):
    days = pd.date_range("2025-12-01", periods=40).strftime("%d.%m.%Y")
    pd.read_csv("history.csv").assign(day=days, remark=days).to_csv(
        "dated.csv", index=False
    )
    args = ["model.py", "dated.csv", "--holidays", "US", "--ignore", "remark"]
    assert main(["check", *args]) == 0
    assert "day Sun, day holiday" in capsys.readouterr().out
    fitted = ["fit", *args, "--method", "mmd", *QUICKLY, "--out", "dated.csg"]
    assert main(fitted) == 0
    assert "an indicator of holidays" in capsys.readouterr().out
    policy = csg.load("dated.csg", load_model("model.py"))
    history = csg.fit(
        load_model("model.py"),
        pd.read_csv("dated.csv").drop(columns="remark"),
        preprocess={"holidays": "US"},
        method="mmd",
        config=QUICK,
        progress=False,
    )
    row = {"day": "25.12.2029", "temperature": 20.0, "rain": 1.0}
    assert policy.decide(row)["order"] == history.decide(row)["order"]
    contexts, _ = policy.read_contexts(row)
    assert contexts[0, policy.context_names.index("day holiday")] == 1

    pd.DataFrame([row]).drop(columns="day").to_csv("contexts.csv", index=False)
    assert main(["decide", "dated.csg", "contexts.csv"]) == 1
    assert "no column for 'day'; give the date of the row" in capsys.readouterr().err
    assert main([*fitted, "--holidays", "Atlantis"]) == 1
    assert "'Atlantis' was given; give a country" in capsys.readouterr().err


def test_update_learns_from_new_rows(folder, policy, capsys):
    assert main(["update", "policy.csg", "heldout.csv", "--out", "newer.csg"]) == 0
    output = capsys.readouterr().out
    newer = csg.load("newer.csg", load_model("model.py"))
    assert len(newer.learned.pairs) == len(policy.learned.pairs) + 25
    assert str(newer.compare(policy)) in output and "Written to 'newer.csg'" in output
    same = ["update", "policy.csg", "heldout.csv", "--out", "policy.csg"]
    assert main([*same, "--window", "30"]) == 0
    assert len(csg.load("policy.csg", load_model("model.py")).learned.pairs) == 30


def test_monitor_exits_with_3_on_drift_if_asked(folder, capsys):
    rows = pd.read_csv("heldout.csv")
    moved = rows.assign(temperature=rows["temperature"] + 100)
    moved.to_csv("moved.csv", index=False)
    assert main(["monitor", "policy.csg", "heldout.csv", "--fail-on", "drift"]) == 0
    assert "No drift on 25 rows." in capsys.readouterr().out
    assert main(["monitor", "policy.csg", "moved.csv"]) == 0
    files = ["--out", "drift.html", "--json", "drift.json"]
    assert (
        main(["monitor", "policy.csg", "moved.csv", *files, "--fail-on", "drift"]) == 3
    )
    assert "'temperature' is outside the history on 100%" in capsys.readouterr().out
    assert json.loads((folder / "drift.json").read_text())["drift"] is True
    assert "outside the history" in (folder / "drift.html").read_text()
