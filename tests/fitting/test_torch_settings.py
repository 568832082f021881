"""The caller's torch settings neither break a fit nor change its policy."""

from contextlib import contextmanager

import pytest
import torch

import pyomo_csg as csg
from models import newsvendor


@contextmanager
def double_precision():
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


SETTINGS = {
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "default device": lambda: torch.device("meta"),
    "default dtype": double_precision,
}


def fit(method):
    return csg.fit(
        newsvendor.build(),
        newsvendor.sample(40, seed=1),
        scenarios=2,
        method=method,
        config=csg.FitConfig(mmd_epochs=3, loss_epochs=3, task_epochs=1),
        progress=False,
    )


@pytest.mark.parametrize("method", ["mmd", "static", "direct"])
def test_a_policy_does_not_depend_on_the_callers_torch(method):
    expected = fit(method).scenarios([0.0, 0.0])
    for setting in SETTINGS.values():
        with setting():
            policy = fit(method)
            found = policy.scenarios([0.0, 0.0])
        assert (found == expected).all()


def test_the_callers_settings_are_restored():
    with double_precision(), torch.no_grad():
        fit("mmd")
        assert torch.get_default_dtype() == torch.float64
        assert not torch.is_grad_enabled()
