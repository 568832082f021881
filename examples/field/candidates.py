"""The methods that field problems compare, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import pyomo_csg as csg

Fit = Callable[..., Any]  # (model, history, scenarios, seed) to a policy

COUNTS = (1, 3, 5, 10)
ALL = "all"  # outcomes, instead of K scenarios
CLAIRVOYANT = "clairvoyant"


def ridge() -> Any:
    """Return a ridge regression whose penalty is cross-validated for each number."""
    alphas = np.logspace(-1, 4, 16)
    return make_pipeline(StandardScaler(), RidgeCV(alphas, alpha_per_target=True))


def _baseline(kind: Any, **options: Any) -> Fit:
    def fit(model: Any, history: Any, scenarios: int | None, seed: int) -> Any:
        count = {} if kind is csg.baselines.ExpectedValue else {"scenarios": scenarios}
        made = {name: option() for name, option in options.items()}
        return kind(model, history, seed=seed, **count, **made)

    return fit


def _learned(method: str) -> Fit:
    def fit(model: Any, history: Any, scenarios: int | None, seed: int) -> Any:
        # Rows follow each other in time: they are held out in blocks.
        return csg.fit(
            model,
            history,
            scenarios=scenarios,
            method=method,
            seed=seed,
            config={"rows": "series"},
            progress=False,
        )

    return fit


_FITS: dict[str, Fit] = {
    "ev-ridge": _baseline(csg.baselines.ExpectedValue, forecast=ridge),
    "ev-forest": _baseline(csg.baselines.ExpectedValue, forecast=lambda: "forest"),
    "saa": _baseline(csg.baselines.SampleAverage),
    "forest": _baseline(csg.baselines.ForestWeighted),
    "neighbors": _baseline(csg.baselines.NeighborWeighted),
    "residuals-ridge": _baseline(csg.baselines.Residuals, forecast=ridge),
    "residuals-forest": _baseline(csg.baselines.Residuals, forecast=lambda: "forest"),
    "optimization-forest": _baseline(
        csg.baselines.StochasticOptimizationForest, progress=lambda: False
    ),
    "mmd": _learned("mmd"),
    "auto": _learned("auto"),
}
FORECASTS = ("ev-ridge", "ev-forest")
FULL = ("forest", "neighbors", "residuals-ridge", "residuals-forest")


@dataclass(frozen=True)
class Candidate:
    """A method with its number of scenarios: an int, or ``'all'`` outcomes."""

    method: str
    scenarios: int | str

    @property
    def name(self) -> str:
        return f"{self.method}:{self.scenarios}"

    def fit(self, model: Any, history: Any, seed: int) -> Any:
        """Return a policy."""
        count = None if self.scenarios == ALL else self.scenarios
        return _FITS[self.method](model, history, count, seed)


GROUPS: dict[str, tuple[str, ...]] = {
    "forecasts": tuple(f"{method}:1" for method in FORECASTS),
    "full": tuple(f"{method}:{ALL}" for method in ("saa", *FULL)),
    "reduced": tuple(f"{method}:{k}" for method in ("saa", *FULL) for k in COUNTS),
    "mmd": ("mmd:5",),
    "auto": tuple(f"auto:{k}" for k in COUNTS),
}
GROUPS["baselines"] = GROUPS["forecasts"] + GROUPS["full"] + GROUPS["reduced"]


def read_candidates(names: Iterable[str]) -> list[Candidate]:
    """Return the candidates of groups, or of names such as ``'forest:all'``, ``'mmd:5'``."""
    found: dict[str, Candidate] = {}
    for name in names:
        for one in GROUPS.get(name, (name,)):
            method, _, count = one.partition(":")
            if method not in _FITS or not (count == ALL or count.isdigit()):
                raise ValueError(
                    f"there is no method {name!r}; give one of {', '.join(GROUPS)}, or a "
                    f"method and its number of scenarios, such as 'auto:5' or 'forest:all'"
                )
            found[one] = Candidate(method, ALL if count == ALL else int(count))
    return list(found.values())
