"""Policy.update: learn from new rows, and replace the old policy if that is no worse."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from pyomo_csg.decisions.decider import LearnedDecider
from pyomo_csg.decisions.verdict import POLICY, Verdict
from pyomo_csg.errors import DataError, shortlist
from pyomo_csg.evaluation.comparison import (
    check_decider,
    compare,
    decide_rows,
    make_verdict,
    read_pairs,
)
from pyomo_csg.learn.fit_result import FitResult
from pyomo_csg.learn.generators.scenario_generator import (
    ScenarioGenerator,
    largest_distance,
)
from pyomo_csg.learn.lineage import MAX_ENTRIES, lineage_entry
from pyomo_csg.learn.tables.history import History
from pyomo_csg.learn.trainer import reproducible_torch
from pyomo_csg.policy.warm_start import WarmStart
from pyomo_csg.validation import METHODS, Problems, is_number, is_whole

logger = logging.getLogger(__name__)

UPDATED, OLD = "the updated policy", "the policy before the update"
OLDER = "the old policy"
_SUBJECT = "Cannot update the policy"
_NEWEST = "newest rows"
_MOST_COSTS = 1000  # held-out costs that are kept
_LEAST_ROWS = 2
_OWN_PARTS = ("distribution", "loss_kind", "regret", "distance", "loss_net")
_LEAST_COMPARED, _WORSE = 20, 3.0  # rows, and standard errors, to refuse an update
_NOT_REPLACED = (
    "The update was not adopted: on the newest rows it is clearly worse than the policy "
    "before. The new rows are in the history, but the scenarios are the old ones."
)


def updated_result(
    policy: LearnedDecider,
    data: Any,
    window: int | None = None,
    half_life: float | None = None,
) -> FitResult:
    """Return what :meth:`pyomo_csg.Policy.update` makes a policy of."""
    past = policy.learned.pairs
    problems = Problems(_SUBJECT)
    if past is None:
        problems.add(
            "it does not keep its history; fit again with all rows, by csg.fit"
        )
    if policy.method not in METHODS:
        found = (
            f"it was trained by method '{policy.method}', which is not the package's"
        )
        problems.add(f"{found}; fit again with all rows, by csg.fit")
    if window is not None and not (is_whole(window) and window >= _LEAST_ROWS):
        problems.add(f"window is {window!r:.80}; give a whole number of rows from 2 up")
    if half_life is not None and not (is_number(half_life) and half_life > 0):
        problems.add(f"half_life is {half_life!r:.80}; give a number of rows above 0")
    new = problems.check("new_rows", read_pairs, policy, data, 1)
    problems.raise_any()
    assert past is not None
    summary = policy.learned.summary
    settings = {**summary.get("settings", {}), **summary.get("identity", {})}
    is_users = getattr(policy.learned.generator, "is_users", False)
    left_out = [name for name in _OWN_PARTS if settings.get(name)]
    if left_out and not is_users:  # which are not trained
        logger.warning(
            "the update does without %s of the fit: it trains on the model's costs under "
            "observed outcomes; fit again with all rows, by csg.fit, to use them",
            shortlist(left_out),
        )
    everything = _join(past, new)
    kept = rows_to_keep(len(everything), window, half_life)
    _check_count(policy, kept)
    trial_rows, newest = _hold_out(kept, len(everything), len(new))
    with reproducible_torch():
        return _Update(policy, everything, new, kept, trial_rows, newest).run()


def rows_to_keep(
    count: int, window: int | None = None, half_life: float | None = None
) -> np.ndarray:
    """Return which of some rows, the oldest first, to learn from.

    ``window`` keeps the newest rows. ``half_life`` thins rows out by their age: of the rows
    that are as old as this, one half is kept, of those that are twice as old one quarter,
    evenly spaced. Learning from them is learning from all rows with such weights.

    >>> rows_to_keep(10, window=4)
    array([6, 7, 8, 9])
    >>> rows_to_keep(10, half_life=2)
    array([3, 7, 8, 9])
    """
    age = np.arange(count)[::-1]
    kept = np.ones(count, dtype=bool) if window is None else age < window
    if half_life is not None:
        total = np.cumsum(0.5 ** (np.arange(count) / half_life))  # from the newest back
        # A row is kept where the sum of weights passes a whole number.
        passes = np.diff(np.ceil(total), prepend=0) > 0
        kept &= passes[age]
    return np.flatnonzero(kept)


@dataclass(frozen=True, eq=False)
class _Update:
    """One update: a trial without the newest rows, and then a fit to all of them."""

    policy: LearnedDecider
    everything: History
    new: History
    kept: np.ndarray
    trial_rows: np.ndarray
    newest: np.ndarray

    def run(self) -> FitResult:
        old = self.policy.learned.generator
        trial = WarmStart(self.policy, self.everything.select(self.trial_rows), "trial")
        candidate = trial.fit(old)
        compared, costs = self._compare(candidate)
        history, logs = self.everything.select(self.kept), [trial.log.table()]
        generator, notes = old, [_NOT_REPLACED]
        if adopted := not _is_worse(compared):
            final = WarmStart(self.policy, history, "update")
            generator, notes = final.fit(candidate), []
            logs.append(final.log.table())
        else:
            logger.warning("%s %s", compared.sentences[0], _NOT_REPLACED)
        return self._result(generator, history, compared, costs, adopted, notes, logs)

    def _compare(self, candidate: ScenarioGenerator) -> tuple[Verdict, pd.DataFrame]:
        """Return the verdict on a candidate on the newest rows, and the costs there."""
        rows = self.everything.select(self.newest)
        found = {}
        for name, generator in (
            (UPDATED, candidate),
            (OLD, self.policy.learned.generator),
        ):
            learned = replace(self.policy.learned, generator=generator)
            decider = LearnedDecider(self.policy.oracle, learned)
            found[name] = decide_rows(decider, rows).costs
        costs = pd.DataFrame(found)
        maximized = int(self.policy.two_stage.sense) < 0
        return _newest_verdict(costs, maximized), costs

    def _result(
        self,
        generator: ScenarioGenerator,
        history: History,
        compared: Verdict,
        costs: pd.DataFrame,
        adopted: bool,
        notes: list[str],
        logs: list[pd.DataFrame],
    ) -> FitResult:
        learned = self.policy.learned
        summary = {
            **learned.summary,
            "pairs": len(history),
            "scenarios": generator.count,
            "update": {
                "parent": _parent(learned),
                "adopted": adopted,
                "new_rows": len(self.new),
                "rows": len(history),
                "costs": costs.astype(object)
                .where(costs.notna(), None)
                .to_dict("list"),
                "verdict": compared.sentences[0],
            },
        }
        summary.pop("notes", None)
        if notes:
            summary["notes"] = notes
        entry = lineage_entry("update", self.new, history)
        return replace(
            learned,
            generator=generator,
            summary=summary,
            training=pd.concat([learned.log, *logs], ignore_index=True),
            reach=max(learned.reach, largest_distance(history.contexts, generator)),
            pairs=history,
            holdout_costs=_join_costs(learned.holdout_costs, costs[UPDATED]),
            lineage=(*learned.lineage, entry)[-MAX_ENTRIES:],
        )


def _is_worse(compared: Verdict) -> bool:
    """Whether a trial is worse by more than chance, on enough rows to say so."""
    first = compared.advantages[0]
    limit = -_WORSE * first.standard_error
    return compared.rows >= _LEAST_COMPARED and first.mean < limit


def compare_policies(
    policy: LearnedDecider, old: LearnedDecider, data: Any = None
) -> Verdict:
    """Return the verdict on a policy beside an old one, as :meth:`Policy.compare` says."""
    check_decider("old", old)
    if data is not None:
        both = compare({POLICY: policy, OLDER: old}, data, progress=False)
        return replace(both.verdict(), advises=False)
    update = policy.learned.summary.get("update")
    learned = getattr(old, "learned", None)
    if update is None or learned is None or update["parent"] != _parent(learned):
        found = (
            "the policy is not an update of that one; pass rows that neither has seen"
        )
        raise DataError("Cannot compare the policies", [found])
    costs = pd.DataFrame(update["costs"], dtype=float)
    maximized = int(policy.two_stage.sense) < 0
    return _newest_verdict(costs, maximized)


def _newest_verdict(costs: pd.DataFrame, maximized: bool) -> Verdict:
    return make_verdict(costs, maximized=maximized, where=_NEWEST, advises=False)


def _parent(learned: FitResult) -> str:
    """Return the history that a policy learned from, as its lineage names it."""
    return str(learned.lineage[-1]["history"]) if learned.lineage else ""


def _join(past: History, new: History) -> History:
    return replace(
        past,
        contexts=np.concatenate([past.contexts, new.contexts]),
        outcomes=np.concatenate([past.outcomes, new.outcomes]),
        known=np.concatenate([past.known, new.known]),
    )


def _hold_out(kept: np.ndarray, count: int, new: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of the trial, and the newest half of the new rows."""
    newest = np.arange(count - math.ceil(new / 2), count)
    trial = kept[kept < newest[0]]
    return (trial, newest) if len(trial) >= _LEAST_ROWS else (kept, newest)


def _check_count(policy: LearnedDecider, kept: np.ndarray) -> None:
    least = max(_LEAST_ROWS, policy.count or 1)
    if len(kept) < least:
        found = f"{len(kept)} rows are left, fewer than {least}"
        remedy = "give a larger window or half_life"
        raise DataError(_SUBJECT, [f"{found}; {remedy}"])


def _join_costs(old: np.ndarray | None, new: pd.Series) -> np.ndarray | None:
    if old is None:
        return None
    known = new.dropna().to_numpy()
    return np.concatenate([old, known])[-_MOST_COSTS:]
