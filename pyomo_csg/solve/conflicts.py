"""Which constraints of an infeasible program conflict: an irreducible set, by its names."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import highspy
import numpy as np
import pyomo.environ as pyo
from pyomo.repn import generate_standard_repn

from pyomo_csg.errors import CsgError

_SECONDS = 30.0  # to make the set smaller
_LONGEST = 90  # characters of an expression
_MOST_SHOWN = 12


@dataclass(frozen=True)
class Conflict:
    """Constraints and bounds that no solution satisfies together. ``print`` it.

    Attributes
    ----------
    constraints : tuple of str
        Names of constraints.
    bounds : tuple of str
        Names of variables whose bounds, or whose being integer, take part.
    lines : tuple of str
        Each of them as it stands in the model.
    irreducible : bool
        Whether the others can be satisfied if any one is left out.
    """

    constraints: tuple[str, ...]
    bounds: tuple[str, ...]
    lines: tuple[str, ...]
    irreducible: bool

    def __str__(self) -> str:
        head = "No solution satisfies all of these"
        if self.irreducible:
            head += "; without any one of them there is one"
        shown = [f"  {line}" for line in self.lines[:_MOST_SHOWN]]
        if (more := len(self.lines) - _MOST_SHOWN) > 0:
            shown.append(f"  ... and {more} more")
        return "\n".join([f"{head}:", *shown])


class ExplainedProgram:
    """A program that is built when it is needed, and can say why it is infeasible."""

    def __init__(self, build: Callable[[], Any]):
        self._build = build

    def __call__(self) -> Any:
        return self._build()

    def conflict(self) -> Conflict:
        """Return the constraints and bounds that conflict."""
        return find_conflict(self._build())


def find_conflict(model: Any) -> Conflict:
    """Return an irreducible set of constraints and bounds of an infeasible linear model.

    Sets are left out as long as the rest stays infeasible, first large ones and then one by
    one (a deletion filter). Integer variables stay integer, unless the model is infeasible
    without that.
    """
    program = _Rows(model)
    if program.is_feasible(program.everything):
        program.use_integers()
        if program.is_feasible(program.everything):
            raise CsgError("The program is feasible: there is no conflict to explain")
    until = time.monotonic() + _SECONDS
    kept = _filter(program, list(program.everything), until)
    return program.conflict(kept, time.monotonic() < until)


def _filter(program: _Rows, parts: list[int], until: float) -> list[int]:
    """Return the parts without those that infeasibility does not need."""
    size = max(1, len(parts) // 2)
    while True:
        start = 0
        while start < len(parts) and time.monotonic() < until:
            rest = parts[:start] + parts[start + size :]
            if program.is_feasible(rest):
                start += size
            else:
                parts = rest
        if size == 1 or time.monotonic() >= until:
            return parts
        size = max(1, size // 2)


class _Rows:
    """The constraints and the bounds of a model as parts that HiGHS can do without."""

    def __init__(self, model: Any):
        self._constraints = list(
            model.component_data_objects(pyo.Constraint, active=True)
        )
        self._columns: dict[int, int] = {}
        self._variables: list[Any] = []
        rows = [self._row(one) for one in self._constraints]
        lower = [
            _bound(one.lower, one.has_lb(), -math.inf) for one in self._constraints
        ]
        upper = [_bound(one.upper, one.has_ub(), math.inf) for one in self._constraints]
        shift = np.array([constant for _, _, constant in rows])
        self._lower = np.array(lower) - shift
        self._upper = np.array(upper) - shift
        self._low, self._high = (
            np.array(
                [
                    _bound(v.bounds[side], v.bounds[side] is not None, free)
                    for v in self._variables
                ]
            )
            for side, free in ((0, -math.inf), (1, math.inf))
        )
        bounded = np.flatnonzero(np.isfinite(self._low) | np.isfinite(self._high))
        count = len(self._constraints)
        self.everything = [*range(count), *(count + int(j) for j in bounded)]
        self._highs = _new_highs(rows, len(self._variables))

    def use_integers(self) -> None:
        """Let integer variables be integer, which continuous relaxations are not."""
        for j, variable in enumerate(self._variables):
            if not variable.is_continuous():
                self._highs.changeColIntegrality(j, highspy.HighsVarType.kInteger)

    def is_feasible(self, parts: Sequence[int]) -> bool:
        """Return whether some constraints and bounds can be satisfied together."""
        count, inf = len(self._constraints), highspy.kHighsInf
        used = np.zeros(count + len(self._variables), dtype=bool)
        used[list(parts)] = True
        for i in range(count):
            low, high = self._lower[i], self._upper[i]
            self._highs.changeRowBounds(i, *((low, high) if used[i] else (-inf, inf)))
        for j in range(len(self._variables)):
            low, high = self._low[j], self._high[j]
            self._highs.changeColBounds(
                j, *((low, high) if used[count + j] else (-inf, inf))
            )
        self._highs.run()
        return bool(
            self._highs.getModelStatus() != highspy.HighsModelStatus.kInfeasible
        )

    def conflict(self, parts: Sequence[int], irreducible: bool) -> Conflict:
        """Return parts by the names of the model."""
        count = len(self._constraints)
        rows = [self._constraints[i] for i in parts if i < count]
        columns = [self._variables[i - count] for i in parts if i >= count]
        lines = [f"{one.name}: {_shorten(str(one.expr))}" for one in rows]
        lines += [_bounds_text(one) for one in columns]
        return Conflict(
            tuple(one.name for one in rows),
            tuple(one.name for one in columns),
            tuple(lines),
            irreducible,
        )

    def _row(self, constraint: Any) -> tuple[list[int], list[float], float]:
        found = generate_standard_repn(constraint.body)
        if not found.is_linear():
            name = constraint.name
            raise CsgError(f"'{name}' is not linear: its conflicts cannot be explained")
        columns = [self._column(v) for v in found.linear_vars]
        return columns, [float(c) for c in found.linear_coefs], float(found.constant)

    def _column(self, variable: Any) -> int:
        if id(variable) not in self._columns:
            self._columns[id(variable)] = len(self._variables)
            self._variables.append(variable)
        return self._columns[id(variable)]


def _new_highs(rows: Sequence[tuple[list[int], list[float], float]], width: int) -> Any:
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    highs.setOptionValue("threads", 1)
    inf = highspy.kHighsInf
    for _ in range(width):
        highs.addVar(-inf, inf)
    for columns, values, _ in rows:
        highs.addRow(
            -inf,
            inf,
            len(columns),
            np.array(columns, dtype=np.int32),
            np.array(values, dtype=float),
        )
    return highs


def _bound(value: Any, is_there: bool, otherwise: float) -> float:
    return float(pyo.value(value)) if is_there else otherwise


def _bounds_text(variable: Any) -> str:
    low, high = variable.bounds
    kind = "" if variable.is_continuous() else ", integer"
    ends = [f"{low:g} <= " if low is not None else ""]
    ends.append(f" <= {high:g}" if high is not None else "")
    return f"{variable.name}: {ends[0]}{variable.name}{ends[1]}{kind}"


def _shorten(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= _LONGEST else f"{words[: _LONGEST - 3]}..."
