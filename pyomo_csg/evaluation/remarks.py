"""What is to be said beside the numbers, so that nobody is misled by them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pyomo_csg.evaluation.reference import FULL_PROGRAM, GIVEN, POLICY

if TYPE_CHECKING:
    from pyomo_csg.evaluation.evaluation import Evaluation

TOLERANCE = 1e-6
_LIMITS = {"value": "the reference", "bound": "what is proven to be possible"}


def remarks(evaluation: Evaluation) -> list[str]:
    """Say what costs are compared with, how far that is proven, and what is missing."""
    return [
        *_on_reference(evaluation),
        *_on_failures(evaluation),
        *warnings_of(evaluation, TOLERANCE),
    ]


def warnings_of(evaluation: Evaluation, tolerance: float) -> list[str]:
    """Say which costs are lower than they should be able to be."""
    if not evaluation.has_reference:
        return []
    limits = evaluation.reference[["value", "bound"]]
    table = evaluation.records.join(limits, on=["trial", "case"])
    found = []
    for column, words in _LIMITS.items():
        limit = table[column]
        under = (table["cost"] - limit) / limit.abs()
        under = under[under < -tolerance]
        if len(under):
            trial, case, policy = under.idxmin()
            found.append(
                f"{len(under)} costs are lower than {words}; the furthest, by "
                f"{-under.min():.3g} of it, is of '{policy}' in case {case} of trial "
                f"{trial}"
            )
    return found


def _on_reference(evaluation: Evaluation) -> list[str]:
    reference = evaluation.reference
    source, gap = reference["source"], reference["gap"]
    if not evaluation.has_reference:
        return ["costs, lower is better; there is no reference"]
    if (source == GIVEN).all():
        return ["gaps to values that were given; nothing is proven of them"]
    count, closed = len(gap), int((gap <= TOLERANCE).sum())
    words = f"gaps to the {FULL_PROGRAM}, proven optimal in {closed} of {count} cases"
    known = gap[np.isfinite(gap) & (gap > TOLERANCE)]
    if len(known):
        words += (
            f", in {len(known)} to within {known.median():.2%} in the median and "
            f"{known.max():.2%} at worst"
        )
    if unproven := count - closed - len(known):
        words += f", not at all in {unproven}"
    found = [words]
    ended = reference.loc[source.str.startswith(POLICY), "status"]
    if len(ended):
        counts = ended.value_counts(sort=False)
        how = ", ".join(f"'{status}' in {count}" for status, count in counts.items())
        found.append(
            f"in {len(ended)} cases the best decision known is a policy's; the "
            f"{FULL_PROGRAM} ended {how}"
        )
    return found


def _on_failures(evaluation: Evaluation) -> list[str]:
    failures = evaluation.failures
    if failures.empty:
        return []
    counts = failures["policy"].value_counts(sort=False)
    names = ", ".join(f"'{name}' in {count}" for name, count in counts.items())
    return [f"cases without a cost, left out of statistics and lost: {names}"]
