"""Bad options of csg.fit, csg.FitConfig and csg.Oracle."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from torch import nn

import pyomo_csg as csg
from models import newsvendor
from tests.reliability.bad import Bad, said
from tests.reliability.bad_contexts import INF, NAN
from tests.reliability.scene import PAIRS

WHOLE, ABOVE = "give a whole number from", "give a number above 0"

# Arguments of csg.plan.
PLAN = [
    ({"scenarios": 0}, "scenarios is 0", WHOLE),
    ({"scenarios": PAIRS + 1}, f"scenarios is {PAIRS + 1}", f"at most {PAIRS}"),
    ({"seed": -1}, "seed is -1", "from 0 up"),
    ({"seconds": 0}, "seconds is 0", ABOVE),
    ({"config": {"folds": 1}}, "folds is 1", WHOLE),
]
# Arguments of csg.fit.
FIT = [
    ({"scenarios": 0}, "scenarios is 0", WHOLE),
    ({"scenarios": -3}, "scenarios is -3", WHOLE),
    ({"scenarios": 2.0}, "scenarios is 2.0", WHOLE),
    ({"scenarios": True}, "scenarios is True", WHOLE),
    ({"scenarios": "five"}, "scenarios is 'five'", "'auto' or 'all'"),
    ({"scenarios": "all"}, "method is 'mmd'", "drop it"),
    ({"plan": 3}, "plan is a int", "what csg.plan returned"),
    ({"scenarios": None}, "scenarios is None", WHOLE),
    ({"scenarios": [1, 2]}, "scenarios is [1, 2]", WHOLE),
    ({"scenarios": np.array([1, 2])}, "scenarios is array", WHOLE),
    ({"scenarios": PAIRS + 1}, f"scenarios is {PAIRS + 1}", f"at most {PAIRS}"),
    ({"scenarios": 10**12}, "scenarios is 1000000000000", f"at most {PAIRS}"),
    ({"method": "mdm"}, "method is 'mdm'", "did you mean 'mmd'?"),
    ({"method": None}, "method is None", "give one of"),
    ({"method": ["mmd"]}, "method is ['mmd']", "mmd"),
    ({"method": np.array(["mmd", "a"])}, "method is array", "mmd"),
    ({"regularization": 1.0}, "regularization is 1.0", "leave it out"),
    ({"method": "static", "regularization": -1}, "regularization is -1", "from 0 up"),
    ({"method": "static", "regularization": NAN}, "regularization is nan", "from 0"),
    ({"method": "static", "regularization": "x"}, "regularization is 'x'", "'0.1x'"),
    ({"method": "direct", "regularization": "0.1x"}, "regularization", "from 0 up"),
    ({"method": "static", "regularization": None}, "regularization is None", "0 up"),
    ({"context": "rain"}, "context", "drop it"),
    ({"network": "mpl"}, "network is 'mpl'", "give one of"),
    ({"network": 3}, "network is a int", "torch.nn.Module"),
    ({"network": nn.Linear}, "network is a type", "torch.nn.Module"),
    ({"network": "lstm"}, "network is 'lstm'", "give panels (n, W, d)"),
    ({"network": nn.Linear(2, 5)}, "network gave", "expected (2, 2, 1)"),
    ({"network": nn.Linear(3, 2)}, "network gave an error", "expected (2, 2, 1)"),
    ({"network": nn.Unflatten(1, (2, 1))}, "no parameters", "csg.LocationScale"),
    ({"config": 3}, "config is a int", "csg.FitConfig or a dict"),
    ({"config": {"hiden": (8,)}}, "'hiden'", "did you mean hidden"),
    ({"config": {"batch": 0}}, "batch is 0", WHOLE),
    ({"seed": -1}, "seed is -1", "from 0 up"),
    ({"seed": 1.5}, "seed is 1.5", "from 0 up"),
    ({"seed": None}, "seed is None", "from 0 up"),
    ({"callback": "print"}, "callback is a str", "a function of one dict"),
    ({"solver": "higs"}, "higs", "appsi"),
    ({"solver": None}, "solver is None", "'highs'"),
    ({"workers": 0}, "workers is 0", WHOLE),
    ({"workers": 2.0}, "workers is 2.0", WHOLE),
    ({"workers": True}, "workers is True", WHOLE),
    ({"executor": "pool"}, "executor is a str", "concurrent.futures"),
    ({"executor": ThreadPoolExecutor}, "executor is a", "concurrent.futures"),
    ({"checkpoint": 3}, "checkpoint is 3", "folder"),
    ({"checkpoint": ["a"]}, "checkpoint is ['a']", "folder"),
]
CONFIG = [
    ({"hidden": 8}, "hidden is 8", "whole numbers above 0"),
    ({"hidden": (8, 0)}, "hidden is (8, 0)", "whole numbers above 0"),
    ({"hidden": (8.0,)}, "hidden is (8.0,)", "whole numbers above 0"),
    ({"hidden": (True,)}, "hidden is (True,)", "whole numbers above 0"),
    ({"recurrent": ()}, "recurrent is ()", "whole numbers above 0"),
    ({"encoder": "64"}, "encoder is '64'", "whole numbers above 0"),
    ({"head": None}, "head is None", "whole numbers above 0"),
    ({"kernel": "enrgy"}, "kernel is 'enrgy'", "'energy'"),
    ({"kernel": 3}, "kernel is 3", "a function"),
    ({"units": "metres"}, "units is 'metres'", "give one of"),
    ({"rows": "shuffled"}, "rows is 'shuffled'", "give one of"),
    ({"units": ["raw"]}, "units is ['raw']", "give one of"),
    ({"weights": "equl"}, "weights is 'equl'", "give one of"),
    ({"weights": np.ones(2)}, "weights is array", "give one of"),
    ({"device": "gpu"}, "device is 'gpu'", "give one of"),
    ({"batch": 2.5}, "batch is 2.5", WHOLE),
    ({"batch": True}, "batch is True", WHOLE),
    ({"mmd_epochs": -1}, "mmd_epochs is -1", WHOLE),
    ({"mmd_rate": 0}, "mmd_rate is 0", ABOVE),
    ({"task_rate": NAN}, "task_rate is nan", ABOVE),
    ({"loss_rate": "fast"}, "loss_rate is 'fast'", ABOVE),
    ({"mmd_rate": True}, "mmd_rate is True", ABOVE),
    ({"decay": -1e-3}, "decay is -0.001", "from 0 up"),
    ({"noise": INF}, "noise is inf", "from 0 up"),
    ({"folds": 1}, "folds is 1", "from 2 up"),
    ({"search": None}, "search is None", "from 0 up"),
    ({"seconds": 0}, "seconds is 0", ABOVE),
    ({"seconds": "1m"}, "seconds is '1m'", ABOVE),
    ({"hidden": (10**12,)}, "hidden is (1000000000000,)", "up to 65536"),
    ({"starts": 0}, "starts is 0", WHOLE),
]
ORACLE = [
    ({"solver": "appsi_higs"}, "appsi_higs", "appsi_highs"),
    ({"solver": 3}, "solver is 3", "'highs'"),
    ({"solver": ["highs"]}, "solver is ['highs']", "'highs'"),
    ({"workers": "two"}, "workers is 'two'", WHOLE),
    ({"workers": -1}, "workers is -1", WHOLE),
    ({"executor": 3}, "executor is a int", "concurrent.futures"),
    ({"options": "fast"}, "options is a str", "mapping"),
    ({"options": [1]}, "options is a list", "mapping"),
    ({"options": {"time_limits": 1.0}}, "time_limits", "time_limit"),
    ({"options": {"time_limit": "long"}}, "time_limit", "does not take"),
    ({"options": {"time_limit": -1.0}}, "time_limit", "does not take"),
    ({"options": {"time_limit": NAN}}, "time_limit", "does not take"),
    ({"options": {"time_limit": [1.0]}}, "time_limit", "does not take"),
    ({"options": {3: 1.0}}, "3", "HiGHS has no option"),
    ({"options": {"threads": 2}}, "threads", "must be 1"),
    (
        {"solver": "appsi_highs", "options": {"time_limt": 1}},
        "'time_limt'",
        "time_limit",
    ),
    ({"solver": "appsi_highs", "options": {"time_limit": "x"}}, "time_limit", "number"),
]
ASKING = [
    ("solve", lambda o: o.solve([[1.0]], on_error="ignore"), "'ignore'", "'record'"),
    (
        "solve",
        lambda o: o.solve([[1.0]], on_error=None),
        "on_error is None",
        "'record'",
    ),
    ("solve", lambda o: o.solve([[1.0]], keys=["a"]), "keys", "a whole number"),
    ("solve", lambda o: o.solve([[1.0]], keys=[1, 2]), "keys", "for each of 1 cases"),
    ("solve", lambda o: o.solve([[1.0]], keys=[[1], [1, 2]]), "keys", "whole number"),
    ("loss", lambda o: o.loss([[[1.0]]], [[1.0]], "worst"), "'worst'", "'pessimistic'"),
    ("loss", lambda o: o.loss([[[1.0]]], [[1.0]], None), "kind is None", "'recourse'"),
    (
        "loss",
        lambda o: o.loss([[[1.0]]], [[1.0]], np.ones(2)),
        "kind is array",
        "'recourse'",
    ),
    ("loss", lambda o: o.loss([[[1.0]]], [[1.0]], on_error=0), "on_error", "'raise'"),
    ("cost", lambda o: o.cost([1.0], [[1.0]], on_error="no"), "'no'", "'raise'"),
    (
        "loss_gradient",
        lambda o: o.loss_gradient([[[1.0]]], [[1.0]], on_error="no"),
        "'no'",
        "'raise'",
    ),
    (
        "loss_gradient",
        lambda o: o.loss_gradient([[[1.0]]], [[[1.0], [2.0]]], outcome_weights=[1.0]),
        "outcome_weights",
        "expected (2,)",
    ),
    (
        "loss_gradient",
        lambda o: o.loss_gradient([[[1.0]]], [[1.0]], outcome_weights="equal"),
        "outcome_weights",
        "not all are numbers",
    ),
    ("on", lambda o: o.on(3), "int", "ConcreteModel"),
]
CASES = [
    *(
        Bad(
            "csg.fit", said(given), lambda s, given=given: s.fit(**given), thing, remedy
        )
        for given, thing, remedy in FIT
    ),
    *(
        Bad(
            "csg.plan",
            said(given),
            lambda s, given=given: csg.plan(s.model, s.pairs, **given),
            thing,
            remedy,
        )
        for given, thing, remedy in PLAN
    ),
    *(
        Bad(
            "csg.FitConfig",
            said(given),
            lambda s, given=given: csg.FitConfig(**given),
            thing,
            remedy,
        )
        for given, thing, remedy in CONFIG
    ),
    *(
        Bad(
            "csg.Oracle",
            said(given),
            lambda s, given=given: csg.Oracle(s.model, **given),
            thing,
            remedy,
        )
        for given, thing, remedy in ORACLE
    ),
    *(
        Bad(f"Oracle.{call}", thing, lambda s, run=run: run(s.oracle), thing, remedy)
        for call, run, thing, remedy in ASKING
    ),
    *(
        Bad(
            "csg.Linear",
            f"bound={bound!r}",
            lambda s, b=bound: csg.Linear(b),
            "bound",
            ABOVE,
        )
        for bound in (0, -1.0, NAN, INF, "large", None, True)
    ),
    Bad(
        "csg.LocationScale",
        "numbers",
        lambda s: s.fit(network=csg.LocationScale(15.0, 1.0)),
        "location is a float",
        "a function of arrays",
    ),
    Bad(
        "csg.LocationScale",
        "a scale of 0",
        lambda s: s.fit(
            network=csg.LocationScale(lambda x: x[:, :1], lambda x: 0 * x[:, :1])
        ),
        "scale",
        "expected",
    ),
    Bad(
        "csg.LocationScale",
        "a wrong shape",
        lambda s: s.fit(network=csg.LocationScale(lambda x: x, lambda x: x)),
        "location",
        "expected (20, 1)",
    ),
    Bad(
        "csg.fit",
        "a kernel that fails",
        lambda s: s.fit(config={"kernel": lambda one, other: torch.zeros(3)}),
        "kernel",
        "it must map tensors",
    ),
    Bad(
        "csg.fit",
        "a kernel that raises",
        lambda s: s.fit(config={"kernel": lambda one, other: 1 / 0}),
        "ZeroDivisionError",
        "it must map tensors",
    ),
    Bad(
        "csg.fit",
        "unknown context columns",
        lambda s: s.fit(s.frame, context=["rain", "prise"]),
        "'prise'",
        "add it or rename one",
    ),
    Bad(
        "csg.fit",
        "an outcome as context",
        lambda s: s.fit(s.frame, context="demand"),
        "'demand'",
        "drop it from the contexts",
    ),
    Bad(
        "Policy.decide",
        "on_error",
        lambda s: s.policy.decide([0.0, 0.0], on_error="skip"),
        "on_error is 'skip'",
        "'record'",
    ),
    Bad(
        "Policy.plot_training",
        "ax",
        lambda s: s.policy.plot_training(ax=3),
        "ax is a int",
        "matplotlib",
    ),
    Bad(
        "Policy.plot_scenarios",
        "ax",
        lambda s: s.policy.plot_scenarios([0.0, 0.0], ax="left"),
        "ax is a str",
        "matplotlib",
    ),
    Bad(
        "ScenarioGenerator.fit",
        "scenarios=0",
        lambda s: csg.ScenarioGenerator(newsvendor.build(), 0).fit(*s.pairs),
        "scenarios is 0",
        WHOLE,
    ),
]
