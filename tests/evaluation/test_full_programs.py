"""Full programs: kept on disk case by case, and never taken for closed when they are not."""

import numpy as np
import pytest

import pyomo_csg as csg
from models import cep1, mnv, newsvendor, sslp
from pyomo_csg.evaluation import evaluator
from pyomo_csg.evaluation.reference import ProgramCache
from tests.evaluation.sample_cases import OnScenarios, Rule, newsvendor_cases
from tests.solve.test_faults import no_complete_recourse
from tests.solving import solve, transform

TEN = {"ten": Rule(lambda x: {"order": 10.0})}


def solved(cases, folder, model=None, options=None):
    """Return the full programs, and how many were solved for it."""
    model = model or newsvendor.build()
    oracle, exact = csg.Oracle(model, options=options), csg.Oracle(model)
    cache = ProgramCache(folder, oracle.two_stage, {"options": options})
    found = evaluator.solve_full_programs(oracle, exact, cases, cache, 1, False)
    return found, oracle.stats.solves


def test_what_is_kept_is_not_solved_again(tmp_path):
    cases = newsvendor_cases(5)
    first, solves = solved(cases, tmp_path)
    assert solves == 5
    again, solves = solved(cases[::-1], tmp_path)
    assert solves == 0
    assert again == first[::-1]


def test_a_run_that_was_killed_goes_on(tmp_path, monkeypatch):
    cases, write = newsvendor_cases(5), ProgramCache.write
    left = iter([True, True, False])

    def killed(self, case, full):
        if not next(left):
            raise KeyboardInterrupt
        write(self, case, full)

    monkeypatch.setattr(ProgramCache, "write", killed)
    with pytest.raises(KeyboardInterrupt):
        solved(cases, tmp_path)
    monkeypatch.undo()
    found, solves = solved(cases, tmp_path)
    assert solves == 3
    assert [full.value for full in found] == [
        full.value for full in solved(cases, None)[0]
    ]


def test_another_model_law_or_option_is_solved_for_itself(tmp_path):
    cases = newsvendor_cases(2)
    solved(cases, tmp_path)
    assert solved(cases, tmp_path, newsvendor.build(price=1.2))[1] == 2
    assert solved(cases, tmp_path, options={"time_limit": 9.0})[1] == 2
    moved = [csg.Case(c.context, c.outcomes + 0.5, c.weights) for c in cases]
    assert solved(moved, tmp_path)[1] == 2
    weighted = [csg.Case(c.context, c.outcomes) for c in cases]
    assert solved(weighted, tmp_path)[1] == 2


def test_what_a_model_was_left_with_does_not_matter(tmp_path):
    cases, model = newsvendor_cases(2), newsvendor.build()
    solved(cases, tmp_path, model)
    model.demand.set_value(3.0)
    model.order.set_value(4.0)
    assert solved(cases, tmp_path, model)[1] == 0


def test_a_file_that_is_damaged_is_computed_anew(tmp_path, caplog):
    cases = newsvendor_cases(2)
    first, _ = solved(cases, tmp_path)
    for file, content in zip(sorted(tmp_path.iterdir()), ("{", "[1]"), strict=True):
        file.write_text(content)
    again, solves = solved(cases, tmp_path)
    assert solves == 2 and caplog.text.count("solving the program again") == 2
    assert [full.value for full in again] == [full.value for full in first]


def test_a_folder_that_cannot_be_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(csg.DataError, match="give a folder that can be written"):
        csg.evaluate(
            TEN, newsvendor_cases(1), model=newsvendor.build(), cache=tmp_path / "file"
        )


def test_an_evaluation_takes_the_reference_from_the_folder(tmp_path):
    cases, settings = newsvendor_cases(4), {"model": newsvendor.build()}
    one = csg.evaluate(TEN, cases, cache=tmp_path, **settings)
    two = csg.evaluate(TEN, cases, cache=tmp_path, workers=2, **settings)
    assert two.reference.equals(one.reference)  # to the seconds it took
    assert len(list(tmp_path.iterdir())) == 4


def test_laws_of_one_size_start_from_the_last_basis():
    contexts, _ = cep1.sample(2, seed=3)
    laws = [cep1.conditional(x)[0][:60] for x in contexts]
    cases = [csg.Case(None, law) for law in (laws[0], laws[0] + 1e-3)]
    iterations = []
    for count in (1, 2):
        oracle, exact = csg.Oracle(cep1.build()), csg.Oracle(cep1.build())
        cache = ProgramCache(None, oracle.two_stage, {})
        evaluator.solve_full_programs(oracle, exact, cases[:count], cache, 1, False)
        iterations.append(oracle.stats.iterations)
    assert iterations[1] - iterations[0] < 0.1 * iterations[0]


@pytest.fixture(scope="module")
def demands():
    return mnv.sample(6, seed=5)[1]


