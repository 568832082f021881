"""Critical regions of a parametric quadratic program: where the active set stays the same.

There, optimum and multipliers are affine functions of costs, sides and bounds. Blocks that
share no row, no column and no quadratic term have their own regions; blocks with the same
matrices, such as the hours of a day, share them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from pyomo.common.dependencies import attempt_import

from pyomo_csg.solve.qp.kkt_conditions import ActiveSet, KktPoint
from pyomo_csg.solve.qp.kkt_system import equilibrate
from pyomo_csg.solve.qp.quadratic_program import Matrix, QuadraticProgram

sparse, _ = attempt_import("scipy.sparse")  # on first use: linear programs do without
csgraph, _ = attempt_import("scipy.sparse.csgraph")

_LARGEST = 200  # columns and rows of a block up to which regions pay
_MOST_NUMBERS = 4_000_000  # in all regions: 32 MB
_ROUNDING = 1e-12  # of the terms of a value or multiplier
_SINGULAR = 1e-12  # smallest singular value of a system, relative to the largest
_DEPENDENT = 1e-9  # the same, of the gradients of active bounds
# Microseconds, estimated from sizes: measured times would make the last bits of answers depend
# on how busy the machine is.
_TRIAL = 1e6  # to spend before any saving
_SOLVING, _SOLVING_EACH = 2000.0, 8.0  # a program, and each of its columns and rows
_TRYING, _LEARNING = 100.0, 1000.0


class RegionCache:
    """The regions found so far of programs with these matrices."""

    def __init__(self, hessian: Matrix, matrix: Matrix):
        self._size = sum(matrix.shape)
        self.templates = list(_templates(hessian, matrix))
        self.is_usable = all(one.size <= _LARGEST for one in self.templates)
        self._balance, self._numbers = _TRIAL, 0
        self.solving = _SOLVING + _SOLVING_EACH * self._size

    @property
    def is_worthwhile(self) -> bool:
        """Whether regions have saved more time than they took."""
        return self.is_usable and self._balance > 0

    def search(self, stack: QuadraticProgram) -> RegionSearch | None:
        """Return the search for the regions of stacked programs; None if it does not pay."""
        return RegionSearch(self, stack) if self.is_worthwhile else None

    def rows_with_several_multipliers(self, active: ActiveSet) -> np.ndarray:
        """Return which rows (n, rows) may have other multipliers, for several points.

        Multipliers are unique if the gradients of active bounds are independent.
        """
        result = np.zeros(active.rows.shape, bool)
        for template in self.templates:
            if not template.rows.shape[1]:
                continue
            both = (
                active.columns[:, template.columns] != 0,
                active.rows[:, template.rows] != 0,
            )
            held = np.concatenate(both, axis=2)
            patterns, places = np.unique(
                held.reshape(-1, held.shape[2]), axis=0, return_inverse=True
            )
            unclear = np.array([template.unclear_rows(one) for one in patterns])
            shape = (len(result), *template.rows.shape)
            result[:, template.rows] = unclear[places.ravel()].reshape(shape)
        return result

    def save(self, cases: int) -> None:
        """Count cases that needed no solver."""
        self._balance += cases * self.solving

    def spend(self, microseconds: float) -> None:
        """Count time for trying or learning regions."""
        self._balance -= microseconds

    def can_keep(self, numbers: int) -> bool:
        """Whether memory is left for a region of this size; it is then counted."""
        if self._numbers + numbers > _MOST_NUMBERS:
            return False
        self._numbers += numbers
        return True


@dataclass(eq=False)
class Template:
    """Blocks with the same matrices: the columns and rows (blocks, size) of each."""

    hessian: np.ndarray
    matrix: np.ndarray
    columns: np.ndarray
    rows: np.ndarray
    regions: dict[bytes, Region] = field(default_factory=dict)
    _unclear: dict[bytes, np.ndarray] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """How many columns and rows a block has."""
        return self.columns.shape[1] + self.rows.shape[1]

    def unclear_rows(self, held: np.ndarray) -> np.ndarray:
        """Return which rows depend on other bounds that are held (columns, then rows)."""
        key = held.tobytes()
        if key not in self._unclear:
            chosen = self.gradients[held]
            _, values, left = np.linalg.svd(chosen.T)
            rank = int((values > _DEPENDENT * values.max(initial=0.0)).sum())
            unclear = np.zeros(len(held), bool)
            unclear[held] = (np.abs(left[rank:]) > _DEPENDENT).any(axis=0)
            self._unclear[key] = unclear[self.columns.shape[1] :]
        return self._unclear[key]

    @cached_property
    def units(self) -> tuple[np.ndarray, np.ndarray]:
        """Units of columns and rows in which entries are near one."""
        return equilibrate(self.hessian, self.matrix)

    @cached_property
    def gradients(self) -> np.ndarray:
        """The gradients of the bounds of columns, then of rows, in these units."""
        column, row = self.units
        return np.vstack([np.eye(len(column)), row[:, None] * self.matrix * column])

    def by_hits(self) -> list[Region]:
        """Return the regions, those with most hits first."""
        return sorted(self.regions.values(), key=lambda region: -region.hits)


def _templates(hessian: Matrix, matrix: Matrix) -> Iterable[Template]:
    """Yield the connected blocks of columns and rows, equal ones together."""
    curvature, entries = sparse.csr_array(hessian), sparse.csr_array(matrix)
    n = curvature.shape[0]
    pattern = sparse.block_array(
        [[curvature, entries.T], [entries, None]], format="csr"
    )
    count, labels = csgraph.connected_components(pattern, directed=False)
    order = np.argsort(labels, kind="stable")
    members = np.split(order, np.cumsum(np.bincount(labels, minlength=count))[:-1])
    alike: dict[tuple[bytes, ...], tuple[list[np.ndarray], ...]] = {}
    for places in members:
        columns, rows = places[places < n], places[places >= n] - n
        if not len(columns):
            continue  # its multiplier is zero
        if len(places) > _LARGEST:
            yield Template(np.empty(0), np.empty(0), columns[None], rows[None])
            return
        square = curvature[columns][:, columns].toarray()
        block = entries[rows][:, columns].toarray()
        key = square.tobytes(), block.tobytes(), bytes([len(columns)])
        parts = alike.setdefault(key, ([square], [block], [], []))
        parts[2].append(columns)
        parts[3].append(rows)
    for (square,), (block,), columns, rows in alike.values():
        yield Template(square, block, np.array(columns), np.array(rows))


@dataclass
class BlockData:
    """The data of many blocks of one template, with the blocks on the first axis."""

    cost: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    row_lower: np.ndarray
    row_upper: np.ndarray
    cost_terms: np.ndarray
    row_terms: np.ndarray

    @classmethod
    def read(cls, template: Template, stack: QuadraticProgram) -> BlockData:
        """Return the data of all blocks of all cases, case by case."""
        held, (_, n), m = stack.held, template.columns.shape, template.rows.shape[1]
        assert held is not None

        def of_columns(values: np.ndarray) -> np.ndarray:
            return values[:, template.columns].reshape(-1, n)

        def of_rows(values: np.ndarray) -> np.ndarray:
            blocks = len(values) * len(template.rows)
            return values[:, template.rows].reshape(blocks, m)

        return cls(
            of_columns(stack.cost),
            of_columns(stack.column_lower),
            of_columns(stack.column_upper),
            of_rows(stack.row_lower),
            of_rows(stack.row_upper),
            of_columns(held.columns),
            of_rows(held.rows),
        )

    def part(self, blocks: np.ndarray) -> BlockData:
        """Return the data of some blocks."""
        return BlockData(*(values[blocks] for values in vars(self).values()))


class Region:
    """The optimum of a block on one active set, as an affine function of its data."""

    def __init__(self, template: Template, columns: np.ndarray, rows: np.ndarray):
        self._template, self._columns, self._rows = template, columns, rows
        self.hits = 0
        self._free, self._held = np.flatnonzero(columns == 0), np.flatnonzero(columns)
        self._active = np.flatnonzero(rows)
        hessian, matrix = template.hessian, template.matrix
        count = len(self._free)
        size = count + len(self._active)
        system = np.zeros((size, size))
        curvature = hessian[np.ix_(self._free, self._free)]
        entries = matrix[np.ix_(self._active, self._free)]
        system[:count, :count] = curvature
        system[:count, count:], system[count:, :count] = -entries.T, entries
        units = np.concatenate(equilibrate(curvature, entries))
        scaled = units[:, None] * system * units
        inverse = np.linalg.pinv(scaled, rcond=_SINGULAR)
        inverse = units[:, None] * inverse * units
        self._system, self._inverse = system.T, inverse.T
        self._inverse_sizes = np.abs(inverse).T
        self._sizes = np.abs(hessian), np.abs(matrix)

    @property
    def numbers(self) -> int:
        """How many numbers it holds."""
        return 3 * self._system.size

    def answer(self, data: BlockData) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return which blocks are in the region, and their optima and multipliers."""
        with np.errstate(invalid="ignore"):
            return self._answer(data)

    def _answer(self, data: BlockData) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        hessian, matrix = self._template.hessian, self._template.matrix
        free, active, count = self._free, self._active, len(self._free)
        x = np.where(self._columns < 0, data.lower, data.upper)
        x[:, free] = 0.0
        side = np.where(self._rows < 0, data.row_lower, data.row_upper)[:, active]
        target = np.hstack(
            [-(data.cost + x @ hessian)[:, free], side - (x @ matrix.T)[:, active]]
        )
        found = target @ self._inverse
        found += (target - found @ self._system) @ self._inverse
        size = np.abs(x)
        slope_terms = data.cost_terms + size @ self._sizes[0]
        row_terms = data.row_terms + size @ self._sizes[1].T
        errors = _ROUNDING * (
            np.hstack([slope_terms[:, free], row_terms[:, active] + np.abs(side)])
            @ self._inverse_sizes
        )
        found[np.abs(found) <= errors] = (
            0.0  # else the certificate would see only rounding
        )
        x[:, free], dual = found[:, :count], np.zeros(data.row_lower.shape)
        dual[:, active] = found[:, count:]
        error, dual_error = np.zeros_like(x), np.zeros_like(dual)
        error[:, free], dual_error[:, active] = errors[:, :count], errors[:, count:]
        activity, slope = x @ matrix.T, data.cost + x @ hessian - dual @ matrix
        row_error = _ROUNDING * row_terms + error @ self._sizes[1].T
        slope_error = _ROUNDING * slope_terms + dual_error @ self._sizes[1]
        slope_error += error @ self._sizes[0]
        fits = np.isfinite(x).all(axis=1) & np.isfinite(dual).all(axis=1)
        fits &= (x >= data.lower - error).all(axis=1)
        fits &= (x <= data.upper + error).all(axis=1)
        fits &= (activity >= data.row_lower - row_error).all(axis=1)
        fits &= (activity <= data.row_upper + row_error).all(axis=1)
        fits &= _have_right_signs(slope, self._columns, slope_error) | (
            data.lower == data.upper
        ).all(axis=1)
        equal = data.row_lower == data.row_upper
        wrong = (dual * self._rows > dual_error) & ~equal
        fits &= ~wrong.any(axis=1)
        dual = np.where((dual * self._rows > 0) & ~equal, 0.0, dual)
        return fits, np.clip(x, data.lower, data.upper), dual


