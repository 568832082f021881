"""Policies in files: numbers as safetensors, the rest as JSON in its header; no pickle."""

from __future__ import annotations

import copy
import hashlib
import json
import logging
import math
import os
import re
from collections.abc import Iterable, Mapping
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import safetensors
import safetensors.torch
import torch
from pyomo.core.base.block import BlockData
from torch import Tensor, nn

from pyomo_csg.errors import DataError, shortlist
from pyomo_csg.learn.fingerprints import package_versions
from pyomo_csg.learn.fit_result import FitResult
from pyomo_csg.learn.networks.architecture import (
    custom_parts,
    describe_network,
    restore_network,
)
from pyomo_csg.learn.networks.task_nets import LocationScale
from pyomo_csg.policy.policy import Policy
from pyomo_csg.policy.policy_file import (
    MOST_ROWS,
    domain_problems,
    fault_of,
    name_problems,
)
from pyomo_csg.report.policy_plots import training_curves
from pyomo_csg.stages import TwoStageModel
from pyomo_csg.storage import readable_path, writable_path, write_user_file

logger = logging.getLogger(__name__)

FORMAT = 1

_KEY = "pyomo_csg policy"
_PACKAGE = "pyomo-csg"
_START = 256  # bytes, which hold the key: safetensors puts metadata first
_MOST_HEADER = 4 * 2**20  # JSON takes thirty times as much memory as text
_MOST_FILE = 2**28


def save(path: str | os.PathLike[str], policy: Policy) -> None:
    """Write a policy to a file, which appears whole or not at all.

    Parameters
    ----------
    path : str or path
    policy : Policy

    Raises
    ------
    DataError
    """
    path = writable_path(path)
    tensors = _tensors(path, policy.network)
    content = json.loads(_canonical(_content(policy)))
    header = {
        "format": FORMAT,
        "checksum": _checksum(content, tensors),
        "content": content,
    }
    text = json.dumps(header, ensure_ascii=False)
    data = safetensors.torch.save(tensors, {_KEY: text})
    if _header_size(data) > _MOST_HEADER:
        found = f"its summary and history take more than {_MOST_HEADER} bytes"
        raise _refusal("cannot be written", path, found)
    if len(data) > _MOST_FILE:
        found = f"its network takes more than {_MOST_FILE} bytes"
        raise _refusal("cannot be written", path, found)
    write_user_file(path, data)


def load(
    path: str | os.PathLike[str],
    model: BlockData,
    network: nn.Module | LocationScale | Mapping[str, nn.Module] | None = None,
    *,
    solver: str = "highs",
    options: Mapping[str, Any] | None = None,
    workers: int = 1,
    executor: Executor | None = None,
) -> Policy:
    """Return the policy that :meth:`Policy.save` wrote to a file.

    A file from a stranger is safe to load: it holds numbers and text only.

    Parameters
    ----------
    path : str or path
    model : ConcreteModel
        Annotated as the one that the policy was learned for: the same uncertain Params
        and first-stage variables, by name and order, in domains that are no narrower.
        Other data may differ.
    network : Module, LocationScale, or mapping of str to Module, optional
        Where the policy's network has modules of your own: one such, its numbers are
        taken from the file. Where there are several: by the part that each is,
        ``'body'``, ``'location'`` or ``'scale'``.
    solver, options, workers, executor
        As in :class:`pyomo_csg.Oracle`.

    Raises
    ------
    DataError
        If there is no such file, or if it is not a policy's, damaged, of a later format,
        for another model, or not for this network.
    """
    path = readable_path(path)
    content, tensors = _read(path)
    two_stage = TwoStageModel(model)
    _refuse_model(path, two_stage, name_problems(content, two_stage))
    learned = _learned(path, content, tensors, network)
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
        raise _refusal("cannot be loaded", path, *problems) from error
    if policy.count != content["scenarios"]:
        found = (
            f"its network gives {policy.count} scenarios, not {content['scenarios']}"
        )
        raise _refusal("cannot be loaded", path, found)
    omega: Any = policy.network.head.omega
    _refuse_model(path, two_stage, domain_problems(omega, two_stage))
    _refuse_untold(path, policy)
    _tell_newer(path, content)
    return policy


