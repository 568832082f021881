"""Every policy that is compared, by name: the paper's methods, ours, and the baselines."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiment import Experiment

import pyomo_csg as csg
from pyomo_csg import baselines

PAPERS = ("mmd", "static", "dynamic")
OURS = (*PAPERS, "auto", "given")
ONCE = {
    "EV": "the true conditional mean",
    "EV predicted": "the mean as a forest predicts it",
    "SAA": "all outcomes, one decision for all contexts",
    "quantile regression": "the critical quantile, linear in the context",
    "neighbours": "the outcomes of the nearest contexts",  # so named in stored results
    "forest": "all outcomes, weighted by a forest",
    "residuals": "a prediction plus all its residuals",
    "landscape": "one scenario by a learned loss, without MMD",
    "linear map": "one scenario from a linear map, by Nelder-Mead",
    "tree leaves": "one scenario a leaf of a tree, by Nelder-Mead",
    "probabilities": "probabilities of fixed outcomes, through the solution",
    "Neur2SP": "a network for the recourse, within the first stage",
}
REDUCED = ("SAA k-means", "SAA forward", "neighbours K", "forest K", "residuals K")
METHODS = (*ONCE, *REDUCED, *OURS)
QUICK = (
    "EV",
    "SAA",
    "forest",
    "quantile regression",
    "mmd",
    "static",
    "dynamic",
    "auto",
)


@dataclass(frozen=True)
class Unit:
    """A row of a table: a method, its number of scenarios and its lambda."""

    method: str
    scenarios: int | None = None
    penalty: float | str | None = None
    is_doubled: bool = False  # the kernel is -||a - b||, not half of it

    def __str__(self) -> str:
        count = "" if self.scenarios is None else f" K={self.scenarios}"
        return f"{self.label}{count}"

    @property
    def label(self) -> str:
        """The method and its lambda, which many K share."""
        return " ".join(filter(None, (self.method, self.penalty_text, self.kernel)))

    @property
    def kernel(self) -> str:
        """``'doubled'`` if the kernel is not the package's; else empty."""
        return "doubled" if self.is_doubled else ""

    @property
    def regularization(self) -> float | str:
        """What has the effect of lambda with the package's kernel, which is halved.

        A lambda relative to the MMD loss is doubled twice.
        """
        if self.penalty is None:
            return "auto"
        if not self.is_doubled:
            return self.penalty
        if isinstance(self.penalty, str):
            return f"{4 * float(self.penalty.removesuffix('x')):g}x"
        return 2 * self.penalty

    @property
    def penalty_text(self) -> str:
        """Lambda as the paper's tables have it; empty where there is none."""
        if self.penalty is None or isinstance(self.penalty, str):
            return self.penalty or ""
        return f"{self.penalty:g}"


def units(experiment: Experiment, methods: tuple[str, ...]) -> Iterator[Unit]:
    """Yield all rows of an experiment, the cheap ones first."""
    for method in methods:
        if method in ONCE and _serves(method, experiment):
            yield Unit(method)
    for count in experiment.counts:
        for method in methods:
            if method in REDUCED or (method in OURS and _serves(method, experiment)):
                if method not in ("static", "dynamic"):
                    yield Unit(method, count)
                    continue
                for penalty in experiment.penalties:
                    yield Unit(method, count, penalty)
                    if count in experiment.doubled:
                        yield Unit(method, count, penalty, is_doubled=True)


def _serves(method: str, experiment: Experiment) -> bool:
    if method == "given":
        return experiment.location_scale is not None
    if method == "quantile regression":
        return experiment.level is not None
    return True


class Fitting:
    """Fits policies on the history of a trial.

    Parameters
    ----------
    experiment : Experiment
    trial : int
    workers : int
    """

    def __init__(self, experiment: Experiment, trial: int, workers: int = 1):
        self._experiment, self._trial, self._workers = experiment, trial, workers
        self._model = experiment.build()
        self._history = experiment.history(trial)

    def policy(
        self, unit: Unit, checkpoint: Path | None = None
    ) -> tuple[Any, dict[str, float]]:
        """Return a fitted policy, and the seconds that its stages took.

        A fit that went on from a checkpoint has no seconds: they would be too few.
        """
        resumed, clock = checkpoint is not None and checkpoint.exists(), _Clock()
        if unit.method in OURS:
            policy: Any = self._ours(unit, clock, checkpoint)
        else:
            policy = self._baselines()[unit.method](unit.scenarios)
        return policy, {} if resumed else {**clock.stages, "fit": clock.seconds}

    def _ours(
        self,
        unit: Unit,
        clock: Callable[[dict[str, Any]], None],
        checkpoint: Path | None,
    ) -> csg.Policy:
        given = unit.method == "given"
        network = None
        if given:
            assert self._experiment.location_scale is not None
            network = self._experiment.location_scale(self._trial)
        return csg.fit(
            self._model,
            self._history,
            scenarios=unit.scenarios,
            method="auto" if given else unit.method,
            regularization=unit.regularization,
            network=network,
            config=self._settings(unit),
            seed=self._trial,
            workers=self._workers,
            checkpoint=checkpoint,
            progress=False,
            seconds=None,
            callback=clock,
        )

    def _settings(self, unit: Unit) -> dict[str, Any]:
        made_with = self._experiment.made_with
        if unit.method not in PAPERS:
            return made_with["config"]
        # Raw units, so that a large lambda leaves what 'mmd' minimizes.
        return {**made_with["config"], **made_with["searched"], "units": "raw"}

    def _baselines(self) -> dict[str, Callable[[int | None], Any]]:
        of, level = self._baseline, self._experiment.level
        mean = self._experiment.mean(self._trial)
        return {
            "EV": lambda k: of(baselines.ExpectedValue, forecast=mean),
            "EV predicted": lambda k: of(baselines.ExpectedValue, forecast="forest"),
            "SAA": lambda k: of(baselines.SampleAverage),
            "SAA k-means": lambda k: of(baselines.SampleAverage, scenarios=k),
            "SAA forward": lambda k: of(
                baselines.SampleAverage, scenarios=k, reduction="forward"
            ),
            "quantile regression": lambda k: of(
                baselines.QuantileRegression, level=level
            ),
            "neighbours": lambda k: of(baselines.NeighborWeighted),
            "neighbours K": lambda k: of(baselines.NeighborWeighted, scenarios=k),
            "forest": lambda k: of(baselines.ForestWeighted),
            "forest K": lambda k: of(baselines.ForestWeighted, scenarios=k),
            "residuals": lambda k: of(baselines.Residuals),
            "residuals K": lambda k: of(baselines.Residuals, scenarios=k),
            "landscape": lambda k: of(baselines.LandscapeSurrogate),
            "linear map": lambda k: of(baselines.OneScenario, map="linear"),
            "tree leaves": lambda k: of(baselines.OneScenario, map="tree"),
            "probabilities": lambda k: of(baselines.SupportProbabilities),
            "Neur2SP": lambda k: of(baselines.Neur2SP),
        }

    def _baseline(self, baseline: Callable[..., Any], **options: Any) -> Any:
        solver = self._experiment.options  # as the full program, whose size some have
        return baseline(self._model, self._history, options=solver, **options)


class _Clock:
    """Seconds per stage of a fit, from the entries that a fit logs."""

    def __init__(self) -> None:
        self.stages: dict[str, float] = {}
        self._start = self._last = time.perf_counter()

    def __call__(self, entry: dict[str, Any]) -> None:
        now, stage = time.perf_counter(), entry["stage"]
        self.stages[stage] = self.stages.get(stage, 0.0) + now - self._last
        self._last = now

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._start
