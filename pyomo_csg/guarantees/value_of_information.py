"""What uncertainty and foresight are worth: VSS, EVPI, and what of it a policy captures."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from pyomo_csg.baselines.standard_baselines import (
    SampledForestSAA,
    forest_expected_value,
)
from pyomo_csg.decisions.decider import Decider
from pyomo_csg.errors import DataError
from pyomo_csg.guarantees.holdout import (
    check_decider,
    decision_costs,
    read_pairs,
    select_pairs,
    split_halves,
)
from pyomo_csg.learn.history import read_contexts
from pyomo_csg.stages.inputs import scenario_batch, weight_batch
from pyomo_csg.validation import Problems, seed_problems

_COSTS = ("expected_value", "policy", "stochastic", "perfect")


@dataclass(frozen=True, eq=False)
class Values:
    """Costs of deciding with more and more foresight. ``str()`` says it in words.

    Costs are to be minimised: those of a model that is maximised are negative profits.

    Attributes
    ----------
    table : DataFrame
        A row a context: costs ``expected_value``, ``policy``, ``stochastic`` and
        ``perfect``, and what follows of them, ``vss``, ``evpi`` and ``captured``.
    known : bool
        Whether conditional laws are known. If not, each row is of one outcome and says
        little by itself; ``stochastic`` is then what a sample average on like contexts
        costs, so that VSS is rather under- and EVPI overestimated.
    """

    table: pd.DataFrame
    known: bool

    @property
    def vss(self) -> float:
        """The value of the stochastic solution: what deciding on the mean costs more."""
        return float(self.table["vss"].mean())

    @property
    def evpi(self) -> float:
        """The expected value of perfect information."""
        return float(self.table["evpi"].mean())

    @property
    def captured(self) -> float:
        """Which share of the VSS the policy saves, on average; NaN if there is none."""
        saved = (self.table["expected_value"] - self.table["policy"]).mean()
        return float(saved / self.vss) if self.vss > 0 else float("nan")

    def __str__(self) -> str:
        laws = "of known law" if self.known else "with one outcome each"
        costs = self.table[list(_COSTS)].mean()
        captured = (
            f"the policy captures {self.captured:.0%} of it"
            if self.vss > 0
            else "there is nothing for a policy to capture"
        )
        return "\n".join(
            [
                f"Mean costs over {len(self.table)} contexts {laws}",
                f"  on the expected value       {costs['expected_value']:.6g}",
                f"  by the policy               {costs['policy']:.6g}",
                f"  on all that may happen      {costs['stochastic']:.6g}",
                f"  with perfect information    {costs['perfect']:.6g}",
                f"VSS {self.vss:.6g}; {captured}",
                f"EVPI {self.evpi:.6g}",
            ]
        )


def values(
    policy: Decider,
    data: Any,
    *,
    history: Any = None,
    seed: int = 0,
) -> Values:
    """Return what foresight is worth on data alone.

    Parameters
    ----------
    policy : Decider
    data : (contexts, outcomes) or DataFrame
        Pairs that it was not learned from.
    history : (contexts, outcomes) or DataFrame, optional
        What the forecast and the sample average learn from. Without it, half of ``data``.
    seed : int
        Of halves and forests.

    Raises
    ------
    DataError, SolveError

    Examples
    --------
    >>> import pyomo_csg as csg
    >>> from models import newsvendor
    >>> history = newsvendor.sample(60, seed=1)
    >>> policy = csg.fit(
    ...     newsvendor.build(), history, scenarios=2, method="mmd", progress=False
    ... )
    >>> found = values(policy, newsvendor.sample(20, seed=2), history=history)
    >>> found.table.shape, found.known, found.evpi > 0
    ((20, 7), False, True)
    """
    pairs = read_pairs(policy, data)
    if problems := seed_problems(seed):
        raise DataError("There are no values", problems)
    if history is None:
        seen, rows = split_halves(pairs, seed)
        pairs = select_pairs(pairs, rows)
    else:
        seen = read_pairs(policy, history)
    sense = int(policy.two_stage.sense)
    perfect = policy.oracle.solve(pairs.outcomes[:, None], progress=False).value
    return _valued(
        decision_costs(forest_expected_value(policy, seen, seed), pairs),
        decision_costs(policy, pairs),
        decision_costs(SampledForestSAA(policy, seen, seed), pairs),
        sense * perfect,
        known=False,
    )


def conditional_values(policy: Decider, cases: Iterable[Any]) -> Values:
    """Return what foresight is worth where conditional laws are known.

    Parameters
    ----------
    policy : Decider
    cases : iterable of (context, outcomes) or (context, outcomes, weights)
        A context, what may then happen (M, p), and how likely each is (M,). Default: all
        are equally likely. For each the model is solved on all M outcomes.

    Raises
    ------
    DataError, SolveError

    Examples
    --------
    >>> import pyomo_csg as csg
    >>> from models import newsvendor
    >>> policy = csg.fit(
    ...     newsvendor.build(), newsvendor.sample(60, seed=1), scenarios=2,
    ...     method="mmd", progress=False,
    ... )
    >>> contexts = newsvendor.sample(3, seed=2)[0]
    >>> found = conditional_values(
    ...     policy, [(x, *newsvendor.conditional(x)) for x in contexts]
    ... )
    >>> bool((found.table["policy"] >= found.table["stochastic"] - 1e-9).all())
    True
    """
    check_decider("policy", policy)
    laws = list(cases) if isinstance(cases, Iterable) else []
    wrong = [i for i, law in enumerate(laws) if not _is_law(law)]
    if wrong or not laws:
        what = f"cases[{wrong[0]}] is none" if wrong else "cases has none"
        wanted = "give (context, outcomes) or (context, outcomes, weights)"
        raise DataError("There are no values", [f"{what}; {wanted}"])
    found = [_case_costs(policy, *law) for law in laws]
    return _valued(*np.array(found).reshape(-1, 4).T, known=True)


def _is_law(law: Any) -> bool:
    return isinstance(law, tuple | list) and len(law) in (2, 3)


def _case_costs(
    policy: Decider, context: Any, outcomes: Any, weights: Any = None
) -> list[float]:
    """Return mean costs under one law: on its mean, the policy's, the best, foreseen."""
    oracle, sense = policy.oracle, int(policy.two_stage.sense)
    context, _ = read_contexts(context, policy.context_shape, policy.context_names)
    problems = Problems(f"The law does not fit '{policy.two_stage.model.name}'")
    law = problems.check("outcomes", scenario_batch, policy.two_stage, outcomes)
    shares = problems.check("weights", weight_batch, weights, law)
    problems.raise_any()
    outcomes, weights = law[0], shares[0]
    mean = (weights @ outcomes)[None]
    decisions = [
        oracle.solve(mean, progress=False).decision,
        policy.decide(context, progress=False).to_numpy()[0],
        oracle.solve(outcomes, weights, progress=False).decision,
    ]
    costs = [weights @ oracle.cost(y, outcomes, progress=False) for y in decisions]
    foreseen = oracle.solve(outcomes[:, None], progress=False).value
    return [*costs, sense * (weights @ foreseen)]


def _valued(*costs: np.ndarray, known: bool) -> Values:
    table = pd.DataFrame(dict(zip(_COSTS, costs, strict=True)))
    table["vss"] = table["expected_value"] - table["stochastic"]
    table["evpi"] = table["stochastic"] - table["perfect"]
    saved = table["expected_value"] - table["policy"]
    table["captured"] = saved / table["vss"].where(table["vss"] != 0)
    return Values(table, known)
