"""Fitted policies of every kind, saved and loaded elsewhere."""

import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

import pyomo_csg as csg
from models import newsvendor
from pyomo_csg.learn.fit_result import FitResult
from pyomo_csg.learn.networks.location_scale import fit_location_scale
from pyomo_csg.learn.networks.task_nets import Constant
from pyomo_csg.learn.networks.torch_generator import generator_from_network
from pyomo_csg.learn.progress import TrainingLog
from pyomo_csg.learn.tables.history import History
from pyomo_csg.learn.task import Task
from tests.fitting.test_user_network import Scale, UserNet, zeros
from tests.quick import METHODS, QUICK, fit, panels, portfolio


def located_on_panels():
    """Return a policy whose location and scale were fitted to panels."""
    contexts, outcomes = panels()
    task = Task(
        csg.Oracle(portfolio()), History(contexts, outcomes), 2, QUICK, 0, TrainingLog()
    )
    (head,) = fit_location_scale(task, [np.arange(len(contexts))], "forecast")
    body = Constant(task.output_shape)
    body.start_at(torch.tensor([[1.0] * 4, [-1.0] * 4], dtype=torch.float64))
    generator = generator_from_network(task.network(body, head), (6, 2))
    learned = FitResult(generator, "auto", {"context_shape": [6, 2]}, reach=5.0)
    return csg.Policy(portfolio(), learned)


LOAD = """
import sys
import numpy as np
from torch import nn
import pyomo_csg as csg
from models import newsvendor
from pyomo_csg.learn.networks.task_nets import FunctionModule
from tests.fitting.test_user_network import UserNet, Scale, zeros
from tests.quick import panels, portfolio

folder = sys.argv[1]
own = {
    "own": UserNet(layer=nn.BatchNorm1d(6)).double(),
    "panels, given": {"location": FunctionModule(zeros), "scale": Scale().double()},
}
for name in sys.argv[2:]:
    of_panels = name.startswith("panels")
    x = panels(5, seed=2)[0] if of_panels else newsvendor.sample(5, seed=2)[0]
    model = portfolio() if of_panels else newsvendor.build()
    policy = csg.load(f"{folder}/{name}.csg", model, own.get(name))
    np.savez(
        f"{folder}/{name}.npz",
        scenarios=policy.scenarios(x),
        weights=policy.weights(x),
        decision=policy.decide(x[0]).vector,
    )
    with open(f"{folder}/{name}.txt", "w") as file:
        file.write(policy.report())
"""


def test_policies_of_every_kind_are_the_same_in_another_process(
    tmp_path, pairs, fitted
):
    learned = {**vars(QUICK), "weights": "learned"}
    given = csg.LocationScale(zeros, Scale())
    policies = {
        **{method: fitted(method) for method in METHODS},
        "linear": fit(pairs, method="mmd", network="linear"),
        "constant": fit(pairs, method="mmd", network="constant"),
        "weighted": fit(pairs, method="mmd", config=learned),
        "own": fit(pairs, method="mmd", network=UserNet(layer=nn.BatchNorm1d(6))),
        "panels, lstm": fit(panels(), portfolio(), method="mmd"),
        "panels, auto": fit(panels(), portfolio()),
        "panels, fitted": located_on_panels(),
        "panels, given": fit(panels(), portfolio(), network=given),
    }
    for name, policy in policies.items():
        policy.save(tmp_path / f"{name}.csg")
    subprocess.run(
        [sys.executable, "-c", LOAD, str(tmp_path), *policies],
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )

    for name, policy in policies.items():
        contexts = panels(5, 2)[0] if "panels" in name else newsvendor.sample(5, 2)[0]
        with np.load(tmp_path / f"{name}.npz") as found:
            assert np.array_equal(found["scenarios"], policy.scenarios(contexts)), name
            assert np.array_equal(found["weights"], policy.weights(contexts)), name
            decision = policy.decide(contexts[0]).vector
            assert found["decision"] == pytest.approx(decision), name
        assert (tmp_path / f"{name}.txt").read_text() == policy.report(), name
