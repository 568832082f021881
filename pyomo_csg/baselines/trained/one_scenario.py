"""One scenario from a simple map of the context, as Homem-de-Mello et al. fit it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from pyomo.core.base.block import BlockData
from scipy.optimize import minimize
from sklearn.tree import DecisionTreeRegressor

from pyomo_csg.baselines.base import Baseline
from pyomo_csg.baselines.trained.network_training import Features
from pyomo_csg.learn.networks.domains import standard_spread
from pyomo_csg.learn.progress import TrainingLog
from pyomo_csg.validation import whole_problems

_FIRST_STEP = 0.5  # of the simplex, in standard deviations of the outcomes
_TOLERANCE = 1e-4  # in standard deviations of the outcomes, and of the costs

# Numbers (f, p) to fit, the design (rows, f) that they are multiplied with, the rows.
Part = tuple[np.ndarray, np.ndarray, np.ndarray]


class OneScenario(Baseline):
    """One scenario a context, whose map is fitted on what decisions then cost.

    Homem-de-Mello et al. (2024), Forecasting outside the box: application-driven optimal
    pointwise forecasts for stochastic optimization. The scenario is either linear in the
    context, B x + b, or the same for all contexts in a leaf of a regression tree, moved
    to the Params' domains where it leaves them. It starts at the least-squares fit, and
    Nelder and Mead's simplex then lowers the mean cost of the decisions, as they did.

    Parameters
    ----------
    model, data, context, seed
        As in :class:`Baseline`.
    map : {'linear', 'tree'}
        A linear map has p (d + 1) numbers to search at once. A tree's leaves, p numbers
        each, are searched one by one, and a leaf needs one program an evaluation.
    evaluations : int
        The most that a search, of a linear map or of a leaf, may evaluate the mean cost
        once it is known at the start.
    pairs : int
        How many pairs the mean is taken over at most: drawn once, at random.
    leaf : int
        The fewest pairs in a leaf of the tree.
    progress : bool
        Whether to draw bars.
    **settings
        ``solver``, ``options``, ``workers`` and ``executor`` of the oracle.

    Attributes
    ----------
    losses : tuple of float
        The mean cost, on the pairs of the search, at the start and at the end.

    Notes
    -----
    Theirs is also piecewise linear in the leaves of a tree; here a leaf has one scenario.
    A simplex that has stopped starts anew where it is until that gains nothing. Contexts
    that are panels are told by each number's mean, spread and last value.

    Examples
    --------
    >>> import pyomo_csg as csg
    >>> from models import newsvendor
    >>> rival = csg.baselines.OneScenario(
    ...     newsvendor.build(), newsvendor.sample(60, seed=1), map="tree", progress=False
    ... )
    >>> rival.scenarios([0.0, 0.0]).shape, rival.losses[1] < rival.losses[0]
    ((1, 1), True)
    """

    def __init__(
        self,
        model: BlockData,
        data: Any,
        *,
        context: Any = None,
        seed: int = 0,
        map: str = "linear",
        evaluations: int = 1000,
        pairs: int = 200,
        leaf: int = 20,
        progress: bool = True,
        **settings: Any,
    ):
        problems = whole_problems(evaluations=evaluations, pairs=pairs, leaf=leaf)
        if map not in ("linear", "tree"):
            problems.append(f"map is {map!r}; give 'linear' or 'tree'")
        self._raise_problems(*problems)
        super().__init__(model, data, context=context, seed=seed, **settings)
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
        """Fit the parts of the map, one by one, and return the losses before and after."""
        rng = np.random.default_rng(self.seed)
        parts = self._map.parts(features)
        sums, count = np.zeros(2), 0
        with log.stage(self.name, len(parts), "search") as bar:
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
        """Move numbers (f, p), in place, to where decisions on design @ numbers cost less.

        Returns the mean cost before and after.
        """
        costs = self._costs(design @ numbers, rows)
        known = np.isfinite(costs)
        if not known.any():
            self._raise_problems(
                f"none of {len(rows)} pairs has an answer once decisions are made on the "
                "least-squares scenario; give the model complete recourse"
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
        """Return what decisions on scenarios (rows, p) cost; NaN where that has no answer.

        A scenario that comes many times, as in a leaf, is solved once.
        """
        how: Any = {"on_error": "record", "progress": False}
        distinct, which = np.unique(self._project(zetas), axis=0, return_inverse=True)
        decisions = self.oracle.solve(distinct[:, None], **how).decision[which]
        solved = np.isfinite(decisions).all(axis=1)
        costs = np.full(len(rows), np.nan)
        if solved.any():
            outcomes = self.history.outcomes[rows[solved]]
            costs[solved] = self.oracle.cost(decisions[solved], outcomes, **how)
        return costs


class LinearMap:
    """B x + b, by least squares.

    Parameters
    ----------
    features : array (n, f)
    outcomes : array (n, p)

    Attributes
    ----------
    numbers : array (1 + f, p)
        b, then the transpose of B.
    """

    def __init__(self, features: np.ndarray, outcomes: np.ndarray):
        self.numbers = np.linalg.lstsq(_with_one(features), outcomes, rcond=None)[0]

    def __call__(self, features: np.ndarray) -> np.ndarray:
        """Return scenarios (n, p)."""
        return _with_one(features) @ self.numbers

    def parts(self, features: np.ndarray) -> list[Part]:
        """Return what is to be fitted: all numbers at once."""
        return [(self.numbers, _with_one(features), np.arange(len(features)))]


class LeafMap:
    """The mean of a regression tree's leaf.

    Parameters
    ----------
    features : array (n, f)
    outcomes : array (n, p)
    leaf : int
        The fewest rows in a leaf.
    seed : int

    Attributes
    ----------
    numbers : array (nodes, p)
    """

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
        """Return what is to be fitted: the numbers of each leaf."""
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
    """Return where Nelder and Mead's simplex finds a loss least, and the loss there.

    It starts anew where it stopped until that gains nothing, or evaluations are spent.
    """
    best, least, left, step = start, np.inf, evaluations, _FIRST_STEP
    while left > 0:
        found = minimize(
            loss,
            best,
            method="Nelder-Mead",
            options={
                "initial_simplex": best + step * np.eye(len(best) + 1, len(best), -1),
                "adaptive": len(best) > 1,  # else it would shrink to a point
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
