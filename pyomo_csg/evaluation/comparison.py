"""Costs of policies on held-out pairs, beside two simple baselines."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import KFold

from pyomo_csg.baselines.base import Baseline
from pyomo_csg.baselines.standard_baselines import standard_baselines
from pyomo_csg.decisions.decider import Decider
from pyomo_csg.decisions.verdict import HELD_OUT, Advantage, Verdict
from pyomo_csg.errors import DataError
from pyomo_csg.learn.selection.scoring import paired_difference, standard_error
from pyomo_csg.learn.tables.context_reader import read_contexts
from pyomo_csg.learn.tables.history import History, read_history
from pyomo_csg.solve import Oracle
from pyomo_csg.stages import MeanCVaR

_FOLDS = 5


@dataclass(frozen=True, eq=False)
class Comparison:
    """Costs of several policies on the same rows.

    Attributes
    ----------
    costs : DataFrame
        One row per pair of context and outcome, one column per policy. Lower is better;
        NaN if there is no decision or no recourse.
    maximized : bool
        Whether the model is maximized, so that costs are negative profits.
    reasons : DataFrame
        Like ``costs``: why there is none, or an empty text.
    notes : tuple of str
        How the baselines learned, and what a reader must know.
    risk : MeanCVaR or None
        The risk measure of the model.
    """

    costs: pd.DataFrame
    maximized: bool = False
    reasons: pd.DataFrame | None = None
    notes: tuple[str, ...] = ()
    risk: MeanCVaR | None = None

    @property
    def values(self) -> pd.DataFrame:
        """The costs, or the profits if the model is maximized."""
        return -self.costs if self.maximized else self.costs

    def verdict(self, name: str | None = None) -> Verdict:
        """Return the verdict on one policy, by default the first."""
        notes = (*self._reason_notes(), *self.notes)
        return make_verdict(
            self.costs, name=name, maximized=self.maximized, notes=notes
        )

    def table(self) -> pd.DataFrame:
        """Return mean costs, and paired differences from the first policy.

        A missing cost counts as the largest cost of all.

        Returns
        -------
        DataFrame
            One row per policy: ``mean`` and its ``standard_error``; ``difference`` from
            the first and its ``difference_error``; ``first_better``, the share of rows on
            which the first costs less, with ties split; ``unsolved``, the number of
            missing costs; and ``cvar`` over the rows, if the model has a risk measure.
        """
        if np.isnan(self.costs.to_numpy()).all():
            found = "no decision has a cost on any pair; see Oracle.cost for why"
            raise DataError("Nothing could be compared", [found])
        costs = self.costs.fillna(self.costs.max(axis=None))
        by_policy = costs.to_numpy().T
        paired = paired_difference(by_policy, by_policy[0], ddof=1)
        tails = {} if self.risk is None else {"cvar": costs.apply(self.risk.cvar)}
        return pd.DataFrame(
            {
                "mean": costs.mean(),
                "standard_error": standard_error(by_policy, ddof=1),
                "difference": paired.mean,
                "difference_error": paired.standard_error,
                "first_better": paired.reference_wins,
                "unsolved": self.costs.isna().sum(),
                **tails,
            }
        )

    def __str__(self) -> str:
        return str(self.verdict())

    def _repr_html_(self) -> str:
        return self.verdict()._repr_html_()

    def _reason_notes(self) -> list[str]:
        """Return why there are no costs, for each policy."""
        if self.reasons is None:
            return []
        notes = []
        for name, column in self.reasons.items():
            counts = column[column != ""].value_counts()
            if len(counts):
                words = "; ".join(f"{why} ({count:,})" for why, count in counts.items())
                notes.append(f"Why {name} has no cost: {words}.")
        return notes


def make_verdict(
    costs: pd.DataFrame,
    *,
    name: str | None = None,
    maximized: bool = False,
    where: str = HELD_OUT,
    notes: Sequence[str] = (),
    advises: bool = True,
) -> Verdict:
    """Return the verdict on the policy of the first column, or of the one named.

    Parameters
    ----------
    costs : DataFrame
        One row per case and one column per policy; lower is better. NaN, where there is
        no decision or no recourse, counts as the worst cost of all.
    name, maximized, where, notes, advises
        As in :class:`Verdict`.

    Examples
    --------
    >>> costs = pd.DataFrame({"this policy": [1.0, 2, 3, 2], "SAA": [2.0, 3, 5, 3]})
    >>> print(make_verdict(costs))
    On 4 held-out rows this policy costs 2.00 +- 0.41 on average, 1.25 +- 0.25 less than
    the best alternative (SAA).
    """
    missing = costs.isna()
    if missing.to_numpy().all():
        found = "no decision has a cost on any row; see Oracle.cost for why"
        raise DataError("Nothing could be compared", [found])
    policy = costs.columns[0] if name is None else name
    filled = costs.fillna(costs.max(axis=None))
    mine = filled[policy].to_numpy()
    sign = -1.0 if maximized else 1.0
    advantages = []
    for other in filled.columns.drop(policy):
        apart = filled[other].to_numpy() - mine
        mean = float(apart.mean())
        advantages.append(Advantage(str(other), mean, _sample_error(apart)))
    return Verdict(
        len(costs),
        sign * float(mine.mean()) + 0.0,
        _sample_error(mine),
        tuple(sorted(advantages, key=lambda one: one.mean)),
        maximized,
        str(policy),
        where,
        (*_missing_notes(missing), *notes),
        advises,
    )


def _sample_error(values: np.ndarray) -> float:
    """Return the standard error of a mean; a single row has none."""
    return float(standard_error(values, ddof=1)) if len(values) > 1 else math.inf


def _missing_notes(missing: pd.DataFrame) -> list[str]:
    counts = missing.sum()
    return [
        f"{name} has no cost on {count:,} of them, which counts as the worst cost of all."
        for name, count in counts[counts > 0].items()
    ]


def compare(
    policies: Mapping[str, Decider],
    data: Any,
    history: Any = None,
    *,
    progress: bool = True,
) -> Comparison:
    """Return the costs of policies' decisions on rows that they were not fitted to.

    Two baselines are added. One decides on a random forest's forecast of the mean outcome,
    the other makes one decision for all contexts, on past outcomes (a sample of them, if
    there are many). They learn from the history of the first policy, or from ``history``.
    If there is neither, they learn by five-fold cross-validation on ``data``.

    Parameters
    ----------
    policies : mapping of str to Policy
        By name for the table; all for the same model.
    data : (contexts, outcomes) or DataFrame
        As in :func:`pyomo_csg.fit`.
    history : (contexts, outcomes) or DataFrame, optional
        What the two baselines learn from, instead of the first policy's history.
    progress : bool, optional
        Whether to show a progress bar for long batches.

    Examples
    --------
    >>> import pyomo_csg as csg
    >>> from pyomo_csg.zoo import newsvendor
    >>> policy = csg.fit(
    ...     newsvendor.build(), newsvendor.sample(60, seed=1), scenarios=2, method="mmd",
    ...     progress=False,
    ... )
    >>> compared = compare({"mine": policy}, newsvendor.sample(20, seed=2))
    >>> list(compared.costs), len(compared.costs)
    (['mine', 'deciding on the forecast', 'one decision for all contexts'], 20)
    """
    rows = {name: read_pairs(policy, data) for name, policy in policies.items()}
    first, held_out = next(iter(policies.values())), next(iter(rows.values()))
    found = {
        name: decide_rows(policy, rows[name], first.oracle, progress)
        for name, policy in policies.items()
    }
    past = kept_pairs(first) if history is None else read_pairs(first, history)
    found |= _baseline_costs(first.oracle, held_out, past)
    return Comparison(
        pd.DataFrame({name: one.costs for name, one in found.items()}),
        int(first.two_stage.sense) < 0,
        pd.DataFrame({name: one.reasons for name, one in found.items()}),
        tuple(_comparison_notes(held_out, past)),
        first.two_stage.risk,
    )


@dataclass(frozen=True, eq=False)
class RowCosts:
    """Decisions (n, s) on rows, their values (n,), their costs (n,), and why there is none."""

    decisions: np.ndarray
    values: np.ndarray
    costs: np.ndarray
    reasons: np.ndarray

    @classmethod
    def empty(cls, rows: int, variables: int) -> RowCosts:
        """Return the costs of rows that are not decided yet."""
        missing = np.full(rows, np.nan)
        decisions = np.full((rows, variables), np.nan)
        return cls(decisions, missing, missing.copy(), np.full(rows, "", dtype=object))

    def fill(self, rows: np.ndarray, other: RowCosts) -> None:
        """Take over some rows."""
        for part in ("decisions", "values", "costs", "reasons"):
            getattr(self, part)[rows] = getattr(other, part)


def decide_rows(
    decider: Decider,
    rows: History,
    oracle: Oracle | None = None,
    progress: bool = False,
) -> RowCosts:
    """Decide on rows, and return what the decisions cost by an oracle of the same model.

    Every row without a cost has a reason.
    """
    solution, *_ = decider._solve_contexts(
        rows.contexts,
        known=rows.known,
        on_error="record",
        progress=progress,
        fresh=True,
    )
    oracle = oracle or decider.oracle
    # Without the value at risk of a risk measure, costs are what is paid.
    width = len(oracle.two_stage.plain.first_stage_variables)
    found = RowCosts.empty(len(rows), width)
    found.decisions[:], found.values[:] = solution.decision[:, :width], solution.value
    solved = np.isfinite(solution.decision).all(axis=1)
    found.reasons[~solved] = [f"no decision: {s}" for s in solution.status[~solved]]
    made = np.flatnonzero(solved)
    if len(made):
        how: Any = {"on_error": "record", "progress": False, "fresh": True}
        found.costs[made] = oracle.cost(
            found.decisions[made], rows.outcomes[made], known=rows.known[made], **how
        )
        for failure in oracle.failures:
            detail = f" ({failure.detail})" if failure.detail else ""
            found.reasons[made[failure.case]] = f"no recourse: {failure.status}{detail}"
    return found


def kept_pairs(policy: Any) -> History | None:
    """Return the history that a policy keeps, if any."""
    learned = getattr(policy, "learned", None)
    return None if learned is None else learned.pairs


def default_baselines(
    policy: Decider, history: History | None = None
) -> dict[str, Baseline]:
    """Return the baselines that learn from a policy's history, or from another one."""
    past = kept_pairs(policy) if history is None else history
    if past is None:
        raise DataError("There are no baselines", [_NO_HISTORY])
    return standard_baselines(policy.oracle, past)


