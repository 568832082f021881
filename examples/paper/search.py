"""The paper's choice of settings: a random search on one history, by a holdout of 20 %.

First the Task-Net's, by the MMD loss; then the Loss-Net's, by its error on the scenarios of
the MMD network. Static and dynamic share the Loss-Net's settings, as in the paper.
"""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from experiment import DEVELOPMENT, Experiment
from sklearn.model_selection import ParameterSampler

import pyomo_csg as csg
from pyomo_csg.learn.config import FitConfig
from pyomo_csg.learn.methods.labels import label_bodies
from pyomo_csg.learn.methods.mmd import train_mmd
from pyomo_csg.learn.networks.initialization import new_bodies
from pyomo_csg.learn.networks.loss_net import new_loss_nets, train_loss_nets
from pyomo_csg.learn.progress import TrainingLog
from pyomo_csg.learn.selection.folds import holdout_folds
from pyomo_csg.learn.selection.hyperparameter_search import search_space
from pyomo_csg.learn.tables.history import History
from pyomo_csg.learn.task import Task
from pyomo_csg.learn.trainer import reproducible_torch
from pyomo_csg.storage import write_atomically

DRAWS, SEED = 20, 0
LOSS_NET = ("loss_epochs", "loss_rate", "encoder", "head")


def searched_settings(
    experiment: Experiment, path: Path, draws: int = DRAWS
) -> dict[str, Any]:
    """Return the settings that a search finds on a development history, or has found.

    It is made once, with the middle number of scenarios, and stored.
    """
    if not path.exists():
        found = _task_net(experiment, draws)
        found = {**found, **_loss_net(experiment, found, draws)}
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps(found, indent=1).encode())
    return json.loads(path.read_text())


def _count(experiment: Experiment) -> int:
    return experiment.counts[len(experiment.counts) // 2]


def _task_net(experiment: Experiment, draws: int) -> dict[str, Any]:
    policy = csg.fit(
        experiment.build(),
        experiment.history(DEVELOPMENT),
        scenarios=_count(experiment),
        method="mmd",
        config={**experiment.config, "units": "raw", "search": draws},
        seed=SEED,
        progress=False,
        seconds=None,
    )
    known = {field.name for field in fields(FitConfig)}
    chosen = policy.learned.summary["settings"]
    names = set(search_space("mmd", None, _has_panels(experiment))) & known
    return {name: chosen[name] for name in sorted(names)}


def _loss_net(
    experiment: Experiment, settings: dict[str, Any], draws: int
) -> dict[str, Any]:
    space = search_space("static", None, _has_panels(experiment))
    sampler = ParameterSampler(
        {name: space[name] for name in LOSS_NET}, draws, random_state=SEED
    )
    task = Task(
        csg.Oracle(experiment.build()),
        History(*experiment.history(DEVELOPMENT)),
        _count(experiment),
        FitConfig(**{**experiment.config, **settings, "units": "raw"}),
        SEED,
        TrainingLog(),
    )
    with reproducible_torch():
        folds, kind = holdout_folds(task), "lstm" if task.history.has_panels else "mlp"
        rows, held = folds.rows[0], folds.held_out[0]
        bodies = new_bodies(task, kind, [rows], "mmd")
        bodies = train_mmd(task, bodies, [rows], [held], "mmd")
        seen, unseen = (
            label_bodies(task, bodies, [some], name)[0]
            for some, name in ((rows, "seen"), (held, "unseen"))
        )
        tried = [
            (_error(task.with_config(**one), seen, unseen), one) for one in sampler
        ]
    return min(tried, key=lambda pair: pair[0])[1]


def _error(task: Task, seen: Any, unseen: Any) -> float:
    """Return the mean squared error on unseen pairs of a Loss-Net with a task's settings."""
    nets = new_loss_nets(task, [seen], "Loss-Net")
    (net,) = train_loss_nets(task, nets, [seen], "Loss-Net")
    solved = unseen.solved()
    inputs = map(torch.as_tensor, solved.arrays()[:3])
    with torch.no_grad():
        predicted = net(*inputs).numpy()
    return float(np.square(predicted - solved.losses).mean())


def _has_panels(experiment: Experiment) -> bool:
    return experiment.history(DEVELOPMENT)[0].ndim == 3
