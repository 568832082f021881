"""What bad input is tried on: a model, pairs, policies and files, all of them sound."""

import io
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyomo.environ as pyo

import pyomo_csg as csg
from models import newsvendor
from tests import quick

PAIRS = 20


@dataclass(eq=False)
class Learned:
    """What is made once: it is asked, and nothing may change it."""

    folder: Path
    policy: csg.Policy = field(init=False)
    named: csg.Policy = field(init=False)
    linear: csg.Policy = field(init=False)
    baseline: csg.baselines.NeighborWeighted = field(init=False)
    generator: csg.ScenarioGenerator = field(init=False)
    oracle: csg.Oracle = field(init=False)
    evaluation: csg.Evaluation = field(init=False)

    def __post_init__(self):
        pairs = newsvendor.sample(PAIRS, seed=1)
        self.policy = quick.fit(pairs, method="mmd")
        self.named = quick.fit(frame(), method="mmd")
        self.linear = quick.fit(pairs, method="mmd", network=csg.Linear(1.5))
        self.baseline = csg.baselines.NeighborWeighted(
            newsvendor.build(), pairs, neighbors=2
        )
        self.generator = csg.ScenarioGenerator(
            newsvendor.build(), 2, method="mmd", config=quick.QUICK
        ).fit(*pairs)
        self.oracle = csg.Oracle(newsvendor.build())
        self.evaluation = csg.evaluate({"a": self.policy}, cases(), progress=False)
        self.policy.save(self.folder / "policy.csg")
        self.named.save(self.folder / "named.csg")
        self.evaluation.to_csv(self.folder / "evaluation.csv")
        frame().to_csv(self.folder / "history.csv", index=False)
        (self.folder / "model.py").write_text(
            "from models import newsvendor\nbuild = newsvendor.build\n"
        )
        (self.folder / "folder").mkdir()

    def state(self) -> list[Any]:
        """Return what must stay as it is."""
        policies = [self.policy, self.named, self.linear, self.generator.policy_]
        models = [p.two_stage.model for p in (*policies, self.baseline)]
        models += [self.oracle.two_stage.model, self.generator.model]
        numbers = [
            tensor.numpy().tobytes()
            for policy in policies
            for tensor in policy.network.state_dict().values()
        ]
        return [
            *map(describe_model, models),
            numbers,
            self.evaluation.costs.to_numpy().tobytes(),
        ]


class Scene:
    """A model of its own and a copy of the files, beside what is learned."""

    def __init__(self, learned: Learned, folder: Path):
        self.model = newsvendor.build()
        self.model.tax = pyo.Param(initialize=0.2)  # not mutable
        self.pairs = newsvendor.sample(PAIRS, seed=1)
        self.frame = frame()
        self.cases = cases()
        self.learned, self.folder = learned, folder
        shutil.copytree(learned.folder, folder, dirs_exist_ok=True)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.learned, name)

    def fit(self, data: Any = None, **options: Any) -> Any:
        """Fit the scene's model, to its pairs unless others are given."""
        data = self.pairs if data is None else data
        return quick.fit(data, self.model, **{"method": "mmd", **options})

    def state(self) -> list[Any]:
        """Return what must be the same afterwards, beside what is learned."""
        return [describe_model(self.model), files(self.folder)]


def describe_model(model: Any) -> str:
    """Return all that Pyomo tells of a model: values, fixings, bounds, expressions."""
    text = io.StringIO()
    model.pprint(ostream=text)
    return text.getvalue()


def files(folder: Path) -> dict[str, bytes | None]:
    """Return the content of a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


def frame(**changes: Any) -> pd.DataFrame:
    """Return the pairs as one table."""
    contexts, demands = newsvendor.sample(PAIRS, seed=1)
    table = pd.DataFrame(contexts, columns=["rain", "price"])
    return table.assign(**{"demand": demands[:, 0], **changes})


def cases() -> list[csg.Case]:
    """Return contexts with what may happen in them."""
    return [csg.Case(x, [[14.0], [16.0]]) for x in np.zeros((2, 2))]


def transformed(scene: Scene, name: str, **options: Any) -> None:
    """Turn the scene's model, in place, into one of the three programs."""
    pyo.TransformationFactory(f"csg.{name}").apply_to(scene.model, **options)
