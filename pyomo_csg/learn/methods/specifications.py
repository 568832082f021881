"""What ``method=`` of csg.fit can be: the package's methods as objects, and the protocol."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import torch

from pyomo_csg.learn.distributions.distances import KERNELS
from pyomo_csg.learn.loss_kinds import LossFunction, LossKind, loss_kind_problems
from pyomo_csg.validation import Problems, is_number, is_one_of

if TYPE_CHECKING:
    from torch import nn

    from pyomo_csg.learn.methods.training_task import TrainingTask


class Method(Protocol):
    """A method of your own, for ``method=`` of :func:`pyomo_csg.fit`.

    Any class with these two members will do; it need not inherit from this one.

    Attributes
    ----------
    name : str
        What reports call it. It is stored with the policy.

    Examples
    --------
    >>> class Untrained:
    ...     name = "untrained"
    ...     def train(self, task):
    ...         return task.new_network()
    """

    name: str

    def train(self, task: TrainingTask) -> nn.Module:
        """Return a network that was trained on the rows of a task.

        It maps standardized contexts (B, d), or (B, W, d), to values (B, K, p), which are
        then mapped into the domains of the Params; with learned weights, to
        (B, K, p + 1). It is called twice: for the rows outside the holdout, whose network
        is scored, and for all rows, whose network the policy keeps.
        """


@dataclass(frozen=True)
class BuiltIn:
    """Base of the package's own methods: a name and settings, validated when created."""

    name: ClassVar[str]

    def __post_init__(self) -> None:
        problems = Problems(f"Invalid settings of csg.methods.{type(self).__name__}")
        for one in fields(self):
            value = getattr(self, one.name)
            problems.add(*setting_problems(self.name, one.name, value))
        problems.raise_any()


@dataclass(frozen=True)
class MMD(BuiltIn):
    """The MMD loss alone, which solves no programs: ``'mmd'``.

    Parameters
    ----------
    kernel, distance : optional
        As in :class:`pyomo_csg.FitConfig`, whose kernel is the default.

    Examples
    --------
    >>> import pyomo_csg as csg
    >>> csg.methods.MMD(kernel="gaussian")
    MMD(kernel='gaussian')
    """

    name: ClassVar[str] = "mmd"
    kernel: str | Callable[..., Any] | None = None
    distance: Callable[..., Any] | None = field(default=None, repr=False)


@dataclass(frozen=True)
class LearnsLosses(BuiltIn):
    """Base of the methods that train on losses of a kind."""

    regularization: float | str = "auto"
    loss_kind: str | LossFunction = "optimistic"
    regret: bool = field(default=False, repr=False)

    @property
    def kind_of_loss(self) -> str | LossKind:
        """The name of an oracle's loss, or a kind with the user's function or regrets."""
        if isinstance(self.loss_kind, str) and not self.regret:
            return self.loss_kind
        return LossKind(self.loss_kind, self.regret)


@dataclass(frozen=True)
class Static(LearnsLosses):
    """Static PCSG, which trains on a Loss-Net and the MMD loss: ``'static'``.

    Parameters
    ----------
    regularization : float or str
        As in :func:`pyomo_csg.fit`.
    loss_kind : {'optimistic', 'pessimistic', 'recourse'} or callable
        Of the losses that the Loss-Net learns, as in :meth:`pyomo_csg.Oracle.loss`; or a
        function of decisions (B, s), outcomes (B, p) and costs (B,), tensors in the units
        of the model, to losses (B,).
    regret : bool
        Whether costs are those above the least cost if the outcome were known.
    loss_net : Module, optional
        As in :class:`pyomo_csg.FitConfig`.

    Examples
    --------
    >>> import pyomo_csg as csg
    >>> csg.methods.Static("0.1x", loss_kind="recourse")
    Static(regularization='0.1x', loss_kind='recourse')
    """

    name: ClassVar[str] = "static"
    loss_net: Any = field(default=None, repr=False)


@dataclass(frozen=True)
class Dynamic(LearnsLosses):
    """Dynamic PCSG, which trains the Loss-Net again in rounds: ``'dynamic'``.

    ``rounds`` and ``buffer`` of :class:`pyomo_csg.FitConfig` say how often, and on how much.

    Parameters
    ----------
    regularization, loss_kind, regret, loss_net
        As in :class:`Static`.

    Examples
    --------
    >>> import pyomo_csg as csg
    >>> csg.methods.Dynamic(0.5)
    Dynamic(regularization=0.5, loss_kind='optimistic')
    """

    name: ClassVar[str] = "dynamic"
    loss_net: Any = field(default=None, repr=False)


@dataclass(frozen=True)
class Direct(LearnsLosses):
    """The gradient of the cost through the optimal basis: ``'direct'``.

    Parameters
    ----------
    regularization : float or 'auto'
        The weight of the MMD loss, with both losses in standard deviations. ``'auto'``
        is 0.
    loss_kind : 'recourse' or callable
        A function as in :class:`Static`, whose gradient is followed.
    regret : bool
        As in :class:`Static`. It changes gradients only if ``loss_kind`` is a function.

    Examples
    --------
    >>> import pyomo_csg as csg
    >>> csg.methods.Direct(0.1)
    Direct(regularization=0.1, loss_kind='recourse')
    """

    name: ClassVar[str] = "direct"
    loss_kind: str | LossFunction = "recourse"


