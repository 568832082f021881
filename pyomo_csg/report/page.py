"""The HTML report of a policy: one file without external resources."""

from __future__ import annotations

import html
import json
import logging
import math
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.resources import files
from string import Template
from typing import Any

import numpy as np
import pandas as pd

from pyomo_csg.decisions.decider import LearnedDecider
from pyomo_csg.evaluation.comparison import compare, read_pairs
from pyomo_csg.learn.config import FitConfig
from pyomo_csg.learn.tables.history import History
from pyomo_csg.report.fit_summary import fit_summary
from pyomo_csg.report.policy_plots import (
    ContextExample,
    example_contexts,
    training_curves,
)
from pyomo_csg.storage import write_user_file

_SCRIPTS = ("charts.js", "panels.js", "page.js")
_MAX_NUMBERS, _MAX_VARIABLES = 12, 20  # shown of each kind
_TIMED = 20  # decisions
_CURVE_POINTS = 200
_CLEAR_LEAD = 0.8  # probability; below it the candidates count as equal
_POLICY = "this policy"


def write_page(
    path: str | os.PathLike[str], policy: LearnedDecider, data: Any = None
) -> None:
    """Write the page of :meth:`pyomo_csg.Policy.report` to a file, whole or not at all."""
    write_user_file(path, render_page(policy, data).encode())


def render_page(policy: LearnedDecider, data: Any = None) -> str:
    """Return the page as HTML."""
    content = json.dumps(page_content(policy, data), allow_nan=False)
    return Template(_read_asset("page.html")).substitute(
        name=html.escape(policy.two_stage.model.name),
        words=html.escape(fit_summary(policy)),
        stages=html.escape(str(policy.two_stage)),
        style=_read_asset("page.css"),
        script="\n".join(map(_read_asset, _SCRIPTS)),
        content=content.replace("<", "\\u003c"),  # so that no text ends the script
    )


def _read_asset(name: str) -> str:
    return (files(__package__) / "assets" / name).read_text(encoding="utf-8")


def page_content(policy: LearnedDecider, data: Any = None) -> dict[str, Any]:
    """Return the data and texts that the page's script shows, in JSON's types."""
    with _each_warning_once(policy):
        pairs = None if data is None else read_pairs(policy, data)
        examples = example_contexts(policy, pairs)
        # Costs come first: their one warning covers all pairs.
        costs = None if data is None else _costs(policy, data)
        summary = policy.learned.summary
        return _to_json(
            {
                "model": policy.two_stage.model.name,
                "sense": str(policy.two_stage.sense),
                "lead": _lead(policy),
                "facts": _facts(policy),
                "selection": {
                    "chosen": summary.get("chosen"),
                    "verdict": _verdict(summary),
                    "candidates": summary.get("candidates", []),
                    "tried": summary.get("scenarios_tried", []),
                },
                "training": training_curves(policy.history),
                **_decisions(policy, examples, pairs),
                "lossNet": summary.get("loss_net"),
                "costs": costs,
                "solver": _solver_stats(policy),
                "call": _fit_call(policy),
                "versions": summary.get("versions", {}),
                "fingerprints": _fingerprints(summary),
                "absent": _missing_parts(policy, pairs),
            }
        )


@contextmanager
def _each_warning_once(policy: LearnedDecider) -> Iterator[None]:
    """Let only the first warning of each kind through."""
    seen: set[str] = set()

    def is_new(record: logging.LogRecord) -> bool:
        new = record.msg not in seen
        seen.add(record.msg)
        return new

    modules = {one.__module__ for one in type(policy).__mro__}
    loggers = [logging.getLogger(name) for name in modules]
    for logger in loggers:
        logger.addFilter(is_new)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(is_new)


