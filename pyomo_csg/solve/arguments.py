"""The oracle's arguments, validated and turned into arrays of data."""

from __future__ import annotations

import copy
import math
from functools import lru_cache
from typing import Any

import numpy as np

from pyomo_csg.errors import DataError
from pyomo_csg.solve.compile.assembly import evaluate, first_stage_data
from pyomo_csg.solve.compile.compiled_model import CompiledModel, shared
from pyomo_csg.solve.engine import SolverTrouble, Troubles
from pyomo_csg.solve.lp.units import OutcomeSizes, are_violated
from pyomo_csg.stages import TwoStageModel
from pyomo_csg.stages.inputs import (
    count_axes,
    decision_batch,
    float_array,
    known_batch,
    outcome_batch,
    scenario_batch,
    valid_interval,
    weight_batch,
)
from pyomo_csg.validation import Problems, is_number, is_one_of

# The usual feasibility tolerance, since decisions may come from another solver.
_TOLERANCE = 1e-6
_NUMBERS = 1_000_000  # entries of all cases in one array


class Arguments:
    """Reads cases of one model; the numbers (p + r,) of a case are uncertain, then known.

    Every method collects all problems of its arguments, and raises them as one error.
    """

    def __init__(self, two_stage: TwoStageModel):
        self._two_stage = two_stage
        self._subject = f"The data does not fit '{two_stage.model.name}'"
        self._low, self._high = _intervals(two_stage.uncertain_params)
        self._known_sides = _intervals(two_stage.known_params)
        self.known = known_batch(two_stage, None)

    @property
    def p(self) -> int:
        """How many uncertain numbers there are."""
        return len(self._low)

    def with_known(self, known: Any, checked: bool = False) -> Arguments:
        """Return a reader with other default numbers of the known Params."""
        other, problems = copy.copy(self), self._new_problems()
        other.known = known
        if not checked:
            other.known = problems.check(
                "known", known_batch, self._two_stage, known, 1
            )
        problems.raise_any()
        return other

    def cases(
        self, scenarios: Any, weights: Any, *outcomes: Any, known: Any = None
    ) -> tuple[np.ndarray, ...]:
        """Return scenarios (n, K, p + r), weights (n, K) and any outcomes (n, p + r)."""
        problems = self._new_problems()
        if (
            weights is None
            and all(self._is_sound(omegas, 2) for omegas in outcomes)
            and self._is_sound(scenarios, 3)
            and all(len(scenarios) == len(omegas) for omegas in outcomes)
        ):
            cases, count, _ = scenarios.shape
            shares = shared(_equal_weights(count), (cases,))
            zetas, checked = scenarios.copy(), [omegas.copy() for omegas in outcomes]
        else:
            zetas, shares = self._scenarios(problems, scenarios, weights)
            checked = [
                problems.check("outcomes", outcome_batch, self._two_stage, one, zetas)
                for one in outcomes
            ]
        zetas, *checked = self._append_known(problems, known, zetas, *checked)
        problems.raise_any()
        return zetas, shares, *checked

    def decisions(
        self, decisions: Any, outcomes: Any, known: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return decisions (n, s) and outcomes (n, p + r)."""
        problems, two_stage = self._new_problems(), self._two_stage
        if self._is_sound(outcomes, 2):
            omegas = outcomes.copy()
        else:
            omegas = problems.check("outcomes", outcome_batch, two_stage, outcomes)
        ys = problems.check("decisions", decision_batch, two_stage, decisions, omegas)
        (omegas,) = self._append_known(problems, known, omegas)
        problems.raise_any()
        return ys, omegas

    def means(
        self,
        scenarios: Any,
        weights: Any,
        outcomes: Any,
        outcome_weights: Any,
        known: Any,
    ) -> tuple[np.ndarray, ...]:
        """Return scenarios, weights, outcomes (n, M, p + r) and their weights (n, M)."""
        problems = self._new_problems()
        zetas, shares = self._scenarios(problems, scenarios, weights)
        many = count_axes(outcomes) == 3
        batch = scenario_batch if many else outcome_batch
        omegas = problems.check("outcomes", batch, self._two_stage, outcomes)
        if omegas is not None and not many:
            omegas = omegas[:, None]
        parts = problems.check("outcome_weights", weight_batch, outcome_weights, omegas)
        if zetas is not None and omegas is not None and len(zetas) != len(omegas):
            problems.add_for(
                "outcomes", f"{len(omegas)} cases, but {len(zetas)} of scenarios"
            )
        zetas, omegas = self._append_known(problems, known, zetas, omegas)
        problems.raise_any()
        return zetas, shares, omegas, parts

    def slopes(
        self, scenarios: Any, weights: Any, slopes: Any, known: Any
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Return scenarios, weights and slopes (n, s), if there are any."""
        problems, units = self._new_problems(), None
        zetas, shares = self._scenarios(problems, scenarios, weights)
        if slopes is not None:
            units = problems.check("slopes", float_array, "slopes", slopes, "slopes")
        (zetas,) = self._append_known(problems, known, zetas)
        problems.raise_any()
        shape = len(zetas), len(self._two_stage.first_stage_variables)
        if units is not None and units.shape != shape:
            problems.add_for("slopes", f"shape {units.shape}; give shape {shape}")
        problems.raise_any()
        return zetas, shares, units

    def rehearsal(
        self, scenarios: Any, outcomes: Any, known: Any
    ) -> tuple[np.ndarray, ...]:
        """Return scenarios (n, K, p), weights (n, K) and outcomes (m, p + r)."""
        problems = self._new_problems()
        zetas, shares = self._scenarios(problems, scenarios, None)
        omegas = problems.check("outcomes", outcome_batch, self._two_stage, outcomes)
        (data,) = self._append_known(problems, known, omegas)
        problems.raise_any()
        return zetas, shares, data

    def _new_problems(self) -> Problems:
        return Problems(self._subject)

    def _scenarios(
        self, problems: Problems, scenarios: Any, weights: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return scenarios (n, K, p) and weights (n, K), or note their problems."""
        zetas = problems.check("scenarios", scenario_batch, self._two_stage, scenarios)
        return zetas, problems.check("weights", weight_batch, weights, zetas)

    def _append_known(
        self, problems: Problems, known: Any, *arrays: Any
    ) -> tuple[Any, ...]:
        """Return arrays (n, ..., p + r) of data, or note the problems of known numbers."""
        if not self._two_stage.known_params and _is_empty(known):
            return arrays
        cases = None if arrays[0] is None else len(arrays[0])
        numbers = self.known if known is None else known
        if not _are_sound(numbers, *self._known_sides) or (
            numbers.ndim == 2 and len(numbers) not in (1, cases)
        ):
            numbers = problems.check(
                "known", known_batch, self._two_stage, numbers, cases
            )
        if problems:
            return arrays
        return tuple(append_numbers(array, numbers) for array in arrays)

    def _is_sound(self, numbers: Any, axes: int) -> bool:
        """Whether values are an array of valid outcomes (..., p) already."""
        sound = _are_sound(numbers, self._low, self._high)
        return sound and numbers.ndim == axes


def check_call(on_error: Any, deadline: Any, mip_gap: Any) -> None:
    """Raise before anything is solved if a setting of a call cannot be used."""
    problems = Problems("Cannot solve")
    if not (deadline is None or is_number(deadline) or deadline == math.inf):
        problems.add(f"deadline is {deadline!r}; give a value of time.monotonic()")
    if mip_gap is not None and not (is_number(mip_gap) and 0 <= mip_gap < 1):
        problems.add(f"mip_gap is {mip_gap!r}; give a number from 0 to below 1")
    problems.raise_any()
    if not is_one_of(on_error, ("raise", "record")):
        raise DataError(
            "Unknown way with errors",
            [f"on_error is {on_error!r}; give 'raise' or 'record'"],
        )


def case_keys(keys: Any, count: int, fresh: bool) -> np.ndarray | None:
    """Return the keys of cases (n,), by default their positions, or None if ``fresh``."""
    if keys is None:
        return None if fresh else np.arange(count)
    try:
        names = np.asarray(keys)
    except ValueError:
        names = np.asarray(keys, dtype=object)
    if names.shape != (count,) or names.dtype.kind not in "iu":
        found = (
            f"keys: an array of shape {names.shape} and type {names.dtype} was given; "
            f"expected a whole number for each of {count} cases"
        )
        raise DataError("The keys do not fit the cases", [found])
    return names


class FirstStage:
    """The bounds and constraints of the first stage, by name."""

    def __init__(self, two_stage: TwoStageModel, compiled: CompiledModel):
        from scipy import sparse  # decisions do without

        self._compiled, rows = compiled, compiled.first_rows
        self._sizes = OutcomeSizes(compiled)
        places = np.arange(len(rows.row)), rows.row
        shape = len(rows.row), len(rows)
        self._sums = sparse.csr_array((np.ones(len(rows.row)), places), shape=shape)
        self._names = [
            *(f"constraint '{c.name}'" for c in two_stage.first_stage_constraints),
            *(f"the bounds of '{v.name}'" for v in two_stage.first_stage_variables),
        ]

    def violations(self, decisions: np.ndarray, data: np.ndarray) -> Troubles:
        """Return a trouble for each infeasible decision (n, s), given data (n, p + r)."""
        if not self._compiled.first_stage_moves:
            # The same decision often meets many outcomes in a row.
            is_new = np.ones(len(decisions), bool)
            is_new[1:] = (decisions[1:] != decisions[:-1]).any(axis=1)
            group, first = np.cumsum(is_new) - 1, np.flatnonzero(is_new)
            found = self._violations_in_parts(decisions[first], data[first])
            if not found:
                return {}
            numbers = group.tolist()
            return {i: found[g] for i, g in enumerate(numbers) if g in found}
        return self._violations_in_parts(decisions, data)

    def _violations_in_parts(self, decisions: np.ndarray, data: np.ndarray) -> Troubles:
        troubles: Troubles = {}
        size = max(1, _NUMBERS // max(1, len(self._compiled.first_rows.row)))
        for start in range(0, len(decisions), size):
            part = slice(start, start + size)
            found = self._violations(decisions[part], data[part])
            troubles.update((start + i, trouble) for i, trouble in found.items())
        return troubles

    def _violations(self, decisions: np.ndarray, data: np.ndarray) -> Troubles:
        rows, moves = self._compiled.first_rows, self._compiled.first_stage_moves
        first = first_stage_data(self._compiled, data if moves else data[:1])
        products = first.entries * decisions[:, rows.column]
        body = np.hstack([products @ self._sums, decisions])
        lower = np.hstack([first.row_lower, first.lower])
        upper = np.hstack([first.row_upper, first.upper])
        off = np.maximum(lower - body, body - upper)
        doubtful = np.flatnonzero((off > 0).any(axis=1))
        if not len(doubtful):
            return {}
        decisions, products, body = (
            one[doubtful] for one in (decisions, products, body)
        )
        if moves:
            lower, upper = lower[doubtful], upper[doubtful]
        terms = np.hstack([np.abs(products) @ self._sums, np.abs(decisions)])

        def typical(place: int) -> np.ndarray:
            outcome = data[doubtful[place], None]
            columns, all_rows = self._sizes.at(evaluate(self._compiled, outcome))
            return np.concatenate([all_rows[: len(rows)], columns])

        violated = are_violated(body, terms, (lower, upper), _TOLERANCE, typical)
        lower, upper = (np.broadcast_to(side, body.shape) for side in (lower, upper))
        off = np.where(violated, np.maximum(lower - body, body - upper), -np.inf)
        return {
            int(doubtful[i]): self._trouble(
                int(np.argmax(off[i])), body[i], lower[i], upper[i]
            )
            for i in np.flatnonzero(violated.any(axis=1))
        }

    def _trouble(
        self, place: int, body: np.ndarray, lower: np.ndarray, upper: np.ndarray
    ) -> SolverTrouble:
        low, high = lower[place], upper[place]
        relation = f"below {low:.9g}" if body[place] < low else f"above {high:.9g}"
        return SolverTrouble(
            "infeasible",
            f"the decision violates {self._names[place]}: {body[place]:.9g} is {relation}",
        )


def _is_empty(known: Any) -> bool:
    """Whether known numbers are none at all: None, or an array (n, 0)."""
    return known is None or (type(known) is np.ndarray and known.shape[-1:] == (0,))


def _intervals(params: list[Any]) -> np.ndarray:
    """Return the lower and upper ends (2, n) of the open intervals of Params' values."""
    sides = [valid_interval(param.parent_component()) for param in params]
    return np.array(sides).reshape(-1, 2).T


def _are_sound(numbers: Any, low: np.ndarray, high: np.ndarray) -> bool:
    """Whether values are an array of floats (..., n) in these intervals; a quick check."""
    return (
        type(numbers) is np.ndarray
        and numbers.dtype == np.float64
        and numbers.ndim > 0
        and numbers.shape[-1] == len(low)
        and numbers.size > 0
        and bool(((numbers > low) & (numbers < high)).all())
    )


def append_numbers(array: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Return data (n, ..., p) followed by numbers (r,), (1, r) or (n, r)."""
    p, width = array.shape[-1], numbers.shape[-1]
    if not width:
        return array
    data = np.empty((*array.shape[:-1], p + width))
    data[..., :p] = array
    data[..., p:] = numbers.reshape(-1, *(1,) * (array.ndim - 2), width)
    return data


@lru_cache
def _equal_weights(count: int) -> np.ndarray:
    """Return equal weights (count,)."""
    return np.full(count, 1 / count)