@dataclass(frozen=True)
class Auto(BuiltIn):
    """The best of many candidates on held-out rows: ``'auto'``.

    Parameters
    ----------
    candidates : sequence of str, optional
        Names of the candidates to try, as reports show them, such as ``'sample average'``
        or ``'trained atoms'``. Default: those that suit the model and the time. A candidate
        that the model, the history or the time budget rules out is skipped.

    Examples
    --------
    >>> import pyomo_csg as csg
    >>> csg.methods.Auto(["sample average", "mmd"])
    Auto(candidates=('sample average', 'mmd'))
    """

    name: ClassVar[str] = "auto"
    candidates: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.candidates is not None:
            object.__setattr__(self, "candidates", tuple(self.candidates))


_BUILT_IN: dict[str, type[BuiltIn]] = {
    one.name: one for one in (Auto, MMD, Static, Dynamic, Direct)
}


def built_in_method(name: str, regularization: Any) -> BuiltIn:
    """Return the package's method of a name, with a valid regularization."""
    kind = _BUILT_IN[name]
    takes_one = any(one.name == "regularization" for one in fields(kind))
    return kind(**({"regularization": regularization} if takes_one else {}))


def describe_method(method: BuiltIn | Method) -> dict[str, Any]:
    """Return what identifies a method in a fit, in JSON types.

    The kernel is among the fit's settings.
    """
    found: dict[str, Any] = {
        "method": method.name,
        "regularization": method_regularization(method),
    }
    mine = describe_object(method)
    settings = mine["settings"]
    if not isinstance(method, BuiltIn):
        return {**found, "method_class": mine["class"], "method_settings": settings}
    unusual = {
        name: settings[name]
        for name in ("loss_kind", "regret", "candidates")
        if name in settings and settings[name] != getattr(type(method), name)
    }
    return {**found, **unusual}


def describe_object(thing: Any) -> dict[str, Any]:
    """Return the class and the settings of a user's object, in JSON types."""
    kind = f"{type(thing).__module__}.{type(thing).__qualname__}"
    values = sorted(getattr(thing, "__dict__", {}).items())
    return {
        "class": kind,
        "settings": {name: _json_value(value) for name, value in values},
    }


def regularization_problems(method: Any, regularization: Any) -> list[str]:
    """Return what is wrong with the regularization of a method's name."""
    if is_one_of(regularization, ("auto",)):
        return []
    found = f"regularization is {regularization!r}"
    if is_one_of(method, ("auto", "mmd")):
        found += f", but method '{method}' takes none; leave it out, or give"
        return [f"{found} method='static', 'dynamic' or 'direct'"]
    number = regularization
    if is_one_of(method, ("direct",)):
        wanted = "'direct' takes a number from 0 up, in standard deviations, or 'auto'"
    else:
        wanted = "give a number from 0 up, a text such as '0.1x', or 'auto'"
        if isinstance(number, str):
            number = parse_number(number)
    return [] if is_number(number) and number >= 0 else [f"{found}; {wanted}"]


def method_regularization(method: BuiltIn | Method) -> float | str:
    """Return lambda as a number, or as a text that is resolved later."""
    value = getattr(method, "regularization", "auto")
    return parse_regularization(value) if isinstance(method, BuiltIn) else "auto"


def parse_regularization(value: Any) -> float | str:
    """Return a number, ``'auto'``, or a text such as '0.1x' relative to the MMD loss."""
    if not isinstance(value, str):
        return float(value)
    is_relative = value.strip().lower().endswith("x")
    if value == "auto" or (is_relative and parse_number(value) > 0):
        return value
    return parse_number(value)


def parse_number(text: str) -> float:
    """Return the number of a text such as '0.1x', or NaN."""
    try:
        return float(text.strip().lower().removesuffix("x"))
    except ValueError:
        return math.nan


def setting_problems(method: str, name: str, value: Any) -> list[str]:
    """Return what is wrong with one setting of one of the package's methods."""
    match name:
        case "regularization":
            return regularization_problems(method, value)
        case "loss_kind" if method == "direct":
            if callable(value) or is_one_of(value, ("recourse",)):
                return []
            return [f"loss_kind is {value!r:.80}; give 'recourse' or a function"]
        case "loss_kind":
            return loss_kind_problems(value, False)
        case "regret":
            return loss_kind_problems("recourse", value)
        case "distance" if not (value is None or callable(value)):
            return [f"distance is {value!r:.80}; give a function"]
        case "loss_net" if not (value is None or isinstance(value, torch.nn.Module)):
            kind = type(value).__name__
            return [f"loss_net is a {kind}; give a torch.nn.Module"]
        case "kernel" if not (
            value is None or callable(value) or is_one_of(value, tuple(KERNELS))
        ):
            known = sorted(KERNELS)
            return [f"kernel is {value!r:.80}; give one of {known} or a function"]
        case "candidates" if value is not None:
            return _candidate_problems(value)
    return []


def _candidate_problems(candidates: Any) -> list[str]:
    # Candidates import the methods that train them.
    from pyomo_csg.learn.candidates.candidate_list import CANDIDATES

    is_list = isinstance(candidates, list | tuple) and len(candidates) > 0
    if not is_list:
        return [f"candidates is {candidates!r:.80}; give a list of {CANDIDATES}"]
    unknown = [name for name in candidates if not is_one_of(name, CANDIDATES)]
    return [
        f"candidates has {name!r:.80}; give some of {CANDIDATES}" for name in unknown
    ]


def _json_value(value: Any) -> Any:
    """Return a setting in JSON types; of an object, its class."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, list | tuple):
        return [_json_value(one) for one in value]
    return str(getattr(value, "__qualname__", type(value).__qualname__))
