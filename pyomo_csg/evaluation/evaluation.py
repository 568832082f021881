"""csg.Evaluation: the costs of policies on the same cases, with statistics and tables."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pyomo_csg.decisions.verdict import HELD_OUT, Verdict
from pyomo_csg.errors import DataError, shortlist
from pyomo_csg.evaluation import tables
from pyomo_csg.evaluation.comparison import make_verdict
from pyomo_csg.evaluation.reference import (
    TIE,
    join_references,
    proven_gap,
    relative_difference,
)
from pyomo_csg.evaluation.statistics import (
    Statistic,
    bootstrap_interval,
    check_interval_options,
    column_statistics,
    group_by_rows,
    resampling_units,
    statistic_name,
    statistic_ratios,
    timing_table,
)
from pyomo_csg.evaluation.tables import count_words, summary_table, write_text
from pyomo_csg.learn.selection.scoring import standard_error
from pyomo_csg.notebook import card
from pyomo_csg.stages import MeanCVaR
from pyomo_csg.validation import Problems

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Path = str | os.PathLike[str]


class Evaluation:
    """Costs of policies on the same cases.

    It is made by :func:`pyomo_csg.evaluate` and does not change. Lower costs are better,
    whatever the model's sense: in ``costs`` profits are negated. Tables and verdicts show
    profits as profits.

    Statistics are over all cases of all trials: of the gaps if there is a reference, else
    of the costs. Cases in which a policy failed are left out of its statistics; tables
    say how many there are.

    Parameters
    ----------
    records : DataFrame
        By trial, case and policy: ``cost``, ``seconds``, ``solve_seconds``,
        ``solver_seconds`` and ``failure``.
    reference : DataFrame
        By trial and case: ``value``, ``bound``, ``seconds``, ``status``, ``source`` and
        ``digest``.
    maximized : bool
        Whether the model is maximized, so that costs are negative profits.

    Examples
    --------
    >>> import pyomo_csg as csg
    >>> from pyomo_csg.zoo import newsvendor
    >>> class Always:
    ...     def __init__(self, order):
    ...         self.order = order
    ...     def decide(self, context):
    ...         return {"order": self.order}
    >>> cases = [csg.Case(None, [[10], [20]]), csg.Case(None, [[12], [16]])]
    >>> policies = {"ten": Always(10.0), "twelve": Always(12.0)}
    >>> evaluation = csg.evaluate(policies, cases, model=newsvendor.build())
    >>> evaluation.gaps.round(3).to_numpy()
    array([[0.   , 1.7  ],
           [0.167, 0.   ]])
    >>> evaluation.wins().to_dict()
    {'ten': 0.5, 'twelve': 0.5}
    """

    def __init__(
        self, records: pd.DataFrame, reference: pd.DataFrame, maximized: bool = False
    ):
        self.maximized = bool(maximized)
        self._records = records.copy()
        self._reference = reference.drop(columns="gap", errors="ignore")

    @property
    def records(self) -> pd.DataFrame:
        """The results: one row per trial, case and policy.

        ``seconds`` to decide, of which ``solve_seconds`` in the policy's oracle, of which
        ``solver_seconds`` in the solver. ``failure`` says why there is no ``cost``.
        """
        return self._records.copy()

    @property
    def reference(self) -> pd.DataFrame:
        """The reference: one row per trial and case.

        ``value`` is the best known cost, ``bound`` a proven lower bound on the cost of any
        decision, and ``gap`` their relative difference. ``source`` says whose decision
        has the value: the full program's, or that of a policy that did better because a
        limit stopped the full program. ``seconds`` and ``status`` are the full program's;
        ``digest`` identifies the distribution.
        """
        table = self._reference.copy()
        table.insert(2, "gap", proven_gap(table))
        return table

    @property
    def policies(self) -> list[str]:
        """The names of the policies."""
        return list(self._records.index.unique("policy"))

    @property
    def trials(self) -> list[Any]:
        """The names of the trials."""
        return list(self._reference.index.unique("trial"))

    @property
    def has_reference(self) -> bool:
        """Whether there is a reference."""
        return bool((self._reference["source"] != "").any())

    @property
    def costs(self) -> pd.DataFrame:
        """Costs: one row per trial and case, one column per policy."""
        wide = self._records["cost"].unstack("policy")
        return wide.reindex(index=self._reference.index, columns=self.policies)

    @property
    def gaps(self) -> pd.DataFrame:
        """Relative gaps to the reference value v: (cost - v) / abs(v)."""
        if not self.has_reference:
            raise DataError(
                "There are no gaps",
                ["there is no reference; evaluate with reference='2sp'"],
            )
        value = self._reference["value"]
        return self.costs.apply(lambda cost: relative_difference(cost - value, value))

    @property
    def failures(self) -> pd.DataFrame:
        """Cases without a cost, and why: trial, case, policy, failure."""
        failed = self._records[self._records["failure"] != ""]
        return failed["failure"].reset_index()

    def median(self) -> pd.Series:
        """Return each policy's median gap."""
        return self._statistic("median")

    def mean(self) -> pd.Series:
        """Return each policy's mean gap."""
        return self._statistic("mean")

    def cvar(self, level: float = 0.95) -> pd.Series:
        """Return each policy's mean of its highest costs, ``1 - level`` of all cases."""
        risk = MeanCVaR(level=level)
        costs = self.costs
        found = [risk.cvar(costs[name].dropna()) for name in self.policies]
        return pd.Series(found, index=self._names, name=f"CVaR {level:.0%}")

    def quantile(self, q: float) -> pd.Series:
        """Return a quantile of each policy's gaps."""
        return self._statistic(q)

    def interval(
        self,
        statistic: Statistic = "median",
        level: float = 0.95,
        seed: int = 0,
        *,
        to: str | None = None,
        draws: int = 1000,
    ) -> pd.DataFrame:
        """Return bootstrap intervals of a statistic: low and high for each policy.

        A policy's trials are drawn with replacement, each with all its cases. If it has
        one trial, cases are drawn. The name of the columns says which.

        Parameters
        ----------
        statistic : 'median', 'mean' or float
            A float is a quantile.
        level : float
        seed : int
        to : str, optional
            A policy. The interval is then for the ratio to its statistic, on the cases
            that both have.
        draws : int
            Number of bootstrap samples.
        """
        values, column = self._gaps_or_costs.to_numpy(), self._column(to)
        check_interval_options(level, seed, draws)
        trial, present = self._reference.index.codes[0], self._present.to_numpy()
        if column is not None:
            present = present & present[:, [column]]
        found, kinds = np.full((2, values.shape[1]), np.nan), set()
        for rows, mine in group_by_rows(present):
            kind, units = resampling_units(rows, trial)
            chosen, last = (mine, None) if column is None else ([*mine, column], -1)
            ends = bootstrap_interval(
                statistic, values[:, chosen], last, units, level, seed, draws
            )
            found[:, mine] = ends[:, : len(mine)]
            kinds.add(kind)
        words = " or ".join(sorted(kinds, reverse=True))
        names = pd.Index(["low", "high"], name=f"bootstrap over {words}")
        return pd.DataFrame(found.T, index=self._names, columns=names)

    def ratios(
        self, to: str, statistics: Sequence[Statistic] = ("median", "mean", 0.9)
    ) -> pd.DataFrame:
        """Return ratios of statistics to those of one policy, on the cases that both have.

        Parameters
        ----------
        to : str
            The policy to compare with.
        statistics : list
            As in :meth:`interval`.
        """
        values, column = self._gaps_or_costs.to_numpy(), self._column(to)
        found = {
            statistic_name(s): statistic_ratios(s, values, column) for s in statistics
        }
        return pd.DataFrame(found, index=self._names)

    def differences(self, to: str | None = None) -> pd.DataFrame:
        """Return how much more each policy's decisions cost than those of one policy.

        Differences are paired: only cases that both have count. Standard errors allow for
        neighboring cases that are correlated, as days of a time series are.

        Parameters
        ----------
        to : str, optional
            The policy to compare with. Default: the first one.

        Returns
        -------
        DataFrame
            ``mean`` and its ``standard_error`` for each policy, in units of cost.
        """
        names = self.policies
        self._check_policies([to] if to is not None else names[:1])
        costs = self.costs
        apart = costs.sub(costs[to if to is not None else names[0]], axis=0)
        columns = [apart[name].dropna().to_numpy() for name in names]
        found = {
            "mean": [c.mean() if len(c) else np.nan for c in columns],
            "standard_error": [
                float(standard_error(c, 1)) if len(c) > 1 else np.nan for c in columns
            ],
        }
        return pd.DataFrame(found, index=self._names)

    def wins(self, tolerance: float = TIE) -> pd.Series:
        """Return the fraction of its cases in which each policy has the lowest cost.

        Ties are split: two equal costs are half a win each. A case without a cost is not
        won.

        Parameters
        ----------
        tolerance : float
            Relative difference up to which costs count as equal.
        """
        problems = Problems("Cannot count wins")
        problems.check_nonnegative(tolerance=tolerance)
        problems.raise_any()
        costs = self.costs
        least = costs.min(axis=1)
        best = costs.le(least + tolerance * least.abs(), axis=0)
        shares = best.div(best.sum(axis=1).clip(lower=1), axis=0)
        return (shares.sum() / self._case_counts).rename("wins")

    def verdict(self, policy: str | None = None) -> Verdict:
        """Return what a policy's decisions cost or earn beside the nearest other policy.

        Parameters
        ----------
        policy : str, optional
            Default: the first one. A case without a cost counts as the worst cost of all.
        """
        self._check_policies([policy] if policy is not None else self.policies[:1])
        where = "held-out cases" if self.has_reference else HELD_OUT
        return make_verdict(
            self.costs,
            name=policy,
            maximized=self.maximized,
            where=where,
            notes=self._failure_notes(),
        )

    def timing(self, statistic: Statistic = "median") -> pd.DataFrame:
        """Return the seconds per decision, one context at a time.

        Parameters
        ----------
        statistic : 'median', 'mean' or float
            Statistic over the cases.

        Returns
        -------
        DataFrame
            ``decision`` in total; of it ``scenarios`` to generate them and ``solve`` in
            the oracle, of which ``solver`` in the solver; ``full program`` for the same
            cases; and ``speed-up``, the ratio of full program to decision.
        """
        return timing_table(self._records, self._reference["seconds"], statistic)

    def only(self, policies: Iterable[str]) -> Evaluation:
        """Return the evaluation of some policies, with the same reference."""
        wanted = list(policies) if isinstance(policies, Iterable) else [policies]
        self._check_policies(wanted)
        level = self._records.index.get_level_values("policy")
        parts = [self._records[level == name] for name in wanted]
        return Evaluation(pd.concat(parts), self._reference, self.maximized)

    @classmethod
    def join(cls, evaluations: Iterable[Evaluation]) -> Evaluation:
        """Return one evaluation of several trials, or of several sets of policies.

        A policy may be missing in some. The cases of a trial must be the same in all; the
        best value and bound of a case are used for all.

        Raises
        ------
        DataError
            If the cases of a trial differ, a policy has two costs for one case, or only
            some evaluations have a reference.
        """
        parts = list(evaluations) if isinstance(evaluations, Iterable) else []
        tables.check_joinable(parts)
        records = pd.concat([one._records for one in parts])
        references = join_references([one._reference for one in parts])
        return cls(records, references, parts[0].maximized)

    def plot_cdf(
        self, path: Path | None = None, ax: Axes | None = None, floor: float = 1e-6
    ) -> Axes:
        """Plot each policy's cumulative distribution of gaps, or costs without a reference.

        Parameters
        ----------
        path : path, optional
            A file to write, in the format of its extension.
        ax : matplotlib Axes, optional
            Where to plot. Default: a new figure.
        floor : float
            Smaller and negative gaps are plotted at this value, and the axis says so.

        Returns
        -------
        matplotlib Axes
        """
        return tables.plot_distributions(self, path, ax, floor)

    def to_markdown(self, path: Path | None = None) -> str:
        """Return the table and its remarks in Markdown, and write it if there is a path."""
        return write_text(summary_table(self).markdown(), path)

    def to_latex(self, path: Path | None = None) -> str:
        """Return the table and its remarks in LaTeX, and write it if there is a path."""
        return write_text(summary_table(self).latex(), path)

    def to_csv(self, path: Path) -> None:
        """Write one row per trial, case and policy, for :meth:`from_csv`."""
        tables.write_csv(path, self._records, self._reference, self.maximized)

    @classmethod
    def from_csv(cls, path: Path) -> Evaluation:
        """Return the evaluation that :meth:`to_csv` wrote."""
        return cls(*tables.read_csv(path))

    def __str__(self) -> str:
        return f"{self._title}\n\n{summary_table(self).text()}"

    def __repr__(self) -> str:
        return f"<{self._title}>"

    def _repr_html_(self) -> str:
        found = summary_table(self)
        rows = [found.header, *found.rows]
        return card(self._title, [*self.verdict().sentences, *found.notes], rows)

    def _failure_notes(self) -> list[str]:
        """Return why cases have no cost, the most frequent reason of each policy."""
        failures = self.failures
        return [
            f"Why {name} has no cost: {part.value_counts().index[0]}."
            for name, part in failures.groupby("policy", sort=False)["failure"]
        ]

    @property
    def _title(self) -> str:
        policies = count_words(len(self.policies), "policy", "policies")
        cases = count_words(len(self._reference), "case", "cases")
        trials = count_words(len(self.trials), "trial", "trials")
        return f"Evaluation of {policies} on {cases} in {trials}"

    @property
    def _names(self) -> pd.Index:
        return pd.Index(self.policies, name="policy")

    @property
    def _gaps_or_costs(self) -> pd.DataFrame:
        """The numbers that statistics are computed from."""
        return self.gaps if self.has_reference else self.costs

    @property
    def _present(self) -> pd.DataFrame:
        """Whether a policy (column) was evaluated on a case (row)."""
        wide = self._records["failure"].notna().unstack("policy", fill_value=False)
        index = self._reference.index
        return wide.reindex(index=index, columns=self.policies, fill_value=False)

    @property
    def _case_counts(self) -> pd.Series:
        """The number of cases that each policy was evaluated on."""
        return self._records.groupby("policy").size().reindex(self._names)

    def _statistic(self, statistic: Statistic) -> pd.Series:
        found = column_statistics(statistic, self._gaps_or_costs.to_numpy())
        return pd.Series(found, index=self._names, name=statistic_name(statistic))

    def _column(self, policy: str | None) -> int | None:
        if policy is None:
            return None
        self._check_policies([policy])
        return self.policies.index(policy)

    def _check_policies(self, names: list[str]) -> None:
        unknown = [name for name in names if name not in self.policies]
        if unknown or not names:
            found = f"{shortlist(map(str, unknown)) or 'none'} was given"
            known = shortlist(self.policies, len(self.policies))
            raise DataError("No such policy", [f"{found}; the policies are {known}"])