def read_stage_names(path: str | os.PathLike[str]) -> tuple[list[str], list[str]]:
    """Return the first-stage variables and uncertain Params of a file's policy, by name.

    Parameters
    ----------
    path : str or path

    Raises
    ------
    DataError
        As of :func:`load`.
    """
    content, _ = _read(readable_path(path))
    variables, params = content["first_stage_variables"], content["uncertain_params"]
    return list(map(str, variables)), list(map(str, params))


def _content(policy: Policy) -> dict[str, Any]:
    learned, two_stage = policy.learned, policy.two_stage
    return {
        "versions": package_versions(),
        "model": two_stage.model.name,
        "uncertain_params": [p.name for p in two_stage.uncertain_params],
        "first_stage_variables": [v.name for v in two_stage.first_stage_variables],
        "context_shape": policy.context_shape,
        "context_names": learned.context_names,
        "scenarios": policy.count,
        "method": learned.method,
        "summary": learned.summary,
        "history": _records(learned.log),
        "reach": float(learned.reach),
        "network": describe_network(learned.network),
    }


def _tensors(path: Path, network: nn.Module) -> dict[str, Tensor]:
    state = network.state_dict()
    if other := [name for name, x in state.items() if not isinstance(x, Tensor)]:
        found = f"the network keeps {shortlist(other)}, which is not a tensor"
        raise _refusal("cannot be written", path, found)
    return {name: x.detach().cpu().clone().contiguous() for name, x in state.items()}


def _records(log: pd.DataFrame) -> dict[str, Any]:
    """Return a table as JSON has it: rows without what is missing; not too many."""
    step = max(1, math.ceil(len(log) / MOST_ROWS))
    thinned = log.iloc[::-step][::-1]  # with the last row, which tells how it ended
    rows = [
        {str(key): x for key, x in row.items() if not pd.isna(x)}
        for row in thinned.to_dict("records")
    ]
    return {"columns": [str(column) for column in log.columns], "rows": rows}


def _canonical(content: Any) -> str:
    """Return the one text that stands for a content."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), default=_plain)


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    return str(value)


def _checksum(content: Any, tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256(_canonical(content).encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"\n{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        if tensor.numel():
            digest.update(tensor.flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return what a file holds, if it is whole and of a format that is known."""
    if path.stat().st_size > _MOST_FILE:
        raise _damaged(path, f"it takes more than {_MOST_FILE} bytes")
    with open(path, "rb") as file:
        start = file.read(_START)
        if _KEY.encode() not in start:
            found = "it is not a policy's file; give one that policy.save wrote"
            raise _refusal("cannot be loaded", path, found)
        size = _header_size(start)
        if size > _MOST_HEADER:
            raise _damaged(path, f"its header would take {size} bytes")
        data = start + file.read()
    try:
        about = json.loads(json.loads(data[8 : 8 + size])["__metadata__"][_KEY])
        tensors = safetensors.torch.load(data)
        content = about["content"]
        sound = about["checksum"] == _checksum(content, tensors)
        version = about["format"]
    except (
        ValueError,  # among them: not JSON, not text
        TypeError,
        LookupError,
        RuntimeError,
        RecursionError,
        safetensors.SafetensorError,
    ):
        raise _damaged(path, "it cannot be read as it was written") from None
    if not sound:
        raise _damaged(path, "its checksum does not agree with what it holds")
    if not isinstance(version, int) or version > FORMAT:
        found = (
            f"its format is {version!r:.40}, and this pyomo_csg knows up to {FORMAT}"
        )
        raise _refusal("cannot be loaded", path, f"{found}; install a newer one")
    try:
        fault = fault_of(content, tensors)
    except (TypeError, LookupError, AttributeError, RuntimeError) as error:
        fault = f"{type(error).__name__}: {error}"
    if fault:
        raise _damaged(path, fault)
    return content, tensors


def _header_size(data: bytes) -> int:
    return int.from_bytes(data[:8], "little")


