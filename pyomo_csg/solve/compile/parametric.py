"""Vectors of numbers that are functions of the uncertain data."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np
from pyomo.common.numeric_types import native_numeric_types
from pyomo.repn.linear import LinearRepnVisitor
from pyomo.repn.util import VarRecorder

from pyomo_csg.locks import process_wide_lock

_sympy = process_wide_lock()  # which imports names into tables that all threads see
_FEW = 64  # outcomes up to which it does not pay to leave out what does not move
_DENSE = 10**6  # entries up to which slopes are a dense array, which multiplies faster


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

    def certain_at(self, positions: np.ndarray) -> bool:
        """Whether the entries at some positions are certain."""
        moving = np.zeros(len(self.constant), bool)
        moving[self._positions] = True
        if self._slopes is not None:
            moving[np.unique(self._slopes.nonzero()[1])] = True
        return not moving[positions].any()

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
        """Return the gradient (n, p) in omega, given that in these numbers (n, size)."""
        result = np.zeros_like(omega)
        if self._slopes is not None:
            result += sensitivity @ self._slopes.T
        if len(self._functions):
            slopes = self._functions.derivatives(omega)
            result += np.einsum("nf,nfp->np", sensitivity[:, self._positions], slopes)
        return result


class Translator:
    """Turns expressions of placeholders, which stand for the uncertain Params, into Numbers."""

    def __init__(self, placeholders: list[Any]):
        self._index = {id(v): i for i, v in enumerate(placeholders)}
        self._visitor = LinearRepnVisitor(
            {}, var_recorder=VarRecorder({id(v): v for v in placeholders}, None)
        )

    def numbers(self, entries: Iterable[Any]) -> Numbers:
        """Return numbers, or expressions of the placeholders, as one vector."""
        constant: list[float] = []
        affine: list[tuple[int, int, float]] = []
        texts: dict[int, str] = {}
        for position, entry in enumerate(entries):
            if entry.__class__ in native_numeric_types:
                constant.append(entry)
                continue
            repn = self._visitor.walk_expression(entry)
            if repn.nonlinear is None:
                constant.append(repn.constant)
                for key, slope in repn.linear.items():
                    affine.append((self._index[key], position, slope))
            else:
                constant.append(0.0)
                texts[position] = self._text(entry)
        return Numbers(
            np.array(constant, float),
            self._slopes(affine, len(constant)),
            np.array(list(texts), int),
            Functions(tuple(texts.values()), len(self._index)),
        )

    def _slopes(self, affine: list[tuple[int, int, float]], size: int) -> Any:
        if not affine:
            return None
        rows, columns, slopes = zip(*affine, strict=True)
        shape = (len(self._index), size)
        if np.prod(shape) <= _DENSE:
            dense = np.zeros(shape)
            np.add.at(dense, (rows, columns), slopes)
            return dense
        from scipy import sparse  # which takes longer to import than a program to solve

        matrix = sparse.coo_array((slopes, (rows, columns)), shape=shape, dtype=float)
        return matrix.tocsr()

    def _text(self, expr: Any) -> str:
        import sympy
        from pyomo.core.expr.sympy_tools import sympyify_expression

        objects, translated = sympyify_expression(expr)
        names = {
            symbol: sympy.Symbol(
                f"w{self._index[id(objects.sympy2pyomo[symbol])]}", real=True
            )
            for symbol in translated.free_symbols
        }
        return sympy.srepr(translated.xreplace(names))  # with every digit
