"""Settings of csg.fit, the checks of its arguments, and the kernel bandwidth."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from scipy.spatial.distance import pdist
from scipy.stats import rankdata
from torch import nn

from pyomo_csg.errors import DataError
from pyomo_csg.learn.distributions.distances import KERNELS, METRICS
from pyomo_csg.learn.distributions.features import standard_spread
from pyomo_csg.learn.distributions.user_distribution import Samples
from pyomo_csg.learn.methods.plugins import read_method
from pyomo_csg.learn.methods.specifications import (
    Auto,
    BuiltIn,
    Dynamic,
    Method,
    Static,
    method_regularization,
    setting_problems,
)
from pyomo_csg.learn.networks.task_nets import Linear, LocationScale
from pyomo_csg.learn.tables.history import History
from pyomo_csg.learn.tables.preprocessing import check_preprocess
from pyomo_csg.validation import Problems, is_number, is_one_of, is_whole

_SETTINGS = "The settings do not fit"
COMPLETE = "complete"  # an encoder of the width of the paper's Proposition 2
_CANNOT_FIT = "Cannot fit"
_NETWORKS = ("mlp", "lstm", "linear", "constant", "location-scale")
_MAX_UNITS = 2**16
_MAX_POINTS = 300  # for the bandwidth, which compares all pairs of points
_LAGS, _LEAST_PER_LAG = (1, 7), 4  # rows
_CLEARLY_CORRELATED = 5.0  # standard errors; about one in a million independent columns
_OBJECTS = ("kernel", "distance", "loss_net")
_CHOICES = {
    "weights": ("equal", "learned"),
    "device": ("cpu", "cuda", "auto"),
    "units": ("standard", "raw"),
    "rows": ("auto", "independent", "series"),
}


@dataclass(frozen=True)
class FitConfig:
    """Settings of :func:`pyomo_csg.fit`.

    Attributes
    ----------
    hidden : tuple of int
        Units of the Task-Net's hidden layers.
    recurrent : tuple of int
        The same for panels; the first number is the size of the LSTM.
    kernel : str or callable
        ``'energy'``, ``'gaussian'``, ``'laplacian'``, or a function of torch tensors
        (..., m, p) and (..., n, p) to (..., m, n).
    distance : callable, optional
        In place of the MMD loss: a function of weights (B, K), scenarios (B, K, p), weights
        (B, M) and outcomes (B, M, p) to distances (B,), in torch, as geomloss has them. M
        is 1 for observed outcomes.
    bandwidth : float, optional
        Bandwidth of ``'gaussian'`` and ``'laplacian'``, in the units that the kernel
        sees. Default: the median distance between the history's outcomes.
    units : str, optional
        Whether the kernel sees outcomes in ``'standard'`` deviations or ``'raw'``.
        Default: ``'raw'`` for ``'static'`` and ``'dynamic'`` with a numeric
        regularization, ``'standard'`` otherwise.
    weights : str
        ``'equal'``, or ``'learned'``: a softmax over the scenarios, by context.
    rows : str
        ``'independent'`` rows are held out at random. A time ``'series'`` is held out in
        blocks, as panels always are. ``'auto'`` finds a series by the dates in the index,
        or by outcomes that resemble those of the row before or a week before.
    batch : int
        Rows per training step.
    mmd_epochs, task_epochs, loss_epochs : int
        Passes over the data of the MMD fit, of a task fit and of the Loss-Net.
    mmd_rate, task_rate, loss_rate, decay : float
        Learning rates and the weight decay of AdamW.
    encoder, head : tuple of int
        Units of the layers of the Loss-Net's encoder and of its head. The encoder
        ``'complete'`` has a layer of 64 and one of C(K + p, p) - 1 units, the width at which
        the paper's Proposition 2 represents every continuous loss.
    loss_net : Module, optional
        In place of the Loss-Net: from standardized scenarios (B, K, p), weights (B, K) and
        standardized outcomes (B, p) to standardized losses (B,).
    label_scenarios : int, optional
        Labels of ``'static'`` and ``'dynamic'`` are the losses of this many of the K
        scenarios, drawn at random for each row. They take less time. Default: all.
    rounds, buffer : int
        Loss-Net updates of ``'dynamic'``, and how many rounds of labels it keeps.
    noise : float
        Noise on the scenarios while ``'direct'`` trains, in standard deviations.
    draws : int
        Outcomes on which a decision is evaluated in a training step, at most.
    folds : int, optional
        Cross-validation folds of ``'auto'``. Default: five, or three, or one, which holds
        out the last fifth of the rows, as the time budget allows.
    starts : int
        Of ``'auto'``: how many initial values to try for constant scenarios.
    search : int
        How many sets of hyperparameters to try on held-out rows: these settings first,
        the others at random. With 0, these settings are used.
    seconds : float, optional
        The longest that a decision may take, for ``scenarios='auto'``.
    device : str
        Where networks are trained: ``'cpu'``, ``'cuda'``, or ``'auto'`` for CUDA if torch
        finds it. Networks are small and the solver runs on the CPU, so the CPU is
        usually as fast.

    Examples
    --------
    >>> FitConfig(hidden=(32,), noise=0.2).hidden
    (32,)
    """

    hidden: tuple[int, ...] = (64, 64)
    recurrent: tuple[int, ...] = (32, 64)
    kernel: str | Callable[..., Any] = "energy"
    distance: Callable[..., Any] | None = None
    bandwidth: float | None = None
    units: str | None = None
    weights: str = "equal"
    rows: str = "auto"
    batch: int = 50
    mmd_epochs: int = 30
    task_epochs: int = 12
    loss_epochs: int = 60
    mmd_rate: float = 2e-3
    task_rate: float = 2e-3
    loss_rate: float = 2e-3
    decay: float = 1e-3
    encoder: tuple[int, ...] | str = (64, 32)
    head: tuple[int, ...] = (64, 64, 64)
    loss_net: nn.Module | None = None
    label_scenarios: int | None = None
    rounds: int = 4
    buffer: int = 3
    noise: float = 0.3
    draws: int = 8
    folds: int | None = None
    starts: int = 4
    search: int = 0
    seconds: float | None = None
    device: str = "cpu"

    def __post_init__(self) -> None:
        problems = Problems(_SETTINGS)
        for name, choices in _CHOICES.items():
            value = getattr(self, name)
            if name == "units" and value is None:
                continue
            if not is_one_of(value, choices):
                problems.add(f"{name} is {value!r:.80}; give one of {choices}")
        if not (callable(self.kernel) or is_one_of(self.kernel, tuple(KERNELS))):
            known = sorted(KERNELS)
            problems.add(
                f"kernel is {self.kernel!r}; give one of {known} or a function"
            )
        elif self.bandwidth is not None and not _has_bandwidth(self.kernel):
            problems.add(
                f"bandwidth is {self.bandwidth!r:.80}, but only the kernels "
                f"{sorted(METRICS)} have one; leave it out, or give one of those"
            )
        for name in ("distance", "loss_net"):
            problems.add(*setting_problems("", name, getattr(self, name)))
        for field in fields(self):
            if field.name not in _OBJECTS and field.name not in _CHOICES:
                value = getattr(self, field.name)
                is_valid, wanted = _check_number(field.name, value)
                if not is_valid:
                    problems.add(f"{field.name} is {value!r:.80}; give {wanted}")
        problems.raise_any()


def _check_number(name: str, value: Any) -> tuple[bool, str]:
    """Return whether a numeric setting is valid, and what a valid one is."""
    if name == "encoder" and is_one_of(value, (COMPLETE,)):
        return True, ""
    if name in ("hidden", "recurrent", "encoder", "head"):
        can_be_empty = name in ("hidden", "head")
        is_valid = (
            isinstance(value, tuple | list)
            and (can_be_empty or len(value) > 0)
            and all(is_whole(units) and 0 < units <= _MAX_UNITS for units in value)
        )
        units = f"whole numbers above 0, such as (64, 64), up to {_MAX_UNITS}"
        return is_valid, units + f", or '{COMPLETE}'" * (name == "encoder")
    if name in ("noise", "decay"):
        return is_number(value) and value >= 0, "a number from 0 up"
    if name in ("seconds", "bandwidth"):
        is_valid = value is None or (is_number(value) and value > 0)
        return is_valid, "a number above 0, or None"
    if name.endswith("_rate"):
        return is_number(value) and value > 0, "a number above 0"
    if name in ("folds", "label_scenarios"):
        least = 2 if name == "folds" else 1
        is_valid = value is None or (is_whole(value) and value >= least)
        return is_valid, f"a whole number from {least} up, or None"
    least = 0 if name in ("search", "rounds") else 1
    return is_whole(value) and value >= least, f"a whole number from {least} up"


def read_config(config: Any) -> FitConfig:
    """Return a FitConfig from one, from a dict of settings, or from None."""
    if config is None:
        return FitConfig()
    if isinstance(config, FitConfig):
        return config
    problems = Problems(_SETTINGS)
    if not isinstance(config, dict):
        problems.add(
            f"config is a {type(config).__name__}; give a csg.FitConfig or a dict"
        )
        config = {}
    known = [field.name for field in fields(FitConfig)]
    for name in config:
        if name not in known:
            near = difflib.get_close_matches(str(name), known, n=3)
            hint = f"did you mean {' or '.join(near)}?" if near else "see csg.FitConfig"
            problems.add(f"there is no setting '{name}'; {hint}")
    problems.raise_any()
    return FitConfig(**config)


def validate_fit_arguments(
    scenarios: Any,
    method: Any,
    regularization: Any,
    seed: Any,
    network: Any,
    config: Any,
    callback: Any,
    seconds: Any = None,
    plan: Any = None,
    preprocess: Any = "auto",
    distribution: Any = None,
) -> FitConfig:
    """Return the settings, or raise one error that lists every bad argument."""
    problems = Problems(_CANNOT_FIT)
    if not (
        is_whole(scenarios) and scenarios >= 1 or is_one_of(scenarios, ("auto", "all"))
    ):
        problems.add(
            f"scenarios is {scenarios!r}; give a whole number from 1 up, 'auto' or 'all'"
        )
    elif is_one_of(scenarios, ("all",)) and not _is_auto(method):
        problems.add(
            f"scenarios is 'all', which trains nothing, but method is {method!r}; drop it"
        )
    problems.add(*check_preprocess(preprocess))
    try:
        read_method(method, regularization)
    except DataError as error:
        problems.add(*error.problems)
    if not (is_whole(seed) and seed >= 0):
        problems.add(f"seed is {seed!r}; give a whole number from 0 up")
    if isinstance(network, str) and network not in _NETWORKS:
        problems.add(f"network is {network!r}; give one of {_NETWORKS} or a module")
    elif not isinstance(network, str | nn.Module | LocationScale | Linear | None):
        problems.add(
            f"network is a {type(network).__name__}; give a torch.nn.Module, a "
            f"csg.LocationScale, a csg.Linear, or one of {_NETWORKS}"
        )
    problems.add(*_distribution_problems(distribution, network))
    if not (callback is None or callable(callback)):
        problems.add(
            f"callback is a {type(callback).__name__}; give a function of one dict"
        )
    if seconds is not None:
        problems.check_positive(seconds=seconds)
    problems.add(*_plan_problems(plan, method, scenarios))
    settings = FitConfig()
    try:
        settings = read_config(config)
    except DataError as error:
        problems.add(*error.problems)
    problems.add(*_object_problems(method, settings))
    if settings.device == "cuda" and not torch.cuda.is_available():
        problems.add(
            "device is 'cuda', but torch finds no CUDA here; leave it out, give 'auto', "
            "or install a torch that is built for your GPU"
        )
    problems.raise_any()
    return settings


def _plan_problems(plan: Any, method: Any, scenarios: Any) -> list[str]:
    if plan is None:
        return []
    if not callable(getattr(plan, "for_scenarios", None)):
        return [f"plan is a {type(plan).__name__}; give what csg.plan returned"]
    if not (_is_auto(method) or isinstance(method, Auto)):
        return [f"a plan is for method='auto', but method is {method!r}; drop one"]
    if scenarios not in ("auto", plan.scenarios):
        found = f"the plan is for {plan.scenarios} scenarios, but scenarios is"
        return [f"{found} {scenarios!r}; make a plan for as many"]
    return []


def _distribution_problems(distribution: Any, network: Any) -> list[str]:
    if distribution is None:
        return []
    kind = type(distribution).__name__
    if isinstance(distribution, type):
        name = distribution.__name__
        found = f"distribution is the class {name}; give an object of it, such as"
        return [f"{found} {name}()"]
    if not isinstance(distribution, Samples):
        found = f"distribution is a {kind}, which has no method sample(x, n)"
        return [f"{found}; give an object that returns outcomes (n, p) for a context"]
    if isinstance(network, LocationScale) or is_one_of(network, ("location-scale",)):
        found = f"network is {network!r:.80}, a conditional distribution, too"
        return [f"{found}; give network or distribution"]
    return []


def _is_auto(method: Any) -> bool:
    """Whether a method is 'auto' with all its candidates."""
    if isinstance(method, Auto):
        return method.candidates is None
    return is_one_of(method, ("auto",))


def _object_problems(method: Any, settings: FitConfig) -> list[str]:
    """Return where a method and the settings have different kernels, distances or the like."""
    return [
        f"config has the {name} {ours!r:.80}, and method is {method!r:.80}; give one of "
        "the two"
        for name, theirs in _method_objects(method).items()
        if (ours := getattr(settings, name)) is not getattr(FitConfig, name)
        and ours != theirs
    ]


def _method_objects(method: Any) -> dict[str, Any]:
    """Return the kernel, the distance and the Loss-Net of one of the package's methods."""
    if not isinstance(method, BuiltIn):
        return {}
    found = {name: getattr(method, name, None) for name in _OBJECTS}
    return {name: value for name, value in found.items() if value is not None}


