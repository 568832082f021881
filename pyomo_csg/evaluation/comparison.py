"""Costs of policies on held-out pairs, beside two simple baselines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import KFold

from pyomo_csg.baselines.standard_baselines import comparison_baselines
from pyomo_csg.decisions.decider import Decider
from pyomo_csg.errors import DataError
from pyomo_csg.learn.selection.scoring import paired_difference, standard_error
from pyomo_csg.learn.tables.context_reader import read_contexts
from pyomo_csg.learn.tables.history import History, read_history
from pyomo_csg.learn.task import decision_costs
from pyomo_csg.solve import Oracle
from pyomo_csg.stages import MeanCVaR

EXPECTED_VALUE, CONTEXT_FREE = "expected value", "context-free"

_FOLDS = 5


@dataclass(frozen=True, eq=False)
class Comparison:
    """Costs of several policies on the same rows.

    Attributes
    ----------
    costs : DataFrame
        One row per pair of context and outcome, one column per policy. Lower is better;
        NaN if there is no decision or no recourse.
    risk : MeanCVaR or None
        The risk measure of the model.
    """

    costs: pd.DataFrame
    risk: MeanCVaR | None = None

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


def compare(
    policies: Mapping[str, Decider],
    data: Any,
    history: Any = None,
    *,
    progress: bool = True,
) -> Comparison:
    """Return the costs of policies' decisions on rows that they were not fitted to.

    Two baselines are added. ``'expected value'`` decides on a random forest's forecast of
    the mean outcome. ``'context-free'`` makes one decision for all contexts, on past
    outcomes (a sample of them, if there are many). They learn from ``history``, or
    without it by five-fold cross-validation on ``data``.

    Parameters
    ----------
    policies : mapping of str to Policy
        By name for the table; all for the same model.
    data : (contexts, outcomes) or DataFrame
        As in :func:`pyomo_csg.fit`.
    history : (contexts, outcomes) or DataFrame, optional
        What the two baselines learn from.
    progress : bool, optional
        Whether to show a progress bar for long batches.

    Examples
    --------
    >>> import pyomo_csg as csg
    >>> from models import newsvendor
    >>> policy = csg.fit(
    ...     newsvendor.build(), newsvendor.sample(60, seed=1), scenarios=2, method="mmd",
    ...     progress=False,
    ... )
    >>> compared = compare({"mine": policy}, newsvendor.sample(20, seed=2))
    >>> list(compared.costs), len(compared.costs)
    (['mine', 'expected value', 'context-free'], 20)
    """
    rows = {name: read_pairs(policy, data) for name, policy in policies.items()}
    first, held_out = next(iter(policies.values())), next(iter(rows.values()))
    decisions = {
        name: policy.decide(
            rows[name].contexts,
            known=rows[name].known,
            on_error="record",
            progress=progress,
            fresh=True,
        ).to_numpy()
        for name, policy in policies.items()
    }
    past = None if history is None else read_pairs(first, history)
    decisions.update(_baseline_decisions(first.oracle, held_out, past))
    return Comparison(
        pd.DataFrame(
            {
                name: decision_costs(
                    first.oracle, made, held_out.outcomes, held_out.known
                )
                for name, made in decisions.items()
            }
        ),
        first.two_stage.risk,
    )


def _baseline_decisions(
    oracle: Oracle, held_out: History, past: History | None
) -> dict[str, np.ndarray]:
    """Return the decisions (n, s) of the two baselines, NaN where there is none."""
    width = len(oracle.two_stage.plain.first_stage_variables)
    shape = len(held_out), width
    found = {name: np.full(shape, np.nan) for name in (EXPECTED_VALUE, CONTEXT_FREE)}
    for train, rows in _splits(held_out, past):
        baselines = comparison_baselines(oracle, train)
        for name, baseline in zip(found, baselines, strict=True):
            # Not decide(), which would log a baseline's failures as a policy's.
            solution, *_ = baseline._solve_contexts(
                held_out.contexts[rows],
                known=held_out.known[rows],
                on_error="record",
                progress=False,
                fresh=True,
            )
            found[name][rows] = solution.decision[:, :width]
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


def read_pairs(policy: Decider, data: Any) -> History:
    """Return data as arrays, or raise a DataError if they do not fit the policy."""
    check_decider("policy", policy)
    names = None if policy.context_names is None else list(policy.context_names)
    first = data[0] if isinstance(data, tuple) and data else data
    has_frame = any(isinstance(part, pd.DataFrame) for part in (data, first))
    pairs = read_history(
        policy.two_stage, data, names if has_frame else None, policy.preprocessing
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
    how: Any = {"known": pairs.known, "progress": False}
    decisions = policy.program_decisions(
        pairs.contexts, on_error="raise", fresh=False, **how
    )
    columns = [theirs.index(name) for name in names]
    return owner.oracle.cost(decisions[:, columns], pairs.outcomes, **how)
