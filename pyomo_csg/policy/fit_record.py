"""The record of a fit that is stored with its policy, for reports to show."""

from __future__ import annotations

import logging
from typing import Any

from pyomo_csg.learn.fit_result import MethodResult, Selection
from pyomo_csg.learn.package_versions import package_versions
from pyomo_csg.learn.progress import TrainingLog
from pyomo_csg.learn.selection.scoring import standard_error
from pyomo_csg.learn.tables.history import History

logger = logging.getLogger(__name__)


def summarize_fit(
    found: MethodResult,
    history: History,
    identity: dict[str, Any],
    log: TrainingLog,
    seconds: float | None,
    note_of_costs: str | None = None,
) -> dict[str, Any]:
    """Return the summary that is stored with the policy and that reports show."""
    selection = found.selection
    settings = {**identity["settings"], **(selection.settings or {})}
    summary = {
        **selection.summary(),
        "seed": identity["seed"],
        "pairs": len(history),
        "scenarios": found.generator.count,
        "context_shape": list(history.contexts.shape[1:]),
        "settings": dict(sorted(settings.items())),
        "versions": package_versions(),
        "identity": {
            name: value
            for name, value in identity.items()
            if name not in ("settings", "versions")
        },
    }
    if found.scored_costs is not None:
        summary["cost_error"] = float(standard_error(found.scored_costs, ddof=1))
    if unsolved := sum(entry.get("missing", 0) for entry in log.entries):
        summary["unsolved"] = unsolved
    notes = [*(selection.notes or ())]
    if note_of_costs is not None:
        notes.append(note_of_costs)
    if (note := _recourse_note(selection)) is not None:
        logger.warning("%s", note)
        notes.append(note)
    if log.stopped_in is not None:
        summary["cut_short"] = log.stopped_in
        notes.append(
            f"Cut short: {_time_used(log, seconds)} were up in stage "
            f"'{log.stopped_in}', and "
            f"'{selection.chosen}' is the best so far. Allow more seconds; with the same "
            "checkpoint, finished stages are not repeated."
        )
    return summary | ({"notes": notes} if notes else {})


def _recourse_note(selection: Selection) -> str | None:
    """Return a warning if the winner's decisions had no recourse on held-out rows."""
    scores = {score.name: score.unsolved for score in selection.candidates or ()}
    if not (failed := scores.get(selection.chosen, 0)):
        return None
    return (
        f"Not solved: on {failed} of {selection.pairs_scored} held-out rows the program "
        f"of the decision by '{selection.chosen}' and the observed outcome could not be "
        "solved. If it is infeasible, add a way out at a price to the model, such as unmet "
        "demand or overtime; "
        "csg.Oracle(model).cost on the history shows where it is missing."
    )


def _time_used(log: TrainingLog, seconds: float | None) -> str:
    """Return in words which seconds were up where the fit was cut short."""
    if seconds is None or log.stopped_after is None:
        return "the seconds"
    if log.stopped_after < seconds - 0.5:
        # The rest is for the fit of the best candidate to all rows.
        return f"the {log.stopped_after:.0f} of {seconds:g} seconds for comparing candidates"
    return f"the {seconds:g} seconds"
