"""How well a Loss-Net tells the losses of pairs that it has not seen."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from pyomo_csg.learn.static import sample
from pyomo_csg.learn.task import Task

_MOST = 500


def loss_check(
    task: Task, net: nn.Module, body: nn.Module, rows: np.ndarray, head: Any = None
) -> dict[str, list[float]]:
    """Return predicted and true l_opt of what a body plans on rows, in JSON's types.

    Parameters
    ----------
    task : Task
    net : LossNet
    body : Module
        The one that followed the Loss-Net: it went where the Loss-Net promised most, so
        that errors show which training pairs would hide.
    rows : int array
        Those that neither has seen. Of very many, some.
    head : Head, optional
        Default: the task's.

    Returns
    -------
    dict
        ``predicted`` and ``true``, without the pairs that have no answer.
    """
    some = rows[:: max(1, -(-len(rows) // _MOST))]
    (samples,) = sample(task, [body], [some], "Loss-Net check labels", head)
    *inputs, losses = samples.answered().arrays()
    with torch.no_grad():
        predicted = net(*map(torch.as_tensor, inputs))
    return {"predicted": predicted.tolist(), "true": losses.tolist()}
