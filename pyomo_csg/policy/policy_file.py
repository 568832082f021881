"""Policy files: csg.load and Policy.save. They hold numbers and text only."""

from __future__ import annotations

import copy
import logging
import math
import os
import re
from collections.abc import Iterable, Mapping
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from pyomo.core.base.block import BlockData

from pyomo_csg.errors import DataError
from pyomo_csg.learn.distributions.user_distribution import Samples, UserDistribution
from pyomo_csg.learn.fit_result import FitResult
from pyomo_csg.learn.generators.network_description import custom_parts
from pyomo_csg.learn.generators.restoration import restore_generator
from pyomo_csg.learn.generators.scenario_generator import ScenarioGenerator
from pyomo_csg.learn.package_versions import package_versions
from pyomo_csg.learn.tables.preprocessing import Preprocessing
from pyomo_csg.policy.content_checks import (
    MAX_ROWS,
    content_problem,
    domain_problems,
    name_problems,
)
from pyomo_csg.policy.kept_pairs import KeptPairs, pack_pairs, unpack_pairs
from pyomo_csg.policy.policy import Policy
from pyomo_csg.stages import TwoStageModel
from pyomo_csg.storage import (
    CONTENT_ERRORS,
    Arrays,
    FileFormat,
    explain_write_errors,
    readable_path,
    writable_path,
)

if TYPE_CHECKING:
    import pandas as pd
    from torch import nn

    from pyomo_csg.learn.networks.task_nets import LocationScale

logger = logging.getLogger(__name__)

_POLICY = FileFormat(
    "pyomo_csg policy",
    1,
    max_bytes=2**28,
    max_header_bytes=4 * 2**20,  # parsed JSON takes thirty times as much memory
    remedy="pass an intact file that policy.save wrote",
    follow_links=True,
)
_PACKAGE = "pyomo-csg"

Networks: TypeAlias = "nn.Module | LocationScale | Mapping[str, nn.Module] | None"


def save(path: str | os.PathLike[str], policy: Policy, history: bool = True) -> None:
    """Write a policy to a file, completely or not at all; with its history if asked."""
    path = writable_path(path)
    try:
        description, arrays = policy.learned.generator.to_arrays()
    except DataError as error:
        raise DataError(f"'{path}' cannot be written", error.problems) from error
    stored = pack_pairs(policy.learned, path) if history else {}
    header = {**_describe(policy), "generator": description}
    with explain_write_errors(path):
        _POLICY.write(path, header, {**arrays, **stored})


def load(
    path: str | os.PathLike[str],
    model: BlockData,
    network: Networks = None,
    *,
    distribution: Samples | None = None,
    solver: str = "highs",
    options: Mapping[str, Any] | None = None,
    workers: int = 1,
    executor: Executor | None = None,
) -> Policy:
    """Return the policy that :meth:`Policy.save` wrote to a file.

    Files from untrusted sources are safe to load: they hold numbers and text only.

    Parameters
    ----------
    path : str or path
    model : ConcreteModel
        Annotated like the model of the fit: the same uncertain Params and first-stage
        variables, in the same order. Domains may be wider, and other data may differ.
    network : Module, LocationScale, or mapping of str to Module, optional
        Needed only if the policy uses your own modules. Pass a module of the same
        architecture; its parameters are read from the file. For several modules, pass a
        mapping by part: ``'body'``, ``'location'`` or ``'scale'``.
    distribution : object, optional
        Needed only if the policy samples the ``distribution=`` of the fit when it decides.
        The file does not hold that object.
    solver, options, workers, executor
        As in :class:`pyomo_csg.Oracle`.

    Raises
    ------
    DataError
        If the file does not exist, is not a policy file, is damaged or of a newer
        format, or does not fit the model or the network.

    Examples
    --------
    >>> import tempfile
    >>> import pyomo_csg as csg
    >>> from pyomo_csg.zoo import newsvendor
    >>> pairs = newsvendor.sample(30, seed=1)
    >>> policy = csg.fit(
    ...     newsvendor.build(), pairs, scenarios=2, method="mmd", progress=False
    ... )
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     policy.save(f"{folder}/orders.csg")
    ...     again = csg.load(f"{folder}/orders.csg", newsvendor.build())
    >>> bool((again.scenarios([0, 0]) == policy.scenarios([0, 0])).all())
    True
    """
    path = readable_path(path)
    content, arrays = _read(path)
    try:
        kept = unpack_pairs(content, arrays)
    except CONTENT_ERRORS as error:
        raise _POLICY.damage_error(path, f"{error}") from error
    two_stage = TwoStageModel(model)
    _check_model(path, two_stage, name_problems(content, two_stage))
    learned = _rebuild(path, content, arrays, network, kept)
    _bind_distribution(path, learned.generator, distribution, two_stage)
    try:
        policy = Policy(
            model,
            learned,
            solver=solver,
            options=options,
            workers=workers,
            executor=executor,
        )
    except DataError as error:
        problems = [f"{error.subject}: {problem}" for problem in error.problems]
        raise _cannot_load(path, *problems) from error
    if policy.count != content["scenarios"]:
        found = f"its generator generates {policy.count} scenarios, not "
        raise _cannot_load(path, f"{found}{content['scenarios']}")
    _check_model(path, two_stage, domain_problems(learned.generator, two_stage))
    _check_summary(path, policy)
    _warn_if_newer(path, content)
    return policy