def _have_right_signs(
    slope: np.ndarray, sides: np.ndarray, error: np.ndarray
) -> np.ndarray:
    """Return where no multiplier of a bound has the wrong sign."""
    return np.asarray(~(slope * sides > error).any(axis=1))


class RegionSearch:
    """The blocks of stacked programs, and which of them known regions have answered."""

    def __init__(self, cache: RegionCache, stack: QuadraticProgram):
        self._cache, self._count = cache, len(stack.cost)
        self._x = np.zeros(stack.cost.shape)
        self._dual = np.zeros(stack.row_lower.shape)
        self._missing = np.zeros(self._count, int)  # blocks without an answer
        self._reported = np.zeros(self._count, bool)
        self._data = [BlockData.read(one, stack) for one in cache.templates]
        self._left = []
        for template in cache.templates:
            blocks = len(template.columns)
            self._left.append(np.arange(self._count * blocks))
            self._missing += blocks
        for t, template in enumerate(cache.templates):
            each = cache.solving / max(1, len(cache.templates) * len(template.columns))
            for region in template.by_hits():
                # Solving a few cases is faster than trying many regions on them.
                if len(self._left[t]) * each < _TRYING:
                    break
                self._apply(t, region)

    def solved(self) -> tuple[np.ndarray, KktPoint]:
        """Return the cases that all have their answers since the last call, and these."""
        cases = np.flatnonzero((self._missing == 0) & ~self._reported)
        self._reported[cases] = True
        self._cache.save(len(cases))
        x = self._x[cases]
        return cases, KktPoint(x, self._dual[cases], x)

    def learn(self, case: int, point: KktPoint, active: ActiveSet) -> None:
        """Learn the regions of a case just solved, and try them on the others."""
        self._reported[case] = True
        for t, template in enumerate(self._cache.templates):
            left, blocks = self._left[t], len(template.columns)
            of_case = left // blocks == case
            self._left[t] = left[~of_case]
            for block in left[of_case] % blocks:
                places = template.columns[block], template.rows[block]
                region = self._region(t, point, active, places)
                if region is not None:
                    self._apply(t, region)

    def _region(
        self,
        t: int,
        point: KktPoint,
        active: ActiveSet,
        places: tuple[np.ndarray, np.ndarray],
    ) -> Region | None:
        """Return the region of a solved block if it is a new one."""
        template, (columns, rows) = self._cache.templates[t], places
        if not self._cache.is_worthwhile:
            return None
        sides = np.concatenate([active.columns[columns], active.rows[rows]])
        strong = np.concatenate(
            [active.strong_columns[columns], active.strong_rows[rows]]
        )
        duals = np.concatenate([point.column_dual[columns], point.row_dual[rows]])
        key = sides.tobytes() + strong.tobytes()
        if key in template.regions:
            return None
        self._cache.spend(_LEARNING + 5e-3 * template.size**3)
        kept = _independent(template, sides, strong, duals)
        sides = np.where(kept, sides, 0)
        region = Region(template, *np.split(sides, [len(columns)]))
        if not self._cache.can_keep(region.numbers):
            return None
        template.regions[key] = region
        return region

    def _apply(self, t: int, region: Region) -> None:
        """Answer the blocks that are in the region."""
        template, left = self._cache.templates[t], self._left[t]
        if not len(left):
            return
        self._cache.spend(_TRYING + 1e-3 * len(left) * template.size**2)
        fits, x, dual = region.answer(self._data[t].part(left))
        if not fits.any():
            return
        some, blocks = left[fits], len(template.columns)
        region.hits += len(some)
        case, block = some // blocks, some % blocks
        self._x[case[:, None], template.columns[block]] = x[fits]
        self._dual[case[:, None], template.rows[block]] = dual[fits]
        self._missing -= np.bincount(case, minlength=self._count)
        self._left[t] = left[~fits]


