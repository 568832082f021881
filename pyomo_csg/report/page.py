"""One page that shows a policy: everything is in it, and it asks no network."""

from __future__ import annotations

import html
import json
import logging
import math
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from string import Template
from typing import Any

import numpy as np
import pandas as pd

from pyomo_csg.decisions.learned_decider import LearnedDecider
from pyomo_csg.evaluation.comparison import compare, pairs_for
from pyomo_csg.learn.config import FitConfig
from pyomo_csg.learn.history import History
from pyomo_csg.report.contexts import Shown, shown_contexts
from pyomo_csg.report.fit_summary import fit_summary
from pyomo_csg.report.policy_plots import training_curves
from pyomo_csg.storage import write_user_file

_WARNING = ("pyomo_csg.decisions.decider", "pyomo_csg.policy.policy")


@contextmanager
def each_warning_once() -> Iterator[None]:
    """Let the first warning of each kind through."""
    told: set[str] = set()

    def is_new(record: logging.LogRecord) -> bool:
        new = record.msg not in told
        told.add(record.msg)
        return new

    loggers = [logging.getLogger(name) for name in _WARNING]
    for logger in loggers:
        logger.addFilter(is_new)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(is_new)


_NUMBERS, _VARIABLES = 12, 20
_TIMED = 20


def decided(
    policy: LearnedDecider, shown: list[Shown], pairs: History | None
) -> dict[str, Any]:
    """Return scenarios, what is near them, decisions, and how long a decision takes."""
    contexts = np.stack([one.context for one in shown])
    scenarios, weights = policy.scenarios(contexts), policy.weights(contexts)
    decisions = [policy.decide(x, on_error="record") for x in contexts]
    vectors = np.stack([decision.vector for decision in decisions])
    variables = _largest(vectors)
    timed = contexts if pairs is None else pairs.contexts
    return {
        "numbers": [p.name for p in policy.two_stage.uncertain_params][:_NUMBERS],
        "allNumbers": len(policy.two_stage.uncertain_params),
        "ranges": _ranges(scenarios, shown),
        "variables": [decisions[0].names[v] for v in variables],
        "allVariables": vectors.shape[1],
        "contexts": [
            {
                "name": one.name,
                "scenarios": scenarios[i][:, :_NUMBERS],
                "weights": weights[i],
                "near": None if one.near is None else one.near[:, :_NUMBERS],
                "decision": vectors[i][variables],
                "value": decisions[i].value,
            }
            for i, one in enumerate(shown)
        ],
        "milliseconds": _milliseconds(policy, timed),
    }


def _largest(vectors: np.ndarray) -> np.ndarray:
    """Return which variables to show, in the model's order: those of largest values."""
    sizes = np.abs(np.nan_to_num(vectors)).max(axis=0)
    return np.sort(np.argsort(-sizes, kind="stable")[:_VARIABLES])


def _ranges(scenarios: np.ndarray, shown: list[Shown]) -> list[tuple[float, float]]:
    """Return the range of each number over all contexts, so that axes stay in place."""
    points = scenarios.reshape(-1, scenarios.shape[2])
    near = [one.near for one in shown if one.near is not None]
    points = np.concatenate([points, *near])[:, :_NUMBERS]
    return list(
        zip(points.min(axis=0).tolist(), points.max(axis=0).tolist(), strict=True)
    )


def _milliseconds(policy: LearnedDecider, contexts: np.ndarray) -> list[float]:
    """Return how long decisions took, one after another, in rising order."""
    found = []
    for x in contexts[:: max(1, len(contexts) // _TIMED)][:_TIMED]:
        start = time.perf_counter()
        policy.decide(x, on_error="record")
        found.append(1000 * (time.perf_counter() - start))
    return sorted(found)


_SURE = 0.8
_POINTS = 200  # of a curve
_THIS = "this policy"


def content_of(policy: LearnedDecider, data: Any = None) -> dict[str, Any]:
    """Return what the page's script draws, and the words beside it."""
    with each_warning_once():
        return _plain(_content(policy, data))


def _content(policy: LearnedDecider, data: Any) -> dict[str, Any]:
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


def _lead(policy: LearnedDecider) -> str:
    two_stage = policy.two_stage
    known = ", ".join(policy.context_names or ())
    numbers = _count(len(two_stage.uncertain_params), "uncertain number")
    decided = _count(len(two_stage.first_stage_variables), "number")
    plural = "s" * (policy.count != 1)
    return (
        f"For a context{f' ({known})' * bool(known)} it generates {policy.count} "
        f"scenario{plural} of {numbers}, and decides {decided} by optimising for those."
    )


def _facts(policy: LearnedDecider) -> list[tuple[str, str]]:
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


def _costs(policy: LearnedDecider, data: Any) -> dict[str, Any]:
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


def _solver(policy: LearnedDecider) -> list[tuple[str, str]]:
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


def _call(policy: LearnedDecider) -> str:
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


def _absent(policy: LearnedDecider, shown: list[Shown]) -> list[str]:
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


_SCRIPTS = ("charts.js", "panels.js", "page.js")


def write_page(
    path: str | os.PathLike[str], policy: LearnedDecider, data: Any = None
) -> None:
    """Write the page to a file, which appears whole or not at all.

    Parameters
    ----------
    path : str or path
    policy : Policy
    data : (contexts, outcomes) or DataFrame, optional
        As in :meth:`pyomo_csg.Policy.report`.

    Raises
    ------
    DataError
    """
    write_user_file(path, rendered(policy, data).encode())


def rendered(policy: LearnedDecider, data: Any = None) -> str:
    """Return the page's HTML."""
    content = json.dumps(content_of(policy, data), allow_nan=False)
    return Template(_asset("page.html")).substitute(
        name=html.escape(policy.two_stage.model.name),
        words=html.escape(fit_summary(policy)),
        stages=html.escape(str(policy.two_stage)),
        style=_asset("page.css"),
        script="\n".join(map(_asset, _SCRIPTS)),
        # In a script element nothing but "<" could end it.
        content=content.replace("<", "\\u003c"),
    )


def _asset(name: str) -> str:
    return (files(__package__) / "assets" / name).read_text(encoding="utf-8")
