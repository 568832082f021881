"""The two families of Pyomo's solver interfaces, behind one adapter."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeAlias

import pyomo.environ  # noqa: F401, it registers the solvers of both families
from pyomo.common.timing import HierarchicalTimer
from pyomo.contrib.appsi.base import SolverFactory as AppsiFactory
from pyomo.contrib.solver.common.factory import SolverFactory as ContribFactory
from pyomo.core.base.block import BlockData

APPSI, CONTRIB = "appsi_", "contrib_"
# Our names of the conditions of appsi and contrib.solver.
_STATUSES = {
    "optimal": "optimal",
    "convergenceCriteriaSatisfied": "optimal",
    "infeasible": "infeasible",
    "provenInfeasible": "infeasible",
    "locallyInfeasible": "infeasible",
    "unbounded": "unbounded",
    "infeasibleOrUnbounded": "unbounded or infeasible",
    "maxTimeLimit": "time limit",
    "maxIterations": "iteration limit",
    "iterationLimit": "iteration limit",
    "objectiveLimit": "objective limit",
    "licensingProblems": "license",
}
_kept: list[Interface] = []
_UNDECIDED = {"infeasibleOrUnbounded", "unknown", "error"}


@dataclass(frozen=True)
class Answer:
    """The end of one run of a solver."""

    status: str  # 'optimal', 'infeasible', 'time limit', ...
    is_decided: bool  # a second run with other options would be of no use
    bound: float | None  # proven for the optimum
    load: Callable[[], None]  # loads the point into the model's variables


class AppsiInterface:
    """A solver of ``pyomo.contrib.appsi``; all of them are persistent."""

    def __init__(self, key: str):
        self._key = key
        self._solver = AppsiFactory(key)
        self._solver.config.load_solution = False
        for name in self._solver.update_config:
            if name not in ("update_params", "treat_fixed_vars_as_params"):
                self._solver.update_config[name] = False

    def availability(self) -> Any:
        """Return appsi's Availability; a version that it cannot parse counts as bad."""
        found = self._solver.available()
        if found and self._key == "cbc":
            try:
                self._solver.version()
            except (LookupError, ValueError):  # a development build
                return found.BadVersion
        return found

    def load(self, model: BlockData) -> None:
        """Pass the model to the solver."""
        self._solver.set_instance(model)

    def run(
        self,
        model: BlockData,
        options: Mapping[str, Any],
        time_limit: float | None,
        timer: HierarchicalTimer,
    ) -> Answer:
        """Solve the model that was loaded, with the present values of its Params."""
        setattr(self._solver, f"{self._key}_options", dict(options))
        self._solver.config.time_limit = time_limit
        start = time.perf_counter()
        results = self._solver.solve(model, timer=timer)
        loader = results.solution_loader
        answer = _answer(results, results.best_objective_bound, loader.load_vars)
        is_late = time_limit is not None and time.perf_counter() - start >= time_limit
        if self._key == "cbc" and answer.status == "infeasible" and is_late:
            # CBC also reports this if the time is up before it finds a point.
            return replace(answer, status="time limit")
        return answer


class ContribInterface:
    """A solver of ``pyomo.contrib.solver``, persistent or not."""

    def __init__(self, key: str):
        self._solver = ContribFactory(key)
        config = self._solver.config
        config.load_solutions = False
        config.raise_exception_on_nonoptimal_result = False
        if self._solver.is_persistent():
            for name in config.auto_updates:
                config.auto_updates[name] = name == "update_parameters"

    def availability(self) -> Any:
        """Return the solver's Availability."""
        return self._solver.available()

    def load(self, model: BlockData) -> None:
        """Pass the model to a persistent solver."""
        if self._solver.is_persistent():
            with _quiet():
                self._solver.set_instance(model)

    def run(
        self,
        model: BlockData,
        options: Mapping[str, Any],
        time_limit: float | None,
        timer: HierarchicalTimer,
    ) -> Answer:
        """Solve the model, with the present values of its Params.

        A solver that is not persistent translates it again.
        """
        with _quiet():
            results = self._solver.solve(
                model, solver_options=dict(options), time_limit=time_limit, timer=timer
            )
        loader = results.solution_loader
        return _answer(results, results.objective_bound, loader.load_vars)


# One solver object of Pyomo, which holds one model at a time.
Interface: TypeAlias = AppsiInterface | ContribInterface


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence warnings about suffixes, which would repeat for every case."""
    logger = logging.getLogger("pyomo.repn")
    level = logger.level
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            logger.setLevel(level)


def _answer(results: Any, bound: float | None, load: Callable[[], None]) -> Answer:
    condition = results.termination_condition.name
    status = _STATUSES.get(condition, condition)
    return Answer(status, condition not in _UNDECIDED, bound, load)


def make_interface(family: str, key: str) -> Interface:
    """Return a new solver object, which checks for changed Params only."""
    return AppsiInterface(key) if family == APPSI else ContribInterface(key)


@lru_cache
def availability(family: str, key: str) -> Any:
    """Return Pyomo's Availability of a solver; true if it can be used."""
    solver = make_interface(family, key)
    # Pyomo counts the users of Gurobi's license, and miscounts a solver that is dropped
    # before it has had a model. So this one is kept.
    _kept.append(solver)
    return solver.availability()


def solver_names() -> dict[str, tuple[str, str]]:
    """Return the family and the key of every solver that this Pyomo has, by its names.

    ``'highs'`` is not among them: it is this package's own engine.
    """
    names = {APPSI + key: (APPSI, key) for key in AppsiFactory}
    names |= {CONTRIB + key: (CONTRIB, key) for key in ContribFactory}
    names |= {key: (CONTRIB, key) for key in ContribFactory if key != "highs"}
    return names
