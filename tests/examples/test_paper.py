"""The driver of the paper's experiments, on as little as it takes."""

import importlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import pyomo_csg as csg

PAPER = Path(__file__).parents[2] / "examples" / "paper"


def run(folder, *options, contexts=4):
    """Run the driver on a few contexts of the newsvendor."""
    command = [sys.executable, str(PAPER / "run.py"), "newsvendor", "--quick"]
    command += ["--contexts", str(contexts), "--scenarios", "1", "--no-illustrate"]
    command += ["--results", str(folder), *options]
    return subprocess.run(command, capture_output=True, text=True, check=True)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    first = run(folder, "--methods", "EV", "SAA", "mmd")
    return folder, first.stdout


@pytest.fixture
def driver(monkeypatch):
    """Import a module of the driver as the driver does."""
    monkeypatch.syspath_prepend(str(PAPER))
    return importlib.import_module


@pytest.fixture
def experiment(driver):
    """Return what ``run`` runs."""
    quick = driver("newsvendor").EXPERIMENT.quick()
    return replace(quick, contexts=4, counts=(1,))


@pytest.fixture
def store(driver, results, experiment, tmp_path):
    """Return a copy of the results, to spoil."""
    rows = shutil.copytree(results[0] / "quick" / "newsvendor", tmp_path / "rows")
    return driver("store").Store(rows, experiment)


@pytest.fixture
def rows(driver):
    unit = driver("methods").Unit
    return [unit("EV"), unit("SAA"), unit("mmd", 1)]


def add_trial(store, name, dearer):
    """Add a second trial to a row, in which it decides worse."""
    other = pd.read_csv(store.folder / f"0-{name}.csv").assign(trial=1)
    other["cost"] += dearer
    other["gap"] = (other["cost"] - other["value"]) / other["value"].abs()
    other.to_csv(store.folder / f"1-{name}.csv", index=False)
    shutil.copy(store.folder / f"0-{name}.json", store.folder / f"1-{name}.json")


def test_tables_and_figures_are_written(results):
    folder, printed = results
    assert (folder / "newsvendor_quick.md").read_text() in printed + "\n"
    assert (folder / "newsvendor_quick_cdf.png").stat().st_size > 10_000
    assert "## Gaps" in printed
    assert "Lowest cost" not in printed  # the paper has no such table for it
    assert "gaps to the full program, proven optimal in 4 of 4 cases" in printed
    assert not (folder / "newsvendor.md").exists()  # that is the page of a full run


def test_gaps_are_those_of_the_policies(results, experiment):
    folder, _ = results
    found = csg.Evaluation.from_csv(folder / "newsvendor_quick.csv")
    assert found.policies == ["EV", "SAA", "mmd K=1"]
    assert len(found.gaps) == 4
    costs = []
    for x in experiment.evaluation_contexts(0):
        demands, _ = experiment.conditional(x, generator=0)
        order = demands.mean()  # what is best for the mean
        sold = demands.clip(max=order)
        costs.append((order - 1.05 * sold - 0.1 * (order - sold)).mean())
    assert found.costs["EV"].to_numpy() == pytest.approx(costs, rel=1e-6)


def test_files_have_the_parts_of_a_policys_name_as_columns(results):
    folder, _ = results
    every = pd.read_csv(folder / "newsvendor_quick.csv")
    mmd = every[every.policy == "mmd K=1"]
    assert set(mmd.method) == {"mmd"} and set(mmd.scenarios) == {1}
    summary = pd.read_csv(folder / "newsvendor_quick_summary.csv").set_index("method")
    assert summary.loc["mmd", ["scenarios", "trials", "contexts"]].tolist() == [1, 1, 4]
    low, median, high = summary.loc["mmd", ["median_low", "median", "median_high"]]
    assert median == pytest.approx(mmd.gap.median())
    assert low <= median <= high
    ratio = mmd.gap.mean() / every.gap[every.policy == "EV"].mean()
    assert summary.loc["mmd", "ratio_mean"] == pytest.approx(ratio)


def test_the_same_command_goes_on_where_it_was(results):
    folder, _ = results
    rows = folder / "quick" / "newsvendor"
    before = {f.name: f.stat().st_mtime_ns for f in rows.glob("*.json")}
    (rows / "0-SAA.json").unlink()
    printed = run(folder, "--methods", "EV", "SAA", "mmd").stdout
    after = {f.name: f.stat().st_mtime_ns for f in rows.glob("*.json")}
    renewed = {name for name in after if after[name] != before.get(name)}
    assert renewed == {"0-SAA.json"}
    assert "| SAA |" in printed


