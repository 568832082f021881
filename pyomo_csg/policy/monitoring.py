"""Policy.monitor: whether new rows still look like the history of a policy."""

from __future__ import annotations

import json
import math
import os
from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
import pandas as pd

from pyomo_csg.decisions.decider import LearnedDecider
from pyomo_csg.decisions.number_formats import number, with_error
from pyomo_csg.decisions.verdict import POLICY, Verdict
from pyomo_csg.evaluation.comparison import (
    RowCosts,
    decide_rows,
    default_baselines,
    make_verdict,
    read_pairs,
)
from pyomo_csg.learn.distributions.features import standard_spread
from pyomo_csg.learn.selection.scoring import standard_error
from pyomo_csg.learn.tables.history import History
from pyomo_csg.notebook import card
from pyomo_csg.policy.sequential_tests import (
    FEWEST_ROWS,
    first_crossing,
    mean_bounds,
    outside_evidence,
)
from pyomo_csg.storage import to_json, write_user_file
from pyomo_csg.validation import Problems

_SUBJECT = "Cannot monitor the policy"
_TESTS = 3  # which share the level: contexts, costs, alternatives
_BINS = 5  # of the histogram of PIT values
_MOST_POINTS = 300  # of outcomes of the history, for its energy score
_SHOWN = 12  # columns in texts
_WHERE = "monitored rows"
_NO_REFERENCE = (
    "The fit kept no costs on held-out rows (method='auto' does), so realized costs are "
    "compared with the alternatives only."
)
_TOO_FEW = f"Costs are tested from {FEWEST_ROWS} rows on."


@dataclass(frozen=True)
class ColumnShift:
    """How a context column differs from the history.

    ``outside`` is the share of rows outside the history's range, ``farthest`` how far the
    farthest is outside and ``moved`` how far the mean has moved, both in standard
    deviations of the history. ``evidence`` is an e-value; ``since`` is the row from which
    it was enough.
    """

    name: str
    outside: float
    farthest: float
    moved: float
    evidence: float
    since: int | None


@dataclass(frozen=True)
class Calibration:
    """How the scenarios of an uncertain number agree with what happened.

    ``below``, ``inside`` and ``above`` are the shares of outcomes below, within and above
    the scenarios; ``pit`` is the histogram of the probability integral transform, whose
    bins are equal if the scenarios have the distribution of the outcomes.
    """

    name: str
    below: float
    inside: float
    above: float
    pit: tuple[float, ...]


@dataclass(frozen=True)
class Monitoring:
    """What monitoring found. ``print`` it to read it.

    Attributes
    ----------
    model : str
    rows : int
    level : float
        The probability, at most, of a false alarm, however often one looks.
    verdict : Verdict
        The realized costs or profits beside the alternatives.
    promised, promised_error : float or None
        The mean on held-out rows of the fit, in the model's own sense.
    alarms : tuple of str
        What has changed, in words; empty if nothing has.
    columns : tuple of ColumnShift
        The most suspect first.
    calibration : tuple of Calibration
    energy_score, history_score : float
        The energy score of the scenarios, and of the outcomes of the history without
        context, in standard deviations; smaller is better.
    values : tuple of float
        The cost or profit of each row; NaN if there is none.
    notes : tuple of str
    """

    model: str
    rows: int
    level: float
    verdict: Verdict
    promised: float | None
    promised_error: float | None
    alarms: tuple[str, ...]
    columns: tuple[ColumnShift, ...]
    calibration: tuple[Calibration, ...]
    energy_score: float
    history_score: float
    values: tuple[float, ...]
    notes: tuple[str, ...]

    @property
    def drift(self) -> bool:
        """Whether anything has changed by more than chance."""
        return bool(self.alarms)

    @property
    def sentences(self) -> tuple[str, ...]:
        """The result in words: alarms first."""
        if self.alarms:
            first = "Drift: " + " ".join(self.alarms)
        else:
            first = f"No drift on {self.rows:,} rows."
        return (first, *self.verdict.sentences, self._promise(), *self.notes)

    def __str__(self) -> str:
        lines = [f"Monitoring of the policy for '{self.model}'", *self.sentences, ""]
        lines += _table([_COLUMN_HEAD, *map(_column_row, self.columns[:_SHOWN])])
        if (more := len(self.columns) - _SHOWN) > 0:
            lines.append(f"  ... and {more} more columns")
        lines += ["", *_table([_NUMBER_HEAD, *map(_number_row, self.calibration)])]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = [_COLUMN_HEAD, *map(_column_row, self.columns)]
        return card(f"Monitoring of '{self.model}'", self.sentences, rows)

    def summary(self) -> dict[str, Any]:
        """Return everything in JSON types."""
        found = {**asdict(self), "verdict": self.verdict.summary()}
        found.update(drift=self.drift, sentences=list(self.sentences))
        return _finite(json.loads(to_json(found)))

    def to_json(self, path: str | os.PathLike[str]) -> None:
        """Write everything to a JSON file."""
        write_user_file(path, json.dumps(self.summary(), indent=1).encode())

    def report(self, path: str | os.PathLike[str]) -> None:
        """Write a page: one HTML file without external resources."""
        from pyomo_csg.report.monitor_page import render_monitoring

        write_user_file(path, render_monitoring(self.summary()).encode())

    def _promise(self) -> str:
        if self.promised is None or self.promised_error is None:
            return _NO_REFERENCE
        verb = "earned" if self.verdict.maximized else "cost"
        promised = with_error(self.promised, self.promised_error)
        return f"Promised by the held-out rows of the fit: decisions {verb} {promised}."


