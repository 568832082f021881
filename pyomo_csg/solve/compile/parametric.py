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
_DENSE = 10**6  # entries up to which slopes are a plain array, which multiplies faster


class Functions:
    """Functions of omega that are not affine, kept as text so that they travel.

    Parameters
    ----------
    texts : tuple of str
        As sympy's ``srepr`` writes them, over ``w0, w1, ...``.
    width : int
        How many uncertain numbers there are.
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
        """Return (n, size) at omega (n, p); what is not defined there is NaN."""
        with np.errstate(all="ignore"):
            values = self._stack(self._functions(*omega.T), len(omega))
        return np.where(np.isfinite(values), values, np.nan)

    def derivatives(self, omega: np.ndarray) -> np.ndarray:
        """Return (n, size, p) at omega (n, p); floor and ceil are flat."""
        with np.errstate(all="ignore"):
            flat = self._stack(self._slopes(*omega.T), len(omega))
        return flat.reshape(len(omega), len(self), self._width)

    @cached_property
    def _functions(self) -> Any:
        return self._compiled(self._exprs)

    @cached_property
    def _slopes(self) -> Any:
        return self._compiled(
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
        """Return the derivatives of a function, its steps being taken as constants."""
        import sympy

        steps = expr.atoms(sympy.floor, sympy.ceiling)
        held = {step: sympy.Dummy(real=True) for step in steps}
        back = {dummy: step for step, dummy in held.items()}
        return [
            sympy.diff(expr.xreplace(held), symbol).xreplace(back)
            for symbol in self._symbols
        ]

    def _compiled(self, exprs: list[Any]) -> Any:
        import sympy

        with _sympy:
            return sympy.lambdify(self._symbols, exprs, modules="numpy", cse=True)

    @staticmethod
    def _stack(values: Any, count: int) -> np.ndarray:
        columns = [np.broadcast_to(np.asarray(v, float), count) for v in values]
        return np.stack(columns, axis=1)


def shared(vector: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return a vector as an array (\\*shape, size) that is the same everywhere.

    As ``np.broadcast_to``, at a tenth of what that takes for a small one.
    """
    strides = (0,) * len(shape) + vector.strides
    return np.ndarray((*shape, len(vector)), vector.dtype, vector, 0, strides)


class Numbers:
    """A vector of numbers: constants, and at some positions functions of omega.

    Parameters
    ----------
    constant : array (size,)
    slopes : array or sparse matrix (p, size), or None
        What affine entries add to their constant.
    positions : array
        Where other functions are added.
    functions : Functions

    Attributes
    ----------
    certain : bool
        Whether no entry depends on omega.
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
        """Whether the entries at some positions depend on no uncertain number."""
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
        else:
            values = omega @ self._slopes
            values += self.constant
        if len(self._functions):
            values[:, self._positions] += self._functions.values(omega)
        return values

    def pull_back(self, sensitivity: np.ndarray, omega: np.ndarray) -> np.ndarray:
        """Return d/d omega (n, p) of what moves by ``sensitivity`` (n, size)."""
        result = np.zeros_like(omega)
        if self._slopes is not None:
            result += sensitivity @ self._slopes.T
        if len(self._functions):
            slopes = self._functions.derivatives(omega)
            result += np.einsum("nf,nfp->np", sensitivity[:, self._positions], slopes)
        return result


class Translator:
    """Reads numbers off expressions of placeholders.

    Parameters
    ----------
    placeholders : list of VarData
        Variables that stand for the uncertain Params, in their order.
    """

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
