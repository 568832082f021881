"""csg.ScenarioGenerator: csg.fit as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from pyomo.core.base.block import BlockData
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from pyomo_csg.decisions.decision import Decision
from pyomo_csg.learn.config import FitConfig
from pyomo_csg.policy.fit import fit
from pyomo_csg.validation import DEFAULT_SECONDS


class ScenarioGenerator(TransformerMixin, BaseEstimator):
    """:func:`pyomo_csg.fit` as a scikit-learn estimator.

    Contexts are X, outcomes are Y, and the score is minus the mean cost of the decisions.
    Use it with ``cross_val_score`` and ``GridSearchCV``. These clone the estimator and its
    model, so it takes no ``checkpoint`` or ``executor``; use :func:`pyomo_csg.fit` for
    those. They also turn errors into scores of NaN, unless you pass
    ``error_score='raise'``.

    Parameters
    ----------
    model : ConcreteModel
        Annotated by :func:`pyomo_csg.annotate`.
    scenarios, method, regularization, context, known, preprocess, network, config, \
    seed, solver, workers
        As in :func:`pyomo_csg.fit`.
    progress : bool
        Whether to show progress bars.
    seconds, options
        As in :func:`pyomo_csg.fit`.

    Attributes
    ----------
    policy_ : Policy
        The fitted policy.
    n_features_in_ : int
        The number of columns of X, unless X holds panels.

    Examples
    --------
    >>> from sklearn.model_selection import cross_val_score
    >>> import pyomo_csg as csg
    >>> from pyomo_csg.zoo import newsvendor
    >>> X, Y = newsvendor.sample(30, seed=1)
    >>> generator = csg.ScenarioGenerator(newsvendor.build(), 2, method="mmd")
    >>> generator.fit(X, Y).predict(X[:3]).shape
    (3, 1)
    >>> generator.transform(X[:3]).shape
    (3, 2, 1)
    >>> len(cross_val_score(generator, X, Y, cv=2))
    2
    """

    def __init__(
        self,
        model: BlockData,
        scenarios: int | str = 5,
        method: Any = "auto",
        *,
        regularization: float | str = "auto",
        context: Any = None,
        known: Any = None,
        preprocess: Any = "auto",
        network: Any = None,
        config: FitConfig | dict[str, Any] | None = None,
        seed: int = 0,
        solver: str = "highs",
        workers: int = 1,
        progress: bool = False,
        seconds: float | None = DEFAULT_SECONDS,
        options: Mapping[str, Any] | None = None,
    ):
        self.model = model
        self.scenarios = scenarios
        self.method = method
        self.regularization = regularization
        self.context = context
        self.known = known
        self.preprocess = preprocess
        self.network = network
        self.config = config
        self.seed = seed
        self.solver = solver
        self.workers = workers
        self.progress = progress
        self.seconds = seconds
        self.options = options

    def __sklearn_tags__(self) -> Any:  # by scikit-learn 1.6 and later
        """Return what scikit-learn's tools and checks need to know about X and Y."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = tags.target_tags.multi_output = True
        tags.input_tags.three_d_array = True
        return tags

    def fit(self, X: Any, Y: Any) -> ScenarioGenerator:  # noqa: N803
        """Learn from contexts X and the outcomes Y that followed them.

        Parameters
        ----------
        X : array (n, d) or (n, W, d), or DataFrame
        Y : array (n, p), or DataFrame
            Columns in the order of ``TwoStageModel.uncertain_params``; the columns of a
            DataFrame are found by their Pyomo names.
        """
        options = self.get_params(deep=False)
        self.policy_ = fit(options.pop("model"), (X, Y), **options)
        shape = np.asarray(X).shape
        if len(shape) == 2:
            self.n_features_in_ = shape[1]
        return self

    def predict(self, X: Any) -> np.ndarray:  # noqa: N803
        """Return the decisions (n, s) for contexts, or (s,) for a single one.

        Columns are in the order of ``TwoStageModel.first_stage_variables``;
        ``policy_.decide`` gives them by name.
        """
        check_is_fitted(self)
        decided = self.policy_.decide(X, progress=self.progress)
        return decided.vector if isinstance(decided, Decision) else decided.to_numpy()

    def transform(self, X: Any) -> np.ndarray:  # noqa: N803
        """Return the scenarios (n, K, p) for contexts, or (K, p) for a single one."""
        check_is_fitted(self)
        return self.policy_.scenarios(X)

    def score(self, X: Any, Y: Any) -> float:  # noqa: N803
        """Return minus the mean cost of the decisions for X with outcomes Y.

        If the model is maximized, this is the mean profit. With a risk measure, return
        minus the mean-CVaR of the costs over the rows.
        """
        decisions = np.atleast_2d(self.predict(X))
        outcomes = Y if np.ndim(Y) == 2 else np.reshape(Y, (-1, 1))
        contexts, _ = self.policy_._read_contexts(X)
        known = self.policy_._read_known(X, None, contexts)
        costs = self.policy_.oracle.cost(
            decisions, outcomes, known=known, progress=self.progress
        )
        risk = self.policy_.two_stage.risk
        return -float(costs.mean() if risk is None else risk.measure(costs))
