"""The field problems build, use nothing from the future, and are run and tabulated."""

import importlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import pyomo_csg as csg
from models import newsvendor

FIELD = Path(__file__).parents[2] / "examples" / "field"
NAMES = sorted(p.stem for p in (FIELD / "problems").glob("[!_]*.py"))


@pytest.fixture
def field(monkeypatch):
    """Import a module of the examples as they do."""
    monkeypatch.syspath_prepend(str(FIELD))
    return importlib.import_module


@pytest.fixture
def load(field):
    """Return a problem, or skip the test if its data are not installed."""

    def load_or_skip(name):
        try:
            return field("problems").load(name)
        except field("problem").MissingDataError as error:
            pytest.skip(str(error))

    return load_or_skip


@pytest.fixture
def toy(field):
    """Return a small problem without data of others, 40 rows of a newsvendor."""
    contexts, demands = newsvendor.sample(40, seed=1)
    return field("problem").Problem(
        name="toy",
        title="Newspapers",
        build=newsvendor.build,
        contexts=pd.DataFrame(contexts, columns=["a", "b"]),
        outcomes=pd.DataFrame(demands, columns=["demand"]),
        first=20,
        every=15,
        block=4,
        unit="dollars",
    )


def run(script, *arguments):
    """Run a script of the examples."""
    command = [sys.executable, str(FIELD / f"{script}.py"), *map(str, arguments)]
    return subprocess.run(command, check=False, capture_output=True, text=True)


def test_every_problem_belongs_to_one_half(field):
    problems = field("problems")
    assert sorted(problems.DEVELOPMENT + problems.REPORT) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_problem_builds_and_its_columns_match(load, name):
    problem = load(name)
    two_stage = csg.TwoStageModel(problem.build())
    columns = [param.name for param in two_stage.uncertain_params]
    assert list(problem.outcomes.columns) == columns
    assert problem.contexts.columns.is_unique
    assert problem.contexts.index.is_monotonic_increasing
    assert (problem.contexts.std() > 0).all()
    stages = list(problem.stages())
    assert sum(len(stage.cases) for stage in stages) == (
        len(problem.outcomes) - problem.first
    )


@pytest.mark.parametrize("name", NAMES)
def test_every_decision_has_recourse(load, name):
    problem = load(name)
    oracle = csg.Oracle(problem.build())
    outcomes = problem.outcomes.to_numpy()
    lowest, highest = outcomes.min(axis=0), outcomes.max(axis=0)
    made = oracle.solve(np.array([lowest, highest])[:, None]).decision
    costs = oracle.cost(made, np.array([highest, lowest]))
    assert np.isfinite(costs).all()


@pytest.mark.parametrize("name", NAMES)
def test_no_context_is_its_own_outcome(load, name):
    problem = load(name)
    contexts, outcomes = problem.contexts.to_numpy(), problem.outcomes.to_numpy()
    for column in outcomes.T:
        assert not (np.isclose(contexts, column[:, None]).mean(axis=0) > 0.9).any()


@pytest.mark.parametrize("name", NAMES)
def test_the_runner_stores_rows_and_continues(field, load, name, tmp_path):
    problem = load(name).shortened(60)
    run_problem = field("runner").run_problem
    read_candidates = field("candidates").read_candidates
    run_problem(problem, read_candidates(["saa:all", "mmd:2"]), [0], tmp_path)
    run_problem(problem, read_candidates(["mmd:2", "neighbors:all"]), [0], tmp_path)

    rows = [json.loads(x) for x in (tmp_path / f"{name}.jsonl").open()]
    methods = [row["method"] for row in rows]
    assert methods == ["clairvoyant", "saa", "mmd", "neighbors"]
    clairvoyant, *others = [np.array(row["costs"]) for row in rows]
    assert clairvoyant.shape == (20,)
    for row, costs in zip(rows[1:], others, strict=True):
        assert costs.mean() == pytest.approx(row["mean"], rel=1e-5)
        assert (costs >= clairvoyant - 1e-5 * abs(clairvoyant)).all()


def test_the_scripts_write_rows_and_a_page(load, tmp_path):
    load("bikes")  # skips
    methods = ("saa:all", "neighbors:all")
    made = run("run", "bikes", "--rows", 30, "--methods", *methods, "--out", tmp_path)
    assert made.returncode == 0, made.stderr
    page = tmp_path / "page.md"
    made = run("table", "--rows", tmp_path, "--page", page)
    assert made.returncode == 0, made.stderr
    assert "| context-free SAA | all |" in page.read_text(encoding="utf-8")


def test_nothing_is_learned_from_what_is_yet_to_come(field, toy):
    first, second = toy.stages()
    assert [len(first.outcomes), len(second.outcomes)] == [20, 35]
    assert [len(first.cases), len(second.cases)] == [15, 5]
    contexts = toy.contexts.to_numpy()
    assert first.contexts.tolist() == contexts[:20].tolist()
    assert first.cases[0].context.tolist() == contexts[20].tolist()
    assert first.cases[0].outcomes.equals(toy.outcomes.iloc[[20]])


def test_rows_of_another_problem_are_refused(field, toy, tmp_path):
    store = field("stored_rows").Store(tmp_path, "toy")
    store.open(toy.facts())
    store.open(toy.facts())
    with pytest.raises(ValueError, match="another version of the problem"):
        store.open(toy.shortened(30).facts())


def test_a_row_that_was_cut_short_is_run_again(field, tmp_path):
    store = field("stored_rows").Store(tmp_path, "toy")
    store.add({"method": "saa", "scenarios": "all", "seed": 0})
    with store.rows_path.open("a") as file:
        file.write('{"method": "forest", "scen')
    assert list(store.rows()) == [("saa", "all", 0)]


def test_an_unknown_method_is_named(field):
    with pytest.raises(ValueError, match="no method 'oracle:5'"):
        field("candidates").read_candidates(["baselines", "oracle:5"])


def test_the_block_standard_error_sees_dependence(field):
    error = field("block_errors").block_standard_error
    rng = np.random.default_rng(0)
    independent = rng.normal(size=4000)
    assert error(independent, 1) == pytest.approx(1 / np.sqrt(4000), rel=0.05)
    assert error(independent, 7) == pytest.approx(1 / np.sqrt(4000), rel=0.15)
    repeated = np.repeat(independent, 7)
    truth = 1 / np.sqrt(4000)
    assert error(repeated, 70) == pytest.approx(truth, rel=0.3)
    assert error(repeated, 1) < 0.5 * truth


def test_the_page_has_every_stored_row(field, toy, tmp_path):
    stored_rows, table = field("stored_rows"), field("table")
    store = stored_rows.Store(tmp_path, "toy")
    store.open(toy.facts())
    costs = {"saa:all": 4.0, "forest:all": 2.0, "neighbors:all": 3.0, "auto:5": 2.5}
    for name, cost in costs.items():
        method, scenarios = name.split(":")
        times = {"decide_ms": 1.5, "fit_seconds": 2.0}
        row = {"method": method, "scenarios": scenarios, "seed": 0, **times}
        store.add(row | {"costs": [cost - 1, cost + 1] * 5})

    lines = table.page([table.Results(store)], "# Title").splitlines()

    assert "Best on all outcomes: forest SAA." in "\n".join(lines)
    (auto,) = (line for line in lines if line.startswith("| `auto`"))
    assert auto == "| `auto` | 5 | 2.5000 | +0.5000 ± 0.0000 | 75 | 1.5 | 2 | 1 |  |"
    assert (
        sum(line.startswith(("| context-free", "| forest", "| nei")) for line in lines)
        == 3
    )