def _decisions(
    policy: LearnedDecider, examples: list[ContextExample], pairs: History | None
) -> dict[str, Any]:
    """Return scenarios and decisions for the examples, and the time of a decision."""
    contexts = np.stack([one.context for one in examples])
    scenarios, weights = policy.scenarios(contexts), policy.weights(contexts)
    known = policy.known_numbers(contexts)
    decisions = [
        policy.decide(x, known=row, on_error="record")
        for x, row in zip(contexts, known, strict=True)
    ]
    vectors = np.stack([decision.vector for decision in decisions])
    variables = _largest_variables(vectors)
    numbers = [p.name for p in policy.two_stage.uncertain_params]
    return {
        "numbers": numbers[:_MAX_NUMBERS],
        "allNumbers": len(numbers),
        "ranges": _ranges(scenarios, examples),
        "variables": [decisions[0].names[v] for v in variables],
        "allVariables": vectors.shape[1],
        "contexts": [
            {
                "name": one.name,
                "scenarios": scenarios[i][:, :_MAX_NUMBERS],
                "weights": weights[i],
                "near": None if one.near is None else one.near[:, :_MAX_NUMBERS],
                "decision": vectors[i][variables],
                "value": decisions[i].value,
            }
            for i, one in enumerate(examples)
        ],
        "milliseconds": _time_decisions(
            policy, contexts if pairs is None else pairs.contexts
        ),
    }


def _largest_variables(vectors: np.ndarray) -> np.ndarray:
    """Return the columns with the largest values, in the model's order."""
    sizes = np.abs(np.nan_to_num(vectors)).max(axis=0)
    return np.sort(np.argsort(-sizes, kind="stable")[:_MAX_VARIABLES])


def _ranges(
    scenarios: Sequence[np.ndarray], examples: list[ContextExample]
) -> list[tuple[float, float]]:
    """Return the range of each number over all examples, so that axes do not move."""
    near = [one.near for one in examples if one.near is not None]
    points = np.concatenate([*scenarios, *near])
    points = points[:, :_MAX_NUMBERS]
    low, high = points.min(axis=0).tolist(), points.max(axis=0).tolist()
    return list(zip(low, high, strict=True))


