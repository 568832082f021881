"""Scenarios and decisions for the contexts that a page shows."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from pyomo_csg.learn.history import History
from pyomo_csg.policy import Policy
from pyomo_csg.report.contexts import Shown

_NUMBERS, _VARIABLES = 12, 20
_TIMED = 20


def decided(
    policy: Policy, shown: list[Shown], pairs: History | None
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


def _milliseconds(policy: Policy, contexts: np.ndarray) -> list[float]:
    """Return how long decisions took, one after another, in rising order."""
    found = []
    for x in contexts[:: max(1, len(contexts) // _TIMED)][:_TIMED]:
        start = time.perf_counter()
        policy.decide(x, on_error="record")
        found.append(1000 * (time.perf_counter() - start))
    return sorted(found)
