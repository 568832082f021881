"""A compiled model: its rows, columns and costs as functions of the data."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pyomo_csg.locks import process_wide_lock

_sympy = process_wide_lock()  # which imports names into tables that all threads see
_FEW = 64  # outcomes up to which skipping certain numbers saves no time
_WHOLE = 1e-9  # a bound of an integer this close to a whole number is that number
_CONVEX = 1e-9  # a negative eigenvalue up to this share of the largest is rounding


class Functions:
    """Functions of omega that are not affine, stored as text so that they can be pickled.

    The texts are those of sympy's ``srepr``, with the symbols ``w0, w1, ...``; ``width`` is
    the number of uncertain parameters.
    """

    def __init__(self, texts: tuple[str, ...], width: int):
        self._texts = texts
        self._width = width

    def __len__(self) -> int:
        return len(self._texts)

    def take(self, positions: np.ndarray) -> Functions:
        """Return some of the functions."""
        return Functions(tuple(self._texts[i] for i in positions), self._width)

    def __reduce__(self) -> Any:
        return Functions, (self._texts, self._width)

    def values(self, omega: np.ndarray) -> np.ndarray:
        """Return values (n, size) at omega (n, p); NaN where a function is not defined."""
        with np.errstate(all="ignore"):
            values = self._stack(self._functions(*omega.T), len(omega))
        return np.where(np.isfinite(values), values, np.nan)

    def derivatives(self, omega: np.ndarray) -> np.ndarray:
        """Return derivatives (n, size, p) at omega (n, p); those of floor and ceil are 0."""
        with np.errstate(all="ignore"):
            flat = self._stack(self._slopes(*omega.T), len(omega))
        return flat.reshape(len(omega), len(self), self._width)

    @cached_property
    def _functions(self) -> Any:
        return self._compile(self._exprs)

    @cached_property
    def _slopes(self) -> Any:
        return self._compile(
            [slope for expr in self._exprs for slope in self._row(expr)]
        )

    @cached_property
    def _symbols(self) -> list[Any]:
        import sympy

        return list(sympy.symbols([f"w{i}" for i in range(self._width)], real=True))

    @cached_property
    def _exprs(self) -> list[Any]:
        import sympy

        return [sympy.sympify(text) for text in self._texts]

    def _row(self, expr: Any) -> list[Any]:
        """Return the derivatives of a function, with its steps treated as constants."""
        import sympy

        steps = expr.atoms(sympy.floor, sympy.ceiling)
        held = {step: sympy.Dummy(real=True) for step in steps}
        back = {dummy: step for step, dummy in held.items()}
        return [
            sympy.diff(expr.xreplace(held), symbol).xreplace(back)
            for symbol in self._symbols
        ]

    def _compile(self, exprs: list[Any]) -> Any:
        import sympy

        with _sympy:
            return sympy.lambdify(self._symbols, exprs, modules="numpy", cse=True)

    @staticmethod
    def _stack(values: Any, count: int) -> np.ndarray:
        columns = [np.broadcast_to(np.asarray(v, float), count) for v in values]
        return np.stack(columns, axis=1)


def shared(vector: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return a vector as an array (\\*shape, size) that is the same everywhere.

    Like ``np.broadcast_to``, but ten times faster for small arrays.
    """
    strides = (0,) * len(shape) + vector.strides
    return np.ndarray((*shape, len(vector)), vector.dtype, vector, 0, strides)


