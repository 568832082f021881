"""What a policy file keeps of the history: its pairs as numbers, and held-out costs.

Baselines learn from these pairs, updates add to them, and monitoring compares with them.
Deciding does not read them.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pyomo_csg.learn.fit_result import FitResult
from pyomo_csg.learn.tables.history import History
from pyomo_csg.storage import Arrays

logger = logging.getLogger(__name__)

_CONTEXTS, _OUTCOMES, _KNOWN, _COSTS = (
    f"pairs/{part}" for part in ("contexts", "outcomes", "known", "costs")
)
_MOST_BYTES = 2**26  # of the pairs; more are left out of the file


@dataclass(frozen=True, eq=False)
class KeptPairs:
    """The pairs of a policy file, and the winner's costs on held-out rows, if any."""

    history: History | None = None
    costs: np.ndarray | None = None


def pack_pairs(learned: FitResult, path: str | os.PathLike[str]) -> Arrays:
    """Return the arrays to store; none if there is no history or it is too large."""
    pairs, costs = learned.pairs, learned.holdout_costs
    if pairs is None:
        return {}
    stored = {_CONTEXTS: pairs.contexts, _OUTCOMES: pairs.outcomes}
    if pairs.known.size:
        stored[_KNOWN] = pairs.known
    if costs is not None and np.isfinite(costs).all():
        stored[_COSTS] = costs
    if (size := sum(array.nbytes for array in stored.values())) > _MOST_BYTES:
        logger.warning(
            "the history takes %d MB and is not stored in '%s'; pass it to the calls "
            "that need it",
            size // 2**20,
            path,
        )
        return {}
    return stored


def unpack_pairs(content: Mapping[str, Any], arrays: Arrays) -> KeptPairs:
    """Remove the pairs from a file's arrays and return them, or raise a ValueError."""
    parts = {
        name: arrays.pop(name, None) for name in (_CONTEXTS, _OUTCOMES, _KNOWN, _COSTS)
    }
    contexts, outcomes = parts[_CONTEXTS], parts[_OUTCOMES]
    if contexts is None and outcomes is None:
        return KeptPairs()
    if contexts is None or outcomes is None:
        raise ValueError("it has only one side of the pairs of its history")
    rows = len(outcomes)
    known = parts[_KNOWN]
    if known is None:
        known = np.zeros((rows, len(content.get("known_params", []))))
    for array, shape in (
        (contexts, (rows, *content["context_shape"])),
        (outcomes, (rows, len(content["uncertain_params"]))),
        (known, (rows, len(content.get("known_params", [])))),
    ):
        if array.shape != shape or not _is_finite(array):
            raise ValueError(f"the pairs of its history are not numbers {shape}")
    costs = parts[_COSTS]
    if costs is not None and not (costs.ndim == 1 and _is_finite(costs)):
        raise ValueError("its costs on held-out rows are not numbers")
    has_dates = content.get("has_dates") is True
    history = History(contexts, outcomes, has_dates=has_dates, known=known)
    return KeptPairs(history, costs)


def _is_finite(array: np.ndarray) -> bool:
    return bool(array.dtype == float and np.isfinite(array).all())
