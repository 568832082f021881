"""Trained networks as arrays, so that a finished stage need not be run again."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import torch
from torch import nn

from pyomo_csg.learn.task import Task

Net = TypeVar("Net", bound=nn.Module)


def kept(
    task: Task,
    stage: str,
    bodies: Sequence[nn.Module],
    train: Callable[[], Sequence[nn.Module]],
) -> list[nn.Module]:
    """Return what training gives, or gave when this stage was finished before.

    ``bodies`` are of the make that ``train`` returns.
    """

    def compute() -> dict[str, Any]:
        return {
            f"{s}.{name}": value
            for s, body in enumerate(train())
            for name, value in body.state_dict().items()
        }

    arrays = task.checkpoint.stage(stage, compute, journal=task.journal)
    return [restored(body, arrays, f"{s}.") for s, body in enumerate(bodies)]


def restored(module: Net, arrays: dict[str, np.ndarray], prefix: str) -> Net:
    """Return a copy of a module with the numbers that are kept by a prefix."""
    mine = copy.deepcopy(module)
    mine.load_state_dict(
        {name: torch.as_tensor(arrays[prefix + name]) for name in mine.state_dict()}
    )
    return mine
