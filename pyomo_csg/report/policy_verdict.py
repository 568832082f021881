"""The verdict on a policy: on held-out rows, or else by what its fit compared."""

from __future__ import annotations

import math
from typing import Any

from pyomo_csg.decisions.decider import LearnedDecider
from pyomo_csg.decisions.verdict import POLICY, Advantage, Verdict

_SAMPLE_AVERAGE = "sample average"  # the name of that candidate
_OF_HISTORY = "held-out rows of its history"
_SCENARIOS_FOR_ALL = "the same scenarios for all contexts"
_BEFORE_UPDATE = "That was when it was fitted, before its updates."
NOT_COMPARED = (
    "Not compared yet: pass rows that it was not fitted to, as policy.report(data=rows) "
    "or csg.evaluate, to see whether it beats simple alternatives."
)


def fit_verdict(policy: LearnedDecider) -> Verdict | None:
    """Return the verdict by the costs on held-out rows in the fit; None if there are none."""
    summary = policy.learned.summary
    rows = {row.get("name"): row for row in summary.get("candidates", ())}
    chosen, count = rows.get(summary.get("chosen")), summary.get("pairs_scored")
    if chosen is None or not count or chosen.get("loss") is None:
        return None
    maximized = int(policy.two_stage.sense) < 0
    advantages = []
    other = rows.get(_SAMPLE_AVERAGE)
    if other is not None and other is not chosen:
        saved = float(other["loss"]) - float(chosen["loss"])
        error = float(other["standard_error"])
        advantages.append(Advantage(_SCENARIOS_FOR_ALL, saved, error))
    mean = float(chosen["loss"]) * (-1.0 if maximized else 1.0) + 0.0
    error = float(summary.get("cost_error", math.inf))
    notes = (_BEFORE_UPDATE,) if "update" in summary else ()
    return Verdict(
        int(count),
        mean,
        error,
        tuple(advantages),
        maximized,
        where=_OF_HISTORY,
        notes=notes,
    )


def policy_verdict(policy: LearnedDecider, data: Any = None) -> Verdict | None:
    """Return the verdict on held-out rows, or without them that of the fit."""
    if data is None:
        return fit_verdict(policy)
    from pyomo_csg.evaluation.comparison import compare

    return compare({POLICY: policy}, data, progress=False).verdict()


def verdict_sentences(verdict: Verdict | None) -> tuple[str, ...]:
    """Return the sentences of a verdict, or that there is none yet."""
    return (NOT_COMPARED,) if verdict is None else verdict.sentences
