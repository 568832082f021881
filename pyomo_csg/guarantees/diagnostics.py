"""The value of information (VSS, EVPI), and ties between optimal decisions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from pyomo_csg.baselines.standard_baselines import (
    FORECAST,
    SampledForestSAA,
    standard_baselines,
)
from pyomo_csg.decisions.decider import Decider
from pyomo_csg.errors import DataError
from pyomo_csg.evaluation.cases import Case
from pyomo_csg.evaluation.comparison import (
    check_decider,
    policy_costs,
    read_pairs,
    split_halves,
)
from pyomo_csg.evaluation.reference import expected_cost
from pyomo_csg.stages.inputs import scenario_batch, weight_batch
from pyomo_csg.validation import Problems

_TIE = 1e-7  # relative difference of losses that is above the solver's tolerances
_COSTS = ("expected_value", "policy", "stochastic", "perfect")


@dataclass(frozen=True, eq=False, repr=False)
class Values:
    """Costs of decisions with increasing information. ``print`` it to read it.

    Lower costs are better; if the model is maximized, costs are negative profits.

    Attributes
    ----------
    table : DataFrame
        One row per context: the costs ``expected_value``, ``policy``, ``stochastic`` and
        ``perfect``, and from them ``vss``, ``evpi`` and ``captured``.
    known : bool
        Whether the conditional distributions are known. If not, each row has one outcome
        and means little by itself; ``stochastic`` is then the cost of a sample average
        over similar contexts, which tends to underestimate VSS and overestimate EVPI.
    """

    table: pd.DataFrame
    known: bool

    @property
    def vss(self) -> float:
        """The value of the stochastic solution: its saving over the expected-value decision."""
        return float(self.table["vss"].mean())

    @property
    def evpi(self) -> float:
        """The expected value of perfect information."""
        return float(self.table["evpi"].mean())

    @property
    def captured(self) -> float:
        """The share of the VSS that the policy saves; NaN if the VSS is not positive."""
        saved = (self.table["expected_value"] - self.table["policy"]).mean()
        return float(saved / self.vss) if self.vss > 0 else float("nan")

    def __repr__(self) -> str:
        found = f"VSS {self.vss:.6g}, EVPI {self.evpi:.6g}"
        return f"<Values over {len(self.table)} contexts: {found}>"

    def __str__(self) -> str:
        cases = "of known distribution" if self.known else "with one outcome each"
        costs = self.table[list(_COSTS)].mean()
        captured = (
            f"the policy captures {self.captured:.0%} of it"
            if self.vss > 0
            else "there is nothing for a policy to capture"
        )
        return "\n".join(
            [
                f"Mean costs over {len(self.table)} contexts {cases}",
                f"  expected-value decision     {costs['expected_value']:.6g}",
                f"  policy                      {costs['policy']:.6g}",
                f"  stochastic solution         {costs['stochastic']:.6g}",
                f"  perfect information         {costs['perfect']:.6g}",
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
    """Estimate the value of information from data alone.

    Parameters
    ----------
    policy : Decider
    data : (contexts, outcomes) or DataFrame
        Pairs that it was not fitted to.
    history : (contexts, outcomes) or DataFrame, optional
        The pairs that the forecast and the sample average learn from. Default: half of
        ``data``.
    seed : int
        Seed of the random halves and forests.

    Raises
    ------
    DataError, SolveError

    Examples
    --------
    >>> import pyomo_csg as csg
    >>> from pyomo_csg.zoo import newsvendor
    >>> history = newsvendor.sample(60, seed=1)
    >>> policy = csg.fit(
    ...     newsvendor.build(), history, scenarios=2, method="mmd", progress=False
    ... )
    >>> found = values(policy, newsvendor.sample(20, seed=2), history=history)
    >>> found
    <Values over 20 contexts: VSS ..., EVPI ...>
    >>> found.table.shape, found.known, found.evpi > 0
    ((20, 7), False, True)
    """
    pairs = read_pairs(policy, data)
    problems = Problems("Cannot compute the values")
    problems.check_seed(seed)
    problems.raise_any()
    if history is None:
        seen, rows = split_halves(pairs, seed)
        pairs = pairs.select(rows)
    else:
        seen = read_pairs(policy, history)
    sense = int(policy.two_stage.sense)
    how: Any = {"known": pairs.known, "progress": False}
    perfect = policy.oracle.solve(pairs.outcomes[:, None], **how).value
    return _make_values(
        policy_costs(standard_baselines(policy.oracle, seen)[FORECAST], pairs),
        policy_costs(policy, pairs),
        policy_costs(SampledForestSAA(policy, seen, seed), pairs),
        sense * perfect,
        known=False,
    )


def conditional_values(policy: Decider, cases: Iterable[Any]) -> Values:
    """Compute the value of information from known conditional distributions.

    Parameters
    ----------
    policy : Decider
    cases : iterable of (context, outcomes) or (context, outcomes, weights)
        A context, its possible outcomes (M, p) and their probabilities (M,). Default:
        equal probabilities. The model is solved on all M outcomes of each context.

    Raises
    ------
    DataError, SolveError

    Examples
    --------
    >>> import pyomo_csg as csg
    >>> from pyomo_csg.zoo import newsvendor
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
    rows = list(cases) if isinstance(cases, Iterable) else []
    wrong = [
        i
        for i, case in enumerate(rows)
        if not (isinstance(case, tuple | list) and len(case) in (2, 3))
    ]
    if wrong or not rows:
        found = f"cases[{wrong[0]}] is not a case" if wrong else "cases is empty"
        remedy = "give (context, outcomes) or (context, outcomes, weights)"
        raise DataError("Cannot compute the values", [f"{found}; {remedy}"])
    costs = np.array([_case_costs(policy, *case) for case in rows])
    return _make_values(*costs.T, known=True)


