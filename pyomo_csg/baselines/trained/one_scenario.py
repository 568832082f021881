"""OneScenario and LandscapeSurrogate: one scenario, fitted to the costs of decisions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from pyomo.core.base.block import BlockData
from scipy.optimize import minimize
from sklearn.tree import DecisionTreeRegressor
from torch import Tensor

from pyomo_csg.baselines.base import Baseline
from pyomo_csg.baselines.trained.network_training import Features
from pyomo_csg.learn.config import FitConfig, read_config
from pyomo_csg.learn.distributions.features import standard_spread
from pyomo_csg.learn.progress import TrainingLog
from pyomo_csg.policy.fit import fit

_FIRST_STEP = 0.5  # of the simplex, in standard deviations of the outcomes
_TOLERANCE = 1e-4  # in standard deviations of the outcomes, and of the costs
_TRAINING_SETTINGS = ("solver", "workers", "executor")

# Coefficients (f, p) to fit, the design (rows, f) that multiplies them, and the rows.
Part = tuple[np.ndarray, np.ndarray, np.ndarray]


class OneScenario(Baseline):
    """Solve on one scenario from a map that is fitted to the costs of decisions.

    Homem-de-Mello et al. (2024), Forecasting outside the box: application-driven optimal
    pointwise forecasts for stochastic optimization. The scenario is either linear in the
    context, B x + b, or constant in each leaf of a regression tree, projected to the
    Params' domains. The search starts at the least-squares fit and minimizes the mean
    cost of the decisions by the simplex method of Nelder and Mead, as in the paper.

    Parameters
    ----------
    model, data, **settings
        As in :class:`Baseline`.
    map : {'linear', 'tree'}
        A linear map has p (d + 1) coefficients, searched at once. The leaves of a tree
        have p each and are searched one by one, with one program per evaluation.
    evaluations : int
        Maximum evaluations of the mean cost in a search, of a linear map or of a leaf.
    pairs : int
        Maximum number of rows in the mean cost: drawn once, at random.
    leaf : int
        Minimum number of rows in a leaf.
    progress : bool
        Whether to show progress bars.

    Attributes
    ----------
    losses : tuple of float
        The mean cost on the rows of the search, before and after.

    Notes
    -----
    The paper also has maps that are linear in each leaf of a tree. The simplex is
    restarted where it stopped until that gains nothing. A panel's features are the mean,
    standard deviation and last value of each column.

    Examples
    --------
    >>> import pyomo_csg as csg
    >>> from pyomo_csg.zoo import newsvendor
    >>> baseline = csg.baselines.OneScenario(
    ...     newsvendor.build(), newsvendor.sample(60, seed=1), map="tree", progress=False
    ... )
    >>> baseline.scenarios([0.0, 0.0]).shape, baseline.losses[1] < baseline.losses[0]
    ((1, 1), True)
    """

    def __init__(
        self,
        model: BlockData,
        data: Any,
        *,
        map: str = "linear",
        evaluations: int = 1000,
        pairs: int = 200,
        leaf: int = 20,
        progress: bool = True,
        **settings: Any,
    ):
        problems = self._new_problems()
        problems.check_counts(evaluations=evaluations, pairs=pairs, leaf=leaf)
        if map not in ("linear", "tree"):
            problems.add(f"map is {map!r}; give 'linear' or 'tree'")
        problems.raise_any()
        super().__init__(model, data, **settings)
        self.name = f"one scenario, {map}"
        self._evaluations, self._pairs = int(evaluations), int(pairs)
        self._unit = standard_spread(self.history.outcomes)
        self._features = Features(self.history.contexts)
        features = self._features(self.history.contexts)
        self._map: LinearMap | LeafMap
        if map == "linear":
            self._map = LinearMap(features, self.history.outcomes)
        else:
            self._map = LeafMap(features, self.history.outcomes, int(leaf), self.seed)
        self.losses = self._search(features, TrainingLog(progress))

    def _generate_scenarios(
        self, contexts: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        zetas = self._project(self._map(self._features(contexts)))
        return zetas[:, None], np.ones((len(contexts), 1))

    def _search(self, features: np.ndarray, log: TrainingLog) -> tuple[float, float]:
        """Fit the parts of the map and return the losses before and after."""
        rng = np.random.default_rng(self.seed)
        parts = self._map.parts(features)
        sums, count = np.zeros(2), 0
        with log.stage(self.name, len(parts)) as bar:
            for numbers, design, rows in parts:
                some = rng.permutation(len(rows))[: self._pairs]
                sums += len(some) * self._fit(numbers, design[some], rows[some])
                count += len(some)
                bar.step(loss=sums[1] / count)
        start, end = sums / count
        return float(start), float(end)

    def _fit(
        self, numbers: np.ndarray, design: np.ndarray, rows: np.ndarray
    ) -> np.ndarray:
        """Fit coefficients (f, p) in place, and return the mean costs before and after."""
        costs = self._costs(design @ numbers, rows)
        known = np.isfinite(costs)
        if not known.any():
            self._raise_problems(
                f"no decision on the least-squares scenario has a cost on any of "
                f"{len(rows)} pairs; give the model complete recourse"
            )
        rows, design = rows[known], design[known]
        scale = costs[known].std() or 1.0

        def loss(free: np.ndarray) -> float:
            zetas = design @ (free.reshape(numbers.shape) * self._unit)
            mean = float(self._costs(zetas, rows).mean())
            return np.inf if np.isnan(mean) else mean / scale

        free, least = simplex(loss, (numbers / self._unit).ravel(), self._evaluations)
        numbers[:] = free.reshape(numbers.shape) * self._unit
        return np.array([costs[known].mean(), least * scale])

    def _costs(self, zetas: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return the costs (rows,) of decisions on scenarios (rows, p), or NaN.

        Equal scenarios, as in a leaf, are solved once.
        """
        how: Any = {"on_error": "record", "progress": False}
        known, p = self.history.known[rows], zetas.shape[1]
        both = np.hstack([self._project(zetas), known])
        distinct, which = np.unique(both, axis=0, return_inverse=True)
        points = np.ascontiguousarray(distinct[:, None, :p])
        found = self.oracle.solve(points, known=distinct[:, p:], **how)
        decisions = found.decision[which.ravel()]
        solved = np.isfinite(decisions).all(axis=1)
        costs = np.full(len(rows), np.nan)
        if solved.any():
            outcomes = self.history.outcomes[rows[solved]]
            costs[solved] = self.oracle.cost(
                decisions[solved], outcomes, known=known[solved], **how
            )
        return costs


