"""csg.Policy: generates scenarios for a context, and decides on them."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import cloudpickle

from pyomo_csg.decisions.decider import Decider, LearnedDecider
from pyomo_csg.notebook import card

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from pyomo_csg.baselines import Baseline
    from pyomo_csg.decisions.verdict import Verdict
    from pyomo_csg.guarantees import Certificate
    from pyomo_csg.learn.selection.plan import Plan
    from pyomo_csg.policy.monitoring import Monitoring

logger = logging.getLogger(__name__)


class Policy(LearnedDecider):
    """Decides for a context: generates K scenarios for it and optimizes over them.

    Several threads may share a policy. It can be pickled, without its executor.

    Parameters
    ----------
    model : ConcreteModel
        Annotated by :func:`pyomo_csg.annotate`. It is copied, so later changes to it have
        no effect. To use a changed model, save the policy and load it with that model.
    learned : FitResult
        The scenario generator and the record of its fit.
    solver, options, workers, executor
        As in :class:`pyomo_csg.Oracle`.

    Attributes
    ----------
    oracle : Oracle
        Solves the programs; ``oracle.stats`` counts them and their seconds.
    learned : FitResult
    count : int or None
        K, the number of scenarios for each context; None if it varies.
    context_shape : tuple of int
        (d,), or (W, d) for panels of W steps.

    Raises
    ------
    DataError
        If the scenario generator does not fit the model.

    Notes
    -----
    Each call logs a warning if contexts are far from the history: if the root mean square
    of the standardized values (for a panel, over all steps) is more than 1.1 times the
    largest in the history.
    """

    @property
    def plan(self) -> Plan | None:
        """The plan of the fit, for ``csg.fit(plan=...)``; None without ``'auto'``."""
        summary = self.learned.summary.get("plan")
        if summary is None:
            return None
        from pyomo_csg.learn.selection.plan import Plan

        return Plan.restore(summary)

    def verdict(self, data: Any = None) -> Verdict | None:
        """Return what the decisions cost or earn beside the nearest simple alternative.

        Reports, certificates and ``csg.evaluate({"this policy": policy,
        **policy.baselines()}, data)`` state the same numbers on the same rows.

        Parameters
        ----------
        data : (contexts, outcomes) or DataFrame, optional
            Pairs that the policy was not fitted to. Without them the verdict is by the
            held-out rows of the fit, or None if the fit compared nothing.
        """
        from pyomo_csg.report.policy_verdict import policy_verdict

        return policy_verdict(self, data)

    @property
    def lineage(self) -> list[dict[str, Any]]:
        """What the policy was made from: an entry for the fit, and one for each update.

        Each has ``made``, ``when``, ``new_rows``, ``rows``, the fingerprints ``data`` of the
        new rows and ``history`` of all, and the ``version`` of pyomo_csg.
        """
        return [dict(entry) for entry in self.learned.lineage]

    def baselines(self) -> dict[str, Baseline]:
        """Return the simple alternatives, which learn from the policy's own history.

        One decides on a random forest's forecast of the mean outcome, the other makes one
        decision for all contexts. A DataError is raised if the policy does not keep its
        history.
        """
        from pyomo_csg.evaluation.comparison import default_baselines

        return default_baselines(self)

    def report(
        self, path: str | os.PathLike[str] | None = None, data: Any = None
    ) -> str:
        """Return the verdict and the fit summary: candidates, losses and settings.

        Parameters
        ----------
        path : str or path, optional
            Also write a page to this file: self-contained HTML with the verdict, scenarios
            and decisions for some contexts, and the details of the fit.
        data : (contexts, outcomes) or DataFrame, optional
            Held-out pairs, as in :func:`pyomo_csg.fit`. The verdict is then on these, and
            the page shows some of their contexts, the outcomes of similar contexts, and the
            costs of decisions beside those of simple alternatives.
        """
        from pyomo_csg.report.fit_summary import fit_summary

        if path is not None:
            from pyomo_csg.report.page import write_page

            return fit_summary(self, write_page(path, self, data))
        return fit_summary(self, None if data is None else self.verdict(data))

    def update(
        self,
        new_rows: Any,
        *,
        window: int | None = None,
        half_life: float | None = None,
    ) -> Policy:
        """Return a policy that has also learned from new rows, for a fraction of a fit.

        Distributions are estimated again; atoms and networks go on from their old values. A
        trial that has not seen the newest half of the new rows is compared with this policy
        on them. If it is clearly worse, the new policy keeps the old scenarios, and its
        report says so.

        Parameters
        ----------
        new_rows : (contexts, outcomes) or DataFrame
            Rows that came after those of the history, the oldest first, as in
            :func:`pyomo_csg.fit`.
        window : int, optional
            Learn from this many of the newest rows only. Default: all.
        half_life : float, optional
            Forget rows by their age, counted in rows: of those that are as old as this,
            every second is kept, of those that are twice as old every fourth.

        Returns
        -------
        Policy
            Its ``lineage`` has an entry for the update; ``compare`` says what it gained.

        Raises
        ------
        DataError
            If the rows do not fit, or the policy does not keep its history.

        Examples
        --------
        >>> import pyomo_csg as csg
        >>> from pyomo_csg.zoo import newsvendor
        >>> policy = csg.fit(
        ...     newsvendor.build(), newsvendor.sample(60, seed=1), scenarios=2,
        ...     method="mmd", progress=False,
        ... )
        >>> newer = policy.update(newsvendor.sample(20, seed=2), window=70)
        >>> len(newer.learned.pairs), [entry["made"] for entry in newer.lineage]
        (70, ['fit', 'update'])
        """
        from pyomo_csg.policy.refresh import updated_result

        learned = updated_result(self, new_rows, window, half_life)
        # The same oracle, whose bases are warm. A Decider takes it for its model.
        return Policy(self.oracle, learned, **self._settings)

    def monitor(self, rows: Any, *, level: float = 0.05) -> Monitoring:
        """Test whether new rows still look like the history.

        Three things are tested: contexts outside the history's range, costs above what the
        fit promised, and simple alternatives that do better. All tests together raise a
        false alarm with probability ``level`` at most, however often you look: pass all rows
        since the fit each time, in their order. ``print`` the result to read it.

        Parameters
        ----------
        rows : (contexts, outcomes) or DataFrame
            Rows that came after the fit, as in :func:`pyomo_csg.fit`.
        level : float

        Returns
        -------
        Monitoring
            ``drift`` and ``alarms``, columns, calibration, costs; ``report(path)`` writes a
            page and ``to_json(path)`` a JSON file.

        Examples
        --------
        >>> import pyomo_csg as csg
        >>> from pyomo_csg.zoo import newsvendor
        >>> policy = csg.fit(
        ...     newsvendor.build(), newsvendor.sample(60, seed=1), scenarios=2,
        ...     method="mmd", progress=False,
        ... )
        >>> contexts, demands = newsvendor.sample(40, seed=2)
        >>> policy.monitor((contexts, demands)).columns[0].since is None
        True
        >>> policy.monitor((contexts + 9, demands)).drift
        True
        """
        from pyomo_csg.policy.monitoring import monitor

        return monitor(self, rows, level)

    def compare(self, old: Policy, data: Any = None) -> Verdict:
        """Return what this policy gained over an old one.

        Parameters
        ----------
        old : Policy
        data : (contexts, outcomes) or DataFrame, optional
            Rows that neither has learned from. Default: the newest rows of the update that
            made this policy from the old one, which its trial had not seen.
        """
        from pyomo_csg.policy.refresh import compare_policies

        return compare_policies(self, old, data)

    def save(self, path: str | os.PathLike[str], *, history: bool = True) -> None:
        """Write the policy, without the model, to a file for :func:`pyomo_csg.load`.

        The file holds numbers and text only (safetensors and JSON). It is written
        completely or not at all. A long training log is thinned out.

        Parameters
        ----------
        path : str or path
        history : bool
            Whether to store the pairs that the policy learned from, as numbers, up to
            64 MB. Reports, updates and monitoring use them; deciding does not.
        """
        from pyomo_csg.policy.policy_file import save

        save(path, self, history)

    def plot_scenarios(self, x: Any, data: Any = None, ax: Axes | None = None) -> Axes:
        """Plot the scenarios of a context, and return the matplotlib axes.

        Parameters
        ----------
        x : array, mapping or Series
            One context.
        data : (contexts, outcomes) or DataFrame, optional
            Pairs; the outcomes after the contexts nearest to ``x`` are shown, too.
        ax : Axes, optional
            Default: those of a new figure.
        """
        from pyomo_csg.report.policy_plots import plot_scenarios

        return plot_scenarios(self, x, data, ax)

    def plot_training(self, ax: Axes | None = None) -> Axes:
        """Plot the training losses, and return the matplotlib axes.

        There is one line per run of a stage, dashed for held-out rows. Each run is scaled
        to its range, because stages have different units.
        """
        from pyomo_csg.report.policy_plots import plot_training

        return plot_training(self, ax)

    def certify(
        self,
        data: Any,
        *,
        delta: float = 0.05,
        against: Mapping[str, Decider] | None = None,
        history: Any = None,
        cost_range: tuple[float, float] | None = None,
        gaps: bool = True,
        seed: int = 0,
    ) -> Certificate:
        """Return confidence bounds for this policy from held-out pairs.

        As :func:`pyomo_csg.guarantees.certify`: an upper bound on the expected cost, the
        advantage over baselines, and a bound on the optimality gap. All hold together
        with confidence 1 - ``delta``. ``print`` the certificate to read it.
        """
        from pyomo_csg.guarantees import certify

        return certify(
            self,
            data,
            delta=delta,
            against=against,
            history=history,
            cost_range=cost_range,
            gaps=gaps,
            seed=seed,
        )

    def __repr__(self) -> str:
        count = "" if self.count is None else f"{self.count} "
        numbers = len(self.two_stage.uncertain_params)
        return (
            f"<Policy for '{self.two_stage.model.name}': {count}scenarios of "
            f"{numbers} numbers, by '{self.method}'>"
        )

    def _repr_html_(self) -> str:
        from pyomo_csg.report.fit_summary import fit_facts
        from pyomo_csg.report.policy_verdict import fit_verdict, verdict_sentences

        title = f"Policy for '{self.two_stage.model.name}'"
        facts = [["", ""], *map(list, fit_facts(self))]
        return card(title, verdict_sentences(fit_verdict(self)), facts)

    def __reduce__(self) -> Any:
        content = cloudpickle.dumps((self.two_stage.model, self.learned))
        return _unpickle, (content, self._settings)


def _unpickle(content: bytes, settings: dict[str, Any]) -> Policy:
    model, learned = cloudpickle.loads(content)
    return Policy(model, learned, **settings)
