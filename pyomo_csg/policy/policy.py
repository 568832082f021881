"""csg.Policy: generates scenarios for a context, and decides on them."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any

import cloudpickle
import numpy as np
import torch
from pyomo.core.base.block import BlockData

from pyomo_csg.decisions.decider import Decider, LearnedDecider
from pyomo_csg.errors import DataError
from pyomo_csg.learn.fit_result import FitResult
from pyomo_csg.learn.networks.numpy_inference import numpy_generator
from pyomo_csg.learn.networks.task_nets import Recurrent
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
        The network and the record of its fit.
    solver, options, workers, executor
        As in :class:`pyomo_csg.Oracle`.

    Attributes
    ----------
    oracle : Oracle
        Solves the programs; ``oracle.stats`` counts them and their seconds.
    learned : FitResult
    count : int
        K, the number of scenarios for each context.
    context_shape : tuple of int
        (d,), or (W, d) for panels of W steps.

    Raises
    ------
    DataError
        If the network does not fit the model.

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
        self.network.eval()
        self._center = self.network.center.numpy(force=True)
        self._spread = self.network.spread.numpy(force=True)
        self.context_shape = _context_shape(learned)
        self.count, self._weighted = self._probe_network()
        self._generate = numpy_generator(self.network) or self._generate_by_torch
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
        numbers = len(self.two_stage.uncertain_params)
        return (
            f"<Policy for '{self.two_stage.model.name}': {self.count} scenarios of "
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
        shares = weights if self._weighted else None
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
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return scenarios (n, K, p) and weights (n, K)."""
        if len(contexts) <= _BATCH:
            return self._generate(contexts)
        starts = range(0, len(contexts), _BATCH)
        parts = [self._generate(contexts[i : i + _BATCH]) for i in starts]
        scenarios, weights = map(np.concatenate, zip(*parts, strict=True))
        return scenarios, weights

    @torch.inference_mode()
    def _generate_by_torch(self, contexts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        inputs = torch.from_numpy(contexts).to(self.network.center.device)
        scenarios, weights = self.network(inputs)
        return scenarios.cpu().numpy(), weights.cpu().numpy()

    @torch.inference_mode()
    def _probe_network(self) -> tuple[int, bool]:
        """Return K and whether weights are learned, from the output for the mean context."""
        numbers = len(self.two_stage.uncertain_params)
        subject = f"The network does not fit '{self.two_stage.model.name}'"
        middle = self.network.center.expand(1, *self.context_shape)
        try:
            free = self.network.body(middle - middle)
            scenarios, _ = self.network(middle)
        except Exception as error:  # a user's own module may raise anything
            shape = (1, *self.context_shape)
            found = f"it fails on contexts {shape}: {type(error).__name__}: {error}"
            raise DataError(subject, [found]) from error
        if scenarios.dim() != 3 or scenarios.shape[::2] != (1, numbers):
            found = (
                f"for one context it gives {tuple(scenarios.shape)}; expected "
                f"(1, K, {numbers})"
            )
            raise DataError(subject, [found])
        if not bool(torch.isfinite(scenarios).all()):
            found = "for the mean context it gives values that are not finite"
            raise DataError(subject, [f"{found}; fit it again"])
        return scenarios.shape[1], free.shape[-1] > numbers


def _context_shape(learned: FitResult) -> tuple[int, ...]:
    """Return the recorded shape of a context; without a record, that of a vector."""
    size = len(learned.network.center)
    shape = learned.summary.get("context_shape")
    if shape is None and not isinstance(learned.network.body, Recurrent):
        return (size,)
    if shape is None or len(shape) not in (1, 2) or shape[-1] != size:
        expected = f"expected ({size},), or (W, {size}) for panels"
        found = f"summary['context_shape'] is {shape}; {expected}"
        raise DataError("The fit result is not complete", [found])
    return tuple(shape)


def _unpickle(content: bytes, settings: dict[str, Any]) -> Policy:
    model, learned = cloudpickle.loads(content)
    return Policy(model, learned, **settings)
