"""What every point forecast offers."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from pyomo_csg.learn.distributions.stored_arrays import Arrays


class Forecast(Protocol):
    """Predicts outcomes given contexts.

    Attributes
    ----------
    out_of_fold : array (m, p)
        Predictions of the fitted rows by models that have not seen them. It is empty
        after a forecast is restored from arrays.
    """

    @property
    def out_of_fold(self) -> np.ndarray:
        """Predictions (m, p) of the fitted rows by models that have not seen them."""

    @property
    def feature_count(self) -> int:
        """The number of features f of a context."""

    @property
    def column_count(self) -> int:
        """The number of outcome columns p."""

    def predict(self, contexts: np.ndarray) -> np.ndarray:
        """Return predictions (n, p) for contexts (n, d) or (n, W, d)."""

    def to_arrays(self) -> tuple[dict[str, Any], Arrays]:
        """Return a JSON description and arrays, for :func:`restore_forecast`."""
