"""csg.fit: from an annotated model and history to a policy."""

from __future__ import annotations

import copy
import difflib
import hashlib
import io
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import asdict, replace
from numbers import Integral, Real
from typing import Any

import numpy as np
import pyomo.environ as pyo
import torch
from pyomo.core.base.block import BlockData
from threadpoolctl import threadpool_limits
from torch import Tensor, nn

from pyomo_csg.errors import DataError
from pyomo_csg.learn.checkpoint import Checkpoint
from pyomo_csg.learn.config import FitConfig, config_of
from pyomo_csg.learn.history import History, history_of
from pyomo_csg.learn.kernels import kernel_of
from pyomo_csg.learn.learned import Found, Learned
from pyomo_csg.learn.methods import METHODS, learn
from pyomo_csg.learn.networks import (
    FromFunction,
    LocationScale,
    LocationScaleHead,
    evaluating,
)
from pyomo_csg.learn.progress import Callback, Journal
from pyomo_csg.learn.searching import COUNTS, search, smallest
from pyomo_csg.learn.task import Task
from pyomo_csg.policy import Policy
from pyomo_csg.solve import Oracle

_BODIES = ("mlp", "lstm", "linear", "constant")
_OR_AUTO = ", or 'auto'"
_FAULTS = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)


def fit(
    model: BlockData,
    data: Any,
    *,
    scenarios: int | str = 5,
    method: str = "auto",
    regularization: float | str = "auto",
    context: Any = None,
    network: Any = None,
    config: FitConfig | dict[str, Any] | None = None,
    seed: int = 0,
    solver: str = "highs",
    executor: Executor | None = None,
    workers: int = 1,
    checkpoint: Any = None,
    progress: bool = True,
    callback: Callback | None = None,
) -> Policy:
    """Learn which K scenarios to solve the model on, given a context.

    Parameters
    ----------
    model : ConcreteModel
        Annotated by :func:`pyomo_csg.annotate`.
    data : (contexts, outcomes) or DataFrame
        The history. Contexts are an array (n, d), or panels (n, W, d); outcomes are an
        array (n, p). A DataFrame has a column for each uncertain number, by its Pyomo
        name; the others, or those named by ``context``, are the context.
    scenarios : int or 'auto'
        K. ``'auto'`` takes the smallest whose cross-validated loss is within one standard
        error of the best, and whose decisions take no longer than ``config.seconds``.
    method : str
        ``'auto'``: the best of some candidates, by cross-validated costs of decisions.
        ``'mmd'``: the energy distance; needs no solver. ``'static'``, ``'dynamic'``: the
        paper's Loss-Net. ``'direct'``: the gradient through the optimal basis.
    regularization : float or str
        The MMD loss's weight lambda in ``'static'`` and ``'dynamic'``: a number in raw
        units, as in the paper; ``'0.1x'``, relative to the MMD loss; ``'auto'`` chooses
        on held-out pairs. For ``'direct'`` a number in standard deviations.
    context : str or list of str, optional
        The DataFrame's columns that are the context.
    network : str, Module or LocationScale, optional
        ``'mlp'`` (default), ``'lstm'`` (default for panels), ``'linear'``,
        ``'constant'``; a module of your own from standardised contexts (B, d) to numbers
        (B, K, p), which the Params' domains then bound; or a :class:`LocationScale`.
    config : FitConfig or dict, optional
        Settings.
    seed : int
        The same seed gives the same policy, whatever the number of workers.
    solver, executor, workers
        As in :class:`pyomo_csg.Oracle`.
    checkpoint : path, optional
        A folder for finished stages and labels. The same call goes on where it stopped.
    progress : bool
        Whether to draw bars.
    callback : callable, optional
        Called with a dict for every step that is logged.

    Returns
    -------
    Policy

    Examples
    --------
    >>> import pyomo_csg as csg
    >>> from models import newsvendor
    >>> pairs = newsvendor.sample(60, seed=1)
    >>> policy = csg.fit(
    ...     newsvendor.build(), pairs, scenarios=2, method="mmd", progress=False
    ... )
    >>> policy.scenarios([0.0, 0.0]).shape
    (2, 1)
    """
    settings = _checked(
        scenarios, method, regularization, seed, network, config, callback
    )
    seed, scenarios = int(seed), scenarios if scenarios == "auto" else int(scenarios)
    oracle = Oracle(model, solver, executor, workers)
    history = history_of(oracle.two_stage, data, context)
    if isinstance(regularization, Real):
        regularization = float(regularization)
        if method in ("static", "dynamic"):
            settings = replace(settings, units=settings.units or "raw")
    journal = Journal(progress, callback)
    identity: dict[str, Any] = {
        "format": 1,
        "model": _fingerprint(oracle, history),
        "history": history.fingerprint(),
        "scenarios": scenarios,
        "method": method,
        "regularization": regularization,
        "network": _described(network, history),
        "kernel": _kernel_digest(settings, history),
        "settings": {key: _plain(value) for key, value in asdict(settings).items()},
        "seed": seed,
        "solver": solver,
    }
    with _one_thread(), Checkpoint(checkpoint, identity) as kept:
        fitter = _Fitter(
            oracle,
            history,
            method,
            regularization,
            network,
            settings,
            seed,
            journal,
            kept,
        )
        count, found = fitter.fit(scenarios)
    searched = found.contest.get("settings", {})
    learned = Learned(
        found.network,
        method,
        {
            **found.contest,
            "seed": seed,
            "pairs": len(history),
            "scenarios": count,
            "context_shape": list(history.contexts.shape[1:]),
            "settings": dict(sorted({**identity["settings"], **searched}.items())),
        },
        journal.table(),
        history.context_names,
        _reach(history, found),
    )
    return Policy(model, learned, solver=solver, workers=workers, executor=executor)


