"""The fit of a policy as text: method, candidates, Loss-Net errors and settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyomo_csg.decisions.decider import LearnedDecider
from pyomo_csg.decisions.verdict import Verdict
from pyomo_csg.learn.lineage import describe_lineage
from pyomo_csg.report.policy_verdict import fit_verdict, verdict_sentences

_ERROR = "standard error of the difference"
_FAILED = "rows not solved"
_NOT_IN_MMD = {  # settings that method='mmd' does not use
    "buffer",
    "draws",
    "encoder",
    "folds",
    "head",
    "loss_epochs",
    "loss_rate",
    "noise",
    "rounds",
    "starts",
    "task_epochs",
    "task_rate",
}


_TRAINED_ATOMS = ("trained atoms", "networks on atoms")
_OF_TRAINING = {"batch", "bandwidth", "decay", "device", "draws", "kernel", "noise"}
_OF_NETWORKS = {  # settings of networks, and of what trains them
    *("hidden", "recurrent", "encoder", "head", "loss_epochs", "loss_rate"),
    *("mmd_epochs", "mmd_rate", "task_epochs", "task_rate", "rounds", "buffer"),
    *("starts", "units", "weights"),
}


def fit_summary(policy: LearnedDecider, verdict: Verdict | None = None) -> str:
    """Return the text of :meth:`pyomo_csg.Policy.report`, the verdict first."""
    summary = policy.learned.summary
    verdict = verdict or fit_verdict(policy)
    lines = [
        f"Policy for '{policy.two_stage.model.name}'",
        *verdict_sentences(verdict),
        _line("method", policy.method),
        _line("scenarios", _scenario_count(policy)),
    ]
    if policy.two_stage.risk is not None:
        lines.append(_line("risk", policy.two_stage.risk))
    if "pairs" in summary:
        lines.append(_line("learned from", f"{summary['pairs']} pairs"))
    lines += _column_lines(policy)
    if "update" in summary:
        update = summary["update"]
        rows = f"{update['new_rows']} new rows"
        adopted = "" if update["adopted"] else ", not adopted"
        lines.append(_line("updated", f"{rows}{adopted}"))
        lines.append(f"    {update['verdict']}")
    if "unsolved" in summary:
        lines.append(_line("not solved", f"{summary['unsolved']} programs"))
    lines += _loss_table("K", "K", summary.get("scenarios_tried", ()), policy.count)
    lines += _search_lines(summary)
    lines += _candidate_lines(summary)
    lines += _all_outcomes_lines(summary.get("all_outcomes"))
    lines += _loss_net_lines(summary.get("loss_net_errors", {}))
    lines += _setting_lines(policy)
    if "seed" in summary:
        lines.append(_line("seed", summary["seed"]))
    return "\n".join([*lines, *map(str, summary.get("notes", ()))])


def fit_facts(policy: LearnedDecider) -> list[tuple[str, str]]:
    """Return the few facts that a notebook shows, by their names."""
    summary = policy.learned.summary
    facts = [
        ("decides", f"{len(policy.two_stage.first_stage_variables)} numbers"),
        ("scenarios", _scenario_count(policy)),
        ("method", " ".join(map(str, (policy.method, summary.get("chosen", ""))))),
    ]
    if "pairs" in summary:
        facts.append(("learned from", f"{summary['pairs']} rows"))
    return [
        *facts,
        *(("made", line) for line in describe_lineage(policy.learned.lineage)),
    ]


def _column_lines(policy: LearnedDecider) -> list[str]:
    """Return what each column became that was not a number in every row."""
    if policy.preprocessing is None:
        return []
    found = policy.preprocessing.describe()
    return ["  columns", *(f"    {name}: {became}" for name, became in found)]


def _scenario_count(policy: LearnedDecider) -> str:
    size = f"of {len(policy.two_stage.uncertain_params)} numbers each"
    if policy.count is None:
        return f"{size}; how many depends on the context"
    return f"{policy.count} {size}"


def _search_lines(summary: Mapping[str, Any]) -> list[str]:
    won = summary.get("search_won")
    if won is None:
        return []
    text = (
        f"{summary['searched']} settings; number {won['number']} won with loss "
        f"{_format(won['loss'])} (as given, number 1: {_format(won['loss_as_given'])})"
    )
    return [_line("searched", text)]


def _candidate_lines(summary: Mapping[str, Any]) -> list[str]:
    """Return the chosen candidate, its lead, and the table of all candidates."""
    chosen, lines = summary.get("chosen"), []
    if chosen is not None:
        lines.append(_line("chosen", chosen))
    if (margin := summary.get("margin")) is not None:
        lines.append(
            _line("  ahead by" if margin >= 0 else "  behind by", _format(abs(margin)))
        )
    if summary.get("confidence") is not None:
        text = "probability that it beats the runner-up"
        lines.append(f"    {text}: {summary['confidence']:.0%}")
    rows = summary.get("candidates", ())
    return [*lines, *_loss_table("candidate", "name", rows, chosen)]


def _all_outcomes_lines(found: Mapping[str, Any] | None) -> list[str]:
    """Return what all outcomes of the best distribution would cost instead."""
    if not found:
        return []
    cost, error = _format(found["cost"]), _format(found["standard_error"])
    return [
        _line("all outcomes", f"{cost} +- {error} more, on {found['rows']} rows"),
        f"    of '{found['distribution']}'",
    ]


def _loss_table(
    title: str, key: str, rows: Sequence[Mapping[str, Any]], chosen: Any
) -> list[str]:
    """Return losses and standard errors in columns, with a mark before the chosen row."""
    if not rows:
        return []
    width = max(len(title), *(len(str(row.get(key))) for row in rows))
    has_failures = any(row.get("unsolved") for row in rows)
    head = f"{_FAILED:>{len(_FAILED) + 4}}" if has_failures else ""
    lines = ["", f"  {title:{width}}{'loss':>14}{_ERROR:>{len(_ERROR) + 4}}{head}"]
    for row in rows:
        mark = "*" if row.get(key) == chosen else " "
        loss, error = (_format(row.get(name)) for name in ("loss", "standard_error"))
        failed = f"{row.get('unsolved', 0):>{len(head)}}" if has_failures else ""
        name = f"{row.get(key)!s:{width}}"
        lines.append(f"{mark} {name}{loss:>14}{error:>{len(_ERROR) + 4}}{failed}")
    return [*lines, ""]


def _loss_net_lines(errors: Mapping[str, Any]) -> list[str]:
    """Return the Loss-Net's errors on its training cases and on the policy's scenarios."""
    if not errors:
        return []
    seen = f"{_format(errors['error'])} on its training cases"
    here = f"{_format(errors['error_here'])} on the policy's scenarios"
    shift = f"{errors['shift']:.3g} standard deviations"
    return [
        _line("Loss-Net error", f"{seen}, {here}"),
        _line("  shift", f"{shift} (1-Wasserstein), {errors['kappa']:.3g} (kappa MMD)"),
        "",
    ]


def _setting_lines(policy: LearnedDecider) -> list[str]:
    """Return the settings that the fit used."""
    unused = {"hidden" if len(policy.context_shape) > 1 else "recurrent"}
    if policy.method == "mmd":
        unused |= _NOT_IN_MMD
    kind = getattr(policy.learned.generator, "kind", None)
    if kind is not None:  # of a distribution: the winner has no network
        unused |= _OF_NETWORKS
        is_trained = policy.learned.summary.get("chosen") in _TRAINED_ATOMS
        unused |= set() if is_trained else _OF_TRAINING
    return [
        _line(name, _format(value))
        for name, value in policy.learned.summary.get("settings", {}).items()
        if value is not None and name not in unused
    ]


def _line(label: str, value: Any) -> str:
    return f"  {label:16}{value}"


def _format(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