def test_rows_of_other_contexts_pairs_or_settings_are_not_there(
    driver, store, experiment, rows
):
    assert store.has(rows[1], 0)
    for other in ({"contexts": 5}, {"pairs": 60}, {"rounds": 9}, {"config": {}}):
        strange = driver("store").Store(store.folder, replace(experiment, **other))
        assert not strange.has(rows[1], 0)
        assert strange.evaluation(rows, range(1)) is None
        assert strange.misfits(rows, range(1)) == 3


def test_rows_of_another_code_protocol_or_search_share_no_table(
    driver, store, experiment, rows
):
    note = store.note("0-SAA")
    assert note["seed"] == 0 and note["commit"]
    for changes in ({"protocol": "paper"}, {"searched": {"batch": 7}}):
        strange = driver("store").Store(store.folder, replace(experiment, **changes))
        assert strange.misfits(rows, range(1)) == 3
    note["made_with"]["code"] = "another"
    (store.folder / "0-SAA.json").write_text(json.dumps(note))
    assert [store.has(unit, 0) for unit in rows] == [True, False, True]
    found = driver("summary").numbers(store, rows, range(1))
    assert found["method"].tolist() == ["EV", "mmd"]


def test_a_page_can_be_made_again_after_the_code_has_changed(driver, store, rows):
    for name, _ in store.results():
        note = store.note(name)
        note["made_with"]["code"] = "another"
        (store.folder / f"{name}.json").write_text(json.dumps(note))
    assert not any(store.has(unit, 0) for unit in rows)
    store.show_stored_code()
    assert all(store.has(unit, 0) for unit in rows)


def test_report_and_development_are_apart(driver):
    for name in driver("run").PROBLEMS:
        arguments = driver("run").parser().parse_args([name])
        assert min(driver("run").chosen(arguments, name).numbers) >= 100
        quick = driver("run").parser().parse_args([name, "--quick"])
        assert max(driver("run").chosen(quick, name).numbers) < 10


def test_a_doubled_kernel_doubles_lambda_and_quadruples_a_relative_one(driver):
    unit = driver("methods").Unit
    assert unit("static", 1, 0.1, is_doubled=True).regularization == 0.2
    assert unit("static", 1, "0.1x", is_doubled=True).regularization == "0.4x"
    assert unit("static", 1, 0.1).regularization == 0.1
    assert str(unit("static", 1, 0.1, is_doubled=True)) == "static 0.1 doubled K=1"
    found = [*driver("methods").units(driver("newsvendor").EXPERIMENT, ("static",))]
    assert {u.scenarios for u in found if u.is_doubled} == {1}


def test_the_papers_search_is_made_once_on_a_development_history(
    driver, experiment, tmp_path
):
    search, path = driver("search"), tmp_path / "settings.json"
    small = replace(experiment, pairs=60, first=100)
    found = search.searched_settings(small, path, draws=2)
    assert {"batch", "decay", "hidden", "mmd_epochs", "mmd_rate"} < set(found)
    assert set(search.LOSS_NET) < set(found)
    csg.FitConfig(**found)
    before = path.read_bytes()
    assert search.searched_settings(small, path, draws=99) == found
    path.unlink()
    assert search.searched_settings(replace(small, first=101), path, draws=2) == found
    assert path.read_bytes() == before


def test_the_papers_methods_take_the_settings_that_were_found(
    driver, experiment, monkeypatch
):
    seen = {}

    def note(model, history, **options):
        seen[options["method"]] = options
        raise csg.CsgError("enough")

    monkeypatch.setattr(driver("methods").csg, "fit", note)
    searched = replace(experiment, protocol="paper", searched={"batch": 25})
    fitting = driver("methods").Fitting(searched, trial=7)
    for unit in driver("methods").units(searched, ("mmd", "static", "auto")):
        with pytest.raises(csg.CsgError, match="enough"):
            fitting.policy(unit)
    for method in ("mmd", "static"):
        assert seen[method]["config"]["batch"] == 25
        assert seen[method]["config"]["units"] == "raw"
    assert "batch" not in seen["auto"]["config"]
    assert {options["seed"] for options in seen.values()} == {7}