class _Fitter:
    """One call of fit, its arguments checked."""

    def __init__(
        self,
        oracle: Oracle,
        history: History,
        method: str,
        regularization: float | str,
        network: Any,
        settings: FitConfig,
        seed: int,
        journal: Journal,
        checkpoint: Checkpoint,
    ):
        self._oracle, self._history, self._method = oracle, history, method
        self._regularization, self._network = regularization, network
        self._settings, self._seed = settings, seed
        self._journal, self._checkpoint = journal, checkpoint

    def fit(self, scenarios: int | str) -> tuple[int, Found]:
        """Return K and the fit."""
        if isinstance(scenarios, int):
            return scenarios, self._searched(scenarios, "")
        counts = [count for count in COUNTS if count <= len(self._history)]
        return smallest(
            counts,
            self._settings.seconds,
            lambda count: self._searched(count, f"K={count}"),
            self._decide,
        )

    def _searched(self, count: int, part: str) -> Found:
        if not self._settings.search:
            return self._one(count, self._settings, part)
        return search(
            self._settings,
            self._seed,
            self._journal,
            lambda settings, name: self._one(count, settings, f"{part} {name}"),
        )

    def _one(self, count: int, settings: FitConfig, part: str) -> Found:
        checkpoint = self._checkpoint.within(part) if part else self._checkpoint
        task = Task(
            self._oracle,
            self._history,
            count,
            settings,
            self._seed,
            self._journal,
            checkpoint,
        )
        kind, head = _network_of(self._network, task)
        return learn(task, self._method, self._regularization, kind, head)

    def _decide(self, found: Found) -> Any:
        with torch.inference_mode():
            x = torch.as_tensor(self._history.contexts[:1])
            zeta, weights = found.network(x)
        shares = weights.numpy() if self._settings.weights == "learned" else None
        return self._oracle.solve(
            zeta.numpy(), shares, on_error="record", progress=False
        )


