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
from pyomo_csg.decisions.number_formats import number, with_error
from pyomo_csg.decisions.verdict import POLICY, Verdict
from pyomo_csg.evaluation.comparison import Comparison, compare, read_pairs
from pyomo_csg.learn.config import FitConfig
from pyomo_csg.learn.lineage import describe_lineage
from pyomo_csg.learn.tables.history import History
from pyomo_csg.report.fit_summary import fit_summary
from pyomo_csg.report.policy_plots import (
    ContextExample,
    example_contexts,
    training_curves,
)
from pyomo_csg.report.policy_verdict import fit_verdict, verdict_sentences
from pyomo_csg.report.shapes import LIST, group_by_shape
from pyomo_csg.storage import write_user_file

_SCRIPTS = ("charts.js", "shapes.js", "panels.js", "page.js")
_MAX_VARIABLES = 5000  # on the page, for each context; a note says if there are more
_TIMED = 20  # decisions
_CURVE_POINTS = 200
_CLEAR_LEAD = 0.8  # probability; below it the candidates count as equal


def write_page(
    path: str | os.PathLike[str], policy: LearnedDecider, data: Any = None
) -> Verdict | None:
    """Write the page of :meth:`pyomo_csg.Policy.report` to a file; return its verdict.

    The file is written completely or not at all.
    """
    comparison = _compare(policy, data)
    write_user_file(path, render_page(policy, data, comparison).encode())
    return None if comparison is None else comparison.verdict()


def _compare(policy: LearnedDecider, data: Any) -> Comparison | None:
    return None if data is None else compare({POLICY: policy}, data)


def render_page(
    policy: LearnedDecider, data: Any = None, comparison: Comparison | None = None
) -> str:
    """Return the page as HTML."""
    comparison = comparison or _compare(policy, data)
    found = page_content(policy, data, comparison)
    content = json.dumps(found, allow_nan=False)
    verdict = None if comparison is None else comparison.verdict()
    return Template(_read_asset("page.html")).substitute(
        name=html.escape(policy.two_stage.model.name),
        words=html.escape(fit_summary(policy, verdict)),
        stages=html.escape(str(policy.two_stage)),
        style=_read_asset("page.css"),
        script="\n".join(map(_read_asset, _SCRIPTS)),
        content=content.replace("<", "\\u003c"),  # so that no text ends the script
    )


def _read_asset(name: str) -> str:
    return (files(__package__) / "assets" / name).read_text(encoding="utf-8")


def page_content(
    policy: LearnedDecider, data: Any = None, comparison: Comparison | None = None
) -> dict[str, Any]:
    """Return the data and texts that the page's script shows, in JSON's types."""
    with _each_warning_once(policy):
        pairs = None if data is None else read_pairs(policy, data)
        examples = example_contexts(policy, pairs)
        comparison = comparison or _compare(policy, data)
        verdict = fit_verdict(policy) if comparison is None else comparison.verdict()
        costs = None if comparison is None else _costs(comparison)
        summary = policy.learned.summary
        return _to_json(
            {
                "model": policy.two_stage.model.name,
                "sense": str(policy.two_stage.sense),
                "lead": _lead(policy),
                "verdict": verdict_sentences(verdict),
                "beats": verdict is not None and verdict.beats,
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
    shown = _shown_variables(vectors)
    names = [decisions[0].names[v] for v in shown]
    numbers = [p.name for p in policy.two_stage.uncertain_params]
    variables = [policy.two_stage.first_stage_variables[v] for v in shown]
    return {
        "numbers": numbers,
        "numberGroups": group_by_shape(numbers),
        "ranges": _ranges(scenarios, examples),
        "variables": names,
        "variableGroups": _groups_by_interest(names, vectors[:, shown]),
        "allVariables": vectors.shape[1],
        "binary": [one.is_binary() for one in variables],
        "contexts": [
            {
                "name": one.name,
                "scenarios": scenarios[i],
                "weights": weights[i],
                "near": one.near,
                "decision": vectors[i][shown],
                "value": decisions[i].value,
            }
            for i, one in enumerate(examples)
        ],
        "milliseconds": _time_decisions(
            policy, contexts if pairs is None else pairs.contexts
        ),
    }


def _shown_variables(vectors: np.ndarray) -> np.ndarray:
    """Return the variables to show: all, or of very many those that differ the most."""
    count = vectors.shape[1]
    if count <= _MAX_VARIABLES:
        return np.arange(count)
    apart = np.ptp(np.nan_to_num(vectors), axis=0)
    return np.sort(np.argsort(-apart, kind="stable")[:_MAX_VARIABLES])


def _groups_by_interest(names: list[str], vectors: np.ndarray) -> list[dict[str, Any]]:
    """Return the variables by shape; those that differ between contexts come first."""
    differs = np.ptp(np.nan_to_num(vectors), axis=0) > 0
    groups = group_by_shape(names)
    for group in groups:
        group["differs"] = bool(differs[group["members"]].any())
        if group["shape"] == LIST:
            group["members"].sort(key=lambda v: not differs[v])
    return sorted(groups, key=lambda group: not group["differs"])


def _ranges(
    scenarios: Sequence[np.ndarray], examples: list[ContextExample]
) -> list[tuple[float, float]]:
    """Return the range of each number over all examples, so that axes do not move."""
    near = [one.near for one in examples if one.near is not None]
    points = np.concatenate([*scenarios, *near])
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
    facts += [("made", line) for line in describe_lineage(policy.learned.lineage)]
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


def _costs(compared: Comparison) -> dict[str, Any]:
    """Return the costs, or the profits, on the pairs, as curves and as a table."""
    sign = -1.0 if compared.maximized else 1.0
    costs = sign * compared.costs.fillna(compared.costs.max(axis=None)) + 0.0
    shares = np.linspace(0, 1, min(len(costs), _CURVE_POINTS))
    table = compared.table()
    table[["mean", "difference"]] *= sign
    return {
        "pairs": len(costs),
        "word": "profit" if compared.maximized else "cost",
        "level": compared.risk and f"{100 * compared.risk.level:g}",
        "shares": shares,
        "curves": {name: np.quantile(costs[name], shares) for name in costs},
        "table": [
            {
                "name": row.Index,
                "mean": row.mean,
                "unsolved": row.unsolved,
                "first_better": row.first_better,
                "own": with_error(row.mean, row.standard_error),
                "apart": with_error(row.difference, row.difference_error),
                **({"cvar": number(sign * row.cvar)} if compared.risk else {}),
            }
            for row in table.itertuples()
        ],
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
            "No held-out rows were given. With policy.report(path, data=rows) this page "
            "also shows contexts of those rows, the outcomes after similar contexts, and "
            "costs beside those of simple alternatives. Give rows that the policy was not "
            "fitted to."
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
