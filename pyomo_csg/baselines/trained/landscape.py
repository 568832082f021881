"""LandscapeSurrogate (Zharmagambetov et al.): one scenario, trained on a learned loss."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from pyomo.core.base.block import BlockData
from torch import Tensor

from pyomo_csg.baselines.base import Baseline
from pyomo_csg.learn.config import FitConfig, read_config
from pyomo_csg.policy.fit import fit

_TRAINING_SETTINGS = ("solver", "workers", "executor")


class LandscapeSurrogate(Baseline):
    """Solve on one scenario from a network that minimizes a learned loss.

    Zharmagambetov et al. (2023), Landscape surrogate: learning decision losses for
    mathematical optimization under partial information. It is dynamic PCSG with one
    scenario and no MMD:

    ============================================  =====================================
    theirs                                        here
    ============================================  =====================================
    target mapping c_theta, from y to c           the Task-Net, from x to one scenario
    landscape surrogate M(c, z)                   the Loss-Net, of scenario and outcome
    label f(g(c), z), g being the solver          l_opt by the oracle
    warm start of c_theta by squared errors       MMD with a linear kernel, which for
                                                  one scenario is the squared error
    alternating M and theta, with a buffer        ``rounds`` and ``buffer``
    ============================================  =====================================

    Parameters
    ----------
    model, data, **settings
        As in :class:`Baseline`.
    network
        As in :func:`pyomo_csg.fit`.
    config : FitConfig or dict, optional
        Settings of the fit; its kernel and units are ignored.
    progress : bool
        Whether to show progress bars.

    Attributes
    ----------
    policy : Policy
        The fitted policy, which can be saved.

    Examples
    --------
    >>> import pyomo_csg as csg
    >>> from models import newsvendor
    >>> quick = csg.FitConfig(mmd_epochs=5, loss_epochs=5, task_epochs=2, rounds=1)
    >>> baseline = csg.baselines.LandscapeSurrogate(
    ...     newsvendor.build(), newsvendor.sample(60, seed=1), config=quick, progress=False
    ... )
    >>> baseline.scenarios([0.0, 0.0]).shape
    (1, 1)
    """

    name = "landscape surrogate"

    def __init__(
        self,
        model: BlockData,
        data: Any,
        *,
        network: Any = None,
        config: FitConfig | dict[str, Any] | None = None,
        progress: bool = True,
        **settings: Any,
    ):
        super().__init__(model, data, **settings)
        # Solver options are for decisions, not for training.
        oracle = {k: v for k, v in settings.items() if k in _TRAINING_SETTINGS}
        self.policy = fit(
            model,
            (self.history.contexts, self.history.outcomes),
            scenarios=1,
            method="dynamic",
            regularization=0.0,
            network=network,
            config=replace(
                read_config(config), kernel=_product, bandwidth=None, units="standard"
            ),
            seed=self.seed,
            progress=progress,
            **oracle,
        )

    def _generate_scenarios(
        self, contexts: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        return self.policy.scenarios(contexts), self.policy.weights(contexts)


def _product(one: Tensor, other: Tensor) -> Tensor:
    """Return the linear kernel (..., m, n), whose MMD compares means."""
    return one @ other.mT
