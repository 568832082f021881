"""The arguments of csg.fit, checked all at once."""

from __future__ import annotations

import difflib
from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import nn

from pyomo_csg.errors import DataError
from pyomo_csg.learn.config import FitConfig, config_of
from pyomo_csg.learn.linear import Linear
from pyomo_csg.learn.networks import LocationScale
from pyomo_csg.options import METHODS, is_one_of, is_whole, positive_problems

_BODIES = ("mlp", "lstm", "linear", "constant", "location-scale")
_OR_AUTO = ", or 'auto'"


def checked(
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
        settings = config_of(config)
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


def refuse_more_than_pairs(scenarios: int | str, pairs: int) -> None:
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


def regularization_of(given: Any) -> float | str:
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