_NO_HISTORY = (
    "the policy does not keep its history; pass history=, or fit and save it with the "
    "history"
)
_CROSS_VALIDATED = (
    "The policy does not keep its history, so the alternatives learn from these rows, by "
    "five-fold cross-validation."
)


def _comparison_notes(held_out: History, past: History | None) -> Iterator[str]:
    if past is None:
        yield _CROSS_VALIDATED
        return
    if known := count_known_rows(held_out, past):
        yield (
            f"Caution: {known:,} of these rows are in the history that the policy was "
            "fitted to, which flatters it; give other rows."
        )


def count_known_rows(rows: History, past: History) -> int:
    """Return how many rows have the context and the outcome of a row in the history."""
    if rows.contexts.shape[1:] != past.contexts.shape[1:]:
        return 0
    known = set(_row_keys(past))
    return sum(key in known for key in _row_keys(rows))


def _row_keys(rows: History) -> Iterator[bytes]:
    flat = rows.contexts.reshape(len(rows), -1)
    for row in np.column_stack([flat, rows.outcomes, rows.known]) + 0.0:
        yield row.tobytes()


def _baseline_costs(
    oracle: Oracle, held_out: History, past: History | None
) -> dict[str, RowCosts]:
    """Return what the decisions of the two baselines cost."""
    found: dict[str, RowCosts] = {}
    size = len(held_out), len(oracle.two_stage.plain.first_stage_variables)
    for train, rows in _splits(held_out, past):
        for name, baseline in standard_baselines(oracle, train).items():
            costs = decide_rows(baseline, held_out.select(rows))
            found.setdefault(name, RowCosts.empty(*size)).fill(rows, costs)
    return found


