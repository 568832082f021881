"""A conditional distribution of the user's: an object with ``sample(x, n)``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np

from pyomo_csg.errors import DataError
from pyomo_csg.learn.distributions.features import standard_spread
from pyomo_csg.learn.distributions.stored_arrays import Arrays, StoredArrays, damage
from pyomo_csg.stages import TwoStageModel
from pyomo_csg.stages.inputs import float_array, scenario_array, valid_interval

USERS = "distribution"  # its name in tables
_KIND = "user"
_DRAWS = 200  # that are asked for, for one context
_NUMBERS = 20_000_000  # of all rows of a history together
_FEWEST = 20
_CLEARLY = 3.0  # standard errors
_COMPARED, _POINTS = 300, 50  # rows and draws
_SUBJECT = "The distribution cannot be used"


@runtime_checkable
class Samples(Protocol):
    """What ``distribution=`` of :func:`pyomo_csg.fit` asks for."""

    def sample(self, x: np.ndarray, n: int) -> Any:
        """Return outcomes (n, p) for one context (d,), equally likely.

        Columns are in the order of the uncertain Params. There may be fewer or more rows,
        as an ensemble has its own number of members.
        """


@dataclass(eq=False)
class UserDistribution:
    """Samples of the user's object, checked; contexts of a history are sampled once.

    ``domains`` are the names of the uncertain Params and of their domains, and ``sides``
    (2, p) the open intervals of their values, NaN where only the oracle knows them. They
    hold no part of the model, which may be gone. Without a source, it was read from a
    file, and :meth:`bind` gives it one.
    """

    source: Samples | None
    columns: int
    domains: list[tuple[str, str]] = field(repr=False)
    sides: np.ndarray = field(repr=False)
    _known: dict[bytes, np.ndarray] = field(default_factory=dict, repr=False)

    name = USERS
    feature_count = None

    @classmethod
    def bind(cls, source: Samples, two_stage: TwoStageModel) -> UserDistribution:
        """Return the distribution of an object for a model."""
        params = two_stage.uncertain_params
        parents = [param.parent_component() for param in params]
        domains = [
            (param.name, parent.domain.name)
            for param, parent in zip(params, parents, strict=True)
        ]
        sides = np.array([valid_interval(parent) for parent in parents]).T
        return cls(source, len(params), domains, sides)

    @property
    def column_count(self) -> int:
        """The number of outcome columns p."""
        return self.columns

    def remember(self, contexts: np.ndarray) -> np.ndarray:
        """Sample the contexts of a history, and return outcomes (n, M, p).

        They are evenly spaced among those of each context, or repeated, if the object
        returned another number than was asked for.
        """
        size = max(1, self.columns * len(contexts))
        count = int(np.clip(_NUMBERS // size, _FEWEST, _DRAWS))
        drawn = np.empty((len(contexts), count, self.columns))
        for row, x in enumerate(contexts):
            found = self._known.get(x.tobytes())
            if found is None:
                found = self._known[x.tobytes()] = self._sample(x, row)
            drawn[row] = found[_spread(len(found), count)]
        return drawn

    def check_domains(self, contexts: np.ndarray, two_stage: TwoStageModel) -> None:
        """Raise a DataError if a sample is not in the domains, which need not be intervals."""
        if not np.isnan(self.sides).any():
            return  # every sample is checked
        self.remember(contexts)
        for row, x in enumerate(contexts):
            try:
                scenario_array(two_stage, self._known[x.tobytes()])
            except DataError as error:
                found = [f"context {row}: {problem}" for problem in error.problems]
                raise DataError(_SUBJECT, found) from error

    def outcomes(
        self, contexts: np.ndarray
    ) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Return, per context, points (k, p) and equal weights (k,)."""
        points = []
        for row, x in enumerate(contexts):
            found = self._known.get(x.tobytes())
            points.append(self._sample(x, row) if found is None else found)
        return points, [np.full(len(one), 1 / len(one)) for one in points]

    def sample(
        self, contexts: np.ndarray, count: int, rng: np.random.Generator
    ) -> np.ndarray:
        """Return outcomes (n, count, p) drawn for each context."""
        points, _ = self.outcomes(contexts)
        return np.stack([one[rng.integers(len(one), size=count)] for one in points])

    def sample_fitted(
        self, rows: np.ndarray, count: int, rng: np.random.Generator
    ) -> np.ndarray:
        """Not available: it was fitted to no rows; see :class:`DrawnSampler`."""
        raise NotImplementedError

    def to_arrays(self) -> tuple[dict[str, Any], Arrays]:
        """Return a description without the object, which :meth:`bind` needs again."""
        description = {"kind": _KIND, "name": self.name, "columns": [self.columns]}
        return description, {}

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_known": {}}

    def _sample(self, x: np.ndarray, row: int) -> np.ndarray:
        """Return checked outcomes (k, p) of one context."""
        where = f"sample(x, {_DRAWS}) for context {row}"
        if self.source is None:
            found = "it was saved without your object; load with distribution=object"
            raise DataError(_SUBJECT, [found])
        try:
            given = self.source.sample(x.copy(), _DRAWS)
        except Exception as error:  # a user's object may raise anything
            failed = f"{where} gave an error ({type(error).__name__}: {error})"
            remedy = "let it return an array (n, p) for every context of the history"
            raise DataError(_SUBJECT, [f"{failed:.400}; {remedy}"]) from error
        points = float_array(where, given, _SUBJECT)
        expected = f"({_DRAWS}, {self.columns}), a row per outcome and a column for"
        if points.ndim != 2 or points.shape[1] != self.columns or not len(points):
            names = ", ".join(name for name, _ in self.domains[:3])
            more = ", ..." if self.columns > 3 else ""
            problem = f"{where} gave shape {points.shape}; return {expected}"
            raise DataError(_SUBJECT, [f"{problem} each of {names}{more}"])
        low, high = self.sides
        wrong = ~np.isfinite(points) | (points <= low) | (points >= high)
        problems = []
        for column in np.flatnonzero(wrong.any(axis=0)).tolist():
            place, (name, domain) = int(wrong[:, column].argmax()), self.domains[column]
            value = points[place, column]
            reason = f"outside its domain {domain}"
            reason = reason if np.isfinite(value) else "which is not a finite number"
            found = f"{where} gave {value:g} in row {place} for '{name}', {reason}"
            problems.append(found)
        if problems:
            raise DataError(_SUBJECT, problems)
        return points