def _refuse_untold(path: Path, policy: Policy) -> None:
    """Refuse a file if what it tells of the fit cannot be told again."""
    try:
        policy.report()
        training_curves(policy.history)
    except Exception as error:  # a stranger's summary may be anything
        found = f"{type(error).__name__}: {error}".splitlines()[0]
        raise _damaged(path, f"its summary cannot be told ({found:.80})") from error


def _refuse_model(
    path: Path, two_stage: TwoStageModel, problems: Iterable[str]
) -> None:
    """Refuse a model whose numbers are not those that the file speaks of."""
    if found := list(problems):
        what = f"was learned for another model than '{two_stage.model.name}'"
        raise _refusal(what, path, *found)


def _tell_newer(path: Path, content: Mapping[str, Any]) -> None:
    """Warn of a file that a newer pyomo-csg wrote than the one that reads it."""
    noted = content.get("versions")
    theirs = str(noted.get(_PACKAGE, "")) if isinstance(noted, dict) else ""
    here = package_versions()[_PACKAGE]
    if _release(theirs) > _release(here):
        logger.warning(
            "'%s' was written by pyomo-csg %.40s, and this is %s: what the policy does "
            "may differ from what it did there; install pyomo-csg %.40s or newer",
            path,
            theirs,
            here,
            theirs,
        )


def _release(version: str) -> tuple[int, ...]:
    """Return the numbers that a version begins with."""
    numbers = re.match(r"\d{1,9}(\.\d{1,9})*", version)
    return tuple(map(int, numbers[0].split("."))) if numbers else ()


def _learned(
    path: Path,
    content: dict[str, Any],
    tensors: Mapping[str, Tensor],
    network: nn.Module | LocationScale | Mapping[str, nn.Module] | None,
) -> FitResult:
    try:
        custom = _own_modules(path, custom_parts(content["network"]), network)
        rebuilt = restore_network(content["network"], tensors, custom)
        names, history = content["context_names"], content["history"]
        return FitResult(
            rebuilt,
            content["method"],
            {**content["summary"], "context_shape": content["context_shape"]},
            pd.DataFrame(history["rows"], columns=history["columns"]),
            None if names is None else tuple(map(str, names)),
            float(content["reach"]),
        )
    except DataError as error:
        if error.subject.startswith("'"):
            raise
        raise _refusal("cannot be loaded", path, *error.problems) from error
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise _damaged(path, f"{type(error).__name__}: {error}") from error


def _own_modules(
    path: Path,
    parts: Mapping[str, str],
    network: nn.Module | LocationScale | Mapping[str, nn.Module] | None,
) -> dict[str, nn.Module]:
    """Return the user's module for each part that only the user can make."""
    if isinstance(network, LocationScale):
        network = {"location": network.location, "scale": network.scale}
    if isinstance(network, nn.Module):
        given = dict.fromkeys(parts, network) if len(parts) == 1 else {"?": network}
    else:
        given = _mapping(path, network)
    if given.keys() == parts.keys():
        return {place: copy.deepcopy(part).double() for place, part in given.items()}
    if not parts:
        found = "its network is pyomo_csg's own; drop network="
    else:
        wanted = ", ".join(f"'{place}': a {name}" for place, name in parts.items())
        found = (
            f"its network has modules of your own ({{{wanted}}}); give "
            "network=module, or a mapping from each part to its module"
        )
    raise _refusal("cannot be loaded", path, found)


def _mapping(path: Path, network: Any) -> dict[str, nn.Module]:
    given = network if network is not None else {}
    if isinstance(given, Mapping) and all(
        isinstance(part, nn.Module) for part in given.values()
    ):
        return dict(given)
    found = (
        f"network is {network!r:.80}; give a module, or a mapping from part to module"
    )
    raise _refusal("cannot be loaded", path, found)


def _refusal(what: str, path: Path, *problems: str) -> DataError:
    return DataError(f"'{path}' {what}", problems)


def _damaged(path: Path, problem: str) -> DataError:
    return _refusal("is damaged", path, f"{problem}; take another copy of it")
