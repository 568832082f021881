"""Scenario creators as mpi-sppy's users write them, most of them mpi-sppy's own."""

import contextlib
import importlib.util
import io
import runpy
import tempfile
from pathlib import Path

import numpy as np
import pyomo.environ as pyo

from models import sslp

with contextlib.redirect_stdout(io.StringIO()):
    from mpisppy.tests.examples import aircond
    from mpisppy.utils import sputils

AIRCOND = {"branching_factors": [5], "start_seed": 0, "mu_dev": 0.0, "sigma_dev": 40.0}
ARCS = [(0, 1), (0, 2), (1, 2), (1, 3), (2, 3)]


def aircond_with_param(name, **kwargs):
    """Return mpi-sppy's aircond scenario, its later demand in a Param."""
    branches = kwargs["branching_factors"]
    (now, later), nodes = aircond._demands_creator(name, branches, **kwargs)
    demand = pyo.Param(initialize=later, mutable=True, within=pyo.NonNegativeReals)
    model = aircond.aircond_model_creator([now, demand], **kwargs)
    model._mpisppy_node_list = aircond.MakeNodesforScen(model, nodes, branches)
    return model


def sizes_creator(declaration="within=NonNegativeIntegers"):
    """Return the scenario_creator of mpi-sppy's sizes, on four sizes.

    Parameters
    ----------
    declaration : str
        How its AbstractModel declares the later demands.
    """
    spec = importlib.util.find_spec("mpisppy.tests.examples.sizes.ReferenceModel")
    shipped = (
        "DemandsSecondStage = Param(model.ProductSizes, within=NonNegativeIntegers)"
    )
    source = Path(spec.origin).read_text()
    assert shipped in source
    wanted = f"DemandsSecondStage = Param(model.ProductSizes, {declaration})"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "changed.py"
        path.write_text(source.replace(shipped, wanted))
        abstract = runpy.run_path(str(path))["model"]
    sizes = range(1, 5)
    data = {
        "NumSizes": {None: 4},
        "Capacity": {None: 250},
        "SetupCosts": dict.fromkeys(sizes, 453),
        "UnitProductionCosts": dict(zip(sizes, (0.75, 1.0, 1.25, 1.5), strict=True)),
        "UnitReductionCost": {None: 0.08},
        "DemandsFirstStage": dict(zip(sizes, (25, 75, 30, 50), strict=True)),
    }
    factor = {"low": 0.6, "middle": 1.0, "high": 1.4}

    def creator(name):
        later = {
            i: round(d * factor[name]) for i, d in data["DemandsFirstStage"].items()
        }
        model = abstract.create_instance({None: {**data, "DemandsSecondStage": later}})
        varlist = [model.NumProducedFirstStage, model.NumUnitsCutFirstStage]
        sputils.attach_root_node(model, model.FirstStageCost, varlist)
        return model

    return creator


def sslp_creator(name):
    """Return a scenario of the server location problem: who turns up."""
    model = sslp.build(servers=3, clients=6)
    present = sslp.scenarios(10, clients=6)[sputils.extract_num(name)]
    for client, number in zip(model.clients, present, strict=True):
        model.present[client] = number
    sputils.attach_root_node(model, 0.0, [model.located])
    return model


def netdes_creator(name, mutable=True):
    """Return a scenario of network design: open arcs, then send what is asked for.

    Costs, capacities and demands differ; they are numbers or mutable Params.
    """
    k = sputils.extract_num(name)
    rng = np.random.default_rng(k)
    model = pyo.ConcreteModel()

    def data(index, **numbers):
        for label, values in numbers.items():
            given = dict(zip(index, values.tolist(), strict=True))
            param = pyo.Param(index, initialize=given, mutable=True)
            setattr(model, label, param if mutable else given)

    data(ARCS, price=rng.uniform(1, 3, len(ARCS)), limit=rng.uniform(8, 12, len(ARCS)))
    data(range(1), demand=rng.uniform(4, 8, 1))
    model.open = pyo.Var(ARCS, domain=pyo.Binary)
    model.flow = pyo.Var(ARCS, domain=pyo.NonNegativeReals)
    model.unmet = pyo.Var(domain=pyo.NonNegativeReals)

    @model.Constraint(ARCS)
    def capacity(m, i, j):
        return m.flow[i, j] <= m.limit[i, j] * m.open[i, j]

    @model.Constraint(range(4))
    def balance(m, node):
        out = sum(m.flow[arc] for arc in ARCS if arc[0] == node)
        into = sum(m.flow[arc] for arc in ARCS if arc[1] == node)
        sent = {0: m.demand[0] - m.unmet, 3: m.unmet - m.demand[0]}
        return out - into == sent.get(node, 0)

    first = 5 * sum(model.open.values())
    second = sum(model.price[arc] * model.flow[arc] for arc in ARCS) + 20 * model.unmet
    model.cost = pyo.Objective(expr=first + second)
    sputils.attach_root_node(model, first, model.open[:, :])
    model._mpisppy_probability = [0.5, 0.3, 0.2][k]
    return model