def restore_user_distribution(stored: StoredArrays) -> UserDistribution:
    """Return a stored distribution, still without the user's object."""
    columns, *more = stored.sizes("columns")
    if more:
        raise damage("a distribution has several numbers of columns")
    return UserDistribution(None, columns, [], np.empty((2, 0)))


class DrawnSampler:
    """Draws from outcomes (n, M, p) that belong to the rows of a history."""

    def __init__(self, drawn: np.ndarray):
        self._drawn = drawn

    def draw(
        self, rows: np.ndarray, count: int, rng: np.random.Generator
    ) -> np.ndarray:
        """Return outcomes (B, count, p) for rows (B,)."""
        picked = rng.integers(self._drawn.shape[1], size=(len(rows), count))
        return self._drawn[rows[:, None], picked]


def distribution_note(drawn: np.ndarray, outcomes: np.ndarray) -> str:
    """Return what costs under draws (n, M, p) mean; a warning if outcomes (n, p) do not fit.

    They are compared with the outcomes of all rows by the energy score, which has the same
    form for both: the mean distance to the outcome less half the mean distance of two draws.
    """
    unit = standard_spread(outcomes)
    happened = outcomes[_spread(len(outcomes), _COMPARED)] / unit
    draws = drawn[_spread(len(outcomes), _COMPARED)] / unit
    draws = draws[:, _spread(draws.shape[1], _POINTS)]
    others = happened[_spread(len(happened), _POINTS)]
    apart = np.array(
        [
            _energy(mine, outcome) - _energy(others, outcome)
            for mine, outcome in zip(draws, happened, strict=True)
        ]
    )
    own = "The costs in this report are those under your distribution"
    error = apart.std() / np.sqrt(min(len(apart), len(outcomes)))
    if apart.mean() <= _CLEARLY * error:
        return f"{own}, not under the observed outcomes."
    return (
        "Warning: the observed outcomes fit your distribution worse than the outcomes of "
        f"all rows, whatever the context: its energy score is {apart.mean():.3g} higher, "
        f"+- {error:.2g}, in standard deviations. {own}; use csg.evaluate "
        "to see those under observed outcomes."
    )


def _energy(draws: np.ndarray, outcome: np.ndarray) -> float:
    """Return the energy score of draws (M, p)."""
    from scipy.spatial.distance import cdist  # deciding does without

    to_outcome = np.linalg.norm(draws - outcome, axis=1).mean()
    return float(to_outcome - cdist(draws, draws).mean() / 2)


def _spread(count: int, wanted: int) -> np.ndarray:
    """Return ``wanted`` places among ``count``, evenly spaced or evenly repeated."""
    return (np.arange(wanted) * count + count // 2) // max(1, wanted) % max(1, count)
