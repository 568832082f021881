"""csg.fit: from an annotated model and history to a policy."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, replace
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
from pyomo_csg.learn.fingerprints import fit_identity
from pyomo_csg.learn.fit_result import FitResult, MethodResult
from pyomo_csg.learn.generators.scenario_generator import ScenarioGenerator
from pyomo_csg.learn.history import History, read_history
from pyomo_csg.learn.networks.torch_generator import generator_from_network
from pyomo_csg.learn.networks.user_network import resolve_network
from pyomo_csg.learn.package_versions import package_versions
from pyomo_csg.learn.progress import Callback, TrainingLog
from pyomo_csg.learn.selection.hyperparameter_search import (
    COUNTS,
    search,
    search_space,
    smallest_scenario_count,
)
from pyomo_csg.learn.selection.registry import learn
from pyomo_csg.learn.task import Task
from pyomo_csg.learn.trainer import reproducible_torch
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
    """Learn a policy that maps each context to K scenarios and decides on them.

    The scenarios are trained so that a decision optimized on them costs little when the
    real outcome arrives. The same arguments and seed give the same policy, bit for bit.

    Parameters
    ----------
    model : ConcreteModel
        Annotated by :func:`pyomo_csg.annotate`.
    data : (contexts, outcomes) or DataFrame
        The history. Contexts are an array (n, d), or (n, W, d) for panels of W time
        steps; outcomes are an array (n, p). A DataFrame has one column per uncertain
        Param, by its Pyomo name. Its other columns are the context, unless ``context``
        names them.
    scenarios : int or 'auto'
        K, at most the number of rows. ``'auto'`` tries several and keeps the smallest K
        with a held-out loss within one standard error of the best. It tries no larger K
        once a decision takes more than ``config.seconds``.
    method : {'auto', 'mmd', 'static', 'dynamic', 'direct'}
        ``'auto'`` cross-validates several candidates, simple baselines among them, and
        keeps the one with the cheapest decisions. ``'mmd'`` matches the conditional
        distribution by the maximum mean discrepancy and solves no programs.
        ``'static'`` and ``'dynamic'`` train on a Loss-Net, as in the paper. ``'direct'``
        follows the gradient of the task loss through the optimal basis.
    regularization : float or str
        The weight lambda of the MMD loss. For ``'static'`` and ``'dynamic'``: a number
        in raw units, as in the paper; a text such as ``'0.1x'``, relative to the MMD
        loss; or ``'auto'``, chosen on held-out rows. For ``'direct'``: a number, with
        outcomes in standard deviations.
    context : str or list of str, optional
        The context columns of a DataFrame.
    network : str, Module, LocationScale or Linear, optional
        ``'mlp'`` (default), ``'lstm'`` (default for panels), ``'linear'``,
        ``'constant'`` or ``'location-scale'``. Or your own module, from standardized
        contexts (B, d) to values (B, K, p) that are then mapped into the domains of the
        Params; a :class:`LocationScale`; or a :class:`Linear` with bounded weights.
    config : FitConfig or dict, optional
        Further settings.
    seed : int
        Results do not depend on the number of workers.
    solver, executor, workers
        As in :class:`pyomo_csg.Oracle`.
    checkpoint : path, optional
        A folder that stores finished stages and labels. If a fit is interrupted, the
        same call resumes it.
    progress : bool
        Whether to show progress bars.
    callback : callable, optional
        Called with a dict for every logged training step.
    seconds : float, optional
        The time budget of the fit. When it is used up, the best network so far is
        returned, and the report names the stage that was stopped. The current step,
        batch of labels or comparison is finished first. (``config.seconds`` limits the
        time of one decision instead.)
    options : mapping, optional
        Solver options, as in :class:`pyomo_csg.Oracle`: for example
        ``{'time_limit': 10.0}``, in seconds per program.

    Returns
    -------
    Policy

    Raises
    ------
    DataError
        If an argument or the data are not valid; it lists every problem.

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
    with reproducible_torch(), Checkpoint(checkpoint, identity) as stages:
        trainer = _Fit(
            oracle=oracle,
            history=history,
            method=method,
            regularization=regularization,
            network=network,
            settings=settings,
            seed=seed,
            log=log,
            checkpoint=stages,
        )
        count, found = (
            trainer.choose_count()
            if isinstance(scenarios, str)
            else (scenarios, trainer.learn(scenarios))
        )
    generator = generator_from_network(found.network, history.contexts.shape[1:])
    learned = FitResult(
        generator,
        method,
        _summarize(found, count, history, identity, log, seconds),
        log.table(),
        history.context_names,
        _largest_distance(history, generator),
    )
    return Policy(
        model,
        learned,
        solver=solver,
        options=options,
        workers=workers,
        executor=executor,
    )