@pytest.fixture(scope="module")
def optimum(demands):
    return -solve(transform("extensive_form", mnv.build(), scenarios=demands))


def test_a_program_within_a_gap_has_its_bound_beside_it(demands, optimum):
    mean = OnScenarios(mnv.build(), lambda x: demands.mean(axis=0)[None])
    evaluation = csg.evaluate(
        {"mean": mean}, [csg.Case(None, demands)], options={"mip_rel_gap": 0.05}
    )
    reference = evaluation.reference.iloc[0]
    assert reference["bound"] <= optimum <= reference["value"] + 1e-6
    assert 1e-3 < reference["gap"] <= 0.05
    assert reference["source"] == "full program"
    assert "proven optimal in 0 of 1 cases, in 1 to within" in str(evaluation)


def stopped_short(gap):
    """Return demands after which the full program ends at a decision below the best.

    Some first decisions are the best ones, and which depends on numpy's draws.
    """
    exact, loose = csg.Oracle(mnv.build()), csg.Oracle(mnv.build(), options=gap)
    for seed in range(12):
        demands = mnv.sample(6, seed=seed)[1]
        decision = loose.solve(demands[None]).decision
        cost = exact.cost(np.repeat(decision, 6, axis=0), demands).mean()
        if -cost < exact.solve(demands[None]).value.item() - 1:
            return demands
    raise AssertionError("every program was solved to the end")


def test_a_policy_can_beat_a_program_that_was_not_closed():
    gap = {"mip_rel_gap": 0.05}
    demands = stopped_short(gap)
    policies = {
        "mean": OnScenarios(mnv.build(), lambda x: demands.mean(axis=0)[None]),
        "exact": OnScenarios(mnv.build(), lambda x: demands),
    }
    evaluation = csg.evaluate(policies, [csg.Case(None, demands)], options=gap)
    reference = evaluation.reference.iloc[0]
    optimum = -solve(transform("extensive_form", mnv.build(), scenarios=demands))
    assert reference["value"] == pytest.approx(optimum, rel=1e-9)
    assert reference["source"] == "policy exact"
    assert evaluation.gaps["exact"].item() == 0
    assert evaluation.gaps["mean"].item() > 0
    assert "in 1 cases the best known decision is a policy's" in str(evaluation)


def test_a_limit_with_a_decision_at_hand_is_no_failure(tmp_path, demands, optimum):
    mean = OnScenarios(mnv.build(), lambda x: demands.mean(axis=0)[None])
    settings = {"options": {"mip_max_nodes": 1}, "cache": tmp_path}
    case = csg.Case(None, demands)
    evaluation = csg.evaluate({"mean": mean}, [case], **settings)
    reference = evaluation.reference.iloc[0]
    assert reference["status"] == "solution limit"
    assert reference["bound"] < optimum - 1 and optimum <= reference["value"] + 1e-6
    again = csg.evaluate({"mean": mean}, [case], **settings)
    assert again.reference.equals(evaluation.reference)


def test_a_limit_without_any_decision_leaves_the_policies_best(tmp_path, demands):
    mean = OnScenarios(mnv.build(), lambda x: demands.mean(axis=0)[None])
    evaluation = csg.evaluate(
        {"mean": mean},
        [csg.Case(None, demands)],
        options={"mip_max_nodes": 0},
        cache=tmp_path,
    )
    reference = evaluation.reference.iloc[0]
    assert reference["source"] == "policy mean"
    assert reference["value"] == evaluation.costs["mean"].item()
    assert -np.inf < reference["bound"] < reference["value"]
    assert not list(tmp_path.iterdir())  # there is nothing worth keeping


def test_a_program_without_a_solution_has_no_value():
    evaluation = csg.evaluate(
        {"most": Rule(lambda x: {"y": 10.0})},
        [csg.Case(None, [[12.0]]), csg.Case(None, [[20.0]])],
        model=no_complete_recourse(),
    )
    assert evaluation.reference["status"].tolist() == ["optimal", "infeasible"]
    assert evaluation.gaps["most"].tolist() == pytest.approx([0, np.nan], nan_ok=True)
    assert "not at all in 1" in str(evaluation)


def test_costs_are_exact_whatever_the_options_of_the_full_program():
    model, clients = sslp.build(4, 8), sslp.scenarios(4, 8)
    policies = {
        str(i): Rule(lambda x, i=i: {f"located[{j}]": int(j != i) for j in range(1, 5)})
        for i in range(5)
    }
    cases = [csg.Case(None, clients)]
    exact = csg.evaluate(policies, cases, model=model)
    loose = csg.evaluate(policies, cases, model=model, options={"mip_rel_gap": 0.9})
    assert loose.costs.to_numpy() == pytest.approx(exact.costs.to_numpy())
