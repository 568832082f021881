"""The Loss-Net's predictions on unseen rows, compared with the oracle."""

import numpy as np
import pytest
import torch

from pyomo_csg.learn.methods import surrogate_diagnostics as checking
from pyomo_csg.learn.methods.mmd import train_mmd
from pyomo_csg.learn.methods.static import train_static
from pyomo_csg.learn.methods.surrogate_diagnostics import loss_net_predictions
from tests.learn.methods.test_mmd import bodies, newsvendor_task

SEEN, UNSEEN = np.arange(40), np.arange(40, 60)
QUICK = {"mmd_epochs": 2, "loss_epochs": 3, "task_epochs": 1}


@pytest.fixture(scope="module")
def trained():
    task = newsvendor_task(60, **QUICK)
    (body,) = train_mmd(task, bodies(task, 1), [SEEN], None, "mmd")
    result = train_static(task, [body], [1.0], [SEEN], "static")
    return task, result[0]


def test_predictions_and_truths_are_those_of_what_the_body_plans(trained):
    task, fit = trained
    net, body = fit.loss_net, fit.body

    found = loss_net_predictions(task, fit, UNSEEN)

    scenarios, weights = task.generate_scenarios(body, UNSEEN)
    outcomes = task.history.outcomes[UNSEEN]
    assert found["true"] == pytest.approx(task.oracle.loss(scenarios, outcomes))
    with torch.no_grad():
        expected = net(*map(torch.as_tensor, (scenarios, weights, outcomes)))
    assert found["predicted"] == expected.tolist()


def test_of_many_rows_some_are_taken_from_all_over(trained, monkeypatch):
    task, fit = trained
    whole = loss_net_predictions(task, fit, UNSEEN)

    monkeypatch.setattr(checking, "_MOST", 6)
    some = loss_net_predictions(task, fit, UNSEEN)

    assert some["predicted"] == pytest.approx(whole["predicted"][::4])
