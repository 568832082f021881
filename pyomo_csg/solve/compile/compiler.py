"""Compile an annotated Pyomo model to arrays, from which programs are assembled."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyomo.environ as pyo
from pyomo.common.numeric_types import native_numeric_types
from pyomo.core.expr.numvalue import value
from pyomo.repn.linear import LinearRepnVisitor
from pyomo.repn.parameterized import (
    ParameterizedLinearRepnVisitor,
    ParameterizedQuadraticRepnVisitor,
)
from pyomo.repn.util import OrderedVarRecorder

from pyomo_csg.errors import ModelError
from pyomo_csg.solve.compile.parametric import Numbers, Translator, shared
from pyomo_csg.stages import TwoStageModel
from pyomo_csg.stages.stage_inference import Uncertainty, leaves, split_cost
from pyomo_csg.transform.recourse_copy import Substitution

_WHOLE = 1e-9
_CONVEX = 1e-9
_OTHER_SOLVERS = (
    "give the oracle another solver: solver='scip_persistent' (pip install pyscipopt) "
    "or solver='gurobi_persistent' (pip install gurobipy)"
)
_NONLINEAR_SOLVERS = (
    "give the oracle a solver for nonlinear models: solver='ipopt', or "
    "solver='scip_persistent' (pip install pyscipopt)"
)


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
    """An annotated model as arrays.

    Columns are numbered first-stage variables first, then one scenario's recourse.
    All numbers are functions of the data (p + r,): an outcome followed by the known
    numbers. First-stage rows and bounds depend on known numbers alone. First-stage costs
    are certain: terms with known Params stand in the recourse cost, which is exact
    because weights sum to 1. Costs are to be minimized: those of a maximized model are
    negated.

    Attributes
    ----------
    sense : int
        1 to minimize, -1 to maximize.
    p, r : int
        Numbers of uncertain and of known parameters.
    first, recourse : Columns
    first_rows, recourse_rows : Rows
    first_cost, recourse_cost : Cost
        h and q; both over all columns.
    """

    sense: int
    p: int
    r: int
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
    def integer(self) -> bool:
        """Whether either stage has integer variables."""
        return bool(self.first.integer.any()) or self.integer_recourse

    @cached_property
    def integer_recourse(self) -> bool:
        """Whether the recourse has integer variables."""
        return bool(self.recourse.integer.any())


def compile_model(two_stage: TwoStageModel) -> CompiledModel:
    """Compile a two-stage model; a ModelError names everything that is not linear or quadratic."""
    return _Compiler(two_stage).compile()


class _Compiler:
    def __init__(self, two_stage: TwoStageModel):
        self._two_stage = two_stage
        params = [*two_stage.uncertain_params, *two_stage.known_params]
        self._scratch = pyo.ConcreteModel()
        self._scratch.w = pyo.Var(range(len(params)))
        self._placeholders = list(self._scratch.w.values())
        self._variables = [
            *two_stage.first_stage_variables,
            *two_stage.recourse_variables,
        ]
        # Here only the data matters: no variable counts as uncertain.
        data = Uncertainty(self._variables, params)
        self._touches = data.touches
        self._is_moving = data.is_recourse
        self._is_uncertain = two_stage.uncertainty.touches
        self._substitute = Substitution(
            data, {id(p): w for p, w in zip(params, self._placeholders, strict=True)}
        )
        self._recourse = {id(v) for v in two_stage.recourse_variables}
        self._column = {id(v): j for j, v in enumerate(self._variables)}
        free = {id(v): v for v in self._variables if not v.fixed}
        order = {key: self._column[key] for key in free}
        recorder = OrderedVarRecorder(free, order, None)
        cache: dict = {}
        self._certain = LinearRepnVisitor(cache, var_recorder=recorder)
        self._linear = ParameterizedLinearRepnVisitor(
            {}, wrt=self._placeholders, var_recorder=recorder
        )
        self._quadratic = ParameterizedQuadraticRepnVisitor(
            {}, wrt=self._placeholders, var_recorder=recorder
        )
        self._numbers = Translator(self._placeholders).numbers
        self._problems: list[str] = []

    def compile(self) -> CompiledModel:
        two_stage, width = self._two_stage, len(self._two_stage.first_stage_variables)
        known = Uncertainty(self._variables, two_stage.known_params)
        certain, moving = split_cost(two_stage.first_stage_cost, known)
        compiled = CompiledModel(
            sense=int(two_stage.sense),
            p=len(two_stage.uncertain_params),
            r=len(two_stage.known_params),
            first=self._columns(self._variables[:width], is_first=True),
            recourse=self._columns(self._variables[width:]),
            first_rows=self._rows(two_stage.first_stage_constraints),
            recourse_rows=self._rows(
                two_stage.recourse_constraints, two_stage.uncertain_bounds
            ),
            first_cost=self._cost(certain),
            recourse_cost=self._cost(two_stage.recourse_cost + moving),
        )
        if compiled.quadratic and compiled.integer:
            self._problems.append(
                f"Objective '{two_stage.objective.name}' is quadratic and the model has "
                f"integer variables; {_OTHER_SOLVERS}"
            )
        if compiled.quadratic and not _is_convex(compiled):
            self._problems.append(
                f"Objective '{two_stage.objective.name}' is quadratic but not convex; "
                f"{_OTHER_SOLVERS}"
            )
        if self._problems:
            raise ModelError(
                f"'{two_stage.model.name}' cannot be compiled for HiGHS", self._problems
            )
        return compiled

    def _columns(self, variables: list[Any], is_first: bool = False) -> Columns:
        """Return bounds; uncertain bounds of first-stage variables become recourse rows."""
        lower, upper = [], []
        for v in variables:
            if v.domain.get_interval()[2] not in (0, 1):
                self._problems.append(
                    f"Var '{v.name}' has the domain {v.domain.name}, which is neither an "
                    f"interval nor a range of integers; {_OTHER_SOLVERS}"
                )
            lower.append(v.value if v.fixed else self._bound(v._lb, -np.inf, is_first))
            upper.append(v.value if v.fixed else self._bound(v._ub, np.inf, is_first))
        domain = np.array([_domain_bounds(v) for v in variables]).reshape(-1, 2)
        return Columns(
            self._numbers(lower),
            self._numbers(upper),
            domain[:, 0],
            domain[:, 1],
            np.array([not v.is_continuous() for v in variables], bool),
        )

    def _bound(self, bound: Any, infinite: float, is_first: bool) -> Any:
        if bound is None:
            return infinite
        if bound.__class__ in native_numeric_types:
            return bound
        if not self._touches(bound):
            return value(bound)
        if is_first and self._is_uncertain(bound):
            return infinite  # it becomes a row
        return self._substitute(bound)

    def _rows(self, constraints: list[Any], bounded: Iterable[Any] = ()) -> Rows:
        found = [row for con in constraints if (row := self._row(con)) is not None]
        found += [row for v in bounded for row in self._bound_rows(v)]
        sizes = [len(entries) for entries, _, _ in found]
        return Rows(
            np.repeat(np.arange(len(found)), sizes),
            np.array([column for entries, _, _ in found for column in entries], int),
            self._numbers(e for entries, _, _ in found for e in entries.values()),
            self._numbers(-np.inf if low is None else low for _, low, _ in found),
            self._numbers(np.inf if high is None else high for _, _, high in found),
            np.array([low is not None and low is high for _, low, high in found], bool),
        )

    def _bound_rows(self, v: Any) -> Iterator[tuple[dict[int, Any], Any, Any]]:
        """Yield a row for each uncertain bound of a first-stage variable."""
        if id(v) in self._recourse:
            return
        entries = {self._column[id(v)]: 1.0}
        if self._is_uncertain(v._lb):
            yield entries, self._substitute(v._lb), None
        if self._is_uncertain(v._ub):
            yield entries, None, self._substitute(v._ub)

    def _row(self, con: Any) -> tuple[dict[int, Any], Any, Any] | None:
        if con.ctype is not pyo.Constraint:
            self._problems.append(
                f"SOSConstraint '{con.name}' is not linear; {_OTHER_SOLVERS}"
            )
            return None
        low, body, high = con.to_bounded_expression()
        repn = self._repn(body)
        if repn.nonlinear is not None:
            self._problems.append(
                f"Constraint '{con.name}' is not linear in the variables; "
                f"{_NONLINEAR_SOLVERS}"
            )
            return None
        entries = {self._column[key]: coef for key, coef in repn.linear.items()}
        lower = self._side(low, repn.constant)
        # Both sides of an equality are one object; equal numbers may be a coincidence.
        return (
            entries,
            lower,
            lower if con.equality else self._side(high, repn.constant),
        )

    def _repn(self, body: Any) -> Any:
        _, params = leaves(body)
        if any(map(self._is_moving, params)):
            return self._linear.walk_expression(self._substitute(body))
        return self._certain.walk_expression(body)

    def _side(self, side: Any, constant: Any) -> Any:
        if side is None:
            return None
        if self._touches(side):
            return self._substitute(side) - constant
        return value(side) - constant

    def _cost(self, expr: Any) -> Cost:
        sense = int(self._two_stage.sense)
        repn = self._quadratic.walk_expression(self._substitute(expr))
        if repn.nonlinear is not None:
            self._problems.append(
                f"Objective '{self._two_stage.objective.name}' is neither linear nor "
                f"quadratic in the variables; {_NONLINEAR_SOLVERS}"
            )
        linear = [0.0] * len(self._variables)
        for key, coef in repn.linear.items():
            linear[self._column[key]] = sense * coef
        quadratic = {
            tuple(sorted((self._column[one], self._column[other]))): sense * coef
            for (one, other), coef in (repn.quadratic or {}).items()
        }
        rows, columns = np.array(list(quadratic), int).reshape(-1, 2).T
        return Cost(
            self._numbers(linear),
            self._numbers([sense * repn.constant]),
            rows,
            columns,
            self._numbers(c * (2 if i == j else 1) for (i, j), c in quadratic.items()),
        )


def _is_convex(compiled: CompiledModel) -> bool:
    """Whether the quadratic terms are convex, as far as they are certain."""
    cost = compiled.recourse_cost
    if not cost.hessian.certain:
        return True  # checked for each case
    size = len(compiled.first) + len(compiled.recourse)
    own, later = (
        hessian_matrix(c, c.hessian.constant, size) for c in (compiled.first_cost, cost)
    )
    return is_positive(own + later)


def hessian_matrix(cost: Cost, entries: np.ndarray, size: int) -> np.ndarray:
    """Return the symmetric matrix of one scenario's quadratic terms."""
    upper = np.zeros((size, size))
    np.add.at(upper, (cost.hessian_row, cost.hessian_column), entries)
    return upper + np.triu(upper, 1).T


def is_positive(matrix: np.ndarray) -> bool:
    """Whether a symmetric matrix has no negative eigenvalue, up to rounding."""
    values = np.linalg.eigvalsh(matrix)
    return bool(values.min(initial=0.0) >= -_CONVEX * np.abs(values).max(initial=0.0))


def _domain_bounds(v: Any) -> tuple[float, float]:
    low, high = (None, None) if v.fixed else v.domain.bounds()
    return (-np.inf if low is None else low), (np.inf if high is None else high)
