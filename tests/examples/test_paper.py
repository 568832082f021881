"""The driver of the paper's experiments, on as little as it takes."""

import importlib
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

import pyomo_csg as csg

PAPER = Path(__file__).parents[2] / "examples" / "paper"


def run(folder, *options):
    """Run the driver on four contexts of the newsvendor."""
    command = [sys.executable, str(PAPER / "run.py"), "newsvendor", "--quick"]
    command += ["--contexts", "4", "--scenarios", "1", "--no-illustrate"]
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


def test_tables_and_figures_are_written(results):
    folder, printed = results
    assert (folder / "newsvendor.md").read_text() in printed + "\n"
    assert (folder / "newsvendor_cdf.png").stat().st_size > 10_000
    for title in ("Median gaps", "Lowest cost", "over those of the expected value"):
        assert title in printed


def test_gaps_are_those_of_the_policies(results, driver):
    folder, _ = results
    found = csg.Evaluation.from_csv(folder / "newsvendor.csv")
    assert found.policies == ["EV", "SAA", "mmd K=1"]
    assert len(found.gaps) == 4
    experiment = driver("newsvendor").EXPERIMENT
    costs = []
    for x in experiment.quick().evaluation_contexts(0)[:4]:
        demands, _ = experiment.conditional(x, generator=0)
        order = demands.mean()  # what is best for the mean
        sold = demands.clip(max=order)
        costs.append((order - 1.05 * sold - 0.1 * (order - sold)).mean())
    assert found.costs["EV"].to_numpy() == pytest.approx(costs, rel=1e-6)


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


def test_a_row_is_compared_on_the_trials_that_it_has(results, driver, tmp_path):
    folder, _ = results
    (tmp_path / "quick").mkdir()
    rows = shutil.copytree(folder / "quick" / "newsvendor", tmp_path / "quick" / "n")
    other = pd.read_csv(rows / "0-EV.csv").assign(trial=1)
    other["cost"] += 5.0  # a second trial, in which the expected value decides worse
    other["gap"] = (other["cost"] - other["value"]) / other["value"].abs()
    other.to_csv(rows / "1-EV.csv", index=False)
    shutil.copy(rows / "0-EV.json", rows / "1-EV.json")
    tables, methods, store = driver("tables"), driver("methods"), driver("store")
    experiment = driver("newsvendor").EXPERIMENT.quick()
    units = [methods.Unit("EV"), methods.Unit("SAA")]

    both = tables.summary(experiment, store.Store(rows), units, range(2))
    first = tables.summary(experiment, store.Store(rows), units, range(1))

    assert both["trials"].tolist() == [2, 1]
    for what in ("median", "mean", "90th percentile"):
        assert both.loc[1, what] == first.loc[1, what] != "1.0000"


@pytest.mark.parametrize(
    ("problem", "method", "penalty", "count", "gap", "wins"),
    [
        ("cep1", "dynamic", "0.01x", 1, 0.0118, 0.557),
        ("cvar", "dynamic", 10240.0, 40, 0.0507, 0.516),
        ("mnv", "static", 320.0, 5, 0.0261, 0.0617),
    ],
)
def test_the_papers_numbers_stand_beside_ours(
    driver, problem, method, penalty, count, gap, wins
):
    tables, methods = driver("tables"), driver("methods")
    published, unit = tables.published(problem), methods.Unit(method, count, penalty)
    for column, number in (("median_gap", gap), ("wins", wins)):
        shown = tables._theirs(published, unit, count, column)
        assert shown == pytest.approx(100 * number)


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
