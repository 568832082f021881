"""SAA on a forecast and the errors it made (Ban et al., Deng and Sen, Kannan et al.)."""

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
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import KFold
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

from pyomo_csg.baselines.base import Baseline
from pyomo_csg.baselines.weighted_saa import Conditional
from pyomo_csg.errors import DataError
from pyomo_csg.learn.distributions.location_scale import fit_location_scale
from pyomo_csg.learn.distributions.samplers import Forest, context_features
from pyomo_csg.learn.networks.domains import standard_spread
from pyomo_csg.learn.networks.task_nets import LocationScale, LocationScaleHead
from pyomo_csg.learn.networks.user_network import resolve_network
from pyomo_csg.learn.random_state import single_threaded
from pyomo_csg.learn.task import Task
from pyomo_csg.validation import is_whole

Function = Callable[[np.ndarray], np.ndarray]  # contexts (n, ...) to numbers (n, p)

_KINDS = ("linear", "forest", "network")
_LEAST_ERROR = 0.01  # in standard deviations
_HIDDEN, _MOST_EPOCHS, _PATIENCE = (64, 64), 1000, 30
_SUBJECT = "The forecast does not fit the data"


@dataclass(frozen=True, eq=False)
class Forecast:
    """Outcomes are location(x) + scale(x) * residual, the residual not told by x."""

    location: Function
    scale: Function

    def residuals(self, contexts: np.ndarray, outcomes: np.ndarray) -> np.ndarray:
        """Return what is left unexplained of outcomes (n, p), in units of the scale."""
        return (outcomes - self.location(contexts)) / self.scale(contexts)

    def outcomes(self, contexts: np.ndarray, residuals: np.ndarray) -> np.ndarray:
        """Return what would happen (n, m, p) for each of some residuals (m, p)."""
        location, scale = self.location(contexts), self.scale(contexts)
        return location[:, None] + scale[:, None] * residuals


def problems_of(forecast: Any) -> list[str]:
    """Return what is wrong with the option."""
    if isinstance(forecast, str):
        sound = forecast in _KINDS
    else:
        sound = not isinstance(forecast, type) and (
            isinstance(forecast, LocationScale)
            or _is_regressor(forecast)
            or is_function(forecast)
        )
    if sound:
        return []
    remedy = (
        f"give one of {_KINDS}, a regressor as scikit-learn's are (an object, not its "
        "class), a function from contexts to (n, p), or a csg.LocationScale"
    )
    return [f"forecast is {reprlib.repr(forecast)}; {remedy}"]


def name_of(forecast: Any) -> str:
    """Return what tables call it."""
    if isinstance(forecast, str):
        return forecast
    return type(forecast).__name__ if _is_regressor(forecast) else "given"


def is_function(forecast: Any) -> bool:
    """Say if it is a location that is known: there is nothing to learn of it."""
    return callable(forecast) and not _is_regressor(forecast)


def forecasts_of(
    forecast: Any, scaled: bool, task: Task, rows: Sequence[np.ndarray]
) -> list[Forecast]:
    """Return a forecast for each of some sets of rows, learned from those alone.

    Parameters
    ----------
    forecast : str, regressor, callable or LocationScale
        ``'linear'``: least squares. ``'forest'``: the mean of outcomes as a forest
        weights them. ``'network'``: scikit-learn's MLP, stopped early; for panels the
        LSTM, in the L1 norm, of csg.fit's 'auto'.
    scaled : bool
        Whether to learn the scale of the errors, too. A LocationScale has its own.
    task : Task
    rows : sequence of int arrays

    Raises
    ------
    DataError
        If what the user gave does not answer with (n, p) finite numbers.
    """
    if isinstance(forecast, LocationScale):
        _, head = resolve_network(forecast, task)
        return [_of_head(head, True)] * len(rows)
    with single_threaded():
        if (
            task.history.has_panels
            and isinstance(forecast, str)
            and forecast == "network"
        ):
            heads = fit_location_scale(task, rows, "forecast")
            return [_of_head(head, scaled) for head in heads]
        contexts, outcomes = task.history.contexts, task.history.outcomes
        return [
            _fitted(forecast, scaled, contexts[mine], outcomes[mine], task.seed)
            for mine in rows
        ]