class Numbers:
    """A vector of numbers: constants, and at some positions functions of omega.

    Affine entries add ``slopes`` (p, size) times omega to ``constant`` (size,); ``functions``
    are added at ``positions``. ``certain`` says whether no entry depends on omega.
    """

    def __init__(
        self,
        constant: np.ndarray,
        slopes: Any,
        positions: np.ndarray,
        functions: Functions,
    ):
        self.constant = constant
        self._slopes = slopes
        self._positions = positions
        self._functions = functions
        self.certain = slopes is None and not len(functions)

    def take(self, positions: np.ndarray) -> Numbers:
        """Return the numbers at some positions."""
        order = np.full(len(self.constant), -1)
        order[positions] = np.arange(len(positions))
        kept = np.flatnonzero(order[self._positions] >= 0)
        slopes = None if self._slopes is None else self._slopes[:, positions]
        if slopes is not None and not len(slopes.nonzero()[0]):
            slopes = None
        return Numbers(
            self.constant[positions],
            slopes,
            order[self._positions[kept]],
            self._functions.take(kept),
        )

    @property
    def affine(self) -> bool:
        """Whether every entry is an affine function of omega, or certain."""
        return not len(self._functions)

    @cached_property
    def moves(self) -> np.ndarray:
        """Which entries (size,) depend on omega."""
        moving = np.zeros(len(self.constant), bool)
        moving[self._positions] = True
        if self._slopes is not None:
            moving[np.unique(self._slopes.nonzero()[1])] = True
        return moving

    def certain_at(self, positions: np.ndarray) -> bool:
        """Whether the entries at some positions are certain."""
        return not self.moves[positions].any()

    def at(self, omega: np.ndarray) -> np.ndarray:
        """Return the numbers (n, size) at omega (n, p)."""
        if self.certain:
            return shared(self.constant, (len(omega),))
        if self._slopes is None:
            values = np.tile(self.constant, (len(omega), 1))
        elif len(omega) < _FEW or self._moving is None:
            values = omega @ self._slopes
            values += self.constant
        else:
            inputs, places, slopes = self._moving
            values = np.tile(self.constant, (len(omega), 1))
            values[:, places] += omega[:, inputs] @ slopes
        if len(self._functions):
            values[:, self._positions] += self._functions.values(omega)
        return values

    @cached_property
    def _moving(self) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """The inputs and places that affine entries have, and their slopes; None if many."""
        if not isinstance(self._slopes, np.ndarray):
            return None  # sparse
        inputs, places = (np.flatnonzero(self._slopes.any(axis=a)) for a in (1, 0))
        if 2 * len(inputs) * len(places) > self._slopes.size:
            return None
        return inputs, places, self._slopes[np.ix_(inputs, places)]

    def pull_back(self, sensitivity: np.ndarray, omega: np.ndarray) -> np.ndarray:
        """Return the gradient (n, p) by omega from that by these numbers (n, size)."""
        result = np.zeros_like(omega)
        if self._slopes is not None:
            result += sensitivity @ self._slopes.T
        if len(self._functions):
            slopes = self._functions.derivatives(omega)
            result += np.einsum("nf,nfp->np", sensitivity[:, self._positions], slopes)
        return result


@dataclass(frozen=True)
class Rows:
    """Rows of coefficients in coordinate form, with their two sides."""

    row: np.ndarray
    column: np.ndarray
    entries: Numbers
    lower: Numbers
    upper: Numbers
    equality: np.ndarray

    def __len__(self) -> int:
        return len(self.lower.constant)


