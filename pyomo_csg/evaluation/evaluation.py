"""csg.Evaluation: costs of policies on the same cases, and what follows from them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pyomo_csg.errors import DataError, shortlist
from pyomo_csg.evaluation import gap_plots, tables
from pyomo_csg.evaluation.references import TIE, combined, proven_gap, relative
from pyomo_csg.evaluation.statistics import (
    Statistic,
    alike,
    bootstrapped,
    compared,
    computed,
    drawn_whole,
    name_of,
    timed,
)
from pyomo_csg.evaluation.tables import counted, summary, written
from pyomo_csg.validation import size_problems

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Path = str | os.PathLike[str]


class Evaluation:
    """What policies' decisions cost in cases that are the same for all of them.

    :func:`pyomo_csg.evaluate` makes it; it does not change. Costs are lower for better
    decisions, whatever the model's sense: a profit is negated.

    Statistics are over all cases of all trials, of the gaps if there is a reference and of
    the costs if not. Cases in which a policy failed are left out of its own; tables say
    how many there are.

    Parameters
    ----------
    records : DataFrame
        By trial, case and policy: ``cost``, ``seconds``, ``solve_seconds``,
        ``solver_seconds`` and ``failure``.
    reference : DataFrame
        By trial and case: ``value``, ``bound``, ``seconds``, ``status``, ``source`` and
        ``digest``.

    Examples
    --------
    >>> import pyomo_csg as csg
    >>> from models import newsvendor
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

    def __init__(self, records: pd.DataFrame, reference: pd.DataFrame):
        self._records = records.copy()
        self._reference = reference.drop(columns="gap", errors="ignore")

    @property
    def records(self) -> pd.DataFrame:
        """What each policy did in each case: a row for each trial, case and policy.

        ``seconds`` to decide; ``solve_seconds`` of these in its oracle and
        ``solver_seconds`` of those inside the solver; ``failure`` says why there is no
        ``cost``.
        """
        return self._records.copy()

    @property
    def reference(self) -> pd.DataFrame:
        """What costs are compared with: a row for each trial and case.

        ``value`` is the best known cost and ``bound`` what no decision costs less than,
        as far as it is proven; ``gap`` is how far the two are apart, relatively.
        ``source`` tells whose decision the value is of: the full program's or, where it
        was not closed, that of a policy that did better. ``seconds`` and ``status``
        are of the full program; ``digest`` tells a distribution from another.
        """
        table = self._reference.copy()
        table.insert(2, "gap", proven_gap(table))
        return table

    @property
    def policies(self) -> list[str]:
        """Names of the policies."""
        return list(self._records.index.unique("policy"))

    @property
    def trials(self) -> list[Any]:
        """Names of the trials."""
        return list(self._reference.index.unique("trial"))

    @property
    def has_reference(self) -> bool:
        """Whether there is anything to compare costs with."""
        return bool((self._reference["source"] != "").any())

    @property
    def costs(self) -> pd.DataFrame:
        """What decisions cost: a row for each trial and case, a column for each policy."""
        wide = self._records["cost"].unstack("policy")
        return wide.reindex(index=self._reference.index, columns=self.policies)

    @property
    def gaps(self) -> pd.DataFrame:
        """How far costs are above the reference v, relatively: (cost - v) / abs(v)."""
        if not self.has_reference:
            raise DataError(
                "There are no gaps",
                ["costs were compared with nothing; evaluate with reference='2sp'"],
            )
        value = self._reference["value"]
        return self.costs.apply(lambda cost: relative(cost - value, value))

    @property
    def failures(self) -> pd.DataFrame:
        """Cases in which a policy has no cost, and why: trial, case, policy, failure."""
        failed = self._records[self._records["failure"] != ""]
        return failed["failure"].reset_index()

    def median(self) -> pd.Series:
        """Return each policy's median gap."""
        return self._statistic("median")

    def mean(self) -> pd.Series:
        """Return each policy's mean gap."""
        return self._statistic("mean")

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
        """Return a bootstrap interval of a statistic: low and high for each policy.

        The trials of a policy are drawn with replacement, each with all its cases; its
        cases, if it has one trial only. The name of the columns says which.

        Parameters
        ----------
        statistic : 'median', 'mean' or float
            A float is a quantile.
        level : float
        seed : int
        to : str, optional
            A policy: then the interval is of the ratio to its statistic, over the cases
            of both.
        draws : int
        """
        values, column = self._measured.to_numpy(), self._column(to)
        label, judged = self._reference.index.codes[0], self._judged.to_numpy()
        if column is not None:
            judged = judged & judged[:, [column]]
        found, over = np.full((2, values.shape[1]), np.nan), set()
        for rows, mine in alike(judged):
            kind, units = drawn_whole(rows, label)
            chosen, last = (mine, None) if column is None else ([*mine, column], -1)
            part = values[:, chosen]
            ends = bootstrapped(statistic, part, last, units, level, seed, draws)
            found[:, mine] = ends[:, : len(mine)]
            over.add(kind)
        words = " or ".join(sorted(over, reverse=True))
        names = pd.Index(["low", "high"], name=f"bootstrap over {words}")
        return pd.DataFrame(found.T, index=self._names, columns=names)

    def ratios(
        self, to: str, statistics: Sequence[Statistic] = ("median", "mean", 0.9)
    ) -> pd.DataFrame:
        """Return statistics over those of a named policy, on the cases that both have.

        Parameters
        ----------
        to : str
            The policy to compare with, such as the expected value's.
        statistics : list
            As in :meth:`interval`.
        """
        values, column = self._measured.to_numpy(), self._column(to)
        found = {name_of(s): compared(s, values, column) for s in statistics}
        return pd.DataFrame(found, index=self._names)

    def wins(self, tolerance: float = TIE) -> pd.Series:
        """Return the fraction of its cases in which each policy costs least.

        Ties are split: of two that cost the same each has half a win. A case without a
        cost is lost.

        Parameters
        ----------
        tolerance : float
            Relative; costs that are closer to the least are the same.
        """
        if problems := size_problems(tolerance=tolerance):
            raise DataError("Cannot count wins", problems)
        costs = self.costs
        least = costs.min(axis=1)
        best = costs.le(least + tolerance * least.abs(), axis=0)
        shares = best.div(best.sum(axis=1).clip(lower=1), axis=0)
        return (shares.sum() / self._took_part).rename("wins")

    def timing(self, statistic: Statistic = "median") -> pd.DataFrame:
        """Return how long decisions take, in seconds, one context at a time.

        Parameters
        ----------
        statistic : 'median', 'mean' or float
            Of the seconds over the cases.

        Returns
        -------
        DataFrame
            ``decision`` in all; ``scenarios``, of it, to make them, and ``solve`` to
            solve on them, of which ``solver`` inside the solver; ``full program`` of the
            same cases; and ``speed-up``, how many times as long the full program takes.
        """
        return timed(self._records, self._reference["seconds"], statistic)

    def only(self, policies: Iterable[str]) -> Evaluation:
        """Return the evaluation of some of the policies, against the same reference."""
        wanted = list(policies) if isinstance(policies, Iterable) else [policies]
        self._refuse_unknown(wanted)
        level = self._records.index.get_level_values("policy")
        parts = [self._records[level == name] for name in wanted]
        return Evaluation(pd.concat(parts), self._reference)

    @classmethod
    def join(cls, evaluations: Iterable[Evaluation]) -> Evaluation:
        """Return several evaluations as one: of other trials, or of other policies.

        A policy may be missing in some. What several have of the same trial and case must
        be the same case; the best value and bound that any has count for all.

        Raises
        ------
        DataError
            If a trial's cases differ, a policy was judged on one twice, or only some
            have a reference.
        """
        every = list(evaluations) if isinstance(evaluations, Iterable) else []
        tables.refuse_join(every)
        records = pd.concat([one._records for one in every])
        return cls(records, combined([one._reference for one in every]))

    def plot_cdf(
        self, path: Path | None = None, ax: Axes | None = None, floor: float = 1e-6
    ) -> Axes:
        """Draw the fraction of cases with at most a gap, for each policy.

        Without a reference, that of cases with at most a cost.

        Parameters
        ----------
        path : path, optional
            A file to write; its kind follows from its ending.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.
        floor : float
            Gaps that are smaller, or negative, are shown there, and the axis says so.

        Returns
        -------
        matplotlib Axes
        """
        if not self.has_reference:
            return gap_plots.draw_costs(self.costs, self._took_part, path, ax)
        return gap_plots.draw_gaps(self.gaps, self._took_part, path, ax, floor)

    def to_markdown(self, path: Path | None = None) -> str:
        """Return, and write if a path is given, the table and its remarks in Markdown."""
        return written(summary(self).markdown(), path)

    def to_latex(self, path: Path | None = None) -> str:
        """Return, and write if a path is given, the table and its remarks in LaTeX."""
        return written(summary(self).latex(), path)

    def to_csv(self, path: Path) -> None:
        """Write a row for each trial, case and policy, for :meth:`from_csv`."""
        tables.write(path, self._records, self._reference)

    @classmethod
    def from_csv(cls, path: Path) -> Evaluation:
        """Return the evaluation that :meth:`to_csv` wrote."""
        return cls(*tables.read(path))

    def __str__(self) -> str:
        return f"{self._title}\n\n{summary(self).text()}"

    def __repr__(self) -> str:
        return f"<{self._title}>"

    @property
    def _title(self) -> str:
        policies = counted(len(self.policies), "policy", "policies")
        cases = counted(len(self._reference), "case", "cases")
        trials = counted(len(self.trials), "trial", "trials")
        return f"Evaluation of {policies} on {cases} in {trials}"

    @property
    def _names(self) -> pd.Index:
        return pd.Index(self.policies, name="policy")

    @property
    def _measured(self) -> pd.DataFrame:
        """What statistics are of."""
        return self.gaps if self.has_reference else self.costs

    @property
    def _judged(self) -> pd.DataFrame:
        """Whether a policy, a column, was judged on a case, a row."""
        wide = self._records["failure"].notna().unstack("policy", fill_value=False)
        index = self._reference.index
        return wide.reindex(index=index, columns=self.policies, fill_value=False)

    @property
    def _took_part(self) -> pd.Series:
        """How many cases each policy was judged on."""
        return self._records.groupby("policy").size().reindex(self._names)

    def _statistic(self, statistic: Statistic) -> pd.Series:
        found = computed(statistic, self._measured.to_numpy())
        return pd.Series(found, index=self._names, name=name_of(statistic))

    def _column(self, policy: str | None) -> int | None:
        if policy is None:
            return None
        self._refuse_unknown([policy])
        return self.policies.index(policy)

    def _refuse_unknown(self, names: list[str]) -> None:
        unknown = [name for name in names if name not in self.policies]
        if unknown or not names:
            found = f"{shortlist(map(str, unknown)) or 'none'} was given"
            known = shortlist(self.policies, len(self.policies))
            raise DataError("No such policy", [f"{found}; there are {known}"])
