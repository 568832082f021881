"""What policies' decisions cost on pairs that happened, beside two that anyone can make."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import KFold

from pyomo_csg.decisions.decider import Decider
from pyomo_csg.errors import DataError
from pyomo_csg.learn.distributions.samplers import context_features
from pyomo_csg.learn.history import History, read_contexts, read_history
from pyomo_csg.learn.networks.domains import standard_spread
from pyomo_csg.learn.selection.scoring import decision_costs
from pyomo_csg.solve import Oracle

EXPECTED_VALUE, CONTEXT_FREE = "expected value", "context-free"

_FOLDS, _TREES, _LEAF = 5, 100, 5
_POOL, _INTEGER_POOL = 500, 20  # outcomes that the context-free decision is made on


@dataclass(frozen=True, eq=False)
class Comparison:
    """Costs of several ways to decide, on the same pairs.

    Attributes
    ----------
    costs : DataFrame
        A row a pair and a column a way, lower is better; NaN where there is no decision,
        or no recourse.
    """

    costs: pd.DataFrame

    def table(self) -> pd.DataFrame:
        """Return mean costs, and how far each is from the first, pair by pair.

        A pair without a cost counts as the worst that any had.

        Returns
        -------
        DataFrame
            A row a way: ``mean`` and its ``standard_error``; ``difference`` from the
            first and its ``difference_error``; ``first_better``, the share of pairs on
            which the first costs less, ties split; ``unsolved`` pairs.
        """
        if np.isnan(self.costs.to_numpy()).all():
            found = "no decision has a cost on any pair; see Oracle.cost for why"
            raise DataError("Nothing could be compared", [found])
        costs = self.costs.fillna(self.costs.max(axis=None))
        first = costs.iloc[:, 0]
        apart = costs.sub(first, axis=0)
        root = math.sqrt(len(costs))
        return pd.DataFrame(
            {
                "mean": costs.mean(),
                "standard_error": costs.std() / root,
                "difference": apart.mean(),
                "difference_error": apart.std() / root,
                "first_better": (apart > 0).mean() + (apart == 0).mean() / 2,
                "unsolved": self.costs.isna().sum(),
            }
        )


def compare(
    policies: Mapping[str, Decider],
    data: Any,
    history: Any = None,
    *,
    progress: bool = True,
) -> Comparison:
    """Return what decisions cost on pairs, which the policies should not have seen.

    Beside the policies stand two ways that need no scenarios to be learned. ``'expected
    value'`` decides on a forecast of the mean outcome, by a random forest.
    ``'context-free'`` has one decision for all contexts, made on past outcomes (of very
    many, some). They learn from ``history``; without it from the pairs themselves, each
    fifth from the other four.

    Parameters
    ----------
    policies : mapping of str to Policy
        By the name that the table is to show. All are for one model.
    data : (contexts, outcomes) or DataFrame
        As in :func:`pyomo_csg.fit`.
    history : (contexts, outcomes) or DataFrame, optional
        What the two other ways learn from.
    progress : bool, optional
        Whether long batches show a bar.

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
    pairs = {name: pairs_for(policy, data) for name, policy in policies.items()}
    first, judged = next(iter(policies.values())), next(iter(pairs.values()))
    decisions = {
        name: policy.decide(
            pairs[name].contexts, on_error="record", progress=progress, fresh=True
        ).to_numpy()
        for name, policy in policies.items()
    }
    past = None if history is None else pairs_for(first, history)
    decisions.update(_plain_decisions(first.oracle, judged, past))
    return Comparison(
        pd.DataFrame(
            {
                name: decision_costs(first.oracle, made, judged.outcomes)
                for name, made in decisions.items()
            }
        )
    )


def pairs_for(policy: Decider, data: Any) -> History:
    """Return pairs whose contexts are those that a policy reads; else a DataError."""
    names = None if policy.context_names is None else list(policy.context_names)
    framed = any(isinstance(d, pd.DataFrame) for d in (data, *_first(data)))
    pairs = read_history(policy.two_stage, data, names if framed else None)
    read_contexts(pairs.contexts, policy.context_shape, policy.context_names)
    return pairs


def _first(data: Any) -> tuple[Any, ...]:
    return data[:1] if isinstance(data, tuple) else ()


def _plain_decisions(
    oracle: Oracle, pairs: History, past: History | None
) -> dict[str, np.ndarray]:
    """Return decisions (n, s) of the two ways that need no scenarios to be learned."""
    shape = len(pairs), len(oracle.two_stage.first_stage_variables)
    found = {name: np.full(shape, np.nan) for name in (EXPECTED_VALUE, CONTEXT_FREE)}
    for learned, rows in _splits(pairs, past):
        means = _forecast(learned, pairs.contexts[rows])[:, None]
        pool = _pool(learned.outcomes, oracle.two_stage.integer)[None]
        for name, scenarios in ((EXPECTED_VALUE, means), (CONTEXT_FREE, pool)):
            solution = oracle.solve(
                scenarios, on_error="record", progress=False, fresh=True
            )
            found[name][rows] = solution.decision
    return found


def _splits(
    pairs: History, past: History | None
) -> Iterator[tuple[History, np.ndarray]]:
    """Yield what is learned from, and the rows that are then decided for."""
    everything = np.arange(len(pairs))
    if past is not None:
        yield past, everything
        return
    count = min(_FOLDS, len(pairs))
    shuffled = not pairs.has_panels  # which overlap in time
    folds = KFold(count, shuffle=shuffled, random_state=0 if shuffled else None)
    for others, rows in folds.split(everything):
        yield History(pairs.contexts[others], pairs.outcomes[others]), rows


def _forecast(learned: History, contexts: np.ndarray) -> np.ndarray:
    """Return mean outcomes (n, p) after contexts."""
    forest = RandomForestRegressor(_TREES, min_samples_leaf=_LEAF, random_state=0)
    unit = standard_spread(learned.outcomes)  # so that all numbers count alike
    targets = learned.outcomes / unit
    forest.fit(
        context_features(learned.contexts),
        targets if targets.shape[1] > 1 else targets[:, 0],
    )
    return forest.predict(context_features(contexts)).reshape(len(contexts), -1) * unit


def _pool(outcomes: np.ndarray, integer: bool) -> np.ndarray:
    most = _INTEGER_POOL if integer else _POOL
    if len(outcomes) <= most:
        return outcomes
    return outcomes[np.random.default_rng(0).permutation(len(outcomes))[:most]]
