"""csg.fit: from an annotated model and history to a policy."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from typing import Any

from pyomo.core.base.block import BlockData

from pyomo_csg.errors import DataError
from pyomo_csg.learn.checkpoint import Checkpoint
from pyomo_csg.learn.config import (
    FitConfig,
    check_scenario_count,
    complete_settings,
    settings_for_method,
    validate_fit_arguments,
)
from pyomo_csg.learn.distributions.user_distribution import (
    Samples,
    UserDistribution,
    distribution_note,
)
from pyomo_csg.learn.fingerprints import digest_numbers, fit_identity
from pyomo_csg.learn.fit_result import FitResult, MethodResult
from pyomo_csg.learn.generators.scenario_generator import largest_distance
from pyomo_csg.learn.lineage import lineage_entry
from pyomo_csg.learn.methods.plugins import read_method
from pyomo_csg.learn.methods.specifications import (
    BuiltIn,
    Method,
    describe_object,
)
from pyomo_csg.learn.progress import Callback, TrainingLog
from pyomo_csg.learn.selection.plan import Plan, make_plan, measure_programs
from pyomo_csg.learn.tables.history import read_history
from pyomo_csg.learn.task import Task
from pyomo_csg.learn.trainer import reproducible_torch
from pyomo_csg.policy.fit_record import summarize_fit
from pyomo_csg.policy.fit_run import FitRun
from pyomo_csg.policy.policy import Policy
from pyomo_csg.solve import Oracle
from pyomo_csg.validation import DEFAULT_SECONDS


def fit(
    model: BlockData,
    data: Any,
    *,
    scenarios: int | str = 5,
    method: str | BuiltIn | Method = "auto",
    regularization: float | str = "auto",
    context: Any = None,
    known: Any = None,
    preprocess: Any = "auto",
    network: Any = None,
    config: FitConfig | dict[str, Any] | None = None,
    seed: int = 0,
    solver: str = "highs",
    executor: Executor | None = None,
    workers: int = 1,
    checkpoint: Any = None,
    progress: bool = True,
    callback: Callback | None = None,
    seconds: float | None = DEFAULT_SECONDS,
    plan: Plan | None = None,
    options: Mapping[str, Any] | None = None,
    distribution: Samples | None = None,
) -> Policy:
    """Learn a policy that maps each context to K scenarios and decides on them.

    The scenarios are trained so that a decision optimized on them costs little when the
    real outcome arrives. The same arguments and seed give the same policy, bit for bit.
    ``'auto'`` measures times, so pass it the same ``plan``, too.

    Parameters
    ----------
    model : ConcreteModel
        Annotated by :func:`pyomo_csg.annotate`.
    data : (contexts, outcomes) or DataFrame
        The history. Contexts are an array (n, d), or (n, W, d) for panels of W time
        steps; outcomes are an array (n, p). A DataFrame has one column per uncertain
        Param, by its Pyomo name. Its other columns are the context, unless ``context``
        names them.
    scenarios : int, 'auto' or 'all'
        K, at most the number of rows. ``'auto'`` tries several and keeps the smallest K
        with a held-out loss within one standard error of the best. It tries no larger K
        once a decision takes more than ``config.seconds``. ``'all'`` trains nothing and
        decides on all outcomes of the best conditional distribution, weighted for the
        context. Such decisions take longer.
    method : str or object
        ``'auto'`` compares many candidates, simple ones first, on held-out rows and keeps
        the one with the cheapest decisions. ``'mmd'`` matches the conditional
        distribution by the maximum mean discrepancy and solves no programs.
        ``'static'`` and ``'dynamic'`` train on a Loss-Net, as in the paper. ``'direct'``
        follows the gradient of the task loss through the optimal basis. Or an object of
        :mod:`csg.methods <pyomo_csg.learn.methods>`, which has settings of its own; an
        object of yours with a ``name`` and ``train(task)``; or the name of an installed
        plug-in.
    regularization : float or str
        The weight lambda of the MMD loss. For ``'static'`` and ``'dynamic'``: a number
        in raw units, as in the paper; a text such as ``'0.1x'``, relative to the MMD
        loss; or ``'auto'``, chosen on held-out rows. For ``'direct'``: a number, with
        outcomes in standard deviations. An object has its own.
    context : str or list of str, optional
        The context columns of a DataFrame.
    known : mapping, DataFrame or array (n, r), optional
        What the history has no columns for, where the model has known Params. By Pyomo
        name: a range ``(low, high)``, from which training draws uniform values; a
        function from a random generator and n to n values; or a column (n,). With arrays
        for ``data``, also an array (n, r). A DataFrame's columns by Pyomo name are found
        without it, and are context like any other column.
    preprocess : 'auto', None, mapping or transformer
        What happens to columns of text, dates and missing values. ``'auto'`` turns them
        into numbers, and the policy does the same when it decides; the report says what each
        column became. ``{"holidays": "US"}`` also marks the holidays of a country, or of a
        part such as ``"DE-BY"`` (extra ``holidays``), of a calendar of pandas, or in a list
        of dates. None refuses such columns. A copy of a scikit-learn transformer is fitted to
        the context columns: StandardScaler, OneHotEncoder, SimpleImputer, Pipeline or
        ColumnTransformer of these.
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
    seconds : float or None
        The time budget of the fit, ten minutes by default; None for no limit. ``'auto'``
        times a few programs and plans how much fits into the budget. When the time is up,
        the best candidate so far is returned, and the report names the stage that was
        stopped. (``config.seconds`` limits the time of one decision instead.)
    plan : Plan, optional
        A plan from :func:`pyomo_csg.plan`, or ``policy.plan`` of an earlier fit, for
        ``'auto'`` to follow. The same data, seed and plan give the same policy on any
        machine, unless the time is up before the end.
    options : mapping, optional
        Solver options, as in :class:`pyomo_csg.Oracle`: for example
        ``{'time_limit': 10.0}``, in seconds per program.
    distribution : object, optional
        A conditional distribution of yours: a forecast, an ensemble, a simulator. Its
        ``sample(x, n)`` returns outcomes (n, p) for one context (d,). Labels, training and
        the scores of candidates use its draws in place of the observed outcomes. Reduced
        to K it is the candidate ``'distribution'`` of ``'auto'``; with
        ``scenarios='all'``, decisions are on all of its outcomes.

    Returns
    -------
    Policy

    Raises
    ------
    DataError
        If an argument or the data are not valid; it lists every problem.
    KeyboardInterrupt
        On Ctrl-C. ``'auto'`` attaches the best policy so far as ``error.best``, once there
        is a candidate.

    Examples
    --------
    >>> import pyomo_csg as csg
    >>> from pyomo_csg.zoo import newsvendor
    >>> pairs = newsvendor.sample(60, seed=1)
    >>> policy = csg.fit(
    ...     newsvendor.build(), pairs, scenarios=2, method="mmd", progress=False
    ... )
    >>> policy.scenarios([0.0, 0.0]).shape
    (2, 1)
    """
    settings = validate_fit_arguments(
        scenarios,
        method,
        regularization,
        seed,
        network,
        config,
        callback,
        seconds,
        plan,
        preprocess,
        distribution,
    )
    log = TrainingLog(progress, callback, seconds)
    seed = int(seed)
    scenarios = scenarios if isinstance(scenarios, str) else int(scenarios)
    oracle = Oracle(model, solver, executor, workers, options)
    history = read_history(oracle.two_stage, data, context, preprocess, known, seed)
    check_scenario_count(scenarios, len(history))
    chosen = read_method(method, regularization)
    settings = complete_settings(settings_for_method(settings, chosen), history)
    own = note_of_costs = described = None
    if distribution is not None:
        own = UserDistribution.bind(distribution, oracle.two_stage)
        own.check_domains(history.contexts, oracle.two_stage)
        drawn = own.remember(history.contexts)
        note_of_costs = distribution_note(drawn, history.outcomes)
        draws = digest_numbers(drawn[:8])
        described = describe_object(distribution) | {"draws": draws}
    identity = fit_identity(
        oracle,
        history,
        settings,
        network,
        chosen,
        scenarios=scenarios,
        seed=seed,
        solver=solver,
        distribution=described,
        **({"options": dict(options)} if options else {}),
        **({"plan": plan.summary()} if plan is not None else {}),
    )

    def policy(found: MethodResult) -> Policy:
        learned = FitResult(
            found.generator,
            chosen.name,
            summarize_fit(found, history, identity, log, seconds, note_of_costs),
            log.table(),
            history.context_names,
            largest_distance(history.contexts, found.generator),
            history.preprocessing,
            history,
            found.scored_costs,
            (lineage_entry("fit", history, history),),
        )
        return Policy(
            model,
            learned,
            solver=solver,
            options=options,
            workers=workers,
            executor=executor,
        )

    with reproducible_torch(), Checkpoint(checkpoint, identity) as stages, log:
        run = FitRun(
            oracle=oracle,
            history=history,
            method=chosen,
            network=network,
            settings=settings,
            seed=seed,
            log=log,
            checkpoint=stages,
            plan=plan,
            distribution=own,
        )
        try:
            found = (
                run.choose(scenarios)
                if isinstance(scenarios, str)
                else run.learn(scenarios)
            )
        except KeyboardInterrupt as error:
            if isinstance(best := getattr(error, "best", None), MethodResult):
                error.best = policy(best)  # type: ignore[attr-defined]
            raise
    return policy(found)


def plan(
    model: BlockData,
    data: Any,
    *,
    scenarios: int = 5,
    context: Any = None,
    known: Any = None,
    preprocess: Any = "auto",
    network: Any = None,
    config: FitConfig | dict[str, Any] | None = None,
    seed: int = 0,
    solver: str = "highs",
    executor: Executor | None = None,
    workers: int = 1,
    seconds: float | None = DEFAULT_SECONDS,
    options: Mapping[str, Any] | None = None,
) -> Plan:
    """Return how much :func:`pyomo_csg.fit` would do in its time, without fitting.

    A few programs are timed. Pass the plan to ``fit(plan=...)`` to repeat a fit bit for
    bit, also on another machine.

    Parameters
    ----------
    model, data, scenarios, context, known, preprocess, network, config, seed, solver, \
    executor, workers, seconds, options
        As in :func:`pyomo_csg.fit`, for ``method='auto'``.

    Returns
    -------
    Plan
        ``print`` it to read it.

    Examples
    --------
    >>> import pyomo_csg as csg
    >>> from pyomo_csg.zoo import newsvendor
    >>> found = csg.plan(newsvendor.build(), newsvendor.sample(60, seed=1), scenarios=2)
    >>> found.scenarios, found.has_gradient
    (2, True)
    """
    settings = validate_fit_arguments(
        scenarios,
        "auto",
        "auto",
        seed,
        network,
        config,
        None,
        seconds,
        preprocess=preprocess,
    )
    if isinstance(scenarios, str):
        found = "scenarios is 'auto'; give the number to plan for"
        raise DataError("Cannot plan the fit", [found])
    oracle = Oracle(model, solver, executor, workers, options)
    history = read_history(
        oracle.two_stage, data, context, preprocess, known, int(seed)
    )
    check_scenario_count(scenarios, len(history))
    with reproducible_torch():
        log = TrainingLog()
        task = Task(oracle, history, int(scenarios), settings, int(seed), log)
        return make_plan(task, measure_programs(task), seconds)