def _splits(
    held_out: History, past: History | None
) -> Iterator[tuple[History, np.ndarray]]:
    """Yield training rows for the baselines, and the rows that they then decide for."""
    everything = np.arange(len(held_out))
    if past is not None:
        yield past, everything
        return
    shuffle = not held_out.has_panels  # panels overlap in time
    folds = KFold(
        min(_FOLDS, len(held_out)), shuffle=shuffle, random_state=0 if shuffle else None
    )
    for train, rows in folds.split(everything):
        yield held_out.select(train), rows


def read_pairs(policy: Decider, data: Any, least: int = 2) -> History:
    """Return at least so many rows as arrays, or raise a DataError if they do not fit."""
    check_decider("policy", policy)
    names = None if policy.context_names is None else list(policy.context_names)
    first = data[0] if isinstance(data, tuple) and data else data
    has_frame = any(isinstance(part, pd.DataFrame) for part in (data, first))
    pairs = read_history(
        policy.two_stage,
        data,
        names if has_frame else None,
        policy.preprocessing,
        least=least,
    )
    read_contexts(pairs.contexts, policy.context_shape, policy.context_names)
    return pairs


def check_decider(argument: str, policy: Any) -> None:
    """Raise a DataError if an argument is neither a policy nor a baseline."""
    if not isinstance(policy, Decider):
        found = f"{argument} is a {type(policy).__name__}"
        remedy = "give a csg.Policy or a baseline"
        raise DataError("Cannot evaluate the policy", [f"{found}; {remedy}"])


def split_halves(pairs: History, seed: int) -> tuple[History, np.ndarray]:
    """Return half of the pairs, and the rows of the other half.

    The split is random; panels are split by time.
    """
    order = np.arange(len(pairs))
    if not pairs.has_panels:
        order = np.random.default_rng(seed).permutation(order)
    middle = len(order) // 2
    return pairs.select(order[:middle]), order[middle:]


def policy_costs(
    policy: Decider, pairs: History, evaluator: Decider | None = None
) -> np.ndarray:
    """Return the costs (n,) of a policy's decisions, by its model or another policy's.

    With a risk measure, each decision has its own value at risk. The mean of these costs is
    then at least the mean-CVaR of the decisions.
    """
    owner = evaluator or policy
    names, theirs = (
        [v.name for v in one.two_stage.first_stage_variables] for one in (owner, policy)
    )
    how: Any = {"known": pairs.known, "progress": False, "fresh": True}
    decisions = policy.program_decisions(pairs.contexts, on_error="raise", **how)
    columns = [theirs.index(name) for name in names]
    return owner.oracle.cost(decisions[:, columns], pairs.outcomes, **how)
