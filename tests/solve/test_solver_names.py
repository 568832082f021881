"""The names of Pyomo's solvers, and their options, as csg.Oracle takes them."""

import numpy as np
import pytest
from pyomo.contrib.solver.common.factory import SolverFactory

import pyomo_csg as csg
from models import newsvendor
from pyomo_csg.solve.pyomo_solvers.interfaces import solver_names
from tests.solving import has_solver, needs_solver

HERE = [
    pytest.param(name, marks=needs_solver(name))
    for name in ("contrib_highs", "gurobi_persistent", "scip_persistent", "scip_direct")
]
EVERY = [
    pytest.param(name, marks=needs_solver(name))
    for name in ("appsi_highs", "appsi_gurobi", "appsi_cbc", "appsi_ipopt", "ipopt")
] + HERE


def oracle(solver, **options):
    """Return an oracle of the newsvendor."""
    return csg.Oracle(newsvendor.build(), solver=solver, options=options)


@pytest.mark.parametrize("solver", ["appsi_cbc", "gurobi_persistent", "contrib_highs"])
def test_the_solvers_of_the_test_requirements_are_there(solver):
    if solver == "gurobi_persistent":
        pytest.importorskip("gurobipy")
    assert has_solver(solver)


def test_scip_is_there_if_this_pyomo_has_an_interface_to_it():
    assert has_solver("scip_persistent") == ("scip_persistent" in SolverFactory)


def test_highs_is_our_own_engine_and_never_pyomos():
    assert "highs" not in solver_names()
    assert oracle("highs")._compiled is not None
    assert oracle("contrib_highs")._compiled is None


@needs_solver("scip_direct")
def test_the_prefix_of_the_family_may_be_written_out():
    assert solver_names()["contrib_scip_direct"] == solver_names()["scip_direct"]


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("appsi_hihgs", "appsi_highs"),
        ("gurobi_persistant", "gurobi_persistent"),
        ("higs", "highs"),
    ],
)
def test_an_unknown_solver_is_refused_with_the_nearest(name, nearest):
    match = f"no '{name}'; did you mean '{nearest}'.*on this machine .*'appsi_highs'"
    with pytest.raises(csg.ModelError, match=match):
        oracle(name)


def test_a_solver_that_is_not_here_is_refused_with_its_remedy():
    missing = [name for name in solver_names() if not has_solver(name)]
    if not missing:
        pytest.skip("every solver is installed")
    for name in missing:
        match = "(?s)not available .*(install|license|compiled|manual|see )"
        with pytest.raises(csg.ModelError, match=match):
            oracle(name)


@pytest.mark.parametrize("solver", ["highs", *EVERY])
@pytest.mark.parametrize("limit", ["10", True, -1.0, float("nan"), [1.0]])
def test_a_time_limit_that_is_no_number_is_refused_by_name(solver, limit):
    with pytest.raises(csg.DataError, match="time_limit.*number"):
        oracle(solver, time_limit=limit)


@pytest.mark.parametrize(
    ("solver", "options", "match"),
    [
        ("appsi_highs", {"mip_rel_gpa": 0.1}, "did you mean mip_rel_gap"),
        ("contrib_highs", {"mip_rel_gap": "0.1"}, "'mip_rel_gap'; give a number"),
        ("gurobi_persistent", {"MIPGpa": 0.1}, "did you mean MIPGap"),
        ("appsi_gurobi", {"MIPGap": "0.1"}, "'MIPGap'; give a number"),
        ("gurobi_direct", {"Threads": 1.5}, "'Threads'; give a whole number"),
        ("gurobi_direct", {"FeasibilityTol": 7.0}, "'FeasibilityTol'; give a number"),
        ("scip_direct", {"limits/gpa": 0.1}, "did you mean limits/gap"),
        ("scip_persistent", {"limits/gap": "0.1"}, "'limits/gap'; give a number"),
        ("scip_persistent", {"limits/gap": -1.0}, "'limits/gap'"),
        ("scip_persistent", {"limits/gap": None}, "'limits/gap' is None"),
        ("appsi_cbc", {"ratioGap": "small"}, "'ratioGap' is 'small'; give a number"),
        ("appsi_cbc", {3: 1.0}, "option 3"),
    ],
)
def test_an_option_that_does_not_fit_is_refused_by_name(solver, options, match):
    if not has_solver(solver):
        pytest.skip(f"{solver} is not installed")
    with pytest.raises(csg.DataError, match=match):
        csg.Oracle(newsvendor.build(), solver=solver, options=options)


@pytest.mark.parametrize("solver", HERE)
def test_processes_give_the_same_answers(solver):
    rng = np.random.default_rng(1)
    scenarios, outcomes = rng.uniform(5, 30, (12, 3, 1)), rng.uniform(5, 30, (12, 1))
    through = csg.Oracle(newsvendor.build(), solver=solver, workers=2)
    expected = csg.Oracle(newsvendor.build()).loss(scenarios, outcomes)
    assert through.loss(scenarios, outcomes) == pytest.approx(expected, abs=1e-6)
