"""One run of csg.fit: choose K, search settings, plan, and learn."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import Any

import numpy as np

from pyomo_csg.learn.candidates.full_distribution import learn_full
from pyomo_csg.learn.candidates.registry import learn
from pyomo_csg.learn.candidates.scenario_count import (
    COUNTS,
    choose_count_untrained,
    smallest_scenario_count,
)
from pyomo_csg.learn.checkpoint import Checkpoint
from pyomo_csg.learn.config import FitConfig
from pyomo_csg.learn.distributions.user_distribution import UserDistribution
from pyomo_csg.learn.fit_result import MethodResult
from pyomo_csg.learn.methods.specifications import Auto, BuiltIn, Method
from pyomo_csg.learn.networks.user_network import check_loss_net, resolve_network
from pyomo_csg.learn.progress import TimeUpError, TrainingLog
from pyomo_csg.learn.selection.hyperparameter_search import search, search_space
from pyomo_csg.learn.selection.plan import (
    Plan,
    ProgramTimes,
    expected_seconds,
    make_plan,
    measure_programs,
)
from pyomo_csg.learn.tables.history import History
from pyomo_csg.learn.task import Task
from pyomo_csg.solve import Oracle
from pyomo_csg.storage import to_json

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class FitRun:
    """The validated arguments of one call of :func:`pyomo_csg.fit`."""

    oracle: Oracle
    history: History
    method: BuiltIn | Method
    network: Any
    settings: FitConfig
    seed: int
    log: TrainingLog
    checkpoint: Checkpoint
    plan: Plan | None
    distribution: UserDistribution | None = None

    def choose(self, scenarios: str) -> MethodResult:
        """Return the fit with all outcomes, or with a K that is chosen first."""
        if scenarios == "all":
            return learn_full(self._task(1, self.settings), self.log.seconds_left)
        counts = [count for count in COUNTS if count <= len(self.history)]
        if not isinstance(self.method, Auto):
            return smallest_scenario_count(
                counts,
                self.settings.seconds,
                self.log,
                lambda count: self.learn(count, f"K={count}"),
                self._decide,
            )
        task = self._task(counts[0], self.settings)
        chosen, tried = choose_count_untrained(task, counts, self._make_plan)
        found = self.learn(chosen)
        found.selection.scenarios_tried = tried
        return found

    def learn(
        self, count: int, part: str = "", settings: FitConfig | None = None
    ) -> MethodResult:
        """Train ``count`` scenarios; search the settings first, if none are passed.

        ``part`` names the stages in the checkpoint, apart from those of other calls.
        """
        if settings is None and self.settings.search:
            return search(
                self.settings,
                search_space(self.method.name, self.network, self.history.has_panels),
                self.seed,
                self.log,
                lambda chosen, name: self.learn(count, f"{part} {name}", chosen),
            )
        task = self._task(count, settings or self.settings, part)
        kind, head = resolve_network(self.network, task)
        check_loss_net(task)
        return learn(
            task,
            self.method,
            kind,
            head,
            plan=self._make_plan(task) if isinstance(self.method, Auto) else None,
            chooses_network=self.network is None,
        )

    def _task(self, count: int, settings: FitConfig, part: str = "") -> Task:
        stages = self.checkpoint.within(part) if part else self.checkpoint
        data = self.oracle, self.history
        own = self.distribution
        return Task(*data, count, settings, self.seed, self.log, stages, own)

    def _make_plan(self, task: Task) -> Plan:
        """Return the user's plan, the one in the checkpoint, or a new one by measured times."""
        if self.plan is not None:
            return self.plan.for_scenarios(task.scenarios)

        left = self.log.seconds_left / max(1, self.settings.search)
        budget = left if np.isfinite(left) else None

        def measure() -> dict[str, np.ndarray]:
            with self.log.stage("timing a few programs", 1):
                times = measure_programs(task)
            made = make_plan(task, times, budget)
            self.log.bar.plan(expected_seconds(made, times))
            return {"plan": np.frombuffer(to_json(made.summary()).encode(), np.uint8)}

        stage = f"plan for {task.scenarios}"
        try:
            stored = self.checkpoint.stage(stage, measure)["plan"]
        except TimeUpError:  # a single program takes too long
            return make_plan(task, ProgramTimes.unknown(budget or 0.0), budget)
        found = Plan.restore(json.loads(stored.tobytes()))
        logger.info("%s", found)
        return found

    def _decide(self, found: MethodResult) -> Any:
        """Make one decision, to time it."""
        generator = found.generator
        zeta, weights = generator(self.history.contexts[:1])
        shares = weights if generator.is_weighted else None
        known = self.history.known[:1]
        how: dict[str, Any] = {"on_error": "record", "progress": False}
        return self.oracle.solve(zeta, shares, known=known, **how)