def _fitted(
    forecast: Any, scaled: bool, contexts: np.ndarray, outcomes: np.ndarray, seed: int
) -> Forecast:
    known = is_function(forecast)
    location: Function
    if known:
        location = partial(_answer, forecast, outcomes.shape[1])
    else:
        location = _learned(forecast, contexts, outcomes, seed)
    errors = outcomes - location(contexts)  # or a refusal of what the user gave
    if not scaled:
        return Forecast(location, _ones(outcomes.shape[1]))
    kind = "linear" if known else forecast
    return Forecast(location, _scale(kind, contexts, errors, seed))


def _learned(
    kind: Any, contexts: np.ndarray, targets: np.ndarray, seed: int
) -> Function:
    """Return a prediction of targets (m, p)."""
    if isinstance(kind, str) and kind == "forest":
        forest = Forest(contexts, targets / standard_spread(targets), seed)
        return lambda x: forest.weights(x) @ targets
    regressor, numbers = _regressor(kind, seed), targets.shape[1]
    try:
        regressor.fit(
            context_features(contexts), targets if numbers > 1 else targets[:, 0]
        )
    except Exception as error:  # a user's own regressor may raise anything
        found = f"{type(regressor).__name__} fails on targets {targets.shape}: {error}"
        hint = "wrap it in sklearn.multioutput.MultiOutputRegressor"
        more = f"; if it takes one column only, {hint}" if numbers > 1 else ""
        raise DataError(_SUBJECT, [f"{found}{more}"]) from error
    return partial(
        _answer, lambda x: _columns(regressor.predict(context_features(x))), numbers
    )


def _regressor(kind: Any, seed: int) -> Any:
    """Return a regressor that has seen nothing yet."""
    if not isinstance(kind, str):
        return clone(kind, safe=False)
    if kind == "linear":
        return LinearRegression()
    network = MLPRegressor(
        hidden_layer_sizes=_HIDDEN,
        max_iter=_MOST_EPOCHS,
        early_stopping=True,
        n_iter_no_change=_PATIENCE,
        random_state=seed,
    )
    return TransformedTargetRegressor(
        make_pipeline(StandardScaler(), network), transformer=StandardScaler()
    )


def _scale(kind: Any, contexts: np.ndarray, errors: np.ndarray, seed: int) -> Function:
    """Return a prediction of the errors' size, up to a factor.

    The logarithm is predicted, so that a scale is above zero; it stays between the least
    and the largest of the history, for beyond there is no ground.
    """
    sizes = np.maximum(np.abs(errors), _LEAST_ERROR * standard_spread(errors))
    logarithm = _learned(kind, contexts, np.log(sizes), seed)
    seen = logarithm(contexts)
    low, high = seen.min(axis=0), seen.max(axis=0)
    return lambda x: np.exp(np.clip(logarithm(x), low, high))


def _ones(numbers: int) -> Function:
    return lambda x: np.ones((len(x), numbers))


def _of_head(head: LocationScaleHead, scaled: bool) -> Forecast:
    numbers = len(head.omega.center)
    scale = partial(_apply, head.scale) if scaled else _ones(numbers)
    return Forecast(partial(_apply, head.location), scale)


@torch.inference_mode()
def _apply(module: nn.Module, contexts: np.ndarray) -> np.ndarray:
    return module(torch.as_tensor(contexts)).numpy()


def _answer(function: Any, numbers: int, contexts: np.ndarray) -> np.ndarray:
    """Return what a user's function says of contexts, if it is (n, p) and finite."""
    expected = f"for contexts {contexts.shape}; expected {(len(contexts), numbers)}"
    try:
        found = np.asarray(function(contexts), dtype=float)
    except Exception as error:  # a user's own function may raise anything
        failed = f"it gave an error ({type(error).__name__}: {error})"
        raise DataError(_SUBJECT, [f"{failed} {expected}"]) from error
    if found.shape != (len(contexts), numbers):
        raise DataError(_SUBJECT, [f"it gave an array {found.shape} {expected}"])
    if not np.isfinite(found).all():
        raise DataError(_SUBJECT, [f"it gave numbers that are not finite {expected}"])
    return found


def _columns(predicted: np.ndarray) -> np.ndarray:
    return predicted[:, None] if predicted.ndim == 1 else predicted


def _is_regressor(forecast: Any) -> bool:
    return hasattr(forecast, "fit") and hasattr(forecast, "predict")


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

    def _generate_scenarios(
        self, contexts: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        found = self._forecast.outcomes(contexts, self._error[None])
        return self._project(found), np.ones((len(contexts), 1))


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
        n, shuffle = len(self.history), not self.history.has_panels
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
