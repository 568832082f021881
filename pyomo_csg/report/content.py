"""All that a page shows of a policy, in JSON's types."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd

from pyomo_csg.comparing import compare, pairs_for
from pyomo_csg.learn.config import FitConfig
from pyomo_csg.policy import Policy
from pyomo_csg.report.contexts import Shown, shown_contexts
from pyomo_csg.report.deciding import decided
from pyomo_csg.report.telling import each_warning_once
from pyomo_csg.report.training import training_curves

_SURE = 0.8
_POINTS = 200  # of a curve
_THIS = "this policy"


def content_of(policy: Policy, data: Any = None) -> dict[str, Any]:
    """Return what the page's script draws, and the words beside it."""
    with each_warning_once():
        return _plain(_content(policy, data))


def _content(policy: Policy, data: Any) -> dict[str, Any]:
    pairs = None if data is None else pairs_for(policy, data)
    shown = shown_contexts(policy, pairs)
    costs = None if data is None else _costs(policy, data)  # first: it warns of all
    return {
        "model": policy.two_stage.model.name,
        "sense": str(policy.two_stage.sense),
        "lead": _lead(policy),
        "facts": _facts(policy),
        "contest": _contest(policy.learned.summary),
        "training": training_curves(policy.history),
        **decided(policy, shown, pairs),
        "lossNet": policy.learned.summary.get("loss_net"),
        "costs": costs,
        "solver": _solver(policy),
        "call": _call(policy),
        "versions": policy.learned.summary.get("versions", {}),
        "fingerprints": _fingerprints(policy.learned.summary),
        "absent": _absent(policy, shown),
    }


def _lead(policy: Policy) -> str:
    two_stage = policy.two_stage
    known = ", ".join(policy.context_names or ())
    numbers = _count(len(two_stage.uncertain_params), "uncertain number")
    decided = _count(len(two_stage.first_stage_variables), "number")
    plural = "s" * (policy.count != 1)
    return (
        f"For a context{f' ({known})' * bool(known)} it generates {policy.count} "
        f"scenario{plural} of {numbers}, and decides {decided} by optimising for those."
    )


def _facts(policy: Policy) -> list[tuple[str, str]]:
    two_stage, summary = policy.two_stage, policy.learned.summary
    stages = two_stage.first_stage_variables, two_stage.recourse_variables
    named = ", ".join(policy.context_names or ())
    sizes = " × ".join(map(str, policy.context_shape))
    whole = " (some are integer)" if two_stage.integer else ""
    facts = [
        ("model", f"{two_stage.model.name}, {two_stage.sense}"),
        ("decided now", f"{_count(len(stages[0]), 'number')}{whole}"),
        ("decided later", _count(len(stages[1]), "number")),
        ("uncertain", _count(len(two_stage.uncertain_params), "number")),
        ("context", named or _count(math.prod(policy.context_shape), "number")),
        ("scenarios for a context", str(policy.count)),
        ("method", policy.method),
    ]
    if len(policy.context_shape) > 1:
        facts.insert(5, ("steps × numbers of a context", sizes))
    if "pairs" in summary:
        facts.append(("learned from", _count(summary["pairs"], "pair")))
    return facts


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + "s" * (number != 1)


def _contest(summary: dict[str, Any]) -> dict[str, Any]:
    """Return the candidates, and what is to be said of the one that won."""
    rows = summary.get("candidates", [])
    return {
        "chosen": summary.get("chosen"),
        "verdict": _verdict(summary),
        "candidates": rows,
        "tried": summary.get("scenarios_tried", []),
    }