@dataclass(frozen=True, kw_only=True)
class _Fit:
    """The validated arguments of one call of :func:`fit`."""

    oracle: Oracle
    history: History
    method: str
    regularization: float | str
    network: Any
    settings: FitConfig
    seed: int
    log: TrainingLog
    checkpoint: Checkpoint

    def learn(
        self, count: int, part: str = "", settings: FitConfig | None = None
    ) -> MethodResult:
        """Train ``count`` scenarios; search the settings first, if none are passed.

        ``part`` names the stages in the checkpoint, apart from those of other calls.
        """
        if settings is None and self.settings.search:
            return search(
                self.settings,
                search_space(self.method, self.network, self.history.has_panels),
                self.seed,
                self.log,
                lambda chosen, name: self.learn(count, f"{part} {name}", chosen),
            )
        task = Task(
            self.oracle,
            self.history,
            count,
            settings or self.settings,
            self.seed,
            self.log,
            self.checkpoint.within(part) if part else self.checkpoint,
        )
        kind, head = resolve_network(self.network, task)
        return learn(task, self.method, self.regularization, kind, head)

    def choose_count(self) -> tuple[int, MethodResult]:
        """Return the smallest good K, and its fit."""
        return smallest_scenario_count(
            [count for count in COUNTS if count <= len(self.history)],
            self.settings.seconds,
            self.log,
            lambda count: self.learn(count, f"K={count}"),
            self._decide,
        )

    def _decide(self, found: MethodResult) -> Any:
        """Make one decision, to time it."""
        with torch.inference_mode():
            x = torch.as_tensor(self.history.contexts[:1])
            zeta, weights = found.network(x)
        shares = weights.numpy() if self.settings.weights == "learned" else None
        return self.oracle.solve(
            zeta.numpy(), shares, on_error="record", progress=False
        )


def _summarize(
    found: MethodResult,
    count: int,
    history: History,
    identity: dict[str, Any],
    log: TrainingLog,
    seconds: float | None,
) -> dict[str, Any]:
    """Return the summary that is stored with the policy and that reports show."""
    selection = found.selection
    settings = {**identity["settings"], **(selection.settings or {})}
    summary = {
        **selection.summary(),
        "seed": identity["seed"],
        "pairs": len(history),
        "scenarios": count,
        "context_shape": list(history.contexts.shape[1:]),
        "settings": dict(sorted(settings.items())),
        "versions": package_versions(),
        "identity": {
            name: value
            for name, value in identity.items()
            if name not in ("settings", "versions")
        },
    }
    if unsolved := sum(entry.get("missing", 0) for entry in log.entries):
        summary["unanswered"] = unsolved
    if log.stopped_in is not None:
        summary["cut_short"] = log.stopped_in
        note = (
            f"Cut short: the {seconds:g} seconds were up in stage '{log.stopped_in}', and "
            f"'{selection.chosen}' is the best so far. Allow more seconds; with the same "
            "checkpoint, finished stages are not repeated."
        )
        summary["notes"] = [*(selection.notes or ()), note]
    return summary


def _largest_distance(history: History, generator: ScenarioGenerator) -> float:
    """Return the largest root mean square of a standardized context."""
    squares = ((history.contexts - generator.center) / generator.spread) ** 2
    axes = tuple(range(1, history.contexts.ndim))
    return float(np.sqrt(squares.mean(axis=axes)).max())