def _network_of(network: Any, task: Task) -> tuple[Any, Any]:
    """Return the kind of body, and the head if it is not the usual one."""
    if network is None:
        return ("lstm" if task.history.panels else "mlp"), None
    if isinstance(network, str):
        if task.history.panels and network in ("mlp", "linear"):
            raise DataError(
                "The network does not fit the data",
                [f"network is {network!r}, but contexts are panels; give 'lstm'"],
            )
        if network == "lstm" and not task.history.panels:
            raise DataError(
                "The network does not fit the data",
                ["network is 'lstm', but contexts are vectors; give panels (n, W, d)"],
            )
        return network, None
    if isinstance(network, LocationScale):
        return "constant", _location_scale_head(network, task)
    # A copy: the user's module stays as it is, also in its precision.
    body = copy.deepcopy(network).double()
    some = task.contexts[:2]
    _answer("network", body, some, (len(some), *task.shape))
    if not any(parameter.requires_grad for parameter in body.parameters()):
        raise DataError(
            "The network does not fit the data",
            [
                "network has no parameters to train; give it some, or a csg.LocationScale"
            ],
        )
    return body, None


def _location_scale_head(network: LocationScale, task: Task) -> LocationScaleHead:
    """Return the user's location and scale as a head, if they are sound on the history."""
    location, scale = (
        part if isinstance(part, FromFunction) else copy.deepcopy(part)
        for part in (network.location, network.scale)
    )
    head = LocationScaleHead(location, scale, task.omega)
    head = head.double().eval().requires_grad_(False)
    contexts = torch.as_tensor(task.history.contexts)
    problems = []
    for what, part, wanted, least in (
        ("location", head.location, "finite numbers", -np.inf),
        ("scale", head.scale, "finite numbers above 0", 0.0),
    ):
        name = f"network's {what}"
        found = _answer(name, part, contexts, tuple(task.history.outcomes.shape))
        wrong = torch.nonzero(~(torch.isfinite(found) & (found > least)))
        if len(wrong):
            row, column = wrong[0].tolist()
            problems.append(
                f"{name} gave {float(found[row, column]):g} in row {row} of the history, "
                f"column {column}, and {len(wrong)} such in all; expected {wanted}"
            )
    if problems:
        raise DataError("The network does not fit the data", problems)
    return head


def _answer(what: str, module: nn.Module, x: Tensor, wanted: tuple[int, ...]) -> Tensor:
    """Return what a module says of contexts, if its shape is as wanted."""
    subject = "The network does not fit the data"
    expected = f"for contexts {tuple(x.shape)}; expected {wanted}"
    try:
        with torch.no_grad(), evaluating(module):
            answer = module(x)
            found = tuple(answer.shape)
    except Exception as error:  # a user's own module may raise anything
        failed = f"{what} gave an error ({type(error).__name__}: {error})"
        raise DataError(subject, [f"{failed} {expected}"]) from error
    if found != wanted:
        raise DataError(subject, [f"{what} gave {found} {expected}"])
    return answer