_COLUMN_HEAD = ["context", "outside", "farthest, sd", "mean moved, sd", "evidence"]
_NUMBER_HEAD = ["uncertain number", "below", "inside", "above the scenarios"]


def _column_row(column: ColumnShift) -> list[str]:
    return [
        column.name,
        f"{column.outside:.0%}",
        f"{column.farthest:.2g}",
        f"{column.moved:+.2f}",
        number(float(f"{column.evidence:.3g}")),
    ]


def _number_row(one: Calibration) -> list[str]:
    return [one.name, f"{one.below:.0%}", f"{one.inside:.0%}", f"{one.above:.0%}"]


def _table(rows: list[list[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  "
        + "  ".join(
            cell.ljust(w) if j == 0 else cell.rjust(w)
            for j, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]


def monitor(policy: LearnedDecider, data: Any, level: float = 0.05) -> Monitoring:
    """Return what :meth:`pyomo_csg.Policy.monitor` finds."""
    past = policy.learned.pairs
    problems = Problems(_SUBJECT)
    problems.check_fractions(level=level)
    if past is None:
        problems.add("it does not keep its history; fit and save it with the history")
    rows = problems.check("rows", read_pairs, policy, data, 1)
    problems.raise_any()
    assert past is not None
    share = level / _TESTS
    columns = _column_shifts(policy, rows, past, share)
    decided = decide_rows(policy, rows)
    others = {
        name: decide_rows(one, rows).costs
        for name, one in default_baselines(policy).items()
    }
    costs = pd.DataFrame({POLICY: decided.costs, **others})
    reference = policy.learned.holdout_costs
    sign = -1.0 if int(policy.two_stage.sense) < 0 else 1.0
    scores = _energy_scores(policy, rows, past)
    return Monitoring(
        policy.two_stage.model.name or "",
        len(rows),
        level,
        make_verdict(costs, maximized=sign < 0, where=_WHERE, advises=False),
        None if reference is None else sign * float(reference.mean()),
        None if reference is None else float(standard_error(reference, 1)),
        (
            *_context_alarms(columns),
            *_cost_alarms(costs, reference, share),
            *_alternative_alarms(costs, share),
        ),
        columns,
        _calibrations(policy, rows),
        *scores,
        tuple((sign * decided.costs + 0.0).tolist()),
        _notes(decided, len(rows)),
    )


def _column_shifts(
    policy: LearnedDecider, rows: History, past: History, level: float
) -> tuple[ColumnShift, ...]:
    names = policy.context_names or [
        f"x{j + 1}" for j in range(rows.contexts.shape[-1])
    ]
    spread = standard_spread(past.contexts)
    # The calendar moves on whatever happens, so its columns raise no alarm.
    calendar = () if policy.preprocessing is None else policy.preprocessing.date_outputs
    tested = max(1, len(set(map(str, names)) - set(calendar)))
    found = []
    for j, name in enumerate(names):
        new, old = rows.contexts[..., j], past.contexts[..., j]
        beyond = _distance_outside(new, old)
        evidence = outside_evidence(beyond > 0, len(past))
        found.append(
            ColumnShift(
                str(name),
                float((beyond > 0).mean()),
                float(beyond.max() / spread[j]),
                float((new.mean() - old.mean()) / spread[j]),
                float(evidence[-1]),
                None if name in calendar else first_crossing(evidence, level / tested),
            )
        )
    return tuple(sorted(found, key=lambda one: (one.name in calendar, -one.evidence)))


def _distance_outside(new: np.ndarray, old: np.ndarray) -> np.ndarray:
    """Return how far each row (n,) or panel (n, W) is outside the range of the old ones."""
    low, high = old.min(), old.max()
    beyond = np.maximum(np.maximum(low - new, new - high), 0)
    return beyond if beyond.ndim == 1 else beyond.max(axis=1)


def _context_alarms(columns: tuple[ColumnShift, ...]) -> list[str]:
    """Return an alarm for the columns that are outside the history by more than chance."""
    return [
        f"'{one.name}' is outside the history on {one.outside:.0%} of the rows, by up to "
        f"{one.farthest:.2g} standard deviations (evident since row {one.since})."
        for one in columns
        if one.since is not None
    ]


def _cost_alarms(
    costs: pd.DataFrame, reference: np.ndarray | None, level: float
) -> list[str]:
    """Return an alarm if the mean cost is above the promise by more than chance."""
    if reference is None:
        return []
    error = float(standard_error(reference, 1))
    promised = reference.mean() + NormalDist().inv_cdf(1 - level / 2) * error
    realized = costs.fillna(costs.max(axis=None))[POLICY].to_numpy()
    since = np.flatnonzero(mean_bounds(realized, level)[:, 0] > promised)
    if not len(since):
        return []
    return [f"Decisions are worse than promised (evident since row {since[0] + 1})."]


def _alternative_alarms(costs: pd.DataFrame, level: float) -> list[str]:
    """Return an alarm for each alternative that is better by more than chance."""
    filled = costs.fillna(costs.max(axis=None))
    others = filled.columns.drop(POLICY)
    alarms = []
    for name in others:
        more = (filled[POLICY] - filled[name]).to_numpy()
        lower = mean_bounds(more, 2 * level / len(others))[:, 0]  # one-sided
        if len(since := np.flatnonzero(lower > 0)):
            alarms.append(
                f"'{name}' is better than the policy (evident since row {since[0] + 1})."
            )
    return alarms


def _calibrations(policy: LearnedDecider, rows: History) -> tuple[Calibration, ...]:
    scenarios, weights = policy._generate_scenarios(rows.contexts)
    rng = np.random.default_rng(0)
    draws = rng.uniform(size=rows.outcomes.shape)
    below, above, pit = (np.empty(rows.outcomes.shape) for _ in range(3))
    for i, (points, shares) in enumerate(zip(scenarios, weights, strict=True)):
        outcome = rows.outcomes[i]
        below[i] = outcome < points.min(axis=0)
        above[i] = outcome > points.max(axis=0)
        less = shares @ (points < outcome)
        pit[i] = less + draws[i] * (shares @ (points == outcome))
    found = []
    for j, param in enumerate(policy.two_stage.uncertain_params):
        counts, _ = np.histogram(pit[:, j], bins=_BINS, range=(0, 1))
        low, high = float(below[:, j].mean()), float(above[:, j].mean())
        shares = tuple((counts / len(rows)).tolist())
        found.append(Calibration(param.name, low, 1 - low - high, high, shares))
    return tuple(found)


def _energy_scores(
    policy: LearnedDecider, rows: History, past: History
) -> tuple[float, float]:
    """Return the mean energy scores of scenarios, and of the history's outcomes."""
    unit = standard_spread(past.outcomes)
    scenarios, weights = policy._generate_scenarios(rows.contexts)
    outcomes = rows.outcomes / unit
    own = [
        _energy_score(points / unit, shares, outcome)
        for points, shares, outcome in zip(scenarios, weights, outcomes, strict=True)
    ]
    step = max(1, math.ceil(len(past) / _MOST_POINTS))
    points = past.outcomes[::step] / unit
    equal = np.full(len(points), 1 / len(points))
    within = _spread_term(points, equal)
    others = [equal @ np.linalg.norm(points - one, axis=1) - within for one in outcomes]
    return float(np.mean(own)), float(np.mean(others))


def _energy_score(points: np.ndarray, shares: np.ndarray, outcome: np.ndarray) -> float:
    apart = np.linalg.norm(points - outcome, axis=1)
    return float(shares @ apart) - _spread_term(points, shares)


def _spread_term(points: np.ndarray, shares: np.ndarray) -> float:
    apart = np.linalg.norm(points[:, None] - points, axis=2)
    return float(shares @ apart @ shares) / 2


def _notes(decided: RowCosts, rows: int) -> tuple[str, ...]:
    notes = [] if rows >= FEWEST_ROWS else [_TOO_FEW]
    reasons = pd.Series(decided.reasons)
    counts = reasons[reasons != ""].value_counts()
    notes += [f"No cost on {count:,} rows: {why}." for why, count in counts.items()]
    return tuple(notes)


def _finite(value: Any) -> Any:
    """Return JSON types with None for NaN and infinity."""
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