def read_stage_names(path: str | os.PathLike[str]) -> tuple[list[str], list[str]]:
    """Return the names of a policy file's first-stage variables and uncertain Params."""
    content, _ = _read(readable_path(path))
    return content["first_stage_variables"], content["uncertain_params"]


def read_summary(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the summary of the fit in a policy file."""
    content, _ = _read(readable_path(path))
    return content["summary"]


def _describe(policy: Policy) -> dict[str, Any]:
    """Return everything but the generator, for the file's header."""
    learned, two_stage = policy.learned, policy.two_stage
    return {
        "versions": package_versions(),
        "model": two_stage.model.name,
        "uncertain_params": [p.name for p in two_stage.uncertain_params],
        "first_stage_variables": [v.name for v in two_stage.first_stage_variables],
        "known_params": [p.name for p in two_stage.known_params],
        "context_shape": policy.context_shape,
        "context_names": learned.context_names,
        "scenarios": policy.count,
        "method": learned.method,
        "summary": learned.summary,
        "history": _thin_log(learned.log),
        "reach": float(learned.reach),
        "preprocessing": learned.preprocessing and learned.preprocessing.summary(),
        "lineage": list(learned.lineage),
        "has_dates": learned.pairs is not None and learned.pairs.has_dates,
    }


def _thin_log(log: pd.DataFrame) -> dict[str, Any]:
    """Return a table as JSON types, with evenly spaced rows up to the last one."""
    import pandas as pd

    step = max(1, math.ceil(len(log) / MAX_ROWS))
    rows = [
        {str(key): x for key, x in row.items() if not pd.isna(x)}
        for row in log.iloc[::-step][::-1].to_dict("records")
    ]
    return {"columns": [str(column) for column in log.columns], "rows": rows}


def _read(path: Path) -> tuple[dict[str, Any], Arrays]:
    """Return a file's content, if all of it is plausible."""
    content, arrays = _POLICY.read(path)
    try:
        problem = content_problem(content, arrays)
    except CONTENT_ERRORS as error:
        problem = f"{type(error).__name__}: {error}"
    if problem:
        raise _POLICY.damage_error(path, problem)
    return content, arrays


def _rebuild(
    path: Path,
    content: dict[str, Any],
    arrays: Arrays,
    network: Networks,
    kept: KeptPairs,
) -> FitResult:
    """Return the fit that a file describes."""
    try:
        generator = _restore(path, content["generator"], arrays, network)
        if generator.context_shape != tuple(content["context_shape"]):
            found = f"its generator takes contexts of shape {generator.context_shape}"
            raise DataError("The policy is not complete", [found])
        names, encodings = content["context_names"], content["preprocessing"]
        preprocessing = None if encodings is None else Preprocessing.restore(encodings)
        if preprocessing is not None and [*preprocessing.names] != names:
            raise ValueError("its columns do not become its context_names")
        pairs = kept.history
        if pairs is not None:
            pairs = replace(
                pairs,
                context_names=None if names is None else tuple(names),
                preprocessing=preprocessing,
            )
        return FitResult(
            generator,
            content["method"],
            {**content["summary"], "context_shape": content["context_shape"]},
            content["history"],
            None if names is None else tuple(names),
            float(content["reach"]),
            preprocessing,
            pairs,
            kept.costs,
            tuple(content.get("lineage", ())),
        )
    except DataError as error:
        if str(path) in error.subject:
            raise
        raise _cannot_load(path, *error.problems) from error
    except CONTENT_ERRORS as error:
        raise _POLICY.damage_error(path, f"{type(error).__name__}: {error}") from error


def _restore(
    path: Path, description: dict[str, Any], arrays: Arrays, network: Networks
) -> ScenarioGenerator:
    """Return the generator of a description, with a user's modules if it has any."""
    parts = custom_parts(description)
    if not parts and network is None:
        return restore_generator(description, arrays)
    from pyomo_csg.learn.networks.torch_generator import restore_torch_generator

    modules = _custom_modules(path, parts, network)
    return restore_torch_generator(description, arrays, modules)


def _custom_modules(
    path: Path, parts: Mapping[str, str], network: Networks
) -> dict[str, nn.Module]:
    """Return the user's module for each part that the package cannot build itself."""
    from torch import nn

    from pyomo_csg.learn.networks.task_nets import LocationScale

    modules: Any = {} if network is None else network
    if isinstance(modules, LocationScale):
        modules = {"location": modules.location, "scale": modules.scale}
    elif isinstance(modules, nn.Module):
        modules = dict.fromkeys(parts, modules) if len(parts) == 1 else {"?": modules}
    if not isinstance(modules, Mapping) or not all(
        isinstance(module, nn.Module) for module in modules.values()
    ):
        remedy = "give a module, or a mapping from parts to modules"
        raise _cannot_load(path, f"network is {network!r:.80}; {remedy}")
    if modules.keys() == parts.keys():
        return {
            part: copy.deepcopy(module).double() for part, module in modules.items()
        }
    if not parts:
        raise _cannot_load(path, "its network needs no module; leave out network=")
    needed = ", ".join(f"'{part}': a {name}" for part, name in parts.items())
    remedy = "give network=module, or a mapping from each part to its module"
    raise _cannot_load(path, f"its network uses your modules {{{needed}}}; {remedy}")


def _bind_distribution(
    path: Path, generator: Any, distribution: Any, two_stage: TwoStageModel
) -> None:
    """Give a generator the user's object that its scenarios come from, if they do."""
    needs_one = getattr(generator, "is_users", False)
    if not needs_one and distribution is not None:
        found = "its scenarios do not come from a distribution of yours"
        raise _cannot_load(path, f"{found}; leave out distribution=")
    if needs_one and not isinstance(distribution, Samples):
        found = "its scenarios come from the distribution that csg.fit was given"
        given = "" if distribution is None else f", not a {type(distribution).__name__}"
        remedy = f"give distribution=, an object with sample(x, n){given}"
        raise _cannot_load(path, f"{found}, which the file does not hold; {remedy}")
    if needs_one:
        generator.distribution = UserDistribution.bind(distribution, two_stage)


def _check_model(path: Path, two_stage: TwoStageModel, problems: Iterable[str]) -> None:
    """Refuse a model that differs from the one in the file."""
    if found := list(problems):
        subject = f"'{path}' belongs to another model than '{two_stage.model.name}'"
        raise DataError(subject, found)


def _check_summary(path: Path, policy: Policy) -> None:
    """Refuse a file whose summary cannot be printed."""
    try:
        policy.report()
    except Exception as error:  # a forged summary can raise anything
        found = f"{type(error).__name__}: {error}".splitlines()[0]
        problem = f"its summary cannot be shown ({found:.80})"
        raise _POLICY.damage_error(path, problem) from error


def _warn_if_newer(path: Path, content: Mapping[str, Any]) -> None:
    """Warn about a file that a newer pyomo-csg wrote."""
    versions = content.get("versions")
    theirs = str(versions.get(_PACKAGE, "")) if isinstance(versions, dict) else ""
    here = package_versions()[_PACKAGE]
    if _release(theirs) > _release(here):
        logger.warning(
            "'%s' was written by pyomo-csg %.40s, but this is %s: the policy may behave "
            "differently here; install pyomo-csg %.40s or newer",
            path,
            theirs,
            here,
            theirs,
        )


def _release(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version."""
    numbers = re.match(r"\d{1,9}(\.\d{1,9})*", version)
    return tuple(map(int, numbers[0].split("."))) if numbers else ()


def _cannot_load(path: Path, *problems: str) -> DataError:
    return DataError(f"'{path}' cannot be loaded", problems)
