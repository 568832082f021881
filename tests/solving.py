"""Solving a Pyomo model in a test, tightly, and reading its value."""

import pyomo.environ as pyo
import pytest

from pyomo_csg.solve.pyomo_solvers.interfaces import availability, solver_names

TIGHT = {
    "mip_rel_gap": 0,
    "mip_abs_gap": 0,
    "primal_feasibility_tolerance": 1e-9,
    "dual_feasibility_tolerance": 1e-9,
    "mip_feasibility_tolerance": 1e-9,
}


def objective_of(model):
    """Return the active objective."""
    (objective,) = model.component_data_objects(pyo.Objective, active=True)
    return objective


def solve(model, **options):
    """Solve with HiGHS and return the optimal value; fail if there is none."""
    solver = pyo.SolverFactory("highs")
    results = solver.solve(model, solver_options={**TIGHT, **options})
    assert results.solver.termination_condition == "optimal", results.solver
    return pyo.value(objective_of(model))


def transform(name, model, **options):
    """Return what one of our transformations makes of a model."""
    return pyo.TransformationFactory(f"csg.{name}").create_using(model, **options)


def by_name(variables):
    """Return the values of variables by their names."""
    return {v.name: v.value for v in variables}


def has_solver(name):
    """Whether Pyomo has a solver and finds it on this machine."""
    names = solver_names()
    return name in names and bool(availability(*names[name]))


def needs_solver(name):
    """Skip a test, or one of its parameters, where a solver is missing."""
    return pytest.mark.skipif(not has_solver(name), reason=f"{name} is not installed")
