"""csg.fit: from an annotated model and history to a policy."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from pyomo.core.base.block import BlockData

from pyomo_csg.learn.checkpoint import Checkpoint
from pyomo_csg.learn.config import (
    FitConfig,
    check_scenario_count,
    parse_regularization,
    validate_fit_arguments,
    with_bandwidth,
)
from pyomo_csg.learn.fingerprints import fit_identity, package_versions
from pyomo_csg.learn.fit_result import FitResult, MethodResult
from pyomo_csg.learn.history import History, read_history
from pyomo_csg.learn.networks.user_network import resolve_network
from pyomo_csg.learn.progress import Callback, TrainingLog
from pyomo_csg.learn.selection.hyperparameter_search import (
    COUNTS,
    search,
    search_space,
    smallest_scenario_count,
)
from pyomo_csg.learn.selection.registry import learn
from pyomo_csg.learn.task import Task
from pyomo_csg.learn.trainer import single_threaded
from pyomo_csg.policy.policy import Policy
from pyomo_csg.solve import Oracle


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
    seconds: float | None = None,
    options: Mapping[str, Any] | None = None,
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
        K, at most as many as there are pairs. ``'auto'`` takes the smallest whose
        cross-validated loss is within one standard error of the best, and whose
        decisions take no longer than ``config.seconds``.
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
    network : str, Module, LocationScale or Linear, optional
        ``'mlp'`` (default), ``'lstm'`` (default for panels), ``'linear'`` (Linear()),
        ``'constant'``, ``'location-scale'``; a module of your own from standardised
        contexts (B, d) to numbers (B, K, p), which the Params' domains then bound; a
        :class:`LocationScale`; or a :class:`Linear`, whose weights are bounded.
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
    seconds : float, optional
        When to stop learning: the best network so far is returned then, and its report
        says in which stage that was. A step, a chunk of labels, and the comparison of
        what there is are brought to their end. Not to be confused with
        ``config.seconds``, a decision's time.
    options : mapping, optional
        Of the solver, as in :class:`pyomo_csg.Oracle`: ``{'time_limit': 10.0}`` seconds
        for one program.

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
    settings = validate_fit_arguments(
        scenarios, method, regularization, seed, network, config, callback, seconds
    )
    seed, scenarios = int(seed), scenarios if scenarios == "auto" else int(scenarios)
    oracle = Oracle(model, solver, executor, workers, options)
    history = read_history(oracle.two_stage, data, context)
    check_scenario_count(scenarios, len(history))
    regularization = parse_regularization(regularization)
    if isinstance(regularization, float) and method in ("static", "dynamic"):
        settings = replace(settings, units=settings.units or "raw")
    settings = with_bandwidth(settings, history.outcomes)
    log = TrainingLog(progress, callback, seconds)
    identity = fit_identity(
        oracle,
        history,
        settings,
        network,
        scenarios=scenarios,
        method=method,
        regularization=regularization,
        seed=seed,
        solver=solver,
        **({"options": dict(options)} if options else {}),
    )
    with single_threaded(), Checkpoint(checkpoint, identity) as kept:
        fitter = _Fitter(
            oracle,
            history,
            method,
            regularization,
            network,
            settings,
            seed,
            log,
            kept,
        )
        count, found = fitter.fit(scenarios)
    used = {**identity.pop("settings"), **(found.selection.settings or {})}
    del identity["versions"]  # it is in the summary itself
    learned = FitResult(
        found.network,
        method,
        {
            **found.selection.summary(),
            "seed": seed,
            "pairs": len(history),
            "scenarios": count,
            "context_shape": list(history.contexts.shape[1:]),
            "settings": dict(sorted(used.items())),
            "versions": package_versions(),
            "identity": identity,
            **_told(log, found, seconds),
        },
        log.table(),
        history.context_names,
        _reach(history, found),
    )
    return Policy(
        model,
        learned,
        solver=solver,
        options=options,
        workers=workers,
        executor=executor,
    )


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
        log: TrainingLog,
        checkpoint: Checkpoint,
    ):
        self._oracle, self._history, self._method = oracle, history, method
        self._regularization, self._network = regularization, network
        self._settings, self._seed = settings, seed
        self._log, self._checkpoint = log, checkpoint

    def fit(self, scenarios: int | str) -> tuple[int, MethodResult]:
        """Return K and the fit."""
        if isinstance(scenarios, int):
            return scenarios, self._searched(scenarios, "")
        counts = [count for count in COUNTS if count <= len(self._history)]
        return smallest_scenario_count(
            counts,
            self._settings.seconds,
            self._log,
            lambda count: self._searched(count, f"K={count}"),
            self._decide,
        )

    def _searched(self, count: int, part: str) -> MethodResult:
        if not self._settings.search:
            return self._one(count, self._settings, part)
        return search(
            self._settings,
            search_space(self._method, self._network, self._history.has_panels),
            self._seed,
            self._log,
            lambda settings, name: self._one(count, settings, f"{part} {name}"),
        )

    def _one(self, count: int, settings: FitConfig, part: str) -> MethodResult:
        checkpoint = self._checkpoint.within(part) if part else self._checkpoint
        task = Task(
            self._oracle,
            self._history,
            count,
            settings,
            self._seed,
            self._log,
            checkpoint,
        )
        kind, head = resolve_network(self._network, task)
        return learn(task, self._method, self._regularization, kind, head)

    def _decide(self, found: MethodResult) -> Any:
        with torch.inference_mode():
            x = torch.as_tensor(self._history.contexts[:1])
            zeta, weights = found.network(x)
        shares = weights.numpy() if self._settings.weights == "learned" else None
        return self._oracle.solve(
            zeta.numpy(), shares, on_error="record", progress=False
        )


def _told(
    log: TrainingLog, found: MethodResult, seconds: float | None
) -> dict[str, Any]:
    """Return what a report says of programs without an answer and of a fit cut short."""
    told: dict[str, Any] = {}
    notes = list(found.selection.notes or ())
    unanswered = sum(entry.get("missing", 0) for entry in log.entries)
    if unanswered:
        told["unanswered"] = unanswered
    if log.stopped_in is not None:
        told["cut_short"] = log.stopped_in
        notes.append(
            f"Cut short: the {seconds:g} seconds were up in stage '{log.stopped_in}', and "
            f"'{found.selection.chosen}' is the best so far. Give more seconds; with "
            "the same checkpoint, finished stages need not be done again."
        )
    return {**told, "notes": notes} if notes else told


def _reach(history: History, found: MethodResult) -> float:
    """Return how far contexts are from their mean at most."""
    center, spread = found.network.center.numpy(), found.network.spread.numpy()
    squares = ((history.contexts - center) / spread) ** 2
    axes = tuple(range(1, history.contexts.ndim))
    return float(np.sqrt(squares.mean(axis=axes)).max())
