"""From mpi-sppy and to it: its extensive form and its methods agree with ours."""

import contextlib
import io
import os
import pickle
import re
import shutil
import subprocess
import sys
from pathlib import Path

import cloudpickle
import numpy as np
import pandas as pd
import pyomo.environ as pyo
import pytest

import pyomo_csg as csg
from models import cep1, cvar_portfolio, farmer, newsvendor
from tests.interop import mpisppy_models as models
from tests.solving import TIGHT, solve, transform

with contextlib.redirect_stdout(io.StringIO()):
    from mpisppy.opt.ef import ExtensiveForm
    from mpisppy.opt.lshaped import LShapedMethod
    from mpisppy.opt.ph import PH
    from mpisppy.tests.examples import apl1p
    from mpisppy.tests.examples import farmer as their_farmer

ROOT = Path(__file__).parents[2]
NUMBERED = [f"scen{k}" for k in range(5)]
QUANTILE = [[10], [14], [30]], [0.02, 0.9, 0.08]  # the best order is the second


def by_extensive_form(creator, names, kwargs):
    """Return the optimal value of mpi-sppy's ExtensiveForm."""
    form = ExtensiveForm(
        {"solver": "highs"}, names, creator, scenario_creator_kwargs=kwargs
    )
    form.solve_extensive_form(solver_options=TIGHT)
    return form.get_objective_value()


def by_l_shaped(creator, names, kwargs):
    """Return what mpi-sppy's L-shaped method finds."""
    pytest.importorskip("mpi4py", reason="needs the extra mpi")
    options = {"root_solver": "highs", "sp_solver": "highs", "verbose": False}
    method = LShapedMethod(options, names, creator, scenario_creator_kwargs=kwargs)
    method.lshaped_algorithm()
    return method.root.obj() * (1 if method.is_minimizing else -1)


def by_ours(model, scenarios, weights=None):
    """Return the optimal value of our extensive form."""
    return solve(
        transform("extensive_form", model, scenarios=scenarios, weights=weights)
    )


@pytest.mark.parametrize(
    ("creator", "names", "kwargs", "named"),
    [
        pytest.param(their_farmer.scenario_creator, NUMBERED, {}, None, id="farmer"),
        pytest.param(
            their_farmer.scenario_creator,
            NUMBERED[:3],
            {"use_integer": True, "sense": pyo.maximize, "num_scens": 3},
            None,
            id="farmer, integer and maximized",
        ),
        pytest.param(
            apl1p.scenario_creator,
            NUMBERED,
            {"num_scens": 5},
            ["Availability", "Demand"],
            id="apl1p",
        ),
        pytest.param(
            models.aircond_with_param, NUMBERED, models.AIRCOND, None, id="aircond"
        ),
        pytest.param(
            models.aircond_with_param,
            NUMBERED,
            {**models.AIRCOND, "start_ups": True},
            None,
            id="aircond with start-ups",
        ),
        pytest.param(
            models.sizes_creator("within=NonNegativeReals, mutable=True"),
            ["low", "middle", "high"],
            {},
            None,
            id="sizes",
        ),
        pytest.param(
            models.sizes_creator(),
            ["low", "middle", "high"],
            {},
            "DemandsSecondStage",
            id="sizes as it is",
        ),
        pytest.param(models.sslp_creator, NUMBERED, {}, None, id="sslp"),
        pytest.param(models.netdes_creator, NUMBERED[:3], {}, None, id="netdes"),
    ],
)
def test_the_extensive_form_of_an_mpisppy_model_is_the_same_by_ours(
    creator, names, kwargs, named
):
    found = csg.from_mpisppy(creator, names, uncertain_params=named, **kwargs)
    assert by_ours(*found) == pytest.approx(by_extensive_form(creator, names, kwargs))


