"""FitConfig: the settings of csg.fit that good defaults usually spare one."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

from pyomo_csg.errors import DataError
from pyomo_csg.learn.kernels import KERNELS, METRICS
from pyomo_csg.options import is_number, is_one_of, is_whole

_MOST_UNITS = 2**16
_CHOICES = {
    "weights": ("equal", "learned"),
    "device": ("cpu", "cuda", "auto"),
    "units": ("standard", "raw"),
    "rows": ("independent", "series"),
}


@dataclass(frozen=True)
class FitConfig:
    """Settings of :func:`pyomo_csg.fit`.

    Attributes
    ----------
    hidden : tuple of int
        Units of the Task-Net's layers.
    recurrent : tuple of int
        The same for panels: of the LSTM first.
    kernel : str or callable
        ``'energy'``, ``'gaussian'``, ``'laplacian'``, or a function of torch tensors
        (..., m, p) and (..., n, p) to (..., m, n).
    bandwidth : float, optional
        Of ``'gaussian'`` and ``'laplacian'``, in the units that the kernel sees. Default:
        the median distance of the history's outcomes.
    units : str
        Whether the kernel sees outcomes in ``'standard'`` deviations or ``'raw'``.
        ``'static'`` and ``'dynamic'`` with a numeric regularization take the latter.
    weights : str
        ``'equal'``, or ``'learned'``: a softmax over the scenarios, by context.
    rows : str
        ``'independent'``, so that any of them can be held out at random, or a
        ``'series'`` in time, of which stretches are; then ``'auto'`` takes constant
        scenarios unless another candidate is clearly better. Panels are held out so, too.
    batch : int
        Rows a step.
    mmd_epochs, task_epochs, loss_epochs : int
        Passes over the data of the MMD fit, of a task fit and of the Loss-Net.
    mmd_rate, task_rate, loss_rate, decay : float
        Learning rates and the weight decay of AdamW.
    encoder, head : tuple of int
        Units of the Loss-Net's encoder and of its head's layers.
    rounds, buffer : int
        Loss-Net updates of ``'dynamic'``, and how many rounds of labels it keeps.
    noise : float
        Of the scenarios while ``'direct'`` trains, in standard deviations.
    draws : int
        Outcomes that a decision is charged for in a step of ``'direct'``.
    folds : int, optional
        Parts of the cross-validation of ``'auto'``. Default: five, but for integer models
        and panels, whose fits are slow: there the last fifth is held out once.
    starts : int
        Of ``'auto'``: initial scenarios of those that are the same for all contexts.
    search : int
        How many sets of hyperparameters to draw at random and to try on a 20 % holdout;
        0 takes those given here.
    seconds : float, optional
        The longest that a decision may take, for ``scenarios='auto'``.
    device : str
        Where networks are trained: on the ``'cpu'``, on ``'cuda'``, or ``'auto'``, on CUDA
        where torch finds it. They are small and wait for the solver, which is on the CPU,
        as are scenarios, losses and the policy.

    Examples
    --------
    >>> FitConfig(hidden=(32,), noise=0.2).hidden
    (32,)
    """

    hidden: tuple[int, ...] = (64, 64)
    recurrent: tuple[int, ...] = (32, 64)
    kernel: str | Callable[..., Any] = "energy"
    bandwidth: float | None = None
    units: str | None = None
    weights: str = "equal"
    rows: str = "independent"
    batch: int = 50
    mmd_epochs: int = 30
    task_epochs: int = 12
    loss_epochs: int = 60
    mmd_rate: float = 2e-3
    task_rate: float = 2e-3
    loss_rate: float = 2e-3
    decay: float = 1e-3
    encoder: tuple[int, ...] = (64, 32)
    head: tuple[int, ...] = (64, 64, 64)
    rounds: int = 4
    buffer: int = 3
    noise: float = 0.3
    draws: int = 8
    folds: int | None = None
    starts: int = 4
    search: int = 0
    seconds: float | None = None
    device: str = "cpu"

    def __post_init__(self) -> None:
        problems = [
            f"{name} is {value!r:.80}; give one of {choices}"
            for name, choices in _CHOICES.items()
            if not (is_one_of(value := getattr(self, name), choices))
            and not (name == "units" and value is None)
        ]
        if not (callable(self.kernel) or is_one_of(self.kernel, tuple(KERNELS))):
            known = sorted(KERNELS)
            problems.append(
                f"kernel is {self.kernel!r}; give one of {known} or a function"
            )
        elif self.bandwidth is not None and not is_one_of(self.kernel, tuple(METRICS)):
            problems.append(
                f"bandwidth is {self.bandwidth!r:.80}, but only the kernels "
                f"{sorted(METRICS)} have one; leave it out, or give one of those"
            )
        for field in fields(self):
            problems += _bad_number(field.name, getattr(self, field.name))
        if problems:
            raise DataError("The settings do not fit", problems)


def config_of(config: Any) -> FitConfig:
    """Return a FitConfig from one, from a mapping, or from None."""
    if config is None:
        return FitConfig()
    if isinstance(config, FitConfig):
        return config
    if not isinstance(config, dict):
        found = f"config is a {type(config).__name__}; give a csg.FitConfig or a dict"
        raise DataError("The settings do not fit", [found])
    known = [field.name for field in fields(FitConfig)]
    problems = []
    for name in config:
        if name not in known:
            near = difflib.get_close_matches(str(name), known, n=3)
            hint = f"did you mean {' or '.join(near)}?" if near else "see csg.FitConfig"
            problems.append(f"there is no setting '{name}'; {hint}")
    if problems:
        raise DataError("The settings do not fit", problems)
    return FitConfig(**config)


def _bad_number(name: str, value: Any) -> list[str]:
    """Say what is wrong with a number among the settings, if it is one and wrong."""
    if name == "kernel" or name in _CHOICES:
        return []
    if name in ("hidden", "recurrent", "encoder", "head"):
        whole = isinstance(value, tuple | list) and all(
            is_whole(units) and 0 < units <= _MOST_UNITS for units in value
        )
        needed = name in ("recurrent", "encoder")
        good = whole and (len(value) > 0 or not needed)
        wanted = f"whole numbers above 0, such as (64, 64), up to {_MOST_UNITS}"
    elif name in ("noise", "decay"):
        good, wanted = is_number(value) and value >= 0, "a number from 0 up"
    elif name in ("seconds", "bandwidth"):
        good = value is None or (is_number(value) and value > 0)
        wanted = "a number above 0, or None"
    elif name.endswith("_rate"):
        good, wanted = is_number(value) and value > 0, "a number above 0"
    elif name == "folds":
        good = value is None or (is_whole(value) and value >= 2)
        wanted = "a whole number from 2 up, or None"
    else:
        least = 0 if name in ("search", "rounds") else 1
        good = is_whole(value) and value >= least
        wanted = f"a whole number from {least} up"
    return [] if good else [f"{name} is {value!r:.80}; give {wanted}"]
