"""csg.Policy: generates scenarios for a context, and decides on them."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from concurrent.futures import Executor
from itertools import chain
from typing import TYPE_CHECKING, Any

import cloudpickle
import numpy as np
from pyomo.core.base.block import BlockData

from pyomo_csg.decisions.decider import Decider, LearnedDecider
from pyomo_csg.learn.fit_result import FitResult
from pyomo_csg.learn.generators.base import PerContext
from pyomo_csg.policy.generator_checks import check_generator
from pyomo_csg.solve import Solution

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from pyomo_csg.guarantees import Certificate

logger = logging.getLogger(__name__)

_FAR = 1.1  # times the largest distance in the history
_ROUNDING = 1e-9
_BATCH = 4096  # contexts, to bound memory


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

    def __init__(
        self,
        model: BlockData,
        learned: FitResult,
        *,
        solver: str = "highs",
        options: Mapping[str, Any] | None = None,
        workers: int = 1,
        executor: Executor | None = None,
    ):
        super().__init__(
            model, solver=solver, options=options, workers=workers, executor=executor
        )
        self.learned = learned
        self.context_names = learned.context_names
        generator = self._generator = learned.generator
        self.context_shape = tuple(generator.context_shape)
        self._center, self._spread = generator.center, generator.spread
        check_generator(generator, self.two_stage)
        self.count, self._weighted = generator.count, generator.is_weighted
        rounding = _ROUNDING * (
            1 + np.abs(self._center / self._spread).max(initial=0.0)
        )
        self._limit = _FAR * learned.reach + float(rounding)

    def report(
        self, path: str | os.PathLike[str] | None = None, data: Any = None
    ) -> str:
        """Return the fit summary: candidates, losses, confidence and settings.

        Parameters
        ----------
        path : str or path, optional
            Also write a page to this file: self-contained HTML with training curves,
            scenarios and decisions for some contexts, solver times and the settings.
        data : (contexts, outcomes) or DataFrame, optional
            Held-out pairs, as in :func:`pyomo_csg.fit`. The page then shows some of their
            contexts, the outcomes of similar contexts, and the costs of decisions beside
            the expected-value and the context-free decision.
        """
        from pyomo_csg.report.fit_summary import fit_summary

        if path is not None:
            from pyomo_csg.report.page import write_page

            write_page(path, self, data)
        return fit_summary(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the policy, without the model, to a file for :func:`pyomo_csg.load`.

        The file holds numbers and text only (safetensors and JSON). It is written
        completely or not at all. A long training log is thinned out.
        """
        from pyomo_csg.policy.policy_file import save

        save(path, self)

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

    def __reduce__(self) -> Any:
        content = cloudpickle.dumps((self.two_stage.model, self.learned))
        return _unpickle, (content, self._settings)

    def _read_contexts(self, x: Any) -> tuple[np.ndarray, bool]:
        contexts, one = super()._read_contexts(x)
        self._warn_if_far(contexts)
        return contexts, one

    def _solve_scenarios(self, scenarios: Any, weights: Any, **how: Any) -> Solution:
        is_stacked = isinstance(scenarios, np.ndarray)
        shares = None if is_stacked and not self._weighted else weights
        return super()._solve_scenarios(scenarios, shares, **how)

    def _warn_if_far(self, contexts: np.ndarray) -> None:
        flat = ((contexts - self._center) / self._spread).reshape(len(contexts), -1)
        if np.abs(flat).max() <= self._limit:
            return  # the usual case: the root mean square cannot be larger
        distance = np.sqrt(np.einsum("ni,ni->n", flat, flat) / flat.shape[1])
        if distance.max() > self._limit:
            logger.warning(
                "%d of %d contexts are far from the history: the farthest is %.3g standard "
                "deviations from its mean, in the history at most %.3g; scenarios and "
                "decisions for such contexts are extrapolated",
                np.count_nonzero(distance > self._limit),
                len(contexts),
                distance.max(),
                self.learned.reach,
            )

    def _generate_scenarios(
        self, contexts: np.ndarray
    ) -> tuple[PerContext, PerContext]:
        """Return scenarios (n, K, p) and weights (n, K); lists of n if K varies."""
        if len(contexts) <= _BATCH:
            return self._generator(contexts)
        starts = range(0, len(contexts), _BATCH)
        parts = [self._generator(contexts[i : i + _BATCH]) for i in starts]
        scenarios, weights = zip(*parts, strict=True)
        if self.count is None:
            return list(chain(*scenarios)), list(chain(*weights))
        return np.concatenate(scenarios), np.concatenate(weights)


def _unpickle(content: bytes, settings: dict[str, Any]) -> Policy:
    model, learned = cloudpickle.loads(content)
    return Policy(model, learned, **settings)
