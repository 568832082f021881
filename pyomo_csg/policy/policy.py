"""csg.Policy: from a context to scenarios, and from those to a decision."""

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

_FAR = 1.1  # times the reach of the history
_ROUNDING = 1e-9
_MOST_AT_ONCE = 4096


class Policy(LearnedDecider):
    """Decides for a context: generates K scenarios for it and optimises for those.

    Several threads may use one policy. It can be pickled; an executor is not kept then.

    Parameters
    ----------
    model : ConcreteModel
        Annotated by :func:`pyomo_csg.annotate`. It is copied: later changes to it are
        not seen; to have them seen, save the policy and load it with the changed model.
    learned : FitResult
        The network and how it came about.
    solver, options, workers, executor
        As in :class:`pyomo_csg.Oracle`.

    Attributes
    ----------
    oracle : Oracle
        What solves; its ``stats`` tell how long that took.
    learned : FitResult
    count : int
        How many scenarios it generates: K.
    context_shape : tuple of int
        (d,), or (W, d) for panels of W steps.

    Raises
    ------
    DataError
        If the network does not fit the model.

    Notes
    -----
    A context that is far from the history is told by a warning in the log, once a call.
    Far means: the root of the mean square of its standardised numbers (of a panel, over
    all its steps) is more than 1.1 times the largest in the history.
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
        self.count, self._weighted = self._probed()
        self._generate = numpy_generator(self.network) or self._by_torch
        rounding = _ROUNDING * (
            1 + np.abs(self._center / self._spread).max(initial=0.0)
        )
        self._limit = _FAR * learned.reach + float(rounding)

    def report(
        self, path: str | os.PathLike[str] | None = None, data: Any = None
    ) -> str:
        """Return in words what was learned, which candidate won, and how sure that is.

        Parameters
        ----------
        path : str or path, optional
            Where to write a page that shows it, too: one HTML file that needs nothing
            else, with training curves, scenarios and decisions for some contexts, solver
            times and the settings.
        data : (contexts, outcomes) or DataFrame, optional
            Pairs as in :func:`pyomo_csg.fit`, better not those that were learned from.
            With them the page shows their contexts, the outcomes near those, and what
            decisions cost beside the expected-value and the context-free decision.
        """
        from pyomo_csg.report.fit_summary import fit_summary

        if path is not None:
            from pyomo_csg.report.page import write_page

            write_page(path, self, data)
        return fit_summary(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the policy, without the model, to a file for :func:`pyomo_csg.load`.

        The file holds numbers and text only (safetensors and JSON). It appears whole or
        not at all. A long history is thinned out.
        """
        from pyomo_csg.policy.policy_file import save

        save(path, self)

    def plot_scenarios(self, x: Any, data: Any = None, ax: Axes | None = None) -> Axes:
        """Draw the scenarios of a context on matplotlib's axes, and return those.

        Parameters
        ----------
        x : array, mapping or Series
            One context.
        data : (contexts, outcomes) or DataFrame, optional
            Pairs; the outcomes after the contexts nearest to this one are drawn, too.
        ax : Axes, optional
            Where to draw. Default: a new figure.
        """
        from pyomo_csg.report.policy_plots import plot_scenarios

        return plot_scenarios(self, x, data, ax)

    def plot_training(self, ax: Axes | None = None) -> Axes:
        """Draw the losses of the fit on matplotlib's axes, and return those.

        A line a run of a stage, as a share of its range, since stages have units of
        their own; dashed on held-out rows.
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
        """Return what pairs that it was not learned from prove of this policy.

        As :func:`pyomo_csg.guarantees.certify`: an upper bound of its expected cost, how
        much it beats rivals by, and how far from the best it can be, together with
        confidence 1 - ``delta``. ``print`` it to read it in plain words.
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
        return _unpickled, (content, self._settings)

    def _read_contexts(self, x: Any) -> tuple[np.ndarray, bool]:
        contexts, one = super()._read_contexts(x)
        self._tell_far(contexts)
        return contexts, one

    def _solve_scenarios(self, scenarios: Any, weights: Any, **how: Any) -> Solution:
        shares = weights if self._weighted else None
        return super()._solve_scenarios(scenarios, shares, **how)

    def _tell_far(self, contexts: np.ndarray) -> None:
        flat = ((contexts - self._center) / self._spread).reshape(len(contexts), -1)
        if np.abs(flat).max() <= self._limit:
            return  # most often: then its root mean square is not more, either
        distance = np.sqrt(np.einsum("ni,ni->n", flat, flat) / flat.shape[1])
        if distance.max() > self._limit:
            logger.warning(
                "%d of %d contexts are far from the history: the worst is %.3g standard "
                "deviations from its mean, and none there was more than %.3g; scenarios "
                "and decisions for such a context are extrapolated",
                np.count_nonzero(distance > self._limit),
                len(contexts),
                distance.max(),
                self.learned.reach,
            )

    def _generate_scenarios(
        self, contexts: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return scenarios (n, K, p) and weights (n, K)."""
        if len(contexts) <= _MOST_AT_ONCE:
            return self._generate(contexts)
        starts = range(0, len(contexts), _MOST_AT_ONCE)
        parts = [self._generate(contexts[i : i + _MOST_AT_ONCE]) for i in starts]
        scenarios, weights = map(np.concatenate, zip(*parts, strict=True))
        return scenarios, weights

    @torch.inference_mode()
    def _by_torch(self, contexts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        given = torch.from_numpy(contexts).to(self.network.center.device)
        scenarios, weights = self.network(given)
        return scenarios.cpu().numpy(), weights.cpu().numpy()

    @torch.inference_mode()
    def _probed(self) -> tuple[int, bool]:
        """Return K and whether weights are learned, from the network's own answer."""
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
            found = "for the mean context it gives numbers that are not finite"
            raise DataError(subject, [f"{found}; fit it anew"])
        return scenarios.shape[1], free.shape[-1] > numbers


def _context_shape(learned: FitResult) -> tuple[int, ...]:
    """Return the shape of a context: as it was noted, or that of a vector."""
    numbers = len(learned.network.center)
    noted = learned.summary.get("context_shape")
    if noted is None and not isinstance(learned.network.body, Recurrent):
        return (numbers,)
    if noted is None or len(noted) not in (1, 2) or noted[-1] != numbers:
        expected = f"expected ({numbers},), or (W, {numbers}) for panels"
        found = f"summary['context_shape'] is {noted}; {expected}"
        raise DataError("What was learned is not complete", [found])
    return tuple(noted)


def _unpickled(content: bytes, settings: dict[str, Any]) -> Policy:
    model, learned = cloudpickle.loads(content)
    return Policy(model, learned, **settings)
