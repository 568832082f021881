"""An extensive form that someone else built: mpi-sppy's, of the same model."""

import contextlib
import io

import pyomo.environ as pyo

import pyomo_csg as csg
from tests.solving import TIGHT

with contextlib.redirect_stdout(io.StringIO()):
    from mpisppy.utils import sputils


def scenario_creator(name, model=None, data=None, weights=None):
    """Return a scenario as mpi-sppy wants it: a model of its own with its data in."""
    k = int(name)
    scenario = model.clone()
    two_stage = csg.TwoStageModel(scenario)
    for param, number in zip(two_stage.uncertain_params, data[k], strict=True):
        param.set_value(float(number))
    sputils.attach_root_node(scenario, 0.0, two_stage.first_stage_variables)
    scenario._mpisppy_probability = weights[k]
    return scenario


def extensive_form(model, data, weights=None):
    """Return mpi-sppy's extensive form."""
    weights = [1 / len(data)] * len(data) if weights is None else weights
    options = {"model": model, "data": data, "weights": weights}
    names = [str(k) for k in range(len(data))]
    with contextlib.redirect_stdout(io.StringIO()):
        return sputils.create_EF(
            names, scenario_creator, options, suppress_warnings=True
        )


def optimum(model, data, weights=None):
    """Return the optimal value of mpi-sppy's extensive form."""
    ef = extensive_form(model, data, weights)
    results = pyo.SolverFactory("highs").solve(ef, solver_options=TIGHT)
    assert results.solver.termination_condition == "optimal"
    return pyo.value(ef.EF_Obj)