@dataclass(frozen=True)
class Columns:
    """Bounds of variables and which of them are integer."""

    lower: Numbers
    upper: Numbers
    domain_lower: np.ndarray
    domain_upper: np.ndarray
    integer: np.ndarray

    def __len__(self) -> int:
        return len(self.integer)

    def take(self, positions: np.ndarray) -> Columns:
        """Return some of the columns."""
        return Columns(
            self.lower.take(positions),
            self.upper.take(positions),
            self.domain_lower[positions],
            self.domain_upper[positions],
            self.integer[positions],
        )

    def bounds(self, omega: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the bounds (..., size) at omega (..., p), whole for integers."""
        if self.certain:
            lower, upper = self._certain_bounds
            return shared(lower, omega.shape[:-1]), shared(upper, omega.shape[:-1])
        shape = (*omega.shape[:-1], len(self))
        lower, upper = self._bounds(omega.reshape(-1, omega.shape[-1]))
        return lower.reshape(shape), upper.reshape(shape)

    def _bounds(self, omega: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        lower = np.maximum(self.lower.at(omega), self.domain_lower)
        upper = np.minimum(self.upper.at(omega), self.domain_upper)
        if self.integer.any():
            lower = np.where(self.integer, np.ceil(lower - _WHOLE), lower)
            upper = np.where(self.integer, np.floor(upper + _WHOLE), upper)
        return lower, upper

    @cached_property
    def _certain_bounds(self) -> tuple[np.ndarray, np.ndarray]:
        lower, upper = self._bounds(np.zeros((1, 0)))
        return lower[0], upper[0]

    @cached_property
    def certain(self) -> bool:
        """Whether no bound depends on omega."""
        return self.lower.certain and self.upper.certain


@dataclass(frozen=True)
class Cost:
    """A cost to be minimized: linear, and the entries of a quadratic form x'Hx/2."""

    linear: Numbers
    constant: Numbers
    hessian_row: np.ndarray
    hessian_column: np.ndarray
    hessian: Numbers


@dataclass(frozen=True)
class CompiledModel:
    """An annotated model as arrays; costs of a maximized model are negated.

    Columns are numbered first-stage variables first, then one scenario's recourse. All numbers
    are functions of the data (p + r,): an outcome followed by the known numbers. First-stage
    rows and bounds depend on known numbers alone. First-stage costs are certain: terms with
    known Params stand in the recourse cost, which is exact because weights sum to 1.
    """

    sense: int  # 1 to minimize, -1 to maximize
    p: int  # uncertain numbers
    r: int  # known numbers
    first: Columns
    recourse: Columns
    first_rows: Rows
    recourse_rows: Rows
    first_cost: Cost
    recourse_cost: Cost

    @property
    def width(self) -> int:
        """How many numbers the data has."""
        return self.p + self.r

    @cached_property
    def first_stage_moves(self) -> bool:
        """Whether first-stage rows or bounds depend on known numbers."""
        rows = self.first_rows
        numbers = rows.entries, rows.lower, rows.upper
        return not (self.first.certain and all(one.certain for one in numbers))

    @cached_property
    def quadratic(self) -> bool:
        """Whether the objective has a quadratic term."""
        return bool(
            len(self.first_cost.hessian_row) + len(self.recourse_cost.hessian_row)
        )

    @cached_property
    def has_certain_recourse(self) -> bool:
        """Whether matrix and quadratic terms of recourse columns alone are certain."""
        rows, cost, n1 = self.recourse_rows, self.recourse_cost, len(self.first)
        second = np.flatnonzero(cost.hessian_row >= n1)
        recourse = np.flatnonzero(rows.column >= n1)
        certain = rows.entries.certain_at(recourse)
        return certain and cost.hessian.certain_at(second)

    @cached_property
    def integer(self) -> bool:
        """Whether either stage has integer variables."""
        return bool(self.first.integer.any()) or self.integer_recourse

    @cached_property
    def integer_recourse(self) -> bool:
        """Whether the recourse has integer variables."""
        return bool(self.recourse.integer.any())

    @cached_property
    def has_certain_linear_recourse(self) -> bool:
        """Whether the matrix and the costs of the recourse are the same for all outcomes."""
        n1, rows = len(self.first), self.recourse_rows
        columns = n1 + np.arange(len(self.recourse))
        entries = rows.entries.certain_at(np.flatnonzero(rows.column >= n1))
        return entries and self.recourse_cost.linear.certain_at(columns)


def hessian_matrix(cost: Cost, entries: np.ndarray, size: int) -> np.ndarray:
    """Return the symmetric matrix of one scenario's quadratic terms."""
    upper = np.zeros((size, size))
    np.add.at(upper, (cost.hessian_row, cost.hessian_column), entries)
    return upper + np.triu(upper, 1).T


def is_positive(matrix: np.ndarray) -> bool:
    """Whether a symmetric matrix has no negative eigenvalue, up to rounding."""
    values = np.linalg.eigvalsh(matrix)
    return bool(values.min(initial=0.0) >= -_CONVEX * np.abs(values).max(initial=0.0))