def test_the_table_of_loss_nets_has_errors_at_home_and_on_the_policys_scenarios(
    driver, store, experiment, rows
):
    static = driver("methods").Unit("static", 1, 1.0)
    evaluation = store.evaluation([rows[2]], range(1))
    optimum = evaluation.reference["value"].abs().mean()
    errors = {"error": 0.02 * optimum, "error_here": 0.05 * optimum, "shift": 0.3}
    store.keep(static, 0, evaluation, {"fit": 1.0}, errors)
    costs = pd.read_csv(store.folder / "0-static_1_K1.csv")
    costs.assign(policy=str(static)).to_csv(
        store.folder / "0-static_1_K1.csv", index=False
    )
    units = [*rows, static]
    table = driver("tables").loss_nets(experiment, store, units, range(1))
    (line,) = table.to_dict("records")
    assert (line["error at home, %"], line["shift, sd"]) == ("2", "0.3")
    assert line["error on the policy's scenarios, %"] == "5"
    gap = 100 * store.evaluation(rows[:1], range(1)).mean().iloc[0]
    assert float(line["VSS, %"]) == pytest.approx(gap, rel=0.01)


def test_a_fit_that_failed_is_shown_with_its_reason_and_tried_again(
    driver, store, experiment, rows, monkeypatch
):
    methods, saa = driver("methods"), rows[1]
    (store.folder / "0-SAA.json").unlink()

    def fail(self, unit, checkpoint):
        raise csg.CsgError("no room\nat all")

    with monkeypatch.context() as broken:
        broken.setattr(methods.Fitting, "policy", fail)
        driver("run").run(experiment, ("EV", "SAA", "mmd"), store, workers=1)
    assert not store.has(saa, 0)
    summary = driver("summary")
    numbers = summary.numbers(store, rows, range(1))
    shown = summary.lines("newsvendor", numbers).set_index("method")["median, %"]
    assert shown["SAA"] == "failed" != shown["EV"]
    line = numbers.set_index("method").loc["SAA"]
    assert line["trials"] == 0 and np.isnan(line["median"])
    found = store.evaluation(rows, range(1))
    said = driver("page").notes(store, found, rows, range(1))
    assert "SAA was not fitted in trial 0: no room at all" in said
    driver("run").run(experiment, ("EV", "SAA", "mmd"), store, workers=1)
    assert store.has(saa, 0)


def test_a_fit_that_was_killed_goes_on_from_its_stages(driver, store, experiment, rows):
    fitting, mmd = driver("methods").Fitting(experiment, trial=0), rows[2]
    folder = store.checkpoint(mmd, 0)
    assert not folder.exists()  # the row is kept
    first, seconds = fitting.policy(mmd, folder)
    assert seconds["fit"] > 0 and list(folder.glob("*.safetensors"))
    again, too_few = fitting.policy(mmd, folder)
    x = experiment.evaluation_contexts(0)[0]
    assert again.scenarios(x) == pytest.approx(first.scenarios(x))
    assert too_few == {}
    store.keep(mmd, 0, store.evaluation([mmd], range(1)), too_few)
    assert not folder.exists()
    line = driver("summary").numbers(store, [mmd], range(1)).iloc[0]
    assert line["trials"] == 1 and np.isnan(line["fit_seconds"])


def test_stages_of_another_fit_are_dropped_after_a_failure(
    driver, store, experiment, rows
):
    folder = store.checkpoint(rows[2], 0)
    driver("methods").Fitting(experiment, trial=0).policy(rows[2], folder)
    identity = json.loads((folder / "identity.json").read_text())
    (folder / "identity.json").write_text(json.dumps({**identity, "seed": 1}))
    (store.folder / "0-mmd_K1.json").unlink()
    driver("run").run(experiment, ("mmd",), store, workers=1)
    assert "it belongs to another fit" in store.failures(rows[2], range(1))[0]
    driver("run").run(experiment, ("mmd",), store, workers=1)
    assert store.has(rows[2], 0)


