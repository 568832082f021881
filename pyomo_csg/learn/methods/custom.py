"""Train by a method of the user's on each fold, and check the network that it returns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from pyomo_csg.errors import DataError
from pyomo_csg.learn.checkpoint import restore_parameters
from pyomo_csg.learn.methods.specifications import Method
from pyomo_csg.learn.methods.training_task import TrainingTask
from pyomo_csg.learn.networks.initialization import new_bodies
from pyomo_csg.learn.networks.task_nets import eval_mode
from pyomo_csg.learn.task import Task
from pyomo_csg.learn.trainer import shared_torch_seed


def train_custom(
    task: Task,
    method: Method,
    rows: Sequence[np.ndarray],
    start: Sequence[nn.Module],
    kind: Any,
    head: Any,
) -> list[nn.Module]:
    """Return the networks that a method trains on each set of rows.

    A network of the package's architecture is stored in the checkpoint. A module of the
    method's is trained again when the fit resumes, since it cannot be built from a file.
    """
    found = []
    for fold, (mine, mmd) in enumerate(zip(rows, start, strict=True)):
        part = task.stored_within(f"fold {fold}")
        (sketch,) = new_bodies(task, kind, [mine], method.name)
        stored = part.checkpoint.load(method.name, note=repr(sketch), log=task.log)
        if stored is not None:
            found.append(restore_parameters(sketch, stored, ""))
            continue
        first_entry = len(task.log.entries)

        def make(mine: np.ndarray = mine) -> nn.Module:
            return new_bodies(task, kind, [mine], method.name)[0]

        training = TrainingTask(part, mine, make, mmd, head or task.head)
        seed = int(task.rng(f"{method.name} torch").integers(2**31))
        # The first network may not use up the time of the one that the policy keeps.
        share = (fold + 1) / len(rows)
        with shared_torch_seed(seed), task.log.limit_to(share):
            returned = method.train(training)
        body = _checked_network(method, returned, training, task.output_shape)
        if type(body) is type(sketch) and repr(body) == repr(sketch):
            part.checkpoint.save(
                method.name,
                body.state_dict(),
                note=repr(sketch),
                log=task.log,
                first_entry=first_entry,
            )
        found.append(body)
    return found


def _checked_network(
    method: Method, network: Any, task: TrainingTask, shape: tuple[int, int]
) -> nn.Module:
    """Return a network in double precision on the CPU, if its outputs can be scenarios."""
    subject = f"Method '{method.name}' cannot be used"
    if not isinstance(network, nn.Module):
        found = f"train returned a {type(network).__name__}"
        raise DataError(subject, [f"{found}; return a torch.nn.Module"])
    network = network.to("cpu", torch.float64)
    contexts = task.contexts
    wanted = (len(contexts), *shape)
    expected = (
        f"for contexts {tuple(contexts.shape)}; return a network that gives {wanted}, "
        "as that of task.new_network() does"
    )
    try:
        with torch.no_grad(), eval_mode(network):
            output = network(contexts)
            size = tuple(output.shape)
    except Exception as error:  # a user's module may raise anything
        failed = f"its network gave an error ({type(error).__name__}: {error})"
        raise DataError(subject, [f"{failed} {expected}"]) from error
    if size != wanted:
        raise DataError(subject, [f"its network gave {size} {expected}"])
    wrong = torch.nonzero(~torch.isfinite(output))
    if len(wrong):
        row, scenario, column = wrong[0].tolist()
        found = (
            f"its network gave {float(output[row, scenario, column]):g} for row {row}, "
            f"scenario {scenario}, column {column}, and {len(wrong)} such in all"
        )
        remedy = "lower the learning rate, clip gradients, or leave out losses of NaN"
        raise DataError(subject, [f"{found}; {remedy}"])
    return network
