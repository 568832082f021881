"""The plan of a fit: how much it does, in counts that fit into its time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from pyomo_csg.learn.distributions.conditional import KINDS
from pyomo_csg.learn.selection.folds import HELD_OUT_SHARE
from pyomo_csg.learn.task import Task
from pyomo_csg.validation import DEFAULT_SECONDS

_MEASURING = 0.5  # seconds to measure one kind of program
_LONG_PROGRAM = 0.5  # seconds; a longer one is timed once
_MOST_MEASURED = 1024
_MOST_FOLDS, _SOME_FOLDS, _HOLDOUT = 5, 3, 1
_MOST_SCORED, _MANY_SCORED, _FEW_SCORED, _LEAST_SCORED = 1000, 60, 16, 6
_SCORING_SHARE, _TRAINING_SHARE = 0.3, 0.6  # of the time budget
_ONLY_SCORING_SHARE = 0.6  # the same, if the programs leave no time for training
TRAINING_GAP = 0.005  # of integer programs
_GAP_PAYS = 1.5  # times as fast
_COMPARED_PROGRAMS = 8  # with and without a gap, or a search
_SAME_LABEL = 1e-6  # standard deviations of costs
_LONG = 4000  # rows
FEW_ROWS = 50  # too few to train the weights of networks
_COMFORTABLE_SCORING = 25.0  # seconds for all candidates
_COMFORTABLE = 4.5  # seconds to train a candidate; more only where programs are slow
_COMFORTABLE_FOLDS = 8.0  # the same, when the number of folds is chosen
_COMFORTABLE_INTEGER = 8.0  # the same, on integer programs
_ENOUGH_PROGRAMS, _MOST_PROGRAMS, _LEAST_PROGRAMS = 500, 6000, 120  # a fold
_INTEGER_SHARE, _MOST_INTEGER = 0.1, 600
_STARTING = 2.5  # seconds to select a candidate's starting points, and again later
_MOST_SETS, _MOST_COMPARED = 200, 48
_TRAINED = 4  # candidates, for the estimate
_LEAST_CPU_SHARE = 0.2  # below it, other processes solve the programs
_TRAINED_STAGES = "atoms", "networks on atoms", "direct"
SOME_KINDS = ("empirical", "forest weights", "ridge", "forest", "stacked", "mixture")
_REHEARSAL_SECONDS, _REHEARSAL_COSTS = 2.0, 64 * 256


@dataclass(frozen=True)
class ProgramTimes:
    """Seconds that programs take, each the mean of a few."""

    solve: float  # zeta-SAA
    cost: float  # the recourse of a decision under one outcome
    gradient: float | None  # zeta-SAA with the loss's gradient; None: there is none
    search: float  # what l_opt takes on top, to search among ties; 0 with a gradient
    cpu_share: float = 1.0  # CPU seconds per second; less on a busy machine
    search_matters: bool = True  # it changes some labels
    gap_pays: bool = False  # integer programs are much faster with a small gap

    @classmethod
    def unknown(cls, seconds: float) -> ProgramTimes:
        """Return the times of programs that were not solved within a number of seconds."""
        return cls(seconds, seconds, None, 0.0)


@dataclass(frozen=True)
class Plan:
    """How much :func:`pyomo_csg.fit` does, in counts.

    A fit with the same data, seed and plan gives the same policy on any machine. Print the
    plan to read it; ``dataclasses.replace`` changes a count.

    Attributes
    ----------
    scenarios : int
        K.
    kinds : tuple of str
        Conditional distributions that are estimated.
    folds : int
        Cross-validation folds; with 1, the last fifth of the rows is held out once.
    scored_rows : int
        Held-out rows on which every candidate's decisions are evaluated.
    programs : int
        Programs that train one candidate on one fold; 0 if training takes too long.
    draws : int
        Outcomes on which a decision is evaluated in training.
    integer_programs, one_scenario_programs : int
        Programs with integers that train one network of K scenarios, or of one, after its
        training on relaxations. 0 for models without integers.
    sets : int
        Sets of scenarios from which starting points are selected by their decisions.
    compared : int
        Rows on which starting points are compared after training.
    labels : int
        Programs that label scenarios for a Loss-Net, on one fold.
    loss_kind : str
        Of these labels: ``'optimistic'``, or ``'recourse'`` where the search among optimal
        decisions takes longer than the program, or changes no label of a sample.
    rehearses : bool
        Whether bases of the recourse are found in advance.
    has_gradient : bool
        Whether decisions have a gradient to train on.
    program_seconds : float
        What one program took on this machine; for information only.
    seconds : float or None
        The time budget that the counts were made for.
    training_gap : float
        The relative gap of integer programs in training. Scores are exact.
    """

    scenarios: int
    kinds: tuple[str, ...]
    folds: int
    scored_rows: int
    programs: int
    draws: int
    integer_programs: int
    one_scenario_programs: int
    sets: int
    compared: int
    labels: int
    loss_kind: str
    rehearses: bool
    has_gradient: bool
    program_seconds: float
    seconds: float | None
    training_gap: float = 0.0

    def __str__(self) -> str:
        took = f"{self.program_seconds:.2g} s"
        within = "" if self.seconds is None else f" within {self.seconds:.0f} s"
        folds = (
            f"{self.folds} folds" if self.folds > 1 else "the last fifth held out once"
        )
        lines = [f"One program with {self.scenarios} scenarios takes {took}."]
        lines.append(
            f"Planned{within}: every candidate is scored on {self.scored_rows} held-out "
            f"rows ({folds})."
        )
        if not self.has_gradient:
            lines.append(
                "Decisions have no gradient in the scenarios, so networks are trained on a "
                f"Loss-Net with {self.labels} labels ({self.loss_kind})."
                if self.labels
                else "Decisions have no gradient in the scenarios, and labels for a "
                "Loss-Net take too long; more time would allow them."
            )
        elif self.programs:
            gap = f" and a gap of {self.training_gap:.1%}" if self.training_gap else ""
            lines.append(
                f"Training on decision costs solves {self.programs} programs per candidate "
                f"and fold, with {self.draws} outcomes each{gap}."
            )
        else:
            lines.append(
                "Training on decision costs takes too long; only candidates that need no "
                "programs are fitted. Allow more seconds to train."
            )
        return "\n".join(lines)

    def for_scenarios(self, count: int) -> Plan:
        """Return the plan for another number of scenarios."""
        return replace(self, scenarios=count)

    @classmethod
    def restore(cls, summary: dict[str, Any]) -> Plan:
        """Return the plan of a summary."""
        return cls(**{**summary, "kinds": tuple(summary["kinds"])})

    def summary(self) -> dict[str, Any]:
        """Return the counts in JSON types."""
        return asdict(self)


def measure_programs(task: Task) -> ProgramTimes:
    """Time a few programs of each kind."""
    rng, outcomes = task.rng("measure"), task.history.outcomes
    count = len(outcomes)

    def cases(n: int) -> tuple[np.ndarray, np.ndarray]:
        picked = rng.integers(count, size=(n, task.scenarios))
        return outcomes[picked], outcomes[rng.integers(count, size=n)]

    task.solve(cases(1)[0])  # builds the program
    start = time.perf_counter(), time.process_time()
    solve = _seconds_each(lambda n: task.solve(cases(n)[0]))
    decision = task.solve(cases(1)[0]).decision

    def evaluate(n: int) -> None:
        if np.isfinite(decision).all():
            task.cost(np.repeat(decision, n, axis=0), cases(n)[1])

    evaluate(1)
    cost = _seconds_each(evaluate)
    gradient = None
    if task.has_gradient:
        gradient = _seconds_each(
            lambda n: task.loss_gradient(*cases(n), oracle=task.relaxed)
        )
    wall, cpu = time.perf_counter() - start[0], time.process_time() - start[1]
    share = min(1.0, cpu / wall)
    busy = share if share > _LEAST_CPU_SHARE else 1.0
    times = ProgramTimes(solve, cost, gradient, 0.0, busy)
    if not task.has_integers:
        return times
    if gradient is not None:
        return replace(times, gap_pays=_gap_pays(task, *cases(_COMPARED_PROGRAMS)))
    label = _seconds_each(lambda n: task.loss(*cases(n)))
    search = max(0.0, label - solve - cost)
    changes = _search_changes_labels(task, *cases(_COMPARED_PROGRAMS))
    return replace(times, search=search, search_matters=changes)


def _gap_pays(task: Task, scenarios: np.ndarray, outcomes: np.ndarray) -> bool:
    """Whether integer programs are much faster with a small gap; in CPU seconds."""
    seconds = []
    for gap in (TRAINING_GAP, None):
        start = time.process_time()
        task.solve(scenarios, mip_gap=gap)
        seconds.append(time.process_time() - start)
    return seconds[1] > _GAP_PAYS * seconds[0]


def _search_changes_labels(
    task: Task, scenarios: np.ndarray, outcomes: np.ndarray
) -> bool:
    """Whether a search among optimal decisions changes a label."""
    found = task.loss(scenarios, outcomes)
    plain = task.cost(task.solve(scenarios).decision, outcomes)
    apart = np.abs(plain - found)
    return bool((apart > _SAME_LABEL * task.cost_scale).any())


def _seconds_each(run: Callable[[int], Any]) -> float:
    """Return the mean seconds of a case.

    Programs of one kind differ, so several are timed, unless one takes very long. The first
    call may build something, and counts only if it is the only one.
    """
    count, seconds, cases = 1, 0.0, 0
    while True:
        start = time.perf_counter()
        run(count)
        taken = time.perf_counter() - start
        if count == 1 and taken > _LONG_PROGRAM:
            return taken
        if count > 1:
            seconds, cases = seconds + taken, cases + count
            if taken > _MEASURING / 4 or count >= _MOST_MEASURED:
                return seconds / cases
        count *= 4


def make_plan(task: Task, times: ProgramTimes, seconds: float | None) -> Plan:
    """Return the counts that fit into the time."""
    n = len(task.history)
    budget = DEFAULT_SECONDS if seconds is None else seconds
    decision = times.solve + times.cost
    kinds, scored = _plan_scoring(n, decision, budget, times.cpu_share)
    affordable = math.ceil((times.gradient or times.solve) / max(times.cost, 1e-9))
    draws = int(np.clip(affordable, 2, task.config.draws))
    each = _program_seconds(times, draws)
    folds = task.config.folds or _count_folds(n, each * times.cpu_share)
    # One fifth is enough if the history is long, or if no more rows can be scored.
    if task.config.folds is None and (n > _LONG or scored <= n // 5):
        folds = _HOLDOUT
    members = _count_members(folds)
    natural = task.config.task_epochs * min(n, _MOST_PROGRAMS)
    trainings = _TRAINED * members + (folds == 1)
    limit = min(natural, _TRAINING_SHARE * budget / trainings / each)
    programs = _plan_programs(n, limit, each * members * times.cpu_share)
    if programs < min(natural, _LEAST_PROGRAMS):
        programs = 0
    slow_search = times.search > times.solve or (
        times.search > 0 and not times.search_matters
    )
    label = times.solve + times.cost + (0.0 if slow_search else times.search)
    labels = int(min(n, _TRAINING_SHARE * budget / members / label))
    share = max(_COMFORTABLE_INTEGER, _INTEGER_SHARE * budget) / (members + 1)
    integer = min(_MOST_INTEGER, int(share / (times.solve + draws * times.cost)))
    each_start = (times.solve + draws * times.cost) * times.cpu_share
    start = _STARTING / members / each_start
    sets = int(np.clip(start, 8, _MOST_SETS))
    compared = int(np.clip(start / 8, 6, _MOST_COMPARED))
    rehearsal = _REHEARSAL_COSTS * times.cost + 64 * times.solve
    return Plan(
        scenarios=task.scenarios,
        kinds=kinds,
        folds=folds,
        scored_rows=min(scored, n if folds > 1 else max(1, round(HELD_OUT_SHARE * n))),
        programs=programs if times.gradient is not None else 0,
        draws=draws,
        integer_programs=integer if task.has_integers else 0,
        one_scenario_programs=2 * integer if task.has_integers else 0,
        sets=sets,
        compared=compared,
        labels=0 if labels < min(n, _LEAST_PROGRAMS) else labels,
        loss_kind="recourse" if slow_search else "optimistic",
        rehearses=rehearsal < _REHEARSAL_SECONDS,
        has_gradient=times.gradient is not None,
        program_seconds=float(f"{times.solve:.2g}"),
        seconds=seconds,
        training_gap=TRAINING_GAP if times.gap_pays else 0.0,
    )


def _count_members(folds: int) -> int:
    """Return how many fits a candidate has; with one fold, only the winner fits all rows."""
    return folds + 1 if folds > 1 else 1


def _plan_programs(rows: int, limit: float, each: float) -> int:
    """Return the programs of a candidate and fold; ``each`` takes CPU seconds in all folds.

    They are CPU seconds, so that a busy machine trains longer, not less. Slow programs get
    more time, up to the limit of the budget.
    """
    enough = np.clip(4 * rows, _LEAST_PROGRAMS, _ENOUGH_PROGRAMS)
    return int(min(_MOST_PROGRAMS, limit, max(_COMFORTABLE / each, enough)))


def _plan_scoring(
    rows: int, decision: float, budget: float, cpu_share: float
) -> tuple[tuple[str, ...], int]:
    """Return the distributions to compare, and on how many rows; a decision is timed."""
    kinds: tuple[str, ...] = KINDS
    comfortable = _COMFORTABLE_SCORING / cpu_share
    if rows > _LONG or decision * _MANY_SCORED * len(kinds) > comfortable:
        kinds = SOME_KINDS
    each = decision * (len(kinds) + _TRAINED)
    scored = max(_MANY_SCORED, int(comfortable / each))
    scored = min(scored, _MOST_SCORED, int(_SCORING_SHARE * budget / each))
    if scored < _FEW_SCORED:
        # The distributions and MMD come first; all of them are worth a few rows.
        untrained = decision * (len(kinds) + 1)
        most = int(_ONLY_SCORING_SHARE * budget / untrained)
        scored = int(np.clip(most, _LEAST_SCORED, _FEW_SCORED))
    return kinds, scored


def expected_seconds(plan: Plan, times: ProgramTimes) -> dict[str, float]:
    """Return about how long the stages of a fit take, for its progress bar."""
    members = _count_members(plan.folds)
    training = plan.programs * members * _program_seconds(times, plan.draws)
    scoring = plan.scored_rows * (times.solve + times.cost)
    seconds = {"conditional distributions": 2.0 * members, "mmd": members}
    seconds |= {f"score {name}": scoring for name in ("mmd", "trained atoms", "direct")}
    if training:
        stages = ("atoms", "direct") if plan.integer_programs else _TRAINED_STAGES
        seconds |= dict.fromkeys(stages, training)
    return seconds


def _program_seconds(times: ProgramTimes, draws: int) -> float:
    """Return the seconds of one program in training, with its recourse."""
    return (times.gradient or times.solve) + draws * times.cost


def _count_folds(rows: int, each: float) -> int:
    """Return the number of folds on which training is affordable."""
    for folds in (_MOST_FOLDS, _SOME_FOLDS):
        if each * min(6 * rows, _ENOUGH_PROGRAMS) * (folds + 1) < _COMFORTABLE_FOLDS:
            return folds
    return _HOLDOUT


def steps_and_batch(programs: int, most: int, least_steps: int = 40) -> tuple[int, int]:
    """Return training steps and rows per step that make up a number of programs."""
    batch = max(1, min(most, programs // least_steps))
    return max(1, math.ceil(programs / batch)), batch