def test_stages_that_another_process_is_at_work_on_are_left_to_it(
    driver, store, experiment, rows
):
    fcntl, folder = pytest.importorskip("fcntl"), store.checkpoint(rows[2], 0)
    driver("methods").Fitting(experiment, trial=0).policy(rows[2], folder)
    (store.folder / "0-mmd_K1.json").unlink()
    stages = sorted(folder.glob("*.safetensors"))
    lock = os.open(folder / "lock", os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        driver("run").run(experiment, ("mmd",), store, workers=1)
    finally:
        os.close(lock)
    assert "is using it" in store.failures(rows[2], range(1))[0]
    assert stages and sorted(folder.glob("*.safetensors")) == stages
    driver("run").run(experiment, ("mmd",), store, workers=1)
    assert store.has(rows[2], 0) and not folder.exists()


def test_a_row_is_compared_on_the_trials_that_it_has(driver, store, rows):
    add_trial(store, "EV", dearer=5.0)
    summary = driver("summary")
    both = summary.numbers(store, rows[:2], range(2))
    first = summary.numbers(store, rows[:2], range(1))
    assert both["trials"].tolist() == [2, 1]
    assert both["contexts"].tolist() == [8, 4]
    ratios = both.filter(like="ratio").loc[1]
    assert ratios.tolist() == first.filter(like="ratio").loc[1].tolist()
    assert ratios["ratio_mean_low"] < ratios["ratio_mean_high"]


def test_wins_are_counted_on_the_trials_that_all_rows_have(
    driver, store, experiment, rows
):
    tables, some = driver("tables"), [rows[0], rows[2]]
    first = tables.wins_in_paper(experiment, store, some, range(1))
    assert first.columns.tolist() == ["K=1: 2 rows, 4 contexts"]
    assert first.iloc[:, 0].astype(float).sum() == pytest.approx(100, abs=0.2)
    add_trial(store, "mmd_K1", dearer=5.0)
    assert tables.wins_in_paper(experiment, store, some, range(2)).equals(first)


def test_a_share_says_of_how_many_rows_it_is_here_and_in_the_paper(
    driver, store, experiment, rows
):
    cep1 = replace(experiment, name="cep1")
    table = driver("tables").wins_in_paper(cep1, store, rows, range(1))
    assert table.columns.tolist() == ["K=1: 2 (10) rows, 4 contexts"]
    assert table.index.tolist() == ["EV", "mmd"]
    assert table.loc["EV"].item().endswith("(11.6)")


@pytest.mark.parametrize(
    ("problem", "method", "penalty", "count", "gap", "wins"),
    [
        ("cep1", "dynamic", "0.01x", 1, 0.0118, 0.557),
        ("cvar", "dynamic", 10240.0, 40, 0.0507, 0.516),
        ("mnv", "static", 320.0, 5, 0.0261, 0.0617),
        ("mnv", "EV", None, 5, 0.027, 0.0933),
    ],
)
def test_the_papers_numbers_stand_beside_ours(
    driver, problem, method, penalty, count, gap, wins
):
    text = driver("methods").Unit(method, count, penalty).penalty_text
    for column, number in (("median_gap", gap), ("wins", wins)):
        shown = driver("reported").percent(problem, method, text, count, column)
        assert shown == pytest.approx(100 * number)


def test_the_papers_seconds_to_solve_are_those_of_one_context(driver):
    reported = driver("reported")
    found = reported.seconds("cvar", 5)
    assert found["decisions"] == pytest.approx(3.0 / 312)
    assert found["full"] == pytest.approx(1339.4 / 312)
    assert found["mmd"] == 166.7
    assert reported.speed_up("mnv", 10) == pytest.approx(234.1 / 8.4)


def test_our_seconds_to_solve_are_means_of_one_context(driver, store, experiment, rows):
    table = driver("times").times(experiment, store, rows, range(1))
    records = csg.Evaluation.from_csv(store.folder / "0-mmd_K1.csv").records
    mean = records["seconds"].mean()
    assert float(table.loc["K=1", "surrogate solution"]) == pytest.approx(
        mean, rel=0.01
    )


def test_numbers_of_scenarios_that_the_paper_lacks_have_no_bracket(driver, tmp_path):
    cvar = replace(driver("cvar").EXPERIMENT, counts=(2, 3))
    units = list(driver("methods").units(cvar, ("EV", "mmd", "static")))
    empty = driver("store").Store(tmp_path, cvar)
    table = driver("times").times(cvar, empty, units, range(1)).T
    assert set(table["K=2"]) == {"-"}
    assert table["K=3"].str.contains("(", regex=False).any()


def test_the_papers_medians_stand_in_brackets(driver, store, rows):
    summary = driver("summary")
    table = summary.numbers(store, rows, range(1))
    table.loc[2, ["method", "penalty", "scenarios"]] = ["static", "0.1x", 2]
    shown = summary.lines("cep1", table)["median, %"].tolist()
    assert shown[0].endswith("(1.69)") and shown[2].endswith("(1.23)")
    assert "(" not in shown[1]


def test_there_is_a_panel_for_every_k_and_lambda(
    driver, store, experiment, rows, tmp_path, monkeypatch
):
    figures, unit = driver("figures"), driver("methods").Unit
    more = [unit("auto", 2), unit("static", 1, 0.1), unit("static", 1, 1.0)]
    for one in more:
        name = str(one).replace(" ", "_").replace("=", "")
        costs = pd.read_csv(store.folder / "0-mmd_K1.csv").assign(policy=str(one))
        costs.to_csv(store.folder / f"0-{name}.csv", index=False)
        note = store.folder / "0-mmd_K1.json"
        shutil.copy(note, store.folder / f"0-{name}.json")
    drawn = []
    monkeypatch.setattr(figures.plt, "close", drawn.append)
    many = replace(experiment, counts=(1, 2), penalties=(0.1, 1.0))
    units = [*rows, *more]
    figures.cdf(many, store, units, range(1), tmp_path / "cdf.png")
    panels = [
        {line.get_label(): line.get_color() for line in axes.get_lines()}
        for axes in drawn[0].axes
    ]
    assert [set(panel) for panel in panels] == [
        {"EV", "SAA", "mmd K=1", "static 0.1 K=1"},
        {"EV", "SAA", "auto K=2"},
        {"EV", "SAA", "mmd K=1", "static 1 K=1"},
        {"EV", "SAA", "auto K=2"},
    ]
    assert panels[0]["static 0.1 K=1"] == panels[2]["static 1 K=1"]
    assert len(set(panels[0].values())) == 4


def test_every_lambda_and_k_of_the_paper_is_run(driver):
    units = driver("methods").units
    for problem in ("cep1", "cvar", "mnv"):
        experiment = driver(problem).EXPERIMENT
        ours = {
            (u.method, u.scenarios, u.penalty)
            for u in units(experiment, ("mmd", "static", "dynamic"))
        }
        theirs = pd.read_csv(PAPER / "published" / f"{problem}.csv")
        rows = theirs[theirs.method != "EV"]
        assert len(ours) == len(rows)
        assert set(rows.scenarios) == set(experiment.counts)


def test_a_packed_experiment_goes_on_elsewhere(
    driver, store, experiment, rows, tmp_path
):
    archive, path = driver("archive"), tmp_path / "rows.zip"
    add_trial(store, "SAA", 0.5)
    archive.pack(store, path)
    other = driver("store").Store(tmp_path / "elsewhere", experiment)
    assert archive.unpack(path, other) == 4
    assert [other.has(unit, 1) for unit in rows] == [False, True, False]
    here, there = (one.evaluation(rows, range(2)) for one in (store, other))
    pd.testing.assert_frame_equal(there.gaps, here.gaps, rtol=1e-7)
    pd.testing.assert_frame_equal(there.reference, here.reference, rtol=1e-2)
    assert there.records["seconds"].to_numpy() == pytest.approx(
        here.records["seconds"].to_numpy(), rel=1e-2
    )
    fits = [one.seconds(rows[2], range(2)) for one in (store, other)]
    assert fits[0] == fits[1]


def test_what_is_there_is_not_replaced_by_an_archive(driver, store, rows, tmp_path):
    archive, path = driver("archive"), tmp_path / "rows.zip"
    archive.pack(store, path)
    add_trial(store, "SAA", 0.5)
    before = store.evaluation(rows, range(2)).costs
    assert archive.unpack(path, store) == 0
    pd.testing.assert_frame_equal(store.evaluation(rows, range(2)).costs, before)


def test_the_driver_goes_on_from_an_archive_and_loses_nothing_of_it(results, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(results[0], out, ignore=shutil.ignore_patterns("quick"))
    path = out / "newsvendor_quick.zip"
    before = path.read_bytes()
    again = run(tmp_path / "fresh", "--methods", "EV", "SAA", "--out", str(out))
    assert "3 results are taken from" in again.stdout
    assert "newsvendor: 0 policy" in again.stderr  # nothing was fitted
    assert path.read_bytes() == before  # the row that was not asked for, too