def _case_costs(
    policy: Decider, context: Any, outcomes: Any, weights: Any = None
) -> list[float]:
    """Return the expected costs in one context, in the order of the table."""
    oracle, sense = policy.oracle, int(policy.two_stage.sense)
    context, _ = policy.read_contexts(context)
    problems = Problems(
        f"The distribution does not fit '{policy.two_stage.model.name}'"
    )
    batch = problems.check("outcomes", scenario_batch, policy.two_stage, outcomes)
    shares = problems.check("weights", weight_batch, weights, batch)
    problems.raise_any()
    outcomes, weights = batch[0], shares[0]
    mean = (weights @ outcomes)[None]
    how: Any = {"known": policy.known_numbers(context), "progress": False}
    decisions = [
        oracle.solve(mean, **how).decision,
        policy.decide(context, **how).to_numpy()[0],
        oracle.solve(outcomes, weights, **how).decision,
    ]
    case = Case(context, outcomes, weights, how["known"])
    costs = [expected_cost(oracle, y, case, "raise") for y in decisions]
    perfect = oracle.solve(outcomes[:, None], **how).value
    risk = policy.two_stage.risk
    if risk is not None:
        return [*costs, risk.measure(sense * perfect, weights)]
    return [*costs, sense * (weights @ perfect)]


def _make_values(*costs: np.ndarray, known: bool) -> Values:
    table = pd.DataFrame(dict(zip(_COSTS, costs, strict=True)))
    table["vss"] = table["expected_value"] - table["stochastic"]
    table["evpi"] = table["stochastic"] - table["perfect"]
    saved = table["expected_value"] - table["policy"]
    table["captured"] = saved / table["vss"].where(table["vss"] != 0)
    return Values(table, known)


@dataclass(frozen=True, eq=False, repr=False)
class Ambiguity:
    """Losses of the best and the worst optimal decisions. ``print`` it to read it.

    Attributes
    ----------
    optimistic, pessimistic : array (n,)
    """

    optimistic: np.ndarray
    pessimistic: np.ndarray

    @property
    def spread(self) -> np.ndarray:
        """The difference of the two losses (n,)."""
        return self.pessimistic - self.optimistic

    @property
    def share(self) -> float:
        """The share of pairs on which optimal decisions have different costs."""
        size = np.maximum(1.0, np.abs(self.optimistic))
        return float(np.mean(self.spread > _TIE * size))

    def __repr__(self) -> str:
        found = f"{self.share:.0%} of {len(self.optimistic)} pairs"
        return f"<Ambiguity: optimal decisions differ in cost on {found}>"

    def __str__(self) -> str:
        if not self.share:
            return "All optimal decisions cost the same on every pair."
        return (
            f"On {self.share:.0%} of pairs optimal decisions differ in cost: the best "
            f"cost {self.optimistic.mean():.6g} on average, the worst "
            f"{self.pessimistic.mean():.6g}. The largest difference is "
            f"{self.spread.max():.6g}."
        )


def ambiguity(policy: Decider, data: Any) -> Ambiguity:
    """Return the costs of the best and the worst of a policy's optimal decisions.

    Parameters
    ----------
    policy : Decider
        For a linear model, with the same number of scenarios for every context.
    data : (contexts, outcomes) or DataFrame

    Raises
    ------
    DataError
    ModelError
        If the model is not linear.
    SolveError
        If a worst decision has no recourse.

    Examples
    --------
    >>> import pyomo_csg as csg
    >>> from pyomo_csg.zoo import newsvendor
    >>> model = newsvendor.build(price=1.9)  # meeting half of the demands is optimal
    >>> policy = csg.fit(
    ...     model, newsvendor.sample(60, seed=1), scenarios=2, method="mmd", progress=False
    ... )
    >>> ambiguity(policy, newsvendor.sample(20, seed=2)).share
    1.0
    """
    pairs = read_pairs(policy, data)
    scenarios = policy.scenarios(pairs.contexts)
    if not isinstance(scenarios, np.ndarray):
        found = "the number of scenarios differs between contexts"
        raise DataError("Cannot compute the ambiguity of the policy", [found])
    weights = policy.weights(pairs.contexts)
    best, worst = (
        policy.oracle.loss(
            scenarios,
            pairs.outcomes,
            kind,
            weights=weights,
            known=pairs.known,
            progress=False,
        )
        for kind in ("optimistic", "pessimistic")
    )
    return Ambiguity(best, worst)
