"""Baselines that start from a forecast of the mean or of a quantile.

Expected value solves on the mean, quantile regression on a quantile, and residual SAA on
the mean plus its past errors (Ban et al., Deng and Sen, Kannan et al.).
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from pyomo.core.base.block import BlockData
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.linear_model import LinearRegression, QuantileRegressor
from sklearn.model_selection import KFold
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

from pyomo_csg.baselines.base import Baseline
from pyomo_csg.baselines.weighted_saa import WeightedSAA
from pyomo_csg.errors import DataError
from pyomo_csg.learn.distributions.features import context_features, standard_spread
from pyomo_csg.learn.distributions.samplers import Forest
from pyomo_csg.learn.networks.location_scale import fit_location_scale
from pyomo_csg.learn.networks.task_nets import LocationScale, LocationScaleHead
from pyomo_csg.learn.networks.user_network import resolve_network
from pyomo_csg.learn.task import Task
from pyomo_csg.learn.trainer import reproducible_torch
from pyomo_csg.solve import Oracle
from pyomo_csg.validation import is_whole

Function = Callable[[np.ndarray], np.ndarray]  # contexts (n, ...) to numbers (n, p)

_KINDS = ("linear", "forest", "network")
_LEAST_ERROR = 0.01  # in standard deviations, so that logarithms of errors stay finite
_HIDDEN, _MAX_EPOCHS, _PATIENCE = (64, 64), 1000, 30
_SUBJECT = "The forecast does not fit the data"


class ExpectedValue(Baseline):
    """Solve on one scenario: the conditional mean, predicted or known.

    Parameters
    ----------
    model, data, **settings
        As in :class:`Baseline`.
    forecast : str, regressor, callable or LocationScale
        How to predict: ``'linear'``, ``'forest'``, ``'network'`` (an MLP; for panels an
        LSTM), or a scikit-learn regressor. All but the LSTM see a panel as the mean,
        standard deviation and last value of each column. If the mean is known: a function
        from contexts, an array (n, ...), to means (n, p), or a
        :class:`pyomo_csg.LocationScale`.

    Notes
    -----
    The LSTM predicts a median, and a location need not be a mean. So every forecast but a
    function is shifted by its mean error on the history. Scenarios outside the Params'
    domains are moved to the nearest point inside.

    Examples
    --------
    >>> import numpy as np
    >>> import pyomo_csg as csg
    >>> from pyomo_csg.zoo import newsvendor
    >>> x = np.linspace(-1, 1, 20)[:, None]
    >>> policy = csg.baselines.ExpectedValue(newsvendor.build(), (x, 20 + 5 * x))
    >>> policy.scenarios([0.5]).round(6)
    array([[22.5]])
    """

    def __init__(
        self,
        model: BlockData | Oracle,
        data: Any,
        *,
        forecast: Any = "linear",
        **settings: Any,
    ):
        self._raise_problems(*_forecast_problems(forecast))
        super().__init__(model, data, **settings)
        self.name = f"expected value, {_forecast_name(forecast)}"
        history = self.history
        (self._forecast,) = _fit_forecasts(
            forecast, False, self._task(), [np.arange(len(history))]
        )
        errors = self._forecast.residuals(history.contexts, history.outcomes)
        known = _is_function(forecast)
        self._shift = np.zeros(errors.shape[1]) if known else errors.mean(axis=0)

    def _generate_scenarios(
        self, contexts: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        means = self._forecast.outcomes(contexts, self._shift[None])
        return self._project(means), np.ones((len(contexts), 1))


class QuantileRegression(Baseline):
    """Solve on one scenario: quantiles that are linear in the context (Koenker).

    A newsvendor orders the quantile itself. For other models no theory gives the level;
    try several.

    Parameters
    ----------
    model, data, **settings
        As in :class:`Baseline`.
    level : float or sequence of float (p,)
        Between 0 and 1, for all uncertain parameters or for each. A newsvendor's is
        (price - cost) / (price - salvage).

    Examples
    --------
    >>> import pyomo_csg as csg
    >>> from pyomo_csg.zoo import newsvendor
    >>> contexts = [[0.0], [1], [2], [3], [4]]
    >>> demands = [[10.0], [12], [14], [16], [40]]
    >>> m = newsvendor.build(price=1.6, salvage=0.1)
    >>> policy = csg.baselines.QuantileRegression(m, (contexts, demands), level=0.4)
    >>> round(policy.decide([10.0])["order"], 6)
    30.0
    """

    def __init__(self, model: BlockData, data: Any, level: Any, **settings: Any):
        super().__init__(model, data, **settings)
        self.levels = self._read_levels(level)
        shown = dict.fromkeys(f"{q:.3g}" for q in self.levels)
        self.name = f"quantile regression, {', '.join(shown)}"
        features = context_features(self.history.contexts)
        self._regressors = [
            make_pipeline(
                StandardScaler(), QuantileRegressor(quantile=q, alpha=0.0)
            ).fit(features, column)
            for q, column in zip(self.levels, self.history.outcomes.T, strict=True)
        ]

    def _generate_scenarios(
        self, contexts: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        features = context_features(contexts)
        quantiles = np.stack([r.predict(features) for r in self._regressors], axis=-1)
        return self._project(quantiles)[:, None], np.ones((len(contexts), 1))

    def _read_levels(self, level: Any) -> np.ndarray:
        """Return levels (p,), or raise a DataError."""
        p = self.history.outcomes.shape[1]
        try:
            levels = np.array(np.broadcast_to(level, p), dtype=float)
        except (TypeError, ValueError):
            levels = np.full(p, np.nan)
        if not ((levels > 0) & (levels < 1)).all():
            self._raise_problems(
                f"level is {level!r}; give a number between 0 and 1, or one for each of "
                f"{p} uncertain numbers"
            )
        return levels


class Residuals(WeightedSAA):
    """Solve on the forecast for the context plus each of its past errors.

    Scenarios outside the Params' domains are moved to the nearest point inside.

    Parameters
    ----------
    model, data, **settings
        As in :class:`Baseline`.
    forecast : str, regressor, callable or LocationScale
        As in :class:`ExpectedValue`. A LocationScale has its own scale.
    scale : bool
        Whether the size of the errors depends on the context. If so, it is predicted in
        the same way as the forecast (linearly if that is a function), and residuals are
        in its units.
    folds : int or None
        Number of cross-validation folds for out-of-fold errors: consecutive for panels,
        else random. With as many folds as rows, or more, this is the jackknife of Kannan
        et al. None: in-sample errors, which are too small for a flexible forecast.
    scenarios, reduction, units
        As in :class:`WeightedSAA`.

    Attributes
    ----------
    residuals : array (n, p)
        In the order of the history.

    Examples
    --------
    >>> import pyomo_csg as csg
    >>> from pyomo_csg.zoo import newsvendor
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
        problems = _residual_problems(scale, folds)
        self._raise_problems(*_forecast_problems(forecast), *problems)
        self.name = f"residual SAA, {_forecast_name(forecast)}" + ", scaled" * scale
        super().__init__(model, data, **options)
        contexts, outcomes = self.history.contexts, self.history.outcomes
        splits = self._split(folds)
        rows = [train for train, _ in splits] + [np.arange(len(outcomes))]
        *fold_forecasts, self._forecast = _fit_forecasts(
            forecast, scale, self._task(), rows
        )
        if not splits:
            self.residuals = self._forecast.residuals(contexts, outcomes)
            return
        self.residuals = np.empty_like(outcomes)
        for fitted, (_, test) in zip(fold_forecasts, splits, strict=True):
            self.residuals[test] = fitted.residuals(contexts[test], outcomes[test])

    def _distribution(self, contexts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        outcomes = self._project(self._forecast.outcomes(contexts, self.residuals))
        n, m, _ = outcomes.shape
        return outcomes, np.full((n, m), 1 / m)

    def _split(self, folds: int | None) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return the training and test rows of each fold; empty without folds."""
        if folds is None:
            return []
        n, shuffle = len(self.history), not self.history.has_panels
        seed = self.seed if shuffle else None
        return list(
            KFold(min(folds, n), shuffle=shuffle, random_state=seed).split(range(n))
        )


def _forecast_problems(forecast: Any) -> list[str]:
    if isinstance(forecast, str):
        valid = forecast in _KINDS
    else:
        valid = not isinstance(forecast, type) and (
            isinstance(forecast, LocationScale)
            or _is_regressor(forecast)
            or _is_function(forecast)
        )
    if valid:
        return []
    remedy = (
        f"give one of {_KINDS}, a scikit-learn regressor (an object, not its class), a "
        "function from contexts to (n, p), or a csg.LocationScale"
    )
    return [f"forecast is {reprlib.repr(forecast)}; {remedy}"]


def _residual_problems(scale: Any, folds: Any) -> list[str]:
    problems = []
    if not isinstance(scale, bool):
        problems.append(f"scale is {scale!r}; give True or False")
    if not (folds is None or is_whole(folds) and folds >= 2):
        problems.append(
            f"folds is {folds!r}; give a whole number from 2 up, or None for in-sample "
            "errors"
        )
    return problems


def _forecast_name(forecast: Any) -> str:
    if isinstance(forecast, str):
        return forecast
    return type(forecast).__name__ if _is_regressor(forecast) else "known"


def _is_function(forecast: Any) -> bool:
    """Return whether the mean is a known function, which needs no fit."""
    return callable(forecast) and not _is_regressor(forecast)


def _is_regressor(forecast: Any) -> bool:
    return hasattr(forecast, "fit") and hasattr(forecast, "predict")


@dataclass(frozen=True, eq=False)
class FittedForecast:
    """The model outcome = location(x) + scale(x) * residual."""

    location: Function
    scale: Function

    def residuals(self, contexts: np.ndarray, outcomes: np.ndarray) -> np.ndarray:
        """Return the residuals (n, p) of outcomes (n, p)."""
        return (outcomes - self.location(contexts)) / self.scale(contexts)

    def outcomes(self, contexts: np.ndarray, residuals: np.ndarray) -> np.ndarray:
        """Return the outcomes (n, m, p) for each of some residuals (m, p)."""
        location, scale = self.location(contexts), self.scale(contexts)
        return location[:, None] + scale[:, None] * residuals


def _fit_forecasts(
    forecast: Any, scaled: bool, task: Task, rows: Sequence[np.ndarray]
) -> list[FittedForecast]:
    """Return one forecast for each set of rows, fitted to those rows alone."""
    if isinstance(forecast, LocationScale):
        _, head = resolve_network(forecast, task)
        return [_from_head(head, True)] * len(rows)
    with reproducible_torch():
        if (
            task.history.has_panels
            and isinstance(forecast, str)
            and forecast == "network"
        ):
            heads = fit_location_scale(task, rows, "forecast")
            return [_from_head(head, scaled) for head in heads]
        contexts, outcomes = task.history.contexts, task.history.outcomes
        return [
            _fit_forecast(forecast, scaled, contexts[some], outcomes[some], task.seed)
            for some in rows
        ]


def _fit_forecast(
    forecast: Any, scaled: bool, contexts: np.ndarray, outcomes: np.ndarray, seed: int
) -> FittedForecast:
    known = _is_function(forecast)
    location: Function
    if known:
        location = partial(_checked_call, forecast, outcomes.shape[1])
    else:
        location = _fit_function(forecast, contexts, outcomes, seed)
    errors = outcomes - location(contexts)  # raises now if a user's function is wrong
    if not scaled:
        return FittedForecast(location, _unit_scale(outcomes.shape[1]))
    kind = "linear" if known else forecast
    return FittedForecast(location, _fit_scale(kind, contexts, errors, seed))


def _fit_function(
    kind: Any, contexts: np.ndarray, targets: np.ndarray, seed: int
) -> Function:
    """Return a function that predicts targets (m, p)."""
    if isinstance(kind, str) and kind == "forest":
        forest = Forest(contexts, targets / standard_spread(targets), seed)
        return lambda x: forest.weights(x) @ targets
    regressor, p = _new_regressor(kind, seed), targets.shape[1]
    try:
        regressor.fit(context_features(contexts), targets if p > 1 else targets[:, 0])
    except Exception as error:  # a user's regressor may raise anything
        found = f"{type(regressor).__name__} fails on targets {targets.shape}: {error}"
        hint = "wrap it in sklearn.multioutput.MultiOutputRegressor"
        more = f"; if it takes one column only, {hint}" if p > 1 else ""
        raise DataError(_SUBJECT, [f"{found}{more}"]) from error

    def predict(x: np.ndarray) -> np.ndarray:
        predicted = regressor.predict(context_features(x))
        return predicted[:, None] if predicted.ndim == 1 else predicted

    return partial(_checked_call, predict, p)


def _new_regressor(kind: Any, seed: int) -> Any:
    if not isinstance(kind, str):
        return clone(kind, safe=False)
    if kind == "linear":
        return LinearRegression()
    network = MLPRegressor(
        hidden_layer_sizes=_HIDDEN,
        max_iter=_MAX_EPOCHS,
        early_stopping=True,
        n_iter_no_change=_PATIENCE,
        random_state=seed,
    )
    return TransformedTargetRegressor(
        make_pipeline(StandardScaler(), network), transformer=StandardScaler()
    )


def _fit_scale(
    kind: Any, contexts: np.ndarray, errors: np.ndarray, seed: int
) -> Function:
    """Return a function that predicts the size of the errors, up to a factor.

    It predicts the logarithm, so scales are positive, and stays within the range of its
    predictions on the history, because it may extrapolate badly.
    """
    sizes = np.maximum(np.abs(errors), _LEAST_ERROR * standard_spread(errors))
    logarithm = _fit_function(kind, contexts, np.log(sizes), seed)
    fitted = logarithm(contexts)
    low, high = fitted.min(axis=0), fitted.max(axis=0)
    return lambda x: np.exp(np.clip(logarithm(x), low, high))


def _unit_scale(p: int) -> Function:
    return lambda x: np.ones((len(x), p))


def _from_head(head: LocationScaleHead, scaled: bool) -> FittedForecast:
    scale = (
        partial(_apply, head.scale) if scaled else _unit_scale(len(head.omega.center))
    )
    return FittedForecast(partial(_apply, head.location), scale)


@torch.inference_mode()
def _apply(module: nn.Module, contexts: np.ndarray) -> np.ndarray:
    return module(torch.as_tensor(contexts)).numpy()


def _checked_call(function: Any, p: int, contexts: np.ndarray) -> np.ndarray:
    """Return function(contexts), or raise a DataError if it is not (n, p) and finite."""
    expected = f"for contexts {contexts.shape}; expected {(len(contexts), p)}"
    try:
        found = np.asarray(function(contexts), dtype=float)
    except Exception as error:  # a user's function may raise anything
        failed = f"it gave an error ({type(error).__name__}: {error})"
        raise DataError(_SUBJECT, [f"{failed} {expected}"]) from error
    if found.shape != (len(contexts), p):
        raise DataError(_SUBJECT, [f"it gave an array {found.shape} {expected}"])
    if not np.isfinite(found).all():
        raise DataError(_SUBJECT, [f"it gave numbers that are not finite {expected}"])
    return found