def _checked(
    scenarios: Any,
    method: Any,
    regularization: Any,
    seed: Any,
    network: Any,
    config: Any,
    callback: Any,
) -> FitConfig:
    """Return the settings, or raise one error that lists what is off."""
    problems = []
    if not (_is_whole(scenarios) and scenarios >= 1 or _is_auto(scenarios)):
        problems.append(
            f"scenarios is {scenarios!r}; give a whole number from 1 up, or 'auto'"
        )
    if method not in METHODS:
        near = difflib.get_close_matches(str(method), METHODS, n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"give one of {METHODS}"
        problems.append(f"method is {method!r}; {hint}")
    if not (_is_whole(seed) and seed >= 0):
        problems.append(f"seed is {seed!r}; give a whole number from 0 up")
    if isinstance(network, str) and network not in _BODIES:
        problems.append(f"network is {network!r}; give one of {_BODIES} or a module")
    elif not isinstance(network, str | nn.Module | LocationScale | None):
        problems.append(
            f"network is a {type(network).__name__}; give a torch.nn.Module, a "
            f"csg.LocationScale, or one of {_BODIES}"
        )
    problems += _regularization_problems(method, regularization)
    if not (callback is None or callable(callback)):
        problems.append(
            f"callback is a {type(callback).__name__}; give a function of one dict"
        )
    settings = FitConfig()
    try:
        settings = config_of(config)
    except DataError as error:
        problems += error.problems
    if problems:
        raise DataError("Cannot fit", problems)
    return settings


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == "auto"


def _regularization_problems(method: Any, regularization: Any) -> list[str]:
    if _is_auto(regularization):
        return []
    found = f"regularization is {regularization!r}"
    if method in ("auto", "mmd"):
        found += f", but method '{method}' takes none; leave it out, or give"
        return [f"{found} method='static', 'dynamic' or 'direct'"]
    number = regularization
    if method == "direct":
        wanted = f"'direct' takes a number from 0 up, in standard deviations{_OR_AUTO}"
    else:
        wanted = f"give a number from 0 up, a text such as '0.1x'{_OR_AUTO}"
        if isinstance(number, str):
            number = _parsed(number)
    real = isinstance(number, Real) and not isinstance(number, bool)
    return [] if real and 0 <= number < np.inf else [f"{found}; {wanted}"]


def _parsed(text: str) -> float:
    """Return the number of a text such as '0.1x'; NaN if there is none."""
    try:
        return float(text.strip().lower().removesuffix("x"))
    except ValueError:
        return float("nan")


@contextmanager
def _one_thread() -> Iterator[None]:
    """Let all use one thread: the order of a sum, and so the policy, depends on it."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):  # of the clusters' centers, too
            yield
    finally:
        torch.set_num_threads(threads)


def _fingerprint(oracle: Oracle, history: History) -> str:
    """Return what tells this model from another: a digest of all it prints.

    But for what a solver or a user may have left in it since: values of variables that
    are free, and of the uncertain Params.
    """
    two_stage = oracle.two_stage.copied()
    for variable in two_stage.model.component_data_objects(pyo.Var):
        if not variable.fixed:
            variable.set_value(None)
    for param, value in zip(
        two_stage.uncertain_params, history.outcomes[0], strict=True
    ):
        param.set_value(float(value))
    text = io.StringIO()
    two_stage.model.pprint(text)
    return hashlib.sha256(text.getvalue().encode()).hexdigest()


def _described(network: Any, history: History) -> str:
    """Return what tells this network from another."""
    if network is None or isinstance(network, str):
        return str(network)
    if isinstance(network, LocationScale):
        parts = (
            _described(part, history) for part in (network.location, network.scale)
        )
        return f"LocationScale({', '.join(parts)})"
    if isinstance(network, FromFunction):
        try:
            return f"function {_digest(network(torch.as_tensor(history.contexts)))}"
        except _FAULTS:
            return "function"  # what is wrong is told when it is looked at closely
    digest = hashlib.sha256()
    for name, value in network.state_dict().items():
        digest.update(name.encode() + value.numpy(force=True).tobytes())
    return f"{network} {digest.hexdigest()}"


def _kernel_digest(settings: FitConfig, history: History) -> str | None:
    """Return what tells a kernel of the user's own from another: its answers."""
    kernel = kernel_of(settings.kernel, history.outcomes.shape[1])
    if isinstance(settings.kernel, str):
        return None
    some = torch.as_tensor(history.outcomes[None, :8])
    return _digest(kernel(some, some))


def _digest(values: Tensor) -> str:
    """Return a digest that another machine's rounding does not change."""
    text = " ".join(f"{value:.6g}" for value in values.flatten().tolist())
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(value: Any) -> Any:
    if callable(value):
        return getattr(value, "__qualname__", "function")
    return list(value) if isinstance(value, tuple) else value


def _reach(history: History, found: Found) -> float:
    """Return how far contexts are from their mean at most."""
    center, spread = found.network.center.numpy(), found.network.spread.numpy()
    squares = ((history.contexts - center) / spread) ** 2
    axes = tuple(range(1, history.contexts.ndim))
    return float(np.sqrt(squares.mean(axis=axes)).max())