class LinearMap:
    """B x + b; ``numbers`` (1 + f, p) are b and the transpose of B, by least squares."""

    def __init__(self, features: np.ndarray, outcomes: np.ndarray):
        self.numbers = np.linalg.lstsq(_with_one(features), outcomes, rcond=None)[0]

    def __call__(self, features: np.ndarray) -> np.ndarray:
        """Return scenarios (n, p)."""
        return _with_one(features) @ self.numbers

    def parts(self, features: np.ndarray) -> list[Part]:
        """Return one part: all coefficients at once."""
        return [(self.numbers, _with_one(features), np.arange(len(features)))]


class LeafMap:
    """One scenario per leaf of a regression tree; ``numbers`` are (nodes, p)."""

    def __init__(
        self, features: np.ndarray, outcomes: np.ndarray, leaf: int, seed: int
    ):
        self._tree = DecisionTreeRegressor(min_samples_leaf=leaf, random_state=seed)
        self._tree.fit(features, outcomes / standard_spread(outcomes))
        self.numbers = self._tree.tree_.value[:, :, 0] * standard_spread(outcomes)

    def __call__(self, features: np.ndarray) -> np.ndarray:
        """Return scenarios (n, p)."""
        return self.numbers[self._tree.apply(features)]

    def parts(self, features: np.ndarray) -> list[Part]:
        """Return one part per leaf."""
        leaves = self._tree.apply(features)
        rows = {leaf: np.flatnonzero(leaves == leaf) for leaf in np.unique(leaves)}
        return [
            (self.numbers[leaf : leaf + 1], np.ones((len(mine), 1)), mine)
            for leaf, mine in rows.items()
        ]


def _with_one(features: np.ndarray) -> np.ndarray:
    return np.hstack([np.ones((len(features), 1)), features])


def simplex(
    loss: Callable[[np.ndarray], float], start: np.ndarray, evaluations: int
) -> tuple[np.ndarray, float]:
    """Return the minimizer and minimum that Nelder and Mead's simplex finds.

    It restarts where it stopped until that gains nothing or evaluations run out.
    """
    best, least, left, step = start, np.inf, evaluations, _FIRST_STEP
    while left > 0:
        found = minimize(
            loss,
            best,
            method="Nelder-Mead",
            options={
                "initial_simplex": best + step * np.eye(len(best) + 1, len(best), -1),
                "adaptive": len(best) > 1,  # in one dimension it would collapse
                "maxfev": left,
                "xatol": _TOLERANCE,
                "fatol": _TOLERANCE,
            },
        )
        left, step = left - found.nfev, -step / 2
        gain = least - found.fun
        if gain > 0:
            best, least = found.x, float(found.fun)
        if not gain > _TOLERANCE:
            break
    return best, least


class LandscapeSurrogate(Baseline):
    """Solve on one scenario from a network that minimizes a learned loss.

    Zharmagambetov et al. (2023), Landscape surrogate: learning decision losses for
    mathematical optimization under partial information. It is dynamic PCSG with one
    scenario and no MMD:

    ============================================  =====================================
    in the paper                                  here
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
    >>> from pyomo_csg.zoo import newsvendor
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
            known=self.history.known if self.history.known.size else None,
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