def _independent(
    template: Template, sides: np.ndarray, strong: np.ndarray, duals: np.ndarray
) -> np.ndarray:
    """Return which active bounds to hold, so that their gradients are independent.

    Multipliers move along the dependencies until one of them is zero, which leaves the signs of
    the others right. Bounds without a multiplier are held where the optimum is not unique
    without them.
    """
    n = template.columns.shape[1]
    (column, row), gradients = template.units, template.gradients
    shares = np.abs(duals) * np.concatenate([column, 1 / row])
    kept: list[int] = np.flatnonzero(strong & (sides != 0)).tolist()
    signs = np.where(sides < 0, 1.0, -1.0)
    shares = {i: shares[i] for i in kept}
    while kept:
        weights = signs[kept, None] * gradients[kept]
        _, values, right = np.linalg.svd(weights.T)
        if len(values) == len(kept) and values[-1] > _DEPENDENT * values[0]:
            break
        direction = right[-1]
        if direction.max() > -direction.min():
            direction = -direction
        size = np.array([shares[i] for i in kept])
        with np.errstate(divide="ignore", invalid="ignore"):
            steps = np.where(direction < -_DEPENDENT, -size / direction, np.inf)
        place = int(steps.argmin())
        size = np.maximum(size + steps[place] * direction, 0.0)
        shares = dict(zip(kept, size, strict=True))
        del kept[place]
    for i in np.flatnonzero((sides != 0) & ~strong):
        flat = np.vstack(
            [gradients[kept], (column[:, None] * template.hessian * column)]
        )
        if np.linalg.matrix_rank(flat, tol=_DEPENDENT) == n:
            break
        tried = gradients[np.append(kept, i).astype(int)]
        if np.linalg.matrix_rank(tried, tol=_DEPENDENT) == len(tried):
            kept.append(int(i))
    held = np.zeros(len(sides), bool)
    held[kept] = True
    return held