def _verdict(summary: dict[str, Any]) -> str:
    chosen, rows = summary.get("chosen"), summary.get("candidates", [])
    if chosen is None or len(rows) < 2:
        only = "" if chosen is None else f"“{chosen}” was fitted. "
        return f"{only}Nothing was compared: the method was asked for by name."
    others = [row["name"] for row in rows if row["name"] != chosen]
    won, than = "won", "less in the mean than those of “{}”, the second"
    if summary["margin"] < 0:
        won, than = "was kept", "more in the mean than those of “{}”, not clearly so"
    text = (
        f"“{chosen}” {won}. Its decisions cost {abs(summary['margin']):.4g} "
        f"{than.format(others[0])}"
    )
    if "pairs_judged" in summary:
        text += f", on {_count(summary['pairs_judged'], 'held-out pair')}"
    text += (
        f". It is the better of the two with {summary['confidence']:.0%} confidence."
    )
    if summary["confidence"] < _SURE:
        text += " To this history they are about the same; more pairs would tell."
    return text


def _costs(policy: Policy, data: Any) -> dict[str, Any]:
    """Return the costs on the pairs, as curves and as a table."""
    compared = compare({_THIS: policy}, data)
    costs = compared.costs.fillna(compared.costs.max(axis=None))
    shares = np.linspace(0, 1, min(len(costs), _POINTS))
    return {
        "pairs": len(costs),
        "shares": shares,
        "curves": {name: np.quantile(costs[name], shares) for name in costs},
        "table": compared.table().rename_axis("name").reset_index().to_dict("records"),
    }


def _solver(policy: Policy) -> list[tuple[str, str]]:
    """Return what the policy's oracle has done since it was made."""
    stats = policy.oracle.stats
    rows = [
        ("calls of the solver", f"{stats.solves:,}"),
        ("programs answered by a known basis", f"{stats.cache_hits:,}"),
        ("simplex iterations", f"{stats.iterations:,}"),
        ("branch-and-bound nodes", f"{stats.nodes:,}"),
        ("integer programs answered by their relaxation", f"{stats.relaxed:,}"),
        ("time in the solver", f"{stats.solver_seconds:.3g} s"),
        ("time in all", f"{stats.total_seconds:.3g} s"),
    ]
    return [row for row in rows if row[1] != "0"]


def _call(policy: Policy) -> str:
    """Return the call of csg.fit that gives this policy again."""
    summary = policy.learned.summary
    identity = summary.get("identity")
    if identity is None:
        return ""
    names = ("scenarios", "method", "regularization", "seed", "solver")
    arguments = {name: repr(identity[name]) for name in names}
    if policy.context_names is not None:  # the data may have had other columns, too
        arguments["context"] = repr(list(policy.context_names))
    network = identity["network"]
    if network != "None":  # one of ours by its name; a module of the user's is not here
        arguments["network"] = repr(network) if network.isidentifier() else "..."
    if changed := _changed(summary.get("settings", {})):
        arguments["config"] = repr(changed)
    given = "".join(f"    {name}={value},\n" for name, value in arguments.items())
    return f"policy = csg.fit(\n    model,\n    data,\n{given})"


def _changed(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that are not the defaults; those found by a search, found."""
    usual = {**_plain(vars(FitConfig())), "search": settings.get("search")}
    return {
        name: value
        for name, value in _plain(settings).items()
        if value != usual.get(name)
    }


def _fingerprints(summary: dict[str, Any]) -> dict[str, str]:
    identity = summary.get("identity", {})
    return {name: identity[name] for name in ("model", "history") if name in identity}


def _absent(policy: Policy, shown: list[Shown]) -> list[str]:
    """Return what could be shown but is not, and why."""
    notes = []
    if shown[0].near is None:
        notes.append(
            "No pairs were given, and a policy keeps none. With policy.report(path, "
            "data=pairs) this page has contexts of those pairs, the outcomes that "
            "followed contexts like them, and what decisions cost beside the "
            "expected-value and the context-free decision. Give pairs that were not "
            "learned from."
        )
    told = policy.learned.summary.get("loss_net", {}).get("true")
    if policy.method in ("static", "dynamic") and not told:
        notes.append("What the Loss-Net predicted was not kept in this policy.")
    if policy.history.empty:
        notes.append("The losses of the training were not kept in this policy.")
    return notes


def _plain(value: Any) -> Any:
    """Return a value in JSON's types; what is not a finite number is None."""
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, np.ndarray | pd.Series):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value