def _time_decisions(policy: LearnedDecider, contexts: np.ndarray) -> list[float]:
    """Return the milliseconds of single decisions, sorted."""
    found = []
    some = contexts[:: max(1, len(contexts) // _TIMED)][:_TIMED]
    for x, known in zip(some, policy.known_numbers(some), strict=True):
        start = time.perf_counter()
        policy.decide(x, known=known, on_error="record")
        found.append(1000 * (time.perf_counter() - start))
    return sorted(found)


def _lead(policy: LearnedDecider) -> str:
    two_stage = policy.two_stage
    columns = ", ".join(policy.context_names or ())
    numbers = _count(len(two_stage.uncertain_params), "uncertain number")
    decisions = _count(len(two_stage.plain.first_stage_variables), "number")
    scenarios = (
        "scenarios" if policy.count is None else _count(policy.count, "scenario")
    )
    return (
        f"For a context{f' ({columns})' * bool(columns)} it generates "
        f"{scenarios} of {numbers}, and decides {decisions} by "
        "optimizing over them."
    )


def _facts(policy: LearnedDecider) -> list[tuple[str, str]]:
    two_stage, summary = policy.two_stage, policy.learned.summary
    columns = ", ".join(policy.context_names or ())
    integers = " (some are integer)" if two_stage.integer else ""
    first = _count(len(two_stage.plain.first_stage_variables), "variable")
    facts = [
        ("model", f"{two_stage.model.name}, {two_stage.sense}"),
        ("first stage", f"{first}{integers}"),
        ("recourse", _count(len(two_stage.plain.recourse_variables), "variable")),
        ("uncertain", _count(len(two_stage.uncertain_params), "number")),
        ("context", columns or _count(math.prod(policy.context_shape), "number")),
        ("scenarios for a context", str(policy.count or "depends on the context")),
        ("method", policy.method),
    ]
    if len(policy.context_shape) > 1:
        sizes = " × ".join(map(str, policy.context_shape))
        facts.insert(5, ("steps × numbers of a context", sizes))
    if two_stage.risk is not None:
        facts.insert(1, ("objective", str(two_stage.risk)))
    if "pairs" in summary:
        facts.append(("learned from", _count(summary["pairs"], "pair")))
    return facts


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + "s" * (number != 1)


def _verdict(summary: dict[str, Any]) -> str:
    """Return the comparison of the chosen candidate with the runner-up in words."""
    chosen, rows = summary.get("chosen"), summary.get("candidates", [])
    if chosen is None or len(rows) < 2:
        only = "" if chosen is None else f"“{chosen}” was fitted. "
        return f"{only}Nothing was compared: the method was given by name."
    runner_up = next(row["name"] for row in rows if row["name"] != chosen)
    margin, confidence = summary["margin"], summary["confidence"]
    if margin < 0:
        text = f"“{chosen}” was kept. Its decisions cost {-margin:.4g} more on average "
        text += f"than those of “{runner_up}”, not clearly so"
    else:
        text = f"“{chosen}” won. Its decisions cost {margin:.4g} less on average "
        text += f"than those of “{runner_up}”, the runner-up"
    if "pairs_scored" in summary:
        text += f", on {_count(summary['pairs_scored'], 'held-out pair')}"
    text += f". The probability that it beats “{runner_up}” is {confidence:.0%}."
    if confidence < _CLEAR_LEAD:
        text += " On this history they are about equal; more pairs would help."
    return text


def _costs(policy: LearnedDecider, data: Any) -> dict[str, Any]:
    """Return the costs on the pairs, as curves and as a table."""
    compared = compare({_POLICY: policy}, data)
    costs = compared.costs.fillna(compared.costs.max(axis=None))
    shares = np.linspace(0, 1, min(len(costs), _CURVE_POINTS))
    return {
        "pairs": len(costs),
        "level": compared.risk and f"{100 * compared.risk.level:g}",
        "shares": shares,
        "curves": {name: np.quantile(costs[name], shares) for name in costs},
        "table": compared.table().rename_axis("name").reset_index().to_dict("records"),
    }


def _solver_stats(policy: LearnedDecider) -> list[tuple[str, str]]:
    """Return the counts and times of the policy's oracle since it was created."""
    stats = policy.oracle.stats
    rows = [
        ("solver calls", f"{stats.solves:,}"),
        ("programs solved by a known basis", f"{stats.cache_hits:,}"),
        ("simplex iterations", f"{stats.iterations:,}"),
        ("branch-and-bound nodes", f"{stats.nodes:,}"),
        ("integer programs solved by their relaxation", f"{stats.relaxed:,}"),
        ("solver time", f"{stats.solver_seconds:.3g} s"),
        ("total time", f"{stats.total_seconds:.3g} s"),
    ]
    return [row for row in rows if row[1] != "0"]


def _fit_call(policy: LearnedDecider) -> str:
    """Return the call of csg.fit that reproduces this policy."""
    summary = policy.learned.summary
    identity = summary.get("identity")
    if identity is None:
        return ""
    names = ("scenarios", "method", "regularization", "seed", "solver")
    arguments = {name: repr(identity[name]) for name in names}
    if policy.context_names is not None:  # the data may have had other columns, too
        arguments["context"] = repr(list(policy.context_names))
    network = identity["network"]
    if network != "None":  # a built-in one by its name; a user's module is not stored
        arguments["network"] = repr(network) if network.isidentifier() else "..."
    if changed := _changed_settings(summary.get("settings", {})):
        arguments["config"] = repr(changed)
    lines = "".join(f"    {name}={value},\n" for name, value in arguments.items())
    return f"policy = csg.fit(\n    model,\n    data,\n{lines})"


def _changed_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that differ from the defaults; a search is already resolved."""
    defaults = {**_to_json(vars(FitConfig())), "search": settings.get("search")}
    return {
        name: value
        for name, value in _to_json(settings).items()
        if value != defaults.get(name)
    }


def _fingerprints(summary: dict[str, Any]) -> dict[str, str]:
    identity = summary.get("identity", {})
    return {name: identity[name] for name in ("model", "history") if name in identity}


def _missing_parts(policy: LearnedDecider, pairs: History | None) -> list[str]:
    """Return notes on the parts that the page lacks, and why."""
    notes = []
    if pairs is None:
        notes.append(
            "No pairs were given, and a policy stores none. With policy.report(path, "
            "data=pairs) this page also shows contexts of those pairs, the outcomes "
            "after similar contexts, and costs beside the expected-value and the "
            "context-free decision. Give pairs that the policy was not fitted to."
        )
    predictions = policy.learned.summary.get("loss_net", {}).get("true")
    if policy.method in ("static", "dynamic") and not predictions:
        notes.append("This policy has no record of the Loss-Net's predictions.")
    if policy.history.empty:
        notes.append("This policy has no record of its training losses.")
    return notes


def _to_json(value: Any) -> Any:
    """Return a value in JSON's types, with None for NaN and infinity."""
    if isinstance(value, dict):
        return {str(key): _to_json(one) for key, one in value.items()}
    if isinstance(value, np.ndarray | pd.Series):
        return _to_json(value.tolist())
    if isinstance(value, list | tuple):
        return [_to_json(one) for one in value]
    if isinstance(value, np.generic):
        return _to_json(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value