def check_scenario_count(scenarios: int | str, rows: int) -> None:
    """Raise a DataError if there are more scenarios than rows of history."""
    if isinstance(scenarios, int) and scenarios > rows:
        found = f"scenarios is {scenarios}, but the history has {rows} rows"
        raise DataError(_CANNOT_FIT, [f"{found}; give at most {rows}"])


def settings_for_method(config: FitConfig, method: BuiltIn | Method) -> FitConfig:
    """Return settings with the kernel and the like of a method, and the units of its lambda."""
    config = replace(config, **_method_objects(method))
    has_number = isinstance(method_regularization(method), float)
    if isinstance(method, Static | Dynamic) and has_number:
        config = replace(config, units=config.units or "raw")
    return config


def complete_settings(config: FitConfig, history: History) -> FitConfig:
    """Return settings in which what depends on the history is filled in."""
    config = _with_bandwidth(config, history.outcomes)
    if config.rows != "auto":
        return config
    is_series = history.has_dates or are_correlated(history.outcomes)
    return replace(config, rows="series" if is_series else "independent")


def are_correlated(outcomes: np.ndarray) -> bool:
    """Whether outcomes (n, p) clearly resemble those one row, or one week of rows, before."""
    ranks = rankdata(outcomes, axis=0)  # of which outliers in two rows cannot be many
    spread = ranks.std(axis=0)
    scaled = (ranks - ranks.mean(axis=0))[:, spread > 0] / spread[spread > 0]
    n, p = scaled.shape
    for lag in (lag for lag in _LAGS if p and n >= _LEAST_PER_LAG * lag):
        correlation = (scaled[lag:] * scaled[:-lag]).sum(axis=0) / n
        if correlation.max() * math.sqrt(n) > _CLEARLY_CORRELATED:
            return True
    return False


def _with_bandwidth(config: FitConfig, outcomes: np.ndarray) -> FitConfig:
    """Return settings with a bandwidth fitted to outcomes (n, p), if the kernel has one."""
    if config.bandwidth is not None or not _has_bandwidth(config.kernel):
        return config
    unit = 1.0 if config.units == "raw" else standard_spread(outcomes)
    metric = METRICS[str(config.kernel)]
    return replace(config, bandwidth=median_distance(outcomes / unit, metric))


def _has_bandwidth(kernel: Any) -> bool:
    return is_one_of(kernel, tuple(METRICS))


def median_distance(points: np.ndarray, metric: str) -> float:
    """Return the median distance between points (n, p) that differ, or 1 if none do.

    A long history is thinned evenly. The last digits are dropped, so that another machine
    finds the same number.
    """
    step = -(-len(points) // _MAX_POINTS)
    distances = pdist(points[::step], metric)
    distances = distances[distances > 0]
    return float(f"{np.median(distances):.6g}") if len(distances) else 1.0
