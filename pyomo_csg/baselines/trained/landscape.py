"""The landscape surrogate of Zharmagambetov et al.: one scenario, by a learned loss."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from pyomo.core.base.block import BlockData
from torch import Tensor

from pyomo_csg.baselines.base import Baseline
from pyomo_csg.learn.config import FitConfig, read_config
from pyomo_csg.policy.fit import fit


class LandscapeSurrogate(Baseline):
    """One scenario a context, by a network that follows a learned loss.

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
    model, data, context, seed
        As in :class:`Baseline`.
    network
        As in :func:`pyomo_csg.fit`.
    config : FitConfig or dict, optional
        Settings; its kernel and units are not looked at.
    progress : bool
        Whether to draw bars.
    **settings
        ``solver``, ``options``, ``workers`` and ``executor`` of the oracle.

    Attributes
    ----------
    policy : Policy
        What was learned; it can be saved, and tells how it was learned.

    Examples
    --------
    >>> import pyomo_csg as csg
    >>> from models import newsvendor
    >>> quick = csg.FitConfig(mmd_epochs=5, loss_epochs=5, task_epochs=2, rounds=1)
    >>> rival = csg.baselines.LandscapeSurrogate(
    ...     newsvendor.build(), newsvendor.sample(60, seed=1), config=quick, progress=False
    ... )
    >>> rival.scenarios([0.0, 0.0]).shape
    (1, 1)
    """

    name = "landscape surrogate"

    def __init__(
        self,
        model: BlockData,
        data: Any,
        *,
        context: Any = None,
        seed: int = 0,
        network: Any = None,
        config: FitConfig | dict[str, Any] | None = None,
        progress: bool = True,
        **settings: Any,
    ):
        super().__init__(model, data, context=context, seed=seed, **settings)
        settings.pop("options", None)  # they are for decisions
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
            **settings,
        )

    def _generate_scenarios(
        self, contexts: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        return self.policy.scenarios(contexts), self.policy.weights(contexts)


def _product(one: Tensor, other: Tensor) -> Tensor:
    """Return a'b for all pairs (..., m, n): its MMD compares means."""
    return one @ other.mT