def with_uncertain(where, sense=pyo.minimize):
    """Return a model whose uncertain number stands in one place of the first stage."""
    m = pyo.ConcreteModel("one place")
    m.w = pyo.Param(initialize=1.0, mutable=True, within=pyo.NonNegativeReals)
    m.y = pyo.Var(bounds=(0, m.w if where == "bound" else 10))
    m.z = pyo.Var(within=pyo.NonNegativeReals)
    m.meet = pyo.Constraint(expr=m.y + m.z >= 6)
    m.extra = pyo.Constraint(expr=(m.w if where == "row" else 0.5) * m.y <= 6)
    cost = m.y + 4 * m.z + (100 if where == "constant" else 0)
    cost += (m.w if where in ("cost", "constant") else 1) * (
        m.y if where == "cost" else 1
    )
    m.cost = pyo.Objective(expr=cost if sense == pyo.minimize else -cost, sense=sense)
    csg.annotate(m, first_stage_variables=m.y, uncertain_params=m.w)
    return m


@pytest.mark.parametrize("sense", [pyo.minimize, pyo.maximize])
@pytest.mark.parametrize("where", ["cost", "constant", "row", "bound"])
def test_l_shaped_reads_what_is_uncertain_in_the_first_stage_from_every_scenario(
    where, sense
):
    scenarios, weights = [[2.0], [1.0], [4.0]], [0.5, 0.2, 0.3]
    model = with_uncertain(where, sense)
    ours = by_ours(model, scenarios, weights)
    theirs = csg.TwoStageModel(model).to_mpisppy(scenarios, weights)
    assert by_l_shaped(*theirs) == pytest.approx(ours)
    assert by_extensive_form(*theirs) == pytest.approx(ours)


def bounded_portfolio():
    """Return the portfolio; L-shaped needs first-stage variables that are bounded."""
    model = cvar_portfolio.build()
    model.value_at_risk.setlb(-1)
    return model


@pytest.mark.parametrize(
    ("model", "scenarios"),
    [
        pytest.param(farmer.build(), farmer.scenarios(4), id="farmer"),
        pytest.param(cep1.build(), cep1.sample(3, seed=0)[1], id="cep1"),
        pytest.param(
            bounded_portfolio(),
            np.random.default_rng(0).normal(0.01, 0.05, (3, 10)),
            id="portfolio",
        ),
    ],
)
def test_mpisppy_solves_our_models(model, scenarios):
    theirs = csg.TwoStageModel(model).to_mpisppy(scenarios)
    ours = by_ours(model, scenarios)
    assert by_extensive_form(*theirs) == pytest.approx(ours)
    assert by_l_shaped(*theirs) == pytest.approx(ours, rel=1e-6)


def by_hedging(scenarios, weights):
    """Return the newsvendor's order and value by mpi-sppy's progressive hedging."""
    two_stage = csg.TwoStageModel(newsvendor.build())
    creator, names, kwargs = two_stage.to_mpisppy(scenarios, weights)
    options = {
        "solver_name": "highs",
        "PHIterLimit": 50,
        "defaultPHrho": 0.05,
        "convthresh": 1e-7,
        "verbose": False,
        "display_progress": False,
        "display_timing": False,
        "iter0_solver_options": {},
        "iterk_solver_options": {},
    }
    method = PH(options, names, creator, scenario_creator_kwargs=kwargs)
    _, value, _ = method.ph_main()
    mine = next(iter(method.local_scenarios.values()))
    (order,) = mine._mpisppy_model.xbars.values()
    return order.value, value


def test_progressive_hedging_finds_the_newsvendors_quantile():
    order, value = by_hedging(*QUANTILE)
    assert order == pytest.approx(14, abs=1e-3)
    assert value == pytest.approx(by_ours(newsvendor.build(), *QUANTILE), abs=1e-3)


def test_a_quadratic_cost_stays_in_the_objective():
    m = with_uncertain("row")
    m.cost.expr += m.w * m.y**2
    theirs = csg.TwoStageModel(m).to_mpisppy([[2.0], [1.0], [4.0]])
    ours = csg.Oracle(m).solve([[2.0], [1.0], [4.0]]).value
    assert by_extensive_form(*theirs) == pytest.approx(ours, rel=1e-5)


