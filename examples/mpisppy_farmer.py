"""The farmer of mpi-sppy's examples, solved by us, and sent back to be solved by mpi-sppy.

On one process, by its extensive form and its L-shaped method:

    pip install pyomo-csg[mpi]
    python examples/mpisppy_farmer.py

L-shaped on two ranks, each with its share of the scenarios (no more ranks than scenarios):

    mpiexec -n 2 python -m mpi4py examples/mpisppy_farmer.py
"""

from mpi4py import MPI
from mpisppy.opt.ef import ExtensiveForm
from mpisppy.opt.lshaped import LShapedMethod
from mpisppy.tests.examples import farmer

import pyomo_csg as csg

ranks, first = MPI.COMM_WORLD.size, MPI.COMM_WORLD.rank == 0

# From mpi-sppy: an annotated model, and the data of its scenarios as a table.
names = farmer.scenario_names_creator(6)
model, scenarios, weights = csg.from_mpisppy(
    farmer.scenario_creator, names, num_scens=len(names)
)
two_stage = csg.TwoStageModel(model)
solution = csg.Oracle(model).solve(scenarios, weights)
if first:
    print(two_stage, scenarios, sep="\n\n")
    print(f"\npyomo_csg: {solution.value:.4f}", solution.decision.round(2))

# And back: what every class of mpi-sppy takes. Each rank builds its own scenarios only.
creator, names, kwargs = two_stage.to_mpisppy(scenarios, weights)

if ranks == 1:
    form = ExtensiveForm(
        {"solver": "highs"}, names, creator, scenario_creator_kwargs=kwargs
    )
    form.solve_extensive_form()
    print(f"mpi-sppy, extensive form: {form.get_objective_value():.4f}")

options = {"root_solver": "highs", "sp_solver": "highs", "verbose": False}
method = LShapedMethod(options, names, creator, scenario_creator_kwargs=kwargs)
method.lshaped_algorithm()
if first:
    decision = [round(v.value, 2) for v in method.root_vars]
    print(f"mpi-sppy, L-shaped, {ranks} rank(s): {method.root.obj():.4f}", decision)
