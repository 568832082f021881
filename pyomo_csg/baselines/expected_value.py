"""The expected value problem: one scenario, the mean of the outcomes given a context."""

from __future__ import annotations

from typing import Any

import numpy as np
from pyomo.core.base.block import BlockData

from pyomo_csg.baselines.base import Baseline
from pyomo_csg.baselines.forecasts import (
    forecasts_of,
    is_function,
    name_of,
    problems_of,
)


class ExpectedValue(Baseline):
    """Solves on one scenario: the expected outcome, predicted or known.

    Parameters
    ----------
    model, data, context, seed, solver, options, workers, executor
        As in :class:`Baseline`.
    forecast : str, regressor, callable or LocationScale
        What predicts: ``'linear'``, ``'forest'``, ``'network'`` (an MLP; for panels an
        LSTM), or a regressor as scikit-learn's are. All but the LSTM see panels as each
        number's mean, spread and last value. Or what is known: a function from contexts,
        an array (n, ...), to means (n, p), or a :class:`pyomo_csg.LocationScale`.

    Notes
    -----
    The LSTM predicts a median, and a location need not be a mean: all but a function that
    is given are moved by the mean of their errors in the history. What then leaves the
    Params' domains is moved to the nearest that they allow.

    Examples
    --------
    >>> import numpy as np
    >>> import pyomo_csg as csg
    >>> from models import newsvendor
    >>> x = np.linspace(-1, 1, 20)[:, None]
    >>> policy = csg.baselines.ExpectedValue(newsvendor.build(), (x, 20 + 5 * x))
    >>> policy.scenarios([0.5]).round(6)
    array([[22.5]])
    """

    def __init__(
        self, model: BlockData, data: Any, *, forecast: Any = "linear", **settings: Any
    ):
        self._refuse(*problems_of(forecast))
        super().__init__(model, data, **settings)
        self.name = f"expected value, {name_of(forecast)}"
        history = self.history
        (self._forecast,) = forecasts_of(
            forecast, False, self._task(), [np.arange(len(history))]
        )
        errors = self._forecast.residuals(history.contexts, history.outcomes)
        known = is_function(forecast)
        self._error = np.zeros(errors.shape[1]) if known else errors.mean(axis=0)

    def _generated(self, contexts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        found = self._forecast.outcomes(contexts, self._error[None])
        return self._project(found), np.ones((len(contexts), 1))
