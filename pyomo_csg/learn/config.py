"""The arguments of csg.fit, checked all at once."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from numbers import Real
from typing import Any

import numpy as np
import torch
from scipy.spatial.distance import pdist
from torch import nn

from pyomo_csg.errors import DataError
from pyomo_csg.learn.distributions.distances import KERNELS, METRICS
from pyomo_csg.learn.networks.domains import standard_spread
from pyomo_csg.learn.networks.linear_nets import Linear
from pyomo_csg.learn.networks.task_nets import LocationScale
from pyomo_csg.validation import (
    METHODS,
    is_number,
    is_one_of,
    is_whole,
    positive_problems,
)

_MOST_UNITS = 2**16
_CHOICES = {
    "weights": ("equal", "learned"),
    "device": ("cpu", "cuda", "auto"),
    "units": ("standard", "raw"),
    "rows": ("independent", "series"),
}


@dataclass(frozen=True)
class FitConfig:
    """Settings of :func:`pyomo_csg.fit`.

    Attributes
    ----------
    hidden : tuple of int
        Units of the Task-Net's layers.
    recurrent : tuple of int
        The same for panels: of the LSTM first.
    kernel : str or callable
        ``'energy'``, ``'gaussian'``, ``'laplacian'``, or a function of torch tensors
        (..., m, p) and (..., n, p) to (..., m, n).
    bandwidth : float, optional
        Of ``'gaussian'`` and ``'laplacian'``, in the units that the kernel sees. Default:
        the median distance of the history's outcomes.
    units : str
        Whether the kernel sees outcomes in ``'standard'`` deviations or ``'raw'``.
        ``'static'`` and ``'dynamic'`` with a numeric regularization take the latter.
    weights : str
        ``'equal'``, or ``'learned'``: a softmax over the scenarios, by context.
    rows : str
        ``'independent'``, so that any of them can be held out at random, or a
        ``'series'`` in time, of which stretches are; then ``'auto'`` takes constant
        scenarios unless another candidate is clearly better. Panels are held out so, too.
    batch : int
        Rows a step.
    mmd_epochs, task_epochs, loss_epochs : int
        Passes over the data of the MMD fit, of a task fit and of the Loss-Net.
    mmd_rate, task_rate, loss_rate, decay : float
        Learning rates and the weight decay of AdamW.
    encoder, head : tuple of int
        Units of the Loss-Net's encoder and of its head's layers.
    rounds, buffer : int
        Loss-Net updates of ``'dynamic'``, and how many rounds of labels it keeps.
    noise : float
        Of the scenarios while ``'direct'`` trains, in standard deviations.
    draws : int
        Outcomes that a decision is charged for in a step of ``'direct'``.
    folds : int, optional
        Parts of the cross-validation of ``'auto'``. Default: five, but for integer models
        and panels, whose fits are slow: there the last fifth is held out once.
    starts : int
        Of ``'auto'``: initial scenarios of those that are the same for all contexts.
    search : int
        How many sets of hyperparameters to draw at random and to try on a 20 % holdout;
        0 takes those given here.
    seconds : float, optional
        The longest that a decision may take, for ``scenarios='auto'``.
    device : str
        Where networks are trained: on the ``'cpu'``, on ``'cuda'``, or ``'auto'``, on CUDA
        where torch finds it. They are small and wait for the solver, which is on the CPU,
        as are scenarios, losses and the policy.

    Examples
    --------
    >>> FitConfig(hidden=(32,), noise=0.2).hidden
    (32,)
    """

    hidden: tuple[int, ...] = (64, 64)
    recurrent: tuple[int, ...] = (32, 64)
    kernel: str | Callable[..., Any] = "energy"
    bandwidth: float | None = None
    units: str | None = None
    weights: str = "equal"
    rows: str = "independent"
    batch: int = 50
    mmd_epochs: int = 30
    task_epochs: int = 12
    loss_epochs: int = 60
    mmd_rate: float = 2e-3
    task_rate: float = 2e-3
    loss_rate: float = 2e-3
    decay: float = 1e-3
    encoder: tuple[int, ...] = (64, 32)
    head: tuple[int, ...] = (64, 64, 64)
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
        problems = [
            f"{name} is {value!r:.80}; give one of {choices}"
            for name, choices in _CHOICES.items()
            if not (is_one_of(value := getattr(self, name), choices))
            and not (name == "units" and value is None)
        ]
        if not (callable(self.kernel) or is_one_of(self.kernel, tuple(KERNELS))):
            known = sorted(KERNELS)
            problems.append(
                f"kernel is {self.kernel!r}; give one of {known} or a function"
            )
        elif self.bandwidth is not None and not is_one_of(self.kernel, tuple(METRICS)):
            problems.append(
                f"bandwidth is {self.bandwidth!r:.80}, but only the kernels "
                f"{sorted(METRICS)} have one; leave it out, or give one of those"
            )
        for field in fields(self):
            problems += _bad_number(field.name, getattr(self, field.name))
        if problems:
            raise DataError("The settings do not fit", problems)


def read_config(config: Any) -> FitConfig:
    """Return a FitConfig from one, from a mapping, or from None."""
    if config is None:
        return FitConfig()
    if isinstance(config, FitConfig):
        return config
    if not isinstance(config, dict):
        found = f"config is a {type(config).__name__}; give a csg.FitConfig or a dict"
        raise DataError("The settings do not fit", [found])
    known = [field.name for field in fields(FitConfig)]
    problems = []
    for name in config:
        if name not in known:
            near = difflib.get_close_matches(str(name), known, n=3)
            hint = f"did you mean {' or '.join(near)}?" if near else "see csg.FitConfig"
            problems.append(f"there is no setting '{name}'; {hint}")
    if problems:
        raise DataError("The settings do not fit", problems)
    return FitConfig(**config)


def _bad_number(name: str, value: Any) -> list[str]:
    """Say what is wrong with a number among the settings, if it is one and wrong."""
    if name == "kernel" or name in _CHOICES:
        return []
    if name in ("hidden", "recurrent", "encoder", "head"):
        whole = isinstance(value, tuple | list) and all(
            is_whole(units) and 0 < units <= _MOST_UNITS for units in value
        )
        needed = name in ("recurrent", "encoder")
        good = whole and (len(value) > 0 or not needed)
        wanted = f"whole numbers above 0, such as (64, 64), up to {_MOST_UNITS}"
    elif name in ("noise", "decay"):
        good, wanted = is_number(value) and value >= 0, "a number from 0 up"
    elif name in ("seconds", "bandwidth"):
        good = value is None or (is_number(value) and value > 0)
        wanted = "a number above 0, or None"
    elif name.endswith("_rate"):
        good, wanted = is_number(value) and value > 0, "a number above 0"
    elif name == "folds":
        good = value is None or (is_whole(value) and value >= 2)
        wanted = "a whole number from 2 up, or None"
    else:
        least = 0 if name in ("search", "rounds") else 1
        good = is_whole(value) and value >= least
        wanted = f"a whole number from {least} up"
    return [] if good else [f"{name} is {value!r:.80}; give {wanted}"]


_BODIES = ("mlp", "lstm", "linear", "constant", "location-scale")
_OR_AUTO = ", or 'auto'"


def validate_fit_arguments(
    scenarios: Any,
    method: Any,
    regularization: Any,
    seed: Any,
    network: Any,
    config: Any,
    callback: Any,
    seconds: Any = None,
) -> FitConfig:
    """Return the settings, or raise one error that lists what is off."""
    problems = []
    if not (is_whole(scenarios) and scenarios >= 1 or _is_auto(scenarios)):
        problems.append(
            f"scenarios is {scenarios!r}; give a whole number from 1 up, or 'auto'"
        )
    if not is_one_of(method, METHODS):
        near = difflib.get_close_matches(str(method), METHODS, n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"give one of {METHODS}"
        problems.append(f"method is {method!r}; {hint}")
    if not (is_whole(seed) and seed >= 0):
        problems.append(f"seed is {seed!r}; give a whole number from 0 up")
    if isinstance(network, str) and network not in _BODIES:
        problems.append(f"network is {network!r}; give one of {_BODIES} or a module")
    elif not isinstance(network, str | nn.Module | LocationScale | Linear | None):
        problems.append(
            f"network is a {type(network).__name__}; give a torch.nn.Module, a "
            f"csg.LocationScale, a csg.Linear, or one of {_BODIES}"
        )
    problems += _regularization_problems(method, regularization)
    if not (callback is None or callable(callback)):
        problems.append(
            f"callback is a {type(callback).__name__}; give a function of one dict"
        )
    if seconds is not None:
        problems += positive_problems(seconds=seconds)
    settings = FitConfig()
    try:
        settings = read_config(config)
    except DataError as error:
        problems += error.problems
    if settings.device == "cuda" and not torch.cuda.is_available():
        problems.append(
            "device is 'cuda', and torch finds no CUDA here; leave it out, give 'auto', "
            "or install a torch that is built for your GPU"
        )
    if problems:
        raise DataError("Cannot fit", problems)
    return settings


def check_scenario_count(scenarios: int | str, pairs: int) -> None:
    """Refuse more scenarios than there are pairs to tell them from."""
    if isinstance(scenarios, int) and scenarios > pairs:
        found = f"scenarios is {scenarios}, but there are {pairs} pairs to learn from"
        raise DataError("Cannot fit", [f"{found}; give at most {pairs}"])


def _is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == "auto"


def _regularization_problems(method: Any, regularization: Any) -> list[str]:
    if _is_auto(regularization):
        return []
    found = f"regularization is {regularization!r}"
    if is_one_of(method, ("auto", "mmd")):
        found += f", but method '{method}' takes none; leave it out, or give"
        return [f"{found} method='static', 'dynamic' or 'direct'"]
    number = regularization
    if is_one_of(method, ("direct",)):
        wanted = f"'direct' takes a number from 0 up, in standard deviations{_OR_AUTO}"
    else:
        wanted = f"give a number from 0 up, a text such as '0.1x'{_OR_AUTO}"
        if isinstance(number, str):
            number = _parsed(number)
    real = isinstance(number, Real) and not isinstance(number, bool)
    return [] if real and 0 <= number < np.inf else [f"{found}; {wanted}"]


def parse_regularization(given: Any) -> float | str:
    """Return lambda: a number, ``'auto'``, or a text relative to the MMD loss."""
    if not isinstance(given, str):
        return float(given)
    relative = given.strip().lower().endswith("x")
    if _is_auto(given) or (relative and _parsed(given) > 0):
        return given
    return _parsed(given)


def _parsed(text: str) -> float:
    """Return the number of a text such as '0.1x'; NaN if there is none."""
    try:
        return float(text.strip().lower().removesuffix("x"))
    except ValueError:
        return float("nan")


_MOST = 300  # outcomes: pairs of them are many more


def with_bandwidth(config: FitConfig, outcomes: np.ndarray) -> FitConfig:
    """Return settings whose bandwidth is a number, if their kernel has one.

    Parameters
    ----------
    config : FitConfig
    outcomes : array (n, p)
        Of the history.
    """
    if config.bandwidth is not None or not is_one_of(config.kernel, tuple(METRICS)):
        return config
    unit = 1.0 if config.units == "raw" else standard_spread(outcomes)
    metric = METRICS[str(config.kernel)]
    return replace(config, bandwidth=median_distance(outcomes / unit, metric))


def median_distance(points: np.ndarray, metric: str) -> float:
    """Return the median distance of points (n, p) that differ; 1 where none do.

    Of a long history every so many points are looked at, and the last digits are dropped,
    so that another machine finds the same.
    """
    step = -(-len(points) // _MOST)
    apart = pdist(points[::step], metric)
    apart = apart[apart > 0]
    return float(f"{np.median(apart):.6g}") if len(apart) else 1.0
