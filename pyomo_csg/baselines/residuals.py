"""SAA on a forecast and the errors it made (Ban et al., Deng and Sen, Kannan et al.)."""

from __future__ import annotations

from typing import Any

import numpy as np
from pyomo.core.base.block import BlockData
from sklearn.model_selection import KFold

from pyomo_csg.baselines.conditional import Conditional
from pyomo_csg.baselines.forecasts import forecasts_of, name_of, problems_of
from pyomo_csg.options import is_whole


class Residuals(Conditional):
    """Solves on the forecast for the context plus each error of the history.

    Outcomes that leave the Params' domains are moved to the nearest that they allow.

    Parameters
    ----------
    model, data, context, seed, solver, options, workers, executor
        As in :class:`Baseline`.
    forecast : str, regressor, callable or LocationScale
        As in :class:`ExpectedValue`. A LocationScale brings the scale with it.
    scale : bool
        Whether errors grow and shrink with the context: their size is then predicted,
        too, as the forecast is (where that is a function: by a linear one), and errors
        are in its units.
    folds : int or None
        Errors are those on pairs that the forecast did not see, by so many folds of
        cross-validation: runs of consecutive pairs for panels, else random ones. As many
        as there are pairs, or more, make the jackknife of Kannan et al. None: errors on
        pairs that it did see, which are too small where the forecast is flexible.
    scenarios, reduction, units
        As in :class:`Conditional`.

    Attributes
    ----------
    residuals : array (n, p)
        In the order of the history.

    Examples
    --------
    >>> import pyomo_csg as csg
    >>> from models import newsvendor
    >>> data = [[0.0], [1], [2], [3]], [[11.0], [11], [13], [13]]
    >>> policy = csg.baselines.Residuals(
    ...     newsvendor.build(), data, forecast=lambda x: 10 + x
    ... )
    >>> policy.scenarios([5.0]).ravel()
    array([16., 15., 16., 15.])
    """

    def __init__(
        self,
        model: BlockData,
        data: Any,
        *,
        forecast: Any = "linear",
        scale: bool = False,
        folds: int | None = 5,
        **options: Any,
    ):
        self._refuse(*problems_of(forecast), *_problems(scale, folds))
        self.name = f"residual SAA, {name_of(forecast)}" + ", scaled" * scale
        super().__init__(model, data, **options)
        parts = self._parts(folds)
        rows = [learned_from for learned_from, _ in parts]
        everything = np.arange(len(self.history))
        *found, self._forecast = forecasts_of(
            forecast, scale, self._task(), [*rows, everything]
        )
        contexts, outcomes = self.history.contexts, self.history.outcomes
        if not parts:
            self.residuals = self._forecast.residuals(contexts, outcomes)
            return
        self.residuals = np.empty_like(outcomes)
        for part, (_, held) in zip(found, parts, strict=True):
            self.residuals[held] = part.residuals(contexts[held], outcomes[held])

    def _law(self, contexts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        outcomes = self._project(self._forecast.outcomes(contexts, self.residuals))
        n, m, _ = outcomes.shape
        return outcomes, np.full((n, m), 1 / m)

    def _parts(self, folds: int | None) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return the rows to learn from and those held out, fold by fold."""
        if folds is None:
            return []
        n, shuffle = len(self.history), not self.history.panels
        seed = self.seed if shuffle else None
        return list(
            KFold(min(folds, n), shuffle=shuffle, random_state=seed).split(range(n))
        )


def _problems(scale: Any, folds: Any) -> list[str]:
    problems = []
    if not isinstance(scale, bool):
        problems.append(f"scale is {scale!r}; give True or False")
    if not (folds is None or is_whole(folds) and folds >= 2):
        problems.append(
            f"folds is {folds!r}; give a whole number from 2 up, or None for errors on "
            "what was learned from"
        )
    return problems