def test_what_went_to_mpisppy_can_be_pickled_and_comes_back():
    scenarios = pd.DataFrame(
        cep1.sample(4, seed=0)[1],
        columns=[f"demand[{i}]" for i in (1, 2, 3)],
        index=["north", "east", "south", "west"],
    )
    two_stage = csg.TwoStageModel(cep1.build())
    sent = two_stage.to_mpisppy(scenarios, [0.1, 0.2, 0.3, 0.4])
    creator, names, kwargs = pickle.loads(cloudpickle.dumps(sent))
    model, again, weights = csg.from_mpisppy(creator, names, **kwargs)
    pd.testing.assert_frame_equal(again, scenarios)
    assert weights.to_dict() == pytest.approx(
        {"north": 0.1, "east": 0.2, "south": 0.3, "west": 0.4}
    )
    assert by_ours(model, again, weights) == pytest.approx(
        by_ours(two_stage.model, scenarios, weights)
    )


def test_the_model_itself_is_not_changed():
    model = with_uncertain("bound")
    before = io.StringIO()
    model.pprint(before)
    creator, names, kwargs = csg.TwoStageModel(model).to_mpisppy([[2.0], [1.0]])
    creator(names[0], **kwargs)
    after = io.StringIO()
    model.pprint(after)
    assert after.getvalue() == before.getvalue()


def test_scenarios_that_do_not_fit_are_refused():
    two_stage = csg.TwoStageModel(newsvendor.build())
    with pytest.raises(csg.DataError, match="demand.*outside its domain"):
        two_stage.to_mpisppy([[-1.0]])
    with pytest.raises(csg.DataError, match="sum to 0.9"):
        two_stage.to_mpisppy([[1.0], [2.0]], [0.5, 0.4])
    twice = pd.DataFrame({"demand": [1.0, 2.0]}, index=["day", "day"])
    with pytest.raises(csg.DataError, match="'day' is used more than once"):
        two_stage.to_mpisppy(twice)


def test_without_mpisppy_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "mpisppy", None)
    with pytest.raises(csg.CsgError, match=r"pip install pyomo-csg\[mpi\]"):
        csg.TwoStageModel(newsvendor.build()).to_mpisppy([[1.0]])


def on_two_ranks(script):
    """Return what a script prints on two ranks."""
    pytest.importorskip("mpi4py")
    mpiexec = shutil.which("mpiexec", path=Path(sys.executable).parent)
    if mpiexec is None:
        pytest.skip("no mpiexec beside Python; pip install pyomo-csg[mpi]")
    done = subprocess.run(
        [mpiexec, "-n", "2", sys.executable, "-m", "mpi4py", str(script)],
        check=True,
        timeout=300,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
    )
    return done.stdout


def test_l_shaped_on_two_ranks_agrees_with_ours():
    printed = on_two_ranks(ROOT / "examples" / "mpisppy_farmer.py")
    found = re.findall(r"(pyomo_csg|2 rank\(s\)): (-?[\d.]+)", printed)
    names = their_farmer.scenario_names_creator(6)
    expected = by_extensive_form(their_farmer.scenario_creator, names, {})
    assert [who for who, _ in found] == ["pyomo_csg", "2 rank(s)"]
    assert [float(value) for _, value in found] == pytest.approx([expected] * 2)


BY_HEDGING = """
from mpi4py import MPI
from tests.interop.test_mpisppy_writer import QUANTILE, by_hedging

found = MPI.COMM_WORLD.gather(by_hedging(*QUANTILE))
if MPI.COMM_WORLD.rank == 0:  # lines that ranks print at once may be torn
    for rank, (order, value) in enumerate(found):
        print("rank", rank, "of", MPI.COMM_WORLD.size, order, value)
"""


def test_progressive_hedging_on_two_ranks_agrees_with_ours(tmp_path):
    script = tmp_path / "hedging.py"
    script.write_text(BY_HEDGING)
    printed = on_two_ranks(script)
    found = re.findall(r"rank (\d) of 2 ([-\d.e]+) ([-\d.e]+)", printed)
    expected = by_ours(newsvendor.build(), *QUANTILE)
    assert sorted(rank for rank, _, _ in found) == ["0", "1"]
    for _, order, value in found:
        assert float(order) == pytest.approx(14, abs=1e-3)
        assert float(value) == pytest.approx(expected, abs=1e-3)
